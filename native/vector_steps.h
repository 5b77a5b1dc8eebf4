// Steps of Adam over learned vectors.
#pragma once
#include "api/vectors.h"
#include "vector_lines.h"

namespace gpuparse {

// One step over some weights: Kingma & Ba (2015); differs: moments of a row of the table change only where
// it has a gradient.
struct VectorStepper {
    float rate, first_decay, second_decay, first_scale, second_scale;

    explicit VectorStepper(const VectorStep& step)
        : rate((float)step.rate), first_decay((float)step.first_decay),
          second_decay((float)step.second_decay),
          first_scale((float)(1.0 / (1.0 - power(step.first_decay, step.steps)))),
          second_scale((float)(1.0 / (1.0 - power(step.second_decay, step.steps)))) {}

    // By multiplications alone: the same on every machine.
    static double power(double base, int64_t count) {
        double result = 1.0;
        for (; count > 0; count >>= 1, base *= base)
            if (count & 1) result *= base;
        return result;
    }

    void take(int64_t count, const float* __restrict gradients, float* __restrict weights,
              float* __restrict first, float* __restrict second) const {
        const float first_rest = 1.0f - first_decay, second_rest = 1.0f - second_decay;
        for (int64_t k = 0; k < count; k++) {
            const float x = gradients[k];
            first[k] = first_decay * first[k] + first_rest * x;
            second[k] = second_decay * second[k] + second_rest * (x * x);
            weights[k] -= rate * (first[k] * first_scale) /
                          (__builtin_sqrtf(second[k] * second_scale) + 1e-8f);
        }
    }
};

}  // namespace gpuparse

// Calls that end before they are done, because Python says so: after a signal whose handler raises, or
// where the thread's work is cancelled.
//
// Long loops ask `is_interrupted`, which mostly subtracts a number and at times looks at the clock. At
// intervals it calls Python (interrupts.cpp). From the moment that Python has raised an
// exception until it takes it back, `is_interrupted` is true in this thread, and each arena has failed:
// functions unwind as where memory runs out. What they have written is of no use.
#pragma once

#include <stdint.h>

namespace gpuparse {

inline int64_t least_steps = 0;              // that a loop counts by itself
inline thread_local int64_t steps_left = 0;  // until the clock is looked at
inline thread_local bool is_ending = false;

// Look at the clock, and ask Python where it is time. Returns whether the call is to end.
bool ask_whether_to_end();

// True if the call is to end. steps: about how many nanoseconds have passed since the last question.
inline bool is_interrupted(int64_t steps) {
    steps_left -= steps;
    return steps_left < 0 ? ask_whether_to_end() : is_ending;
}

// The same for a loop of short rounds. It counts without memory of the thread, which takes a few nanoseconds
// to find, and so learns a little later that the call is to end.
struct Pace {
    int64_t steps = 0;

    bool is_interrupted(int64_t more) {
        steps += more;
        if (steps <= least_steps) return false;
        const int64_t done = steps;
        steps = 0;
        return gpuparse::is_interrupted(done);
    }
};

}  // namespace gpuparse

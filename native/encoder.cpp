// Exported functions of transformers.
#include "byte_heads.h"

using namespace gpuparse;

namespace {

// True if the weights, scales and biases of a linear layer have the sizes of all layers.
bool fits(const i8_4& weights, const f32_2& scales, const f32_2& biases, int64_t layers, int64_t inputs,
          int64_t outputs) {
    return weights.n0 == layers && weights.n1 == outputs / PANEL && weights.n2 == inputs / PANEL_INPUTS &&
           weights.n3 == PANEL * PANEL_INPUTS && scales.n0 == layers && scales.n1 == outputs &&
           biases.n0 == layers && biases.n1 == outputs;
}

bool fits(const ByteLinear& of, int64_t inputs) {
    const int64_t outputs = of.scales.n0;
    return is_between(1, inputs, MOST_INPUTS + 1) && inputs % PANEL == 0 && outputs > 0 && outputs % PANEL == 0 &&
           of.weights.n0 == outputs / PANEL && of.weights.n1 == inputs / PANEL_INPUTS &&
           of.weights.n2 == PANEL * PANEL_INPUTS && of.biases.n0 == outputs;
}

bool fits(const Encoder& of, int64_t width) {
    const int64_t layers = of.query_key_value.n0, padded = of.words.n1, inner = of.intermediate_scales.n1;
    return is_between(1, width, MOST_INPUTS + 1) && padded == (width + PANEL - 1) / PANEL * PANEL &&
           is_between(1, inner, MOST_INPUTS + 1) && inner % PANEL == 0 &&
           is_between(1, of.heads, width + 1) && width % of.heads == 0 &&
           of.word_scales.n0 == of.words.n0 && of.positions.n1 == padded &&
           of.types.n1 == padded &&
           of.norms.n0 == 2 * layers + 1 && of.norms.n1 == 2 && of.norms.n2 == padded &&
           fits(of.query_key_value, of.query_key_value_scales, of.query_key_value_biases, layers, padded,
                3 * padded) &&
           fits(of.attention_output, of.attention_output_scales, of.attention_output_biases, layers,
                padded, padded) &&
           fits(of.intermediate, of.intermediate_scales, of.intermediate_biases, layers, padded, inner) &&
           fits(of.output, of.output_scales, of.output_biases, layers, inner, padded);
}

}  // namespace

GPUPARSE(int64_t) encode_pieces(const Encoder* encoder, i32_1 ids, i32_1 types, i64_1 starts,
                                f32_1 mix, out_f32_2 hidden) {
    // Pieces of a pass, at most this many or one sequence: what they need stays in caches.
    constexpr int64_t PIECES = 192;
    if (!fits(*encoder, hidden.n1) || mix.n0 != encoder->query_key_value.n0 + 1 || hidden.n0 != ids.n0 ||
        !are_starts(starts, ids.n0) || !are_between(0, ids, encoder->words.n0) || types.n0 != ids.n0 ||
        !are_between(0, types, encoder->types.n0))
        return BAD_SHAPE;
    for (int64_t b = 0; b + 1 < starts.n0; b++)
        if (starts.data[b + 1] - starts.data[b] > encoder->positions.n0) return BAD_SHAPE;
    Arena arena;
    EncoderPass pass(*encoder, hidden.n1, arena);
    for (int64_t b = 0; b + 1 < starts.n0;) {
        int64_t end = b + 1;
        while (end + 1 < starts.n0 && starts.data[end + 1] - starts.data[b] <= PIECES) end++;
        ArenaMark mark(arena);
        if (!pass.encode(ids.data, types.data, starts.data + b, end - b, mix.data, hidden.data, arena)) return NO_MEMORY;
        b = end;
    }
    return OK;
}

GPUPARSE(int64_t) multiply_byte_linear(const ByteLinear* linear, f32_2 rows, out_f32_2 found) {
    const int64_t outputs = linear->scales.n0;
    if (!fits(*linear, rows.n1) || found.n0 != rows.n0 || !is_between(0, found.n1, outputs + 1)) return BAD_SHAPE;
    Arena arena;
    const ByteLayer layer = ByteRows::layer(*linear, arena);
    ByteRows of_rows(rows.n1, arena);
    float* whole = arena.take<float>(ByteRows::ROWS * outputs);
    if (arena.failed()) return NO_MEMORY;
    for (int64_t first = 0; first < rows.n0; first += ByteRows::ROWS) {
        const int64_t count = ByteRows::at_most(rows.n0 - first);
        if (is_interrupted(count * outputs)) return NO_MEMORY;
        of_rows.multiply<false>(layer, rows.data + first * rows.n1, count, whole);
        for (int64_t i = 0; i < count; i++)
            memcpy(found.data + (first + i) * found.n1, whole + i * outputs, (size_t)found.n1 * sizeof(float));
    }
    return OK;
}

GPUPARSE(int64_t) score_byte_arcs(const ByteArcs* arcs, f32_2 states, i64_1 starts, i64_1 lengths,
                                  out_f32_3 scores) {
    if (!arcs->heads || !arcs->modifiers || !arcs->products) return BAD_SHAPE;
    if (!fits(*arcs->heads, states.n1) || !fits(*arcs->modifiers, states.n1) ||
        !fits(*arcs->products, arcs->heads->scales.n0) ||
        arcs->products->scales.n0 != arcs->modifiers->scales.n0 || starts.n0 != lengths.n0 ||
        scores.n0 != lengths.n0 || scores.n1 != scores.n2 || !are_between(0, lengths, scores.n1))
        return BAD_SHAPE;
    for (int64_t b = 0; b < starts.n0; b++)
        if (!is_between(0, starts.data[b], states.n0 - lengths.data[b])) return BAD_SHAPE;
    Arena arena;
    const ByteArcPass pass(*arcs, arena);
    for (int64_t b = 0; b < starts.n0; b++) {
        ArenaMark mark(arena);
        if (!pass.fill(states.data + starts.data[b] * states.n1, lengths.data[b] + 1,
                       scores.data + b * scores.n1 * scores.n2, scores.n2, arena))
            return NO_MEMORY;
    }
    return OK;
}

GPUPARSE(int64_t) score_byte_labels(const ByteLabels* labels, f32_2 heads, i64_1 starts, f32_2 modifiers,
                                    out_f32_2 scores) {
    if (!labels->heads || !labels->modifiers || !labels->products) return BAD_SHAPE;
    const int64_t n = scores.n1, X = labels->heads->scales.n0, Y = labels->modifiers->scales.n0;
    const int64_t outputs = labels->products->scales.n0;
    if (!fits(*labels->heads, heads.n1) || !fits(*labels->modifiers, modifiers.n1) || !fits(*labels->products, X) ||
        !is_between(1, n, outputs + 1) || Y >= outputs / n || starts.n0 != heads.n0 + 1 ||
        !are_starts(starts, modifiers.n0) || scores.n0 != modifiers.n0)
        return BAD_SHAPE;
    Arena arena;
    return ByteLabelPass(*labels, heads, starts, modifiers, scores, arena).fill(arena) ? OK : NO_MEMORY;
}

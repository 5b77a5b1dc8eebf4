// Exported functions of arrays that are mostly zeros.
#include "api/compact.h"

namespace {

template<class From, class To>
int64_t expand(const u8_1& bits, const From* values, int64_t n_values, To* expanded, int64_t n) {
    if (bits.n0 != (n + 7) / 8) return BAD_SHAPE;
    int64_t count = 0;
    for (int64_t i = 0; i < bits.n0; ++i) count += __builtin_popcount(bits.data[i]);
    if (count != n_values || (n % 8 && bits.data[bits.n0 - 1] >> n % 8)) return BAD_SHAPE;
    for (int64_t i = 0; i < bits.n0; ++i)
        for (uint32_t left = bits.data[i]; left; left &= left - 1)
            expanded[8 * i + __builtin_ctz(left)] = (To)*values++;
    return OK;
}

// Of values whose type the other one holds.
template<class From>
int64_t expand_from(const u8_1& bits, const any_1& values, const out_any_1& expanded) {
    const From* from = (const From*)values.data;
    const auto into = [&](auto* to) { return expand(bits, from, values.n0, to, expanded.n0); };
    switch (expanded.dtype) {
        case DT_I8: return sizeof(From) <= 1 ? into((int8_t*)expanded.data) : BAD_TYPE;
        case DT_I16: return sizeof(From) <= 2 ? into((int16_t*)expanded.data) : BAD_TYPE;
        case DT_I32: return sizeof(From) <= 4 ? into((int32_t*)expanded.data) : BAD_TYPE;
        case DT_I64: return into((int64_t*)expanded.data);
        default: return BAD_TYPE;
    }
}

}  // namespace

GPUPARSE(int64_t) expand_values(u8_1 bits, any_1 values, out_any_1 expanded) {
    if (values.dtype == DT_U8 && expanded.dtype == DT_U8)
        return expand(bits, (const uint8_t*)values.data, values.n0, (uint8_t*)expanded.data, expanded.n0);
    switch (values.dtype) {
        case DT_I8: return expand_from<int8_t>(bits, values, expanded);
        case DT_I16: return expand_from<int16_t>(bits, values, expanded);
        case DT_I32: return expand_from<int32_t>(bits, values, expanded);
        case DT_I64: return expand_from<int64_t>(bits, values, expanded);
        default: return BAD_TYPE;
    }
}

// The types of the C interface. gpuparse/native.py knows them by name and passes NumPy arrays as
// them; the other headers in this folder declare functions and structs over them.
//
// An array is C-contiguous. Its struct has the address of the values and one size an axis.
// `f64_2` is read only, `out_f64_2` is written to. An array without elements
// has the address NULL; a missing array has sizes 0, too.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
#define GPUPARSE(result) extern "C" __attribute__((visibility("default"))) result
#else
#error "gpuparse needs g++ or clang"
#endif

// The results of functions that have no other result; numbers below 0 but for these are its own.
enum Status : int64_t {
    OK = 0,
    NO_MEMORY = -1000,  // MemoryError in Python
    BAD_SHAPE = -1001,  // ValueError: sizes of arrays that do not agree, an index out of range
    BAD_TYPE = -1002,   // TypeError: a type of `any` that the function does not accept
};

// The types of values of an `any` array.
enum Dtype : int64_t {
    DT_I8 = 1,
    DT_I16,
    DT_I32,
    DT_I64,
    DT_U8,
    DT_U16,
    DT_U32,
    DT_U64,
    DT_F32,
    DT_F64,
    DT_BOOL
};

#define GPUPARSE_ARRAY(name, pointer, ...) \
    struct name {                          \
        pointer data;                      \
        __VA_ARGS__                        \
    };
#define GPUPARSE_ARRAYS(name, pointer, ...)                                             \
    GPUPARSE_ARRAY(name##_1, pointer, __VA_ARGS__ int64_t n0;)                          \
    GPUPARSE_ARRAY(name##_2, pointer, __VA_ARGS__ int64_t n0; int64_t n1;)              \
    GPUPARSE_ARRAY(name##_3, pointer, __VA_ARGS__ int64_t n0; int64_t n1; int64_t n2;)  \
    GPUPARSE_ARRAY(name##_4, pointer, __VA_ARGS__ int64_t n0; int64_t n1; int64_t n2;   \
                   int64_t n3;)
#define GPUPARSE_TYPE(name, type)       \
    GPUPARSE_ARRAYS(name, const type*,) \
    GPUPARSE_ARRAYS(out_##name, type*,)

GPUPARSE_TYPE(f64, double)
GPUPARSE_TYPE(f32, float)
GPUPARSE_TYPE(i64, int64_t)
GPUPARSE_TYPE(i32, int32_t)
GPUPARSE_TYPE(i16, int16_t)
GPUPARSE_TYPE(i8, int8_t)
GPUPARSE_TYPE(u64, uint64_t)
GPUPARSE_TYPE(u32, uint32_t)
GPUPARSE_TYPE(u16, uint16_t)
GPUPARSE_TYPE(u8, uint8_t)
GPUPARSE_TYPE(b8, uint8_t)  // bool: 0 or 1
GPUPARSE_ARRAYS(any, const void*, int64_t dtype;)
GPUPARSE_ARRAYS(out_any, void*, int64_t dtype;)

#undef GPUPARSE_TYPE
#undef GPUPARSE_ARRAYS
#undef GPUPARSE_ARRAY

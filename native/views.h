// Arrays of one to four axes over memory that somebody else owns; the last axis is contiguous.
#pragma once

#include "api/types.h"

namespace gpuparse {

template <class T>
struct View1 {
    T* data;
    T& operator()(int64_t i) const { return data[i]; }
    T& operator[](int64_t i) const { return data[i]; }
    operator View1<const T>() const { return {data}; }
};

template <class T>
struct View2 {
    T* data;
    int64_t stride;  // values from row to row
    T& operator()(int64_t i, int64_t j) const { return data[i * stride + j]; }
    T* row(int64_t i) const { return data + i * stride; }
    operator View2<const T>() const { return {data, stride}; }
};

template <class T>
struct View3 {
    T* data;
    int64_t stride0;  // values from data(i, ., .) to data(i + 1, ., .)
    int64_t stride1;
    T& operator()(int64_t i, int64_t j, int64_t k) const {
        return data[i * stride0 + j * stride1 + k];
    }
    T* row(int64_t i, int64_t j) const { return data + i * stride0 + j * stride1; }
    View2<T> operator()(int64_t i) const { return {data + i * stride0, stride1}; }
    operator View3<const T>() const { return {data, stride0, stride1}; }
};

template <class T>
struct View4 {
    T* data;
    int64_t stride0;
    int64_t stride1;
    int64_t stride2;
    T& operator()(int64_t i, int64_t j, int64_t k, int64_t r) const {
        return data[i * stride0 + j * stride1 + k * stride2 + r];
    }
    T* row(int64_t i, int64_t j, int64_t k) const {
        return data + i * stride0 + j * stride1 + k * stride2;
    }
    View3<T> operator()(int64_t i) const { return {data + i * stride0, stride1, stride2}; }
    operator View4<const T>() const { return {data, stride0, stride1, stride2}; }
};

// Views of contiguous memory, from the sizes of all axes but the first.
template <class T>
View1<T> view1(T* data) {
    return {data};
}
template <class T>
View2<T> view2(T* data, int64_t n1) {
    return {data, n1};
}
template <class T>
View3<T> view3(T* data, int64_t n1, int64_t n2) {
    return {data, n1 * n2, n2};
}
template <class T>
View4<T> view4(T* data, int64_t n1, int64_t n2, int64_t n3) {
    return {data, n1 * n2 * n3, n2 * n3, n3};
}

// view(array): the view of an argument of the C interface, `View2<const double>` of an `f64_2`,
// `View2<double>` of an `out_f64_2`.
#define GPUPARSE_VIEWS_OF(name, type)                                                              \
    inline View1<type> view(const name##_1& array) { return view1<type>(array.data); }             \
    inline View2<type> view(const name##_2& array) { return view2<type>(array.data, array.n1); }   \
    inline View3<type> view(const name##_3& array) {                                               \
        return view3<type>(array.data, array.n1, array.n2);                                        \
    }                                                                                              \
    inline View4<type> view(const name##_4& array) {                                               \
        return view4<type>(array.data, array.n1, array.n2, array.n3);                              \
    }
#define GPUPARSE_VIEWS(name, type)       \
    GPUPARSE_VIEWS_OF(name, const type)  \
    GPUPARSE_VIEWS_OF(out_##name, type)

GPUPARSE_VIEWS(f64, double)
GPUPARSE_VIEWS(f32, float)
GPUPARSE_VIEWS(i64, int64_t)
GPUPARSE_VIEWS(i32, int32_t)
GPUPARSE_VIEWS(i16, int16_t)
GPUPARSE_VIEWS(i8, int8_t)
GPUPARSE_VIEWS(u64, uint64_t)
GPUPARSE_VIEWS(u32, uint32_t)
GPUPARSE_VIEWS(u16, uint16_t)
GPUPARSE_VIEWS(u8, uint8_t)
GPUPARSE_VIEWS(b8, uint8_t)

#undef GPUPARSE_VIEWS
#undef GPUPARSE_VIEWS_OF

}  // namespace gpuparse

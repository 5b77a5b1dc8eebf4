// Arrays of two to four axes over memory that somebody else owns, the last axis contiguous; and checks
// of the numbers in arguments of the C interface.
#pragma once

#include "api/types.h"

namespace gpuparse {

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

// Views of contiguous memory, from the sizes of all axes but the first.
template <class T>
View2<T> view2(T* data, int64_t n1) {
    return {data, n1};
}
template <class T>
View3<T> view3(T* data, int64_t n1, int64_t n2) {
    return {data, n1 * n2, n2};
}

// The view of an argument of two axes of the C interface, such as `f64_2`.
template <class Array>
auto view(const Array& array) {
    return view2(array.data, array.n1);
}

// True if starts ascend from 0 to `end`: starts[i] is the first value of item i.
inline bool are_starts(const i64_1& starts, int64_t end) {
    if (starts.n0 < 1 || starts.data[0] != 0 || starts.data[starts.n0 - 1] != end) return false;
    for (int64_t i = 1; i < starts.n0; ++i)
        if (starts.data[i] < starts.data[i - 1]) return false;
    return true;
}

inline bool is_between(int64_t low, int64_t value, int64_t high) { return low <= value && value < high; }

// True if all values of an array of one axis are from `low` to `high` - 1.
template <class Array>
bool are_between(int64_t low, const Array& values, int64_t high) {
    for (int64_t i = 0; i < values.n0; ++i)
        if (!is_between(low, values.data[i], high)) return false;
    return true;
}

}  // namespace gpuparse

// The question that long calls ask, and what Python is asked by.
#include "interrupts.h"

#include <time.h>

#include "api/types.h"

namespace gpuparse {

namespace {

// Python's functions by the names of its C interface; objects are void*.
struct Python {
    int (*ensure)();
    void (*release)(int);
    void* (*call)(void*);
    void (*forget)(void*);
    void (*fetch)(void**, void**, void**);
    void (*restore)(void*, void*, void*);
    void* question;
};
Python python = {};
constexpr int64_t LEAST = 1 << 15;
int64_t steps_between = 0, interval = 0;  // nanoseconds
int64_t* n_ended = nullptr;

thread_local int64_t next_time = 0;
thread_local void* raised[3] = {};

int64_t now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

}  // namespace

bool ask_whether_to_end() {
    if (is_ending || !python.question) return is_ending;
    steps_left = steps_between;
    if (now() < next_time) return false;
    const int state = python.ensure();
    void* const answer = python.call(python.question);
    if (answer) {
        python.forget(answer);
    } else {
        python.fetch(&raised[0], &raised[1], &raised[2]);
        is_ending = true;
        __atomic_fetch_add(n_ended, 1, __ATOMIC_RELAXED);
    }
    python.release(state);
    next_time = now() + interval;
    return is_ending;
}

}  // namespace gpuparse

using namespace gpuparse;

// Not in api/: no arguments that are wrong can be told from right ones. gpuparse/native.py calls both while
// it holds the lock of the interpreter.

// Functions of Python, given once. addresses: of PyGILState_Ensure, PyGILState_Release,
// PyObject_CallNoArgs, Py_DecRef, PyErr_Fetch and PyErr_Restore, and of a callable. Long calls look at the
// clock each `steps` nanoseconds or so, and call it each `seconds`, in their own thread; where it raises,
// they end. ended: the number of calls that have ended so and whose exceptions have not been set again; it
// must live as long as the library.
GPUPARSE(void) ask_python(const uint64_t* addresses, int64_t steps, double seconds, int64_t* ended) {
    steps_between = steps;
    least_steps = steps < LEAST ? steps : LEAST;
    interval = (int64_t)(seconds * 1e9);
    n_ended = ended;
    python = {(int (*)())addresses[0],
              (void (*)(int))addresses[1],
              (void* (*)(void*))addresses[2],
              (void (*)(void*))addresses[3],
              (void (*)(void**, void**, void**))addresses[4],
              (void (*)(void*, void*, void*))addresses[5],
              (void*)addresses[6]};
}

// Set the exception again that has ended a call in this thread, if there is one.
GPUPARSE(void) set_exception() {
    if (!is_ending) return;
    is_ending = false;
    __atomic_fetch_sub(n_ended, 1, __ATOMIC_RELAXED);
    python.restore(raised[0], raised[1], raised[2]);
}

"""Vectors of 64 bytes for the loops that numba leaves scalar (maxima, slices that may overlap).

Helpers to write LLVM instructions with, for use inside `numba.extending.intrinsic`; LLVM splits
the vectors where the CPU's are shorter. Addresses are not checked: callers give scratch with room
for a whole vector after the last element. numba's cache does not see a change of this file: after
one, delete the `__pycache__` folder of the kernels.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from gpuparse.compiled import inlined

VECTOR_BYTES = 64


@inlined
def vector_lanes(array: np.ndarray) -> int:
    """Elements of this array in one vector."""
    return VECTOR_BYTES // array.itemsize


@inlined
def whole_vectors(count: int, itemsize: int) -> int:
    """The number of elements, rounded up to whole vectors."""
    lanes = VECTOR_BYTES // itemsize
    return (count + lanes - 1) // lanes * lanes


@inlined
def aligned(scratch: np.ndarray) -> np.ndarray:
    """The scratch from its first multiple of a vector on (less than one vector is left out).

    Loads that straddle two cache lines cost twice as much.
    """
    skipped = (-scratch.ctypes.data) % VECTOR_BYTES // scratch.itemsize
    return scratch[skipped:]


@intrinsic
def pointer_to(typingctx, array):  # type: ignore[no-untyped-def]
    """Where the array begins, to be indexed like it if it is contiguous and stays alive.

    Arrays that are handed to a function or bound to a further name are counted, in instructions
    that no other core may disturb; pointers are not.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return context.make_array(array)(context, builder, args[0]).data

    return types.CPointer(array.dtype)(array), codegen


@intrinsic
def prefetch(typingctx, array, index):  # type: ignore[no-untyped-def]
    """Ask for the cache line of an element ahead of its use."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        data = context.make_array(array)(context, builder, args[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        place = builder.bitcast(builder.gep(data, [args[1]]), byte)
        builder.call(function, [place, *(ir.Constant(number, flag) for flag in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(array, types.int64), codegen


def lane_count(array_type: Any) -> int:
    """`vector_lanes` while compiling."""
    return VECTOR_BYTES * 8 // array_type.dtype.bitwidth


class Lanes:
    """Loads and stores of `count` elements of one array or `pointer_to` from any element on."""

    def __init__(self, context: Any, builder: Any, array_type: Any, array: Any, count: int) -> None:
        self.builder = builder
        is_pointer = isinstance(array_type, types.CPointer)
        self.data = array
        if not is_pointer:
            self.data = context.make_array(array_type)(context, builder, array).data
        self.type = ir.VectorType(context.get_data_type(array_type.dtype), count)
        self.align = array_type.dtype.bitwidth // 8

    def _pointer(self, index: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(self.data, [index]), self.type.as_pointer())

    def load(self, index: Any) -> Any:
        return self.builder.load(self._pointer(index), align=self.align)

    def store(self, index: Any, vector: Any) -> None:
        self.builder.store(vector, self._pointer(index), align=self.align)

    def load_one(self, index: Any) -> Any:
        """The element itself."""
        return self.builder.load(self.builder.gep(self.data, [index]), align=self.align)


def splat(builder: Any, vector_type: Any, scalar: Any) -> Any:
    """The vector with this value in every lane."""
    zero = ir.Constant(ir.IntType(32), 0)
    undefined = ir.Constant(vector_type, ir.Undefined)
    one = builder.insert_element(undefined, scalar, zero)
    order = ir.Constant(ir.VectorType(ir.IntType(32), vector_type.count), [0] * vector_type.count)
    return builder.shuffle_vector(one, undefined, order)


def constant(vector_type: Any, value: Any) -> Any:
    """The constant vector with this value in every lane."""
    return ir.Constant(vector_type, [value] * vector_type.count)


def larger(builder: Any, x: Any, y: Any) -> Any:
    """Lane by lane maximum, y where they are equal."""
    return builder.select(builder.fcmp_ordered(">", x, y), x, y)


def fold(builder: Any, vector: Any) -> Any:
    """The vector whose every lane is the largest lane of this one."""
    lanes = vector.type.count
    undefined = ir.Constant(vector.type, ir.Undefined)
    shift = lanes // 2
    while shift:
        turn = [(v + shift) % lanes for v in range(lanes)]
        order = ir.Constant(ir.VectorType(ir.IntType(32), lanes), turn)
        vector = larger(builder, vector, builder.shuffle_vector(vector, undefined, order))
        shift //= 2
    return vector


class Loop:
    """`for i in range(start, stop, step)` with values carried from round to round.

    Enter it, read `i` and `values`, hand the new values to `turn`; afterwards `values` are final.
    """

    def __init__(self, builder: Any, start: Any, stop: Any, step: Any, values: list[Any]) -> None:
        self.builder = builder
        self.step = step
        entry = builder.block
        self.head = builder.append_basic_block("loop")
        body = builder.append_basic_block("body")
        self.done = builder.append_basic_block("done")
        builder.branch(self.head)
        builder.position_at_end(self.head)
        self.i = builder.phi(start.type)
        self.i.add_incoming(start, entry)
        self.values = []
        for value in values:
            phi = builder.phi(value.type)
            phi.add_incoming(value, entry)
            self.values.append(phi)
        builder.cbranch(builder.icmp_signed("<", self.i, stop), body, self.done)
        builder.position_at_end(body)

    def turn(self, values: list[Any]) -> None:
        """End the body; what is written next comes after the loop."""
        here = self.builder.block
        self.i.add_incoming(self.builder.add(self.i, self.step), here)
        for phi, value in zip(self.values, values, strict=True):
            phi.add_incoming(value, here)
        self.builder.branch(self.head)
        self.builder.position_at_end(self.done)

"""Reading many bytes at once inside compiled code: 64 for separators, 8 for hashing.

Numba has no vector loads of its own; these few intrinsics are all that the readers need.
LLVM lowers them to whatever the processor has.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from gpuparse.compiled import compiled

BLOCK = 64
TAB, LINE_FEED, CARRIAGE_RETURN = 9, 10, 13


def _pointer(context: Any, builder: Any, signature: Any, args: Any, element: Any) -> Any:
    """Address of data[start], seen as a pointer to `element`; the two arguments are those."""
    array = make_array(signature.args[0])(context, builder, args[0])
    address = cgutils.gep_inbounds(builder, array.data, args[1])
    return builder.bitcast(address, element.as_pointer())


@intrinsic
def separators_in_block(typing_context, data, start):  # type: ignore[no-untyped-def]
    """Bit i says whether data[start + i] is a tab, line feed or carriage return, i in 0..63."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        vector = ir.VectorType(ir.IntType(8), BLOCK)
        block = builder.load(_pointer(context, builder, signature, args, vector), align=1)
        hits = None
        for byte in (TAB, LINE_FEED, CARRIAGE_RETURN):
            equal = builder.icmp_unsigned("==", block, ir.Constant(vector, [byte] * BLOCK))
            hits = equal if hits is None else builder.or_(hits, equal)
        return builder.bitcast(hits, ir.IntType(BLOCK))

    return types.uint64(data, types.int64), codegen


@intrinsic
def high_bytes_in_block(typing_context, data, start):  # type: ignore[no-untyped-def]
    """Bit i says whether data[start + i] is not ASCII (128 or more), i in 0..63."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        vector = ir.VectorType(ir.IntType(8), BLOCK)
        block = builder.load(_pointer(context, builder, signature, args, vector), align=1)
        hits = builder.icmp_signed("<", block, ir.Constant(vector, [0] * BLOCK))
        return builder.bitcast(hits, ir.IntType(BLOCK))

    return types.uint64(data, types.int64), codegen


@intrinsic
def eight_bytes(typing_context, data, start):  # type: ignore[no-untyped-def]
    """data[start:start + 8] as one integer, in the machine's byte order."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        word = ir.IntType(64)
        return builder.load(_pointer(context, builder, signature, args, word), align=1)

    return types.uint64(data, types.int64), codegen


@intrinsic
def trailing_zeros(typing_context, mask):  # type: ignore[no-untyped-def]
    """Position of the lowest set bit of a uint64; 64 when none is set."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), codegen


@compiled
def separators_at_end(data: np.ndarray, start: int) -> np.uint64:
    """separators_in_block for the last, incomplete block.

    A line feed is added after the last byte when the data does not end in one, so that every line
    has an end.
    """
    mask = np.uint64(0)
    for i in range(start, len(data)):
        byte = data[i]
        if byte in (TAB, LINE_FEED, CARRIAGE_RETURN):
            mask |= np.uint64(1) << np.uint64(i - start)
    if len(data) > 0 and data[-1] != LINE_FEED:
        mask |= np.uint64(1) << np.uint64(len(data) - start)
    return mask

"""Maxima of sums of rows, a vector at a time, for third-order searches.

Whole vectors are loaded: an array must have a vector's room after the last element that is asked
for, whatever stands there.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from gpuparse.inference.kernels.cpu.lanes import (
    Lanes,
    Loop,
    constant,
    lane_count,
    larger,
    splat,
)


@intrinsic
def largest_sum(typingctx, x, i, y, j, count):  # type: ignore[no-untyped-def]
    """max_{0<=k<count} x[i + k] + y[j + k], -inf for none."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        x_array, i, y_array, j, count = args
        lanes = lane_count(x)
        xs, ys = (Lanes(context, builder, x, array, lanes) for array in (x_array, y_array))
        nothing = constant(xs.type, -np.inf)
        integers = ir.VectorType(ir.IntType(32), lanes)
        lane = ir.Constant(integers, list(range(lanes)))
        zero, step = ir.Constant(count.type, 0), ir.Constant(count.type, lanes)
        loop = Loop(builder, zero, count, step, [nothing])
        left = builder.trunc(builder.sub(count, loop.i), integers.element)
        is_there = builder.icmp_signed("<", lane, splat(builder, integers, left))
        total = builder.fadd(xs.load(builder.add(i, loop.i)), ys.load(builder.add(j, loop.i)))
        total = builder.select(is_there, total, nothing)
        loop.turn([larger(builder, total, loop.values[0])])
        return _largest_lane(builder, loop.values[0])

    return x.dtype(x, types.int64, y, types.int64, types.int64), codegen


def _largest_lane(builder: Any, vector: Any) -> Any:
    """The largest lane, from vectors of half the length in every step."""
    lanes = vector.type.count
    while lanes > 1:
        lanes //= 2
        undefined = ir.Constant(vector.type, ir.Undefined)
        order = ir.VectorType(ir.IntType(32), lanes)
        low, high = (
            builder.shuffle_vector(vector, undefined, ir.Constant(order, list(range(k, k + lanes))))
            for k in (0, lanes)
        )
        vector = larger(builder, low, high)
    return builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))


@intrinsic
def raise_row(  # type: ignore[no-untyped-def]
    typingctx, rows, at, first_row, row_size, sums, first_sum, blocks, block, width, count
):
    """rows[at] = max(rows[at], max_{0<=t<count} rows[first_row + t] + (sums[t] + blocks[t])).

    One vector; rows row_size apart, sums from `first_sum` on, blocks width apart from `block` on.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        rows_array, at, first_row, row_size, sums_array, first_sum = args[:6]
        blocks_array, block, width, count = args[6:]
        row = Lanes(context, builder, rows, rows_array, lane_count(rows))
        part = Lanes(context, builder, blocks, blocks_array, lane_count(rows))
        of_t = Lanes(context, builder, sums, sums_array, lane_count(rows))
        zero, one = ir.Constant(at.type, 0), ir.Constant(at.type, 1)
        loop = Loop(builder, zero, count, one, [row.load(at)])
        more = splat(builder, row.type, of_t.load_one(builder.add(first_sum, loop.i)))
        more = builder.fadd(more, part.load(_place(builder, block, loop.i, width)))
        value = builder.fadd(row.load(_place(builder, first_row, loop.i, row_size)), more)
        loop.turn([larger(builder, value, loop.values[0])])
        row.store(at, loop.values[0])
        return context.get_dummy_value()

    integers = [types.int64] * 3
    return types.void(rows, *integers, sums, types.int64, blocks, *integers), codegen


@intrinsic
def best_row(typingctx, sums, first_sum, blocks, block, width, count, row, at):  # type: ignore[no-untyped-def]
    """row[at] = max_{0<=t<count} blocks[t] + sums[first_sum + t], -inf for none.

    One vector; blocks width apart from `block` on.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        sums_array, first_sum, blocks_array, block, width, count, row_array, at = args
        part = Lanes(context, builder, blocks, blocks_array, lane_count(row))
        of_t = Lanes(context, builder, sums, sums_array, lane_count(row))
        out = Lanes(context, builder, row, row_array, lane_count(row))
        zero, one = ir.Constant(at.type, 0), ir.Constant(at.type, 1)
        loop = Loop(builder, zero, count, one, [constant(out.type, -np.inf)])
        more = splat(builder, out.type, of_t.load_one(builder.add(first_sum, loop.i)))
        value = builder.fadd(part.load(_place(builder, block, loop.i, width)), more)
        loop.turn([larger(builder, value, loop.values[0])])
        out.store(at, loop.values[0])
        return context.get_dummy_value()

    integer = types.int64
    return types.void(sums, integer, blocks, integer, integer, integer, row, integer), codegen


def _place(builder: Any, first: Any, t: Any, apart: Any) -> Any:
    return builder.add(first, builder.mul(t, apart))

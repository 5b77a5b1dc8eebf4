"""Compile the kernels of scoring for a GPU that need not be there, with arguments of real launches.

Run as a program without TRITON_INTERPRET; prints one line of JSON a launch: kernel, stack and local
memory in bytes, registers, PTX instructions that load through the cache of constant data.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction, KernelParam

import gpuparse.scoring.triton.kernels
import gpuparse.scoring.triton.vectors  # noqa: F401

TARGET = 90  # compute capability 9.0
TYPES = {
    torch.int8: "*i8", torch.uint8: "*u8", torch.int16: "*i16", torch.int32: "*i32",
    torch.int64: "*i64", torch.float32: "*fp32", torch.float64: "*fp64",
}  # fmt: skip
launches: dict[str, tuple[JITFunction, tuple, dict[str, int]]] = {}


class Recorder:
    """Stands for a kernel with its grid; remembers what it is launched with."""

    def __init__(self, kernel: JITFunction) -> None:
        self._kernel = kernel

    def __call__(self, *arguments: Any, **options: int) -> None:
        kinds = [str(TYPES[x.dtype]) if isinstance(x, torch.Tensor) else "" for x in arguments]
        constants = [
            f"{p.name}={x}"
            for x, p in zip(arguments, self._kernel.params, strict=True)
            if is_constant(p, x)
        ]
        key = f"{self._kernel.fn.__name__} {kinds} {constants} {options}"
        launches[key] = self._kernel, arguments, options


def is_constant(parameter: KernelParam, x: Any) -> bool:
    """Whether a kernel is compiled for this one value of an argument."""
    is_one = isinstance(x, int) and x == 1 and not parameter.do_not_specialize
    return parameter.is_constexpr or is_one


def compile_launch(
    kernel: JITFunction, arguments: tuple, options: dict[str, int]
) -> dict[str, Any]:
    """What a launch is compiled to."""
    signature: dict[str, str] = {}
    constants: dict[tuple[int], Any] = {}
    aligned: dict[tuple[int], list] = {}
    for i, (parameter, x) in enumerate(zip(kernel.params, arguments, strict=True)):
        name = parameter.name
        if is_constant(parameter, x):
            signature[name], constants[(i,)] = "constexpr", x
        elif isinstance(x, torch.Tensor):
            signature[name], aligned[(i,)] = TYPES[x.dtype], [["tt.divisibility", 16]]
        else:
            signature[name] = "i32" if -(2**31) <= x < 2**31 else "i64"
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
    target = GPUTarget("cuda", TARGET, 32)
    done = triton.compile(source, target=target, options=options)
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    usage = {}
    if tool.exists():
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(done.asm["cubin"])
            file.flush()
            command = [tool, "--dump-resource-usage", file.name]
            text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        usage = {key: int(n) for key, n in re.findall(r"(REG|STACK|LOCAL):(\d+)", text)}
    constant_loads = len(re.findall(r"\bld\.global\S*\.nc\b", done.asm["ptx"]))
    return {"kernel": kernel.fn.__name__, **usage, "nc": constant_loads}


def launch_vectors() -> None:
    """Score arcs, siblings and labels by word vectors with and without a hidden layer."""
    from gpuparse.scoring.tensors import as_tensors
    from gpuparse.scoring.vector_scores import vectors_on
    from tests.scoring.test_word_vectors import sample_vectors

    arc = torch.zeros(1, dtype=torch.int64)
    for hidden in (0, 256):
        batch, vectors = sample_vectors(hidden, 128, 64, n_labels=64, sibling=32)
        nodes = vectors_on(torch.device("cpu"), vectors, "triton").nodes(as_tensors(batch))
        for is_learned in (False, True):
            nodes.arcs(is_learned)
            nodes.pairs("sibling", is_learned)
            nodes.labels(arc, arc, arc, is_learned)


def launch_all() -> None:
    """Score arcs, siblings and labels, by all maps and types of weights and by word vectors."""
    from gpuparse.data.batch import Batch
    from gpuparse.scoring.arcs import arc_scores
    from gpuparse.scoring.labels import best_arc_labels, best_labels
    from gpuparse.scoring.siblings import sibling_scores
    from gpuparse.scoring.weights import Weights
    from tests.scoring import test_joint, test_labels, test_siblings

    for kind in (1 << 14, 100_003):
        for dtype in (np.int8, np.int16, np.float32):
            given = test_siblings.prepared(test_siblings.TEMPLATES["extended"], kind)
            batch, plan, features = given
            weights = test_siblings.random_weights(dtype, plan, features)
            arc_scores(batch, plan.arcs, features, weights, backend="gpu")
            sibling_scores(batch, plan.siblings, features, weights, backend="gpu")
    batch, plan = test_labels.prepared(name="labels")
    heads = test_labels.padded_heads(test_labels.SENTENCES)
    for dtype in (np.int8, np.int16, np.float32):
        best_labels(batch, heads, plan, Weights(np.ones((1000, 54), dtype)), backend="gpu")
        some, joint = test_joint.prepared()
        best_arc_labels(some, joint, Weights(np.ones((1024, 54), dtype)), backend="gpu")
    launch_vectors()
    # Sizes of 1, which Triton takes for constants where it may: one sentence without a word.
    none = Batch(batch.values, batch.starts[:1], np.zeros(1, np.int64))
    best_labels(none, heads[:1, :1], plan, Weights(np.ones((1, 1), np.int8)), backend="gpu")
    none = Batch(some.values, some.starts[:1], np.zeros(1, np.int64))
    best_arc_labels(none, joint, Weights(np.ones((16, 1), np.int8)), backend="gpu")


if __name__ == "__main__":
    JITFunction.__getitem__ = lambda kernel, grid: Recorder(kernel)  # type: ignore[method-assign]
    os.environ["TRITON_INTERPRET"] = "1"  # the kernels above are there to be compiled all the same
    launch_all()
    for launch in launches.values():
        print(json.dumps(compile_launch(*launch)))
    sys.exit(0 if launches else 1)

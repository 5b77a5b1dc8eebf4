"""Triton's kernels of search and of sums of weights, compiled for a GPU that need not be there."""

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpuparse.inference import with_quantity

pytest.importorskip("triton", reason="Triton is not installed")

TARGET = 90  # compute capability 9.0
KERNELS = with_quantity("best", "triton")
LEAST_LOADS, LEAST_BARRIERS = 17, 4

COMPILE = """
import sys
from importlib import import_module
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

name, target, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])

def write(kernel, file, types, constants, warps, **options):
    types = types | dict.fromkeys(constants, "constexpr")
    signature = {arg: types[arg] for arg in kernel.arg_names}
    place = kernel.arg_names.index
    source = ASTSource(
        fn=kernel,
        signature=signature,
        constexprs={(place(arg),): value for arg, value in constants.items()},
        attrs={
            (place(arg),): [["tt.divisibility", 16]]
            for arg, kind in signature.items()
            if kind.startswith("*")
        },
    )
    done = triton.compile(
        source, target=GPUTarget("cuda", target, 32), options={"num_warps": warps, **options}
    )
    (folder / f"{file}.ptx").write_text(done.asm["ptx"])
    (folder / f"{file}.cubin").write_bytes(done.asm["cubin"])
"""
SEARCH = """
from gpuparse.inference.triton.launch import WARP, row_length

home = name.removesuffix("_sibling")
module = import_module(f"gpuparse.inference.triton.{home}")
integers = {"lengths": "*i64", "heads": "*i64", "splits": "*i16", "paths": "*i32"}
integers |= {"n_batch": "i32", "n_nodes": "i32"}
kernel = getattr(module, f"{home}_kernel")
for n in (25, 100):
    lanes = triton.next_power_of_2(row_length(n + 1))
    warps = max(1, lanes // getattr(module, "LANES_A_WARP", WARP))
    for dtype in ("fp32", "fp64"):
        for single_root in (False, True):
            constants = {"SINGLE_ROOT": single_root, "STRIDE": row_length(n + 1)}
            constants |= {"LANES": lanes}
            constants |= {"SIBLINGS": int(name != home)} if home == "eisner" else {}
            roots = "single" if single_root else "multi"
            types = dict.fromkeys(kernel.arg_names, f"*{dtype}") | integers
            write(kernel, f"{n}-{dtype}-{roots}", types, constants, warps, num_stages=1)
"""
TREE_SUMS = """
from gpuparse.inference.triton import eisner_sums as module
from gpuparse.inference.triton.launch import WARP, row_length

kernel, order = module.eisner_sums_kernel, int(name.endswith("sibling"))
types = dict.fromkeys(kernel.arg_names, "*fp64") | {"lengths": "*i64"}
types |= {"n_batch": "i32", "n_nodes": "i32"}
for n in (25, 100):
    for quantity, marginals in (("marginals", 1 + 2 * order), ("entropy", 0)):
        for single_root in (False, True):
            lanes = triton.next_power_of_2(row_length(n + 1))
            constants = {"SIBLINGS": order, "SINGLE_ROOT": single_root, "MARGINALS": marginals}
            constants |= {"ENTROPY": quantity == "entropy", "STRIDE": row_length(n + 1)}
            constants |= {"SPLITS": module.THREADS // lanes, "LANES": lanes}
            warps = module.THREADS // WARP
            write(kernel, f"{n}-{quantity}-{single_root}", types, constants, warps, num_stages=1)
"""
SUMS = """
from gpuparse.scorers.linear import triton_sums as module

others = "starts lengths atoms looks numbers codes buckets groups triples".split()
fixed = dict.fromkeys(others, "*i64") | {"values": "*i32", "guides": "*i32"}
fixed |= dict.fromkeys(module.NUMBERS, "i32")
for lone_root in (False, True):
    constants = {"LONE_ROOT": lone_root, "LANES": module.LANES}
    write(module.word_kernel, f"words-{lone_root}", fixed, constants, 4)
for weights, sums, scores in (("i8", "i32", "fp64"), ("i16", "i64", "fp64"), ("fp32",) * 3):
    types = fixed | {"weights": f"*{weights}", "of_one": f"*{sums}", "out": f"*{sums}"}
    for nothing in ((), ("of_one", "guides")):
        for is_power in (False, True):
            constants = {"IS_POWER": is_power, "LANES": module.LANES} | dict.fromkeys(nothing)
            file = f"pairs-{weights}-{is_power}-{len(nothing)}"
            write(module.pair_kernel, file, types, constants, 4)
    types |= {"pairs": f"*{sums}", "alone": f"*{sums}", "out": f"*{scores}"}
    write(module.triple_kernel, f"triples-{weights}", types, {"LANES": module.LANES}, 4)
"""


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.triton) for name in KERNELS]
)
def compiled(request, tmp_path_factory) -> Path:
    """A folder with what a kernel is compiled to: n = 25, 100, both types, both kinds of roots."""
    folder = tmp_path_factory.mktemp(request.param, numbered=False)
    compile_to(folder, SEARCH, request.param)
    assert len(list(folder.glob("*.cubin"))) == 8
    return folder


def compile_to(folder: Path, cases: str, name: str) -> None:
    """Compile in a process of its own: here kernels run in the interpreter."""
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(folder / "cache")
    subprocess.run(
        [sys.executable, "-c", COMPILE + cases, name, str(TARGET), str(folder)],
        check=True,
        env=environment,
        cwd=Path(__file__).parents[2],
    )


def test_nothing_is_spilled(compiled):
    assert_nothing_is_spilled(compiled)


@pytest.mark.triton
@pytest.mark.parametrize("name", with_quantity("entropy", "triton"))
def test_sums_over_trees(name, tmp_path):
    """Two programs have room in a multiprocessor; nothing is spilled in the innermost loops."""
    compile_to(tmp_path, TREE_SUMS, name)
    assert len(list(tmp_path.glob("*.cubin"))) == 8
    assert_nothing_is_spilled(tmp_path, most_registers=128, most_stack=48)
    test_charts_are_read_through_the_coherent_cache(tmp_path)
    test_barriers_stand_between_stores_and_loads(tmp_path)


@pytest.mark.triton
def test_sums_of_weights_spill_nothing(tmp_path):
    compile_to(tmp_path, SUMS, "sums")
    assert len(list(tmp_path.glob("*.cubin"))) == 17
    assert_nothing_is_spilled(tmp_path)


def assert_nothing_is_spilled(
    compiled: Path, most_registers: int = 96, most_stack: int = 0
) -> None:
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    if not tool.exists():
        pytest.skip("this Triton comes without cuobjdump")
    for file in compiled.glob("*.cubin"):
        found = subprocess.run(
            [tool, "--dump-resource-usage", file], capture_output=True, text=True, check=True
        )
        usage = dict(re.findall(r"(REG|STACK|LOCAL):(\d+)", found.stdout))
        assert int(usage["STACK"]) <= most_stack, file.name
        assert int(usage["LOCAL"]) == 0, file.name
        assert 16 <= int(usage["REG"]) <= most_registers, file.name


def test_charts_are_read_through_the_coherent_cache(compiled):
    """Values written by other threads must not come from a cache of constant data."""
    for file in compiled.glob("*.ptx"):
        loads = re.findall(r"\bld\.global[\w.]*", file.read_text())
        assert len(loads) >= LEAST_LOADS, file.name
        assert not [load for load in loads if ".nc" in load], file.name


def test_barriers_stand_between_stores_and_loads(compiled):
    """On the way through a kernel, a barrier follows stores before the next loop loads."""
    for file in compiled.glob("*.ptx"):
        text = file.read_text()
        steps = re.findall(r"\b(ld\.global|st\.global|bar\.sync|bar\.warp\.sync)", text)
        kinds = ["barrier" if step.startswith("bar") else step for step in steps]
        changes = [kind for kind, _ in itertools.groupby(kinds)]
        assert changes.count("barrier") >= LEAST_BARRIERS, file.name
        between = "|".join(changes)
        assert "st.global|barrier|ld.global" in between, file.name


def test_the_kernels_are_imported_by_the_engine_triton_alone():
    """Whoever parses on the CPU does not wait for Triton."""
    script = (
        "import sys, torch\n"
        "from gpuparse.inference import chu_liu_edmonds, eisner, eisner_sibling\n"
        "arcs, siblings = torch.zeros(1, 4, 4), torch.zeros(1, 4, 4, 4)\n"
        "for engine in ('native', 'torch', 'auto'):\n"
        "    eisner(arcs, torch.tensor([3]), engine=engine)\n"
        "    chu_liu_edmonds(arcs, torch.tensor([3]), engine=engine)\n"
        "    eisner_sibling(arcs, siblings, torch.tensor([3]), engine=engine)\n"
        "import json\n"
        "print(json.dumps([name for name in sys.modules if 'inference.triton' in name]))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert json.loads(found.stdout) == []

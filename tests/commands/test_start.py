"""The modules that the commands load before they begin: on the CPU neither torch nor a compiler."""

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.conftest import ROOT

SLOW = ("torch", "numba", "triton", "scipy")
LOADED = f"sorted({{name.split('.')[0] for name in sys.modules}} & {set(SLOW)})"


def run_python(code: str, *words: object) -> list[str]:
    """Run code that ends with a line of JSON on stderr, the slow packages that are loaded."""
    code = f"import json, sys\n{code}\nprint(json.dumps({LOADED}), file=sys.stderr)\n"
    command = [sys.executable, "-c", code, *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stderr.splitlines()[-1])


def test_parsing_on_the_cpu_loads_no_torch(trained):
    code = """
from gpuparse.commands.parse import main
for options in ("", "--probabilities", "--mbr", "--kbest 2", "--threads 2"):
    assert main([*sys.argv[1:], *options.split()]) == 0
"""
    assert run_python(code, trained.model, trained.test, "--device", "cpu") == []


def test_parsing_in_one_thread_imports_neither_encoders_nor_pools_of_threads(trained):
    code = """
from gpuparse.commands.parse import main
assert main(sys.argv[1:]) == 0
slow = ("gpuparse.scorers.encoder.", "gpuparse.learning.gold", "concurrent.futures", "logging")
found = [name for name in sys.modules if name.startswith(slow)]
assert found == ["gpuparse.scorers.encoder.files"], found
"""
    assert run_python(code, trained.model, trained.test, "--device", "cpu", "--threads", "1") == []


def test_the_library_loads_no_torch():
    assert run_python("from gpuparse import native\nnative.library()") == []


def test_inference_loads_torch_at_most():
    loaded = run_python("import gpuparse.inference, gpuparse.inference.decoders")
    assert set(loaded) <= {"torch", "triton"}, "torch loads triton where it is installed"


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted on Linux")
def test_a_command_starts_no_threads_of_matrix_products():
    code = """
import os, pathlib
from gpuparse.__main__ import main
main(["config", "list"])
assert "numpy" in sys.modules and "OPENBLAS_NUM_THREADS" not in os.environ
assert len(list(pathlib.Path("/proc/self/task").iterdir())) == 1
"""
    assert run_python(code) == []


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the memory of glibc is meant")
def test_a_command_keeps_the_memory_of_arrays_that_are_gone():
    code = """
import resource
from gpuparse.commands.console import run_and_exit

def faults(arguments):
    import numpy
    numpy.ones(1 << 23, numpy.int8)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        numpy.ones(1 << 23, numpy.int8)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    return 0

run_and_exit(faults, [])
"""
    printed = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True)
    assert int(printed) < 200  # each time all pages of the array, or huge ones, if it is given back


@pytest.mark.parametrize(
    ("waiting", "printed"),
    [
        ("import weakref; kept = set(); weakref.finalize(kept, print, 'end')", "end\n"),
        (
            "import threading, time\n"
            "threading.Thread(target=lambda: (time.sleep(0.2), print('end'))).start()",
            "end\n",
        ),
        ("class Kept:\n    def __del__(self):\n        print('end')\nkept = Kept()", ""),
    ],
    ids=["exit handlers", "threads", "nothing"],
)
def test_a_command_waits_for_what_is_left_and_takes_nothing_else_apart(waiting, printed):
    code = f"""{waiting}
from gpuparse.commands.console import run_and_exit
run_and_exit(lambda arguments: print("begin") or 3, [])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (3, f"begin\n{printed}", "")

"""The tests of the GPU."""

import argparse
import importlib.util
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter

from benchmarks.on_device.contest import Contest
from benchmarks.registry import FOLDER
from gpuparse.errors import ResourceError
from gpuparse.jobs.resources import available_processors

TITLE = "Tests marked gpu"
COLUMNS = ["passed", "failed", "skipped"]
FILES = (
    "tests/inference/test_gpu_kernels.py", "tests/scoring/test_triton_sums.py",
    "tests/test_device.py", "tests/test_model.py", "tests/learning/test_on_device.py",
    "tests/learning/test_device_difference.py", "tests/encoder/test_devices.py",
    "tests/scoring/test_cuda.py", "tests/scoring/test_rows.py", "tests/scoring/test_weights.py",
    "tests/test_self_test.py", "tests/inference/test_scores.py", "tests/inference/test_laws.py",
    "tests/inference/test_ladder.py", "tests/test_doors.py",
)  # fmt: skip
"""The files that have such tests: to read all others too would take long."""
SMALL = ("tests/inference/test_scores.py",)
_RESULT = re.compile(  # with pytest-xdist, and without
    r"^\[gw\d+\] \[ *\d+%\] ([A-Z]+) tests/|^tests/.*::.* (PASSED|FAILED|SKIPPED|ERROR)\b", re.M
)


def run(options: argparse.Namespace, contest: Contest) -> None:
    """Run them; all that pytest prints is in the log.

    Raises: ResourceError: some fail; none passes on CUDA; they do not end in time.
    """
    files = SMALL if options.small else FILES
    command = [sys.executable, "-m", "pytest", "-v", "-m", "gpu", "-p", "no:cacheprovider", *files]
    if importlib.util.find_spec("xdist") and not options.small:  # they compile most of the time
        command += ["-n", str(available_processors()), "--dist", "worksteal"]
    with tempfile.TemporaryFile("w+") as file:
        tests = subprocess.Popen(command, cwd=FOLDER.parent, stdout=file, stderr=file)
        try:
            code: int | None = tests.wait(contest.deadline - time.monotonic())
        except subprocess.TimeoutExpired:
            code = None
            tests.terminate()
            tests.wait()
        file.seek(0)
        printed = file.read()
    print(printed, flush=True)
    counts = results_in(printed)
    contest.add([counts["PASSED"], counts["FAILED"] + counts["ERROR"], counts["SKIPPED"]])
    told = f"{counts['PASSED']} passed, {counts['FAILED'] + counts['ERROR']} failed; see log.txt"
    if code is None:
        raise ResourceError(f"not all tests ended in time; {told}")
    if code or (contest.device.type == "cuda" and not counts["PASSED"]):
        raise ResourceError(f"pytest ended with exit code {code}; {told}")


def results_in(printed: str) -> Counter[str]:
    """The number of tests by result, from what `pytest -v` has printed."""
    return Counter(first or last for first, last in _RESULT.findall(printed))

"""The compiled library under the address and undefined-behaviour sanitizers.

    python -m tests.sanitize                  # hostile calls, then the tests below
    python -m tests.sanitize tests/data -x    # hostile calls, then pytest with these arguments

Compiles the library with the sanitizers into build/sanitized (g++ or clang++; some minutes). Runs
tests/hostile_calls.py, which calls all functions with wrong shapes and numbers, and the tests that
call compiled code. Ends with 0 if nothing is found. Leaks are not looked for.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.test_native import ROOT, load_build

TESTS = [
    "tests/test_native.py",
    "tests/data",
    "tests/inference",
    "tests/scoring",
    "tests/learning",
    "tests/test_model.py",
]
TRIALS = 500
# Tests of other engines, and tests that start Python again or measure memory.
LEFT_OUT = "not triton and not gpu and not compile and not device and not memory"


def runtime_libraries(compiler: list[str]) -> list[str]:
    """The sanitizers' libraries; a program that was not built with them must load them first."""
    names = ["libasan.so", "libubsan.so"]
    found = []
    for name in names:
        command = [*compiler, f"-print-file-name={name}"]
        path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        if Path(path).is_absolute():
            found.append(str(Path(path).resolve()))
    return found


def main(arguments: list[str]) -> int:
    """The command."""
    build = load_build()
    folder = build.OUTPUT / "sanitized"
    library = build.build(
        sanitize=True, folder=folder, objects=build.OUTPUT / "native-sanitized", say=True
    )
    libraries = runtime_libraries(build.find_compiler())
    # An abort lets pytest print the test that was running.
    common = "halt_on_error=1:abort_on_error=1"
    environment = os.environ | {
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": f"{common}:detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": f"{common}:print_stacktrace=1",
        "GPUPARSE_NATIVE_LIBRARY": str(library),
    }
    hostile = [sys.executable, "-m", "tests.hostile_calls", str(TRIALS)]
    # Reports are written to file descriptor 2, which pytest would keep to itself.
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--capture=sys"]
    tests += arguments or [*TESTS, "-k", LEFT_OUT]
    codes = []
    for command in (hostile, tests):
        print("==", *command[1:], flush=True)
        codes.append(subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode)
    print("== no errors found" if not any(codes) else f"== failed: exit codes {codes}")
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

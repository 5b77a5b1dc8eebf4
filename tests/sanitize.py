"""The compiled library under the address and undefined-behaviour sanitizers.

    python -m tests.sanitize                  # hostile calls, models and states, the tests below
    python -m tests.sanitize models states    # of calls, models, states only these
    python -m tests.sanitize tests/data -x    # pytest with these arguments

Compiles the library with the sanitizers into build/sanitized (g++ or clang++; some minutes). Runs
programs that call all functions with wrong shapes and numbers (tests/hostile_calls.py), that load
hostile models, stages and states (tests/hostile_files.py), and the tests that call compiled code.
Ends with 0 if nothing is found. Leaks are not looked for. A program that dies names what it tried
last if the environment has SHOW=1.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.test_native import ROOT, load_build

TESTS = [
    "tests/test_encoder_native.py",
    "tests/test_native.py",
    "tests/test_interrupts.py",
    "tests/data",
    "tests/inference",
    "tests/scoring",
    "tests/learning",
    "tests/test_model.py",
    "tests/test_model_folders.py",
]
# What each program tries is refused or harmless.
HOSTILE = {
    "calls": ["tests.hostile_calls", "500"],
    "models": ["tests.hostile_files", "models"],
    "stages": ["tests.hostile_files", "stages"],
    "states": ["tests.hostile_files", "states"],
}
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
    chosen = [name for name in arguments if name in HOSTILE]
    commands = [
        [sys.executable, "-m", *module] for name, module in HOSTILE.items() if name in chosen
    ]
    # Reports are written to file descriptor 2, which pytest would keep to itself.
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--capture=sys"]
    if not arguments:
        commands = [[sys.executable, "-m", *module] for module in HOSTILE.values()]
        commands.append([*tests, *TESTS, "-k", LEFT_OUT])
    elif len(chosen) < len(arguments):
        commands.append([*tests, *(word for word in arguments if word not in HOSTILE)])
    codes = []
    for command in commands:
        print("==", *command[1:], flush=True)
        codes.append(subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode)
    print("== no errors found" if not any(codes) else f"== failed: exit codes {codes}")
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Compile native/*.cpp into the library that gpuparse/native.py loads.

    python native/build.py                  # for this machine's processor
    python native/build.py --levels         # baseline, AVX2, AVX-512, its VNNI, chosen at run time
    python native/build.py --target aarch64-macos   # for another system, with zig
    python native/build.py --sanitize       # with address and undefined-behaviour sanitizers

The compiler is $CXX, else g++, c++ or clang++ on the path, else zig from the package `ziglang`.
Only files whose sources changed are compiled again. Needs Python's standard library alone.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).resolve().parent
PACKAGE = SOURCES.parent / "gpuparse" / "_native"
OUTPUT = SOURCES.parent / "build"
OBJECTS = OUTPUT / "native"
# The library for each level of x86-64 in a wheel; gpuparse/native.py takes the best that fits.
LEVELS = {
    "baseline": "x86-64-v2",
    "avx2": "x86-64-v3",
    "avx512": "x86-64-v4",
    "avx512-vnni": "x86-64-v4+avx512vnni",
}
# The systems that wheels are made for: what zig calls them, and what wheels do.
TARGETS = {
    "x86_64-linux": ("x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64.manylinux2014_x86_64"),
    "aarch64-linux": ("aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64.manylinux2014_aarch64"),
    "aarch64-macos": ("aarch64-macos.11.0", "macosx_11_0_arm64"),
}
FLAGS = [
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-Wall",
    "-Wextra",
]
# memcpy of nothing from NULL is an error to the sanitizer alone.
SANITIZERS = [
    "-fsanitize=address,undefined",
    "-fno-sanitize=nonnull-attribute",
    "-fno-sanitize-recover=undefined",
    "-fno-omit-frame-pointer",
    "-g1",
    "-O1",
]


class BuildError(Exception):
    """The library cannot be built here; the text says why and what to do."""


def source_digest(folder: Path = SOURCES) -> str:
    """SHA-256 of the names and contents of all C++ files in a folder.

    gpuparse/native.py computes the same to find out whether a library is older than its sources.
    """
    digest = hashlib.sha256()
    for path in sorted([*folder.rglob("*.h"), *folder.rglob("*.cpp")]):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


def find_compiler(target: str = "") -> list[str]:
    """The words that start a C++ compiler.

    Args:
        target: one of TARGETS, which only zig compiles for, or "" for this machine.
    Raises:
        BuildError: there is none that works.
    """
    if os.environ.get("CXX") and not target:
        return shlex.split(os.environ["CXX"])
    for name in ("g++", "c++", "clang++"):
        if not target and shutil.which(name) and _works([name]):
            return [name]
    if find_spec("ziglang"):
        compiler = [sys.executable, "-m", "ziglang", "c++"]
        return [*compiler, "-target", TARGETS[target][0]] if target else compiler
    raise BuildError(
        "no C++ compiler: install g++ or clang++, or `pip install ziglang`, or name one in CXX"
    )


def is_clang(compiler: Sequence[str]) -> bool:
    """True if a compiler takes clang's options, as zig does."""
    if is_zig(compiler):
        return True
    version = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False)
    return "clang" in version.stdout


def is_zig(compiler: Sequence[str]) -> bool:
    """True if a compiler is `zig c++`."""
    return "ziglang" in compiler or Path(compiler[0]).name == "zig"


def compile_flags(compiler: Sequence[str], march: str, sanitize: bool) -> list[str]:
    """The options for compiling one file."""
    flags = [*FLAGS]
    if march == "native" and not _is_x86(compiler):
        march = ""  # elsewhere the baseline has the vectors that the code uses
    if is_zig(compiler):
        flags += [f"-march={march.replace('-', '_')}"] if march else []
        flags.append("-fno-sanitize=undefined")  # zig adds it in some modes
    elif march:
        level, *more = march.split("+")
        flags += [f"-march={level}", *(f"-m{feature}" for feature in more)]
    if sanitize:
        flags += SANITIZERS
    return flags


def link_flags(compiler: Sequence[str], sanitize: bool) -> list[str]:
    """The options for linking: no C++ standard library, no symbol left open."""
    flags = ["-shared", "-s"] if is_zig(compiler) else ["-shared"]  # -s: its runtime has debug data
    if is_clang(compiler):
        flags.append("-nostdlib++")
    if "linux" in _system(compiler) and not sanitize:
        flags += ["-Wl,--as-needed", "-Wl,-z,defs"]  # g++ names libstdc++; nothing needs it
    if sanitize:
        flags += SANITIZERS
    return [*flags, "-lm"]


def build(
    name: str = "gpuparse",
    march: str = "native",
    *,
    sanitize: bool = False,
    folder: Path = PACKAGE,
    objects: Path = OBJECTS,
    jobs: int | None = None,
    compiler: Sequence[str] | None = None,
    say: bool = True,
) -> Path:
    """Compile what changed and link the library.

    Args:
        name: of the library, without `lib` and its ending.
        march: the instruction set, perhaps with further instructions after "+"; "" leaves it to
            the compiler.
        sanitize: with the address and undefined-behaviour sanitizers.
        folder: where the library goes, with its headers in `api` and the digest of its sources.
        objects: where compiled files are kept.
        jobs: compilers that run at the same time; one a core where None.
        compiler: the words that start it; found where None.
        say: print each command.
    Returns:
        The library's path.
    Raises:
        BuildError: no compiler, or it fails.
    """
    compiler = list(compiler or find_compiler())
    flags = compile_flags(compiler, march, sanitize)
    command = [*compiler, *flags]
    digest = source_digest()
    store = objects / name
    store.mkdir(parents=True, exist_ok=True)
    tasks = []
    for source in sorted(SOURCES.glob("*.cpp")):
        key = hashlib.sha256(_read_with_headers(source, [*command, _machine(march)])).hexdigest()[
            :24
        ]
        tasks.append((source, store / f"{source.stem}.{key}.o"))

    def compile_one(task: tuple[Path, Path]) -> None:
        source, target = task
        if target.exists():
            return
        partial = target.with_suffix(f".{os.getpid()}.o")
        _run([*command, "-c", str(source), "-o", str(partial)], say)
        partial.replace(target)

    with ThreadPoolExecutor(max_workers=jobs or _cores()) as pool:
        list(pool.map(compile_one, tasks))
    wanted = {target for _, target in tasks}
    for old in store.glob("*.o"):
        if old not in wanted:
            old.unlink(missing_ok=True)

    folder.mkdir(parents=True, exist_ok=True)
    system = _system(compiler)
    suffix = ".dylib" if "macos" in system or "darwin" in system else ".so"
    library = folder / f"lib{name}{suffix}"
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        linked = Path(scratch) / library.name
        inputs = [str(target) for _, target in tasks]
        _run([*compiler, *inputs, *link_flags(compiler, sanitize), "-o", str(linked)], say)
        linked.replace(library)  # a process that has the old one open keeps it
    _copy_headers(folder / "api")
    (folder / f"{library.name}.digest").write_text(digest + "\n")
    return library


def build_levels(target: str = "", folder: Path = PACKAGE, **options: Any) -> list[Path]:
    """The libraries of a wheel: four instruction sets on x86-64, one elsewhere.

    Args:
        target: one of TARGETS, or "" for this machine.
        folder: where they go.
        options: others of `build`.
    """
    options |= {"compiler": find_compiler(target), "folder": folder}
    options["objects"] = OBJECTS / target if target else OBJECTS
    if not _is_x86(options["compiler"]):
        return [build(march="", **options)]
    return [build(f"gpuparse-{level}", march, **options) for level, march in LEVELS.items()]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(description="Compile gpuparse's native code.")
    parser.add_argument("--march", default="native", help="instruction set (default: native)")
    parser.add_argument("--levels", action="store_true", help="four libraries, as in wheels")
    parser.add_argument("--target", choices=TARGETS, help="for wheels; into build/TARGET")
    parser.add_argument("--sanitize", action="store_true", help="into build/sanitized, checked")
    parser.add_argument("--jobs", type=int, help="compilers at a time (default: one a core)")
    parser.add_argument("--quiet", action="store_true", help="print errors alone")
    options = parser.parse_args(arguments)
    common = {"jobs": options.jobs, "say": not options.quiet}
    try:
        if options.target:
            libraries = build_levels(options.target, OUTPUT / options.target, **common)
        elif options.levels:
            libraries = build_levels(**common)
        elif options.sanitize:
            folder, objects = OUTPUT / "sanitized", OUTPUT / "native-sanitized"
            libraries = [build(sanitize=True, folder=folder, objects=objects, **common)]
        else:
            libraries = [build(march=options.march, **common)]
    except BuildError as error:
        print(f"native/build.py: error: {error}", file=sys.stderr)
        return 1
    if not options.quiet:
        for library in libraries:
            print(library)
    return 0


def _works(compiler: Sequence[str]) -> bool:
    """True if a compiler makes an empty library; one may be there without headers or a linker."""
    with tempfile.TemporaryDirectory() as scratch:
        source, made = Path(scratch) / "empty.cpp", Path(scratch) / "empty.so"
        source.write_text("#include <stdlib.h>\n#include <math.h>\n")
        command = [*compiler, "-std=c++17", "-fPIC", "-shared", str(source), "-o", str(made)]
        try:
            return subprocess.run(command, capture_output=True, check=False).returncode == 0
        except OSError:
            return False


def _system(compiler: Sequence[str]) -> str:
    """The target of a compiler: as TARGETS says, or this machine's system."""
    return compiler[compiler.index("-target") + 1] if "-target" in compiler else sys.platform


def _is_x86(compiler: Sequence[str]) -> bool:
    """True if a compiler compiles for x86-64."""
    if "-target" in compiler:
        return compiler[compiler.index("-target") + 1].startswith("x86_64")
    return platform.machine().lower() in ("x86_64", "amd64")


def _read_with_headers(source: Path, command: Iterable[str]) -> bytes:
    """The bytes that decide the object of a source: the command, the source, its headers."""
    seen: dict[Path, bytes] = {}
    waiting = [source]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen[path] = path.read_bytes()
        for line in seen[path].decode().splitlines():
            words = line.replace("# ", "#").split('"')
            if line.lstrip().startswith("#") and "include" in words[0] and len(words) > 2:
                for place in (path.parent, SOURCES):
                    if (place / words[1]).is_file():
                        waiting.append((place / words[1]).resolve())
                        break
    parts = ["\0".join(command).encode()]
    parts += [str(path).encode() + b"\0" + seen[path] for path in sorted(seen)]
    return b"\0".join(parts)


def _machine(march: str) -> str:
    """The meaning of `-march=native` here: objects of another processor are not used again."""
    if march != "native":
        return ""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        return platform.machine()


def _copy_headers(target: Path) -> None:
    """Copy the declarations that gpuparse/native.py reads."""
    target.mkdir(exist_ok=True)
    headers = sorted((SOURCES / "api").glob("*.h"))
    for header in headers:
        partial = target / f"{header.name}.{os.getpid()}"
        shutil.copyfile(header, partial)
        partial.replace(target / header.name)
    for old in target.glob("*.h"):
        if old.name not in {header.name for header in headers}:
            old.unlink(missing_ok=True)


def _cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _run(command: Sequence[str], say: bool) -> None:
    """Run a compiler; its complaints are shown, its failure is a BuildError."""
    if say:
        sys.stdout.write(shlex.join(command) + "\n")
        sys.stdout.flush()
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise BuildError(f"{command[0]}: {error.strerror}") from error
    if done.stdout or done.stderr:
        print(done.stdout + done.stderr, file=sys.stderr, end="", flush=True)
    if done.returncode != 0:
        raise BuildError(f"the compiler failed with exit code {done.returncode}")


if __name__ == "__main__":
    sys.exit(main())

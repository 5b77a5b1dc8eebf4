"""`doctor`: what a bug report needs to say about this machine and installation, and self-tests."""

import argparse
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from gpuparse import native
from gpuparse.commands.console import exit_codes
from gpuparse.config.schema import DataConfig, FeatureMapConfig, RunConfig
from gpuparse.data.conll import read_part
from gpuparse.errors import MissingPackageError, NativeError, SelfTestError, plural, require
from gpuparse.features.templates import load_templates
from gpuparse.jobs.progress import program
from gpuparse.jobs.resources import available_processors, cuda_trouble
from gpuparse.jobs.version import described_version, package_version
from gpuparse.learning.trainer import Trainer
from gpuparse.model.parser import Parser
from gpuparse.model.self_test import (
    TESTED_DECODERS,
    device_difference,
    native_difference,
    with_random_weights,
)

PACKAGES = ("numpy", "torch", "triton", "safetensors", "PyYAML")
INSTRUCTIONS = (
    "sse4_2", "avx", "avx2", "fma", "bmi2", "f16c", "avx512f", "avx512bw", "avx512vl",
    "avx512_vnni", "avx512_fp16", "amx_tile", "asimd", "sve",
)  # fmt: skip
# The systems whose scores, searches and labels have forms for devices: templates, labels, decoder.
SYSTEMS = (
    ("mcdonald-2005", "labels", "eisner"),
    ("mcdonald-2005", "labels", "chu_liu_edmonds"),
    ("extended", "labels", "eisner_sibling"),
)


def main(arguments: Sequence[str]) -> int:
    """Print versions, processor, native build, devices, places and self-tests.

    Returns: 0 if all is well, 6 if there is no native code, 7 if a self-test fails.
    Cost: seconds; on a GPU also the time to compile its kernels.
    """
    parser = argparse.ArgumentParser(
        prog=program("doctor"),
        description="Print versions, processor, native code, devices, caches and writable places,"
        " and test native code and the GPU: for bug reports.",
        epilog=exit_codes(0, 2, 6, 7),
    )
    parser.parse_args(arguments)
    for name, value in _facts():
        print(f"{name:<12} {value}", flush=True)
    trouble = cuda_trouble()
    device = "cpu" if trouble else "cuda"
    for line in [f"cpu ({trouble})"] if trouble else [device, *_gpus()]:
        print(f"{'device':<12} {line}", flush=True)
    try:
        native.library()
    except NativeError:
        print(f"{'self-tests':<12} not run: they compare with native code")
        return NativeError.exit_code
    failed = sum([_is_wrong(what, test) for what, test in _self_tests(device)])
    print("all is well" if not failed else plural(failed, "self-test fails", "self-tests fail"))
    return SelfTestError.exit_code if failed else 0


def _facts() -> Iterator[tuple[str, str]]:
    """Facts about the machine and the installation: pairs of a name and a value."""
    yield "gpuparse", described_version()
    yield "python", f"{platform.python_version()}, {sys.executable}"
    yield "system", f"{platform.platform()}, {platform.machine()}"
    for name in PACKAGES:
        yield name.lower(), package_version(name) or "not installed"
    model, instructions = _processor()
    yield "processor", f"{model}; {available_processors()} of {os.cpu_count()} usable"
    yield "", instructions
    yield from _native_facts()
    yield "places", ""
    for what, place in _places():
        can_write = "writable" if _is_writable(place) else "not writable"
        yield "", f"{what}: {place}, {can_write}"


def _processor() -> tuple[str, str]:
    """The model of the processor, and which of INSTRUCTIONS it has."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or "unknown", "instructions unknown"
    model = re.search(r"^model name\s*:\s*(.*)$", text, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    has = set(flags[1].split()) if flags else set()
    return model[1] if model else "unknown", " ".join(f for f in INSTRUCTIONS if f in has)


def _native_facts() -> Iterator[tuple[str, str]]:
    try:
        library = native.library()
    except NativeError as error:
        yield "native", f"none: {error}"
        return
    path = library.path
    digest = Path(f"{path}.digest")
    sources = digest.read_text().strip()[:12] if digest.is_file() else "unknown"
    yield "native", f"{path}, sources {sources}"
    levels = library.compiled_level(), library.processor_level()
    yield "", f"compiled by {_compiler(path)} for level {levels[0]}, the processor has {levels[1]}"


def _compiler(library: Path) -> str:
    """The compiler's name in the comment section of a library."""
    found = re.search(rb"GCC: [^\0]+|(?:zig|clang) version [^\0]+", library.read_bytes())
    return found[0].decode(errors="replace").strip() if found else "an unknown compiler"


def _places() -> list[tuple[str, Path]]:
    """The folders of files besides outputs."""
    cache = os.environ.get("TRITON_CACHE_DIR")
    return [
        ("working directory", Path.cwd()),
        ("temporary files", Path(tempfile.gettempdir())),
        ("Triton's cache", Path(cache) if cache else Path.home() / ".triton" / "cache"),
    ]


def _is_writable(place: Path) -> bool:
    """True if a folder can be written to, or made."""
    there = next(folder for folder in (place, *place.parents) if folder.exists())
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def _gpus() -> Iterator[str]:
    import torch  # only where there is a GPU

    yield f"CUDA {torch.version.cuda}"
    for number in range(torch.cuda.device_count()):
        gpu = torch.cuda.get_device_properties(number)
        yield f"{number}: {gpu.name}, sm_{gpu.major}{gpu.minor}, {gpu.total_memory >> 20:,} MiB"


def _self_tests(device: str) -> Iterator[tuple[str, Callable[[], str]]]:
    """Each test's name, and a function that returns what differs, "" for nothing."""
    for decoder in TESTED_DECODERS:
        yield f"{decoder}: native, textbook", partial(native_difference, decoder)
    places = [("cpu", "torch")] + [(device, "auto")] * (device != "cpu")
    try:
        require("the comparison with torch operations", "torch")
    except MissingPackageError as error:
        print(f"{'self-tests':<12} left out: {error}")
        places = []
    for templates, labels, decoder in SYSTEMS:
        model = _generated_parser(templates, labels, decoder)
        for place, engine in places:
            yield (
                f"{decoder}, {templates}: native, {engine} on {place}",
                partial(device_difference, model, place, engine, only_known=True),
            )


def _generated_parser(templates: str, labels: str, decoder: str) -> Parser:
    """A parser with random weights and the values of generated sentences."""
    config = RunConfig(
        output="model",
        decoder=decoder,
        data=DataConfig(train="toy-train"),
        feature_map=FeatureMapConfig(rows=1 << 16),
    )
    sentences = read_part(config.data.train)
    trainer = Trainer(sentences, load_templates(templates), load_templates(labels), config)
    return with_random_weights(trainer.model(16))


def _is_wrong(what: str, test: Callable[[], str]) -> bool:
    """Run a self-test and print a line about it."""
    began = time.monotonic()
    difference = test()
    seconds = time.monotonic() - began
    print(f"{'self-test':<12} {what}: {difference or f'equal, {seconds:.1f} s'}", flush=True)
    return bool(difference)

"""`compile`: compile all kernels now; and the message of whoever has to compile them later."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from numba.core import event

from gpuparse.commands.console import say, silent
from gpuparse.commands.resources import available_processors
from gpuparse.compiled import cache_folder
from gpuparse.config import known_keys, load_config
from gpuparse.data.synthetic import generate
from gpuparse.folder import save_parser

_TINY_RUN = """
output: model
features: mcdonald-pereira-2006
device: cpu
data: {train: "synthetic:40:1", dev: "synthetic:5:2"}
feature_map: {rows: 4096}
learning: {epochs: 1}
labels: {rows: 4096, epochs: 1}
"""
_OF_FIRST_ORDER = (  # what else `--all` compiles, for the decoders of the first order alone
    ["labels.kind=joint", "labels.features=joint-labels"],
    ["learning.k=2"],
    ["learning.backend=torch"],
    ["learning.rule=mira-factored"],
    ["learning.rule=conditional", "learning.max_step=0.1"],
)
PATIENCE = 1.5  # seconds of compilation that nobody needs to be told of


class _Stopwatch(event.Listener):
    """Adds up the time that numba compiles, not the time that it loads from its cache."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell, self._told = tell, False
        self._depth, self._started = 0, 0.0
        self.seconds = 0.0
        self._alarm: threading.Timer | None = None

    def on_start(self, event: event.Event) -> None:
        self._depth += 1
        if self._depth > 1:  # a kernel that another kernel calls
            return
        self._started = time.monotonic()
        if not self._told:
            self._alarm = threading.Timer(max(0.0, PATIENCE - self.seconds), self._ring)
            self._alarm.daemon = True
            self._alarm.start()

    def on_end(self, event: event.Event) -> None:
        self._depth -= 1
        if self._depth:
            return
        self.seconds += time.monotonic() - self._started
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _ring(self) -> None:
        if not self._told:
            self._told = True
            self._tell("compiling kernels, once after installation; this takes some seconds")

    def close(self) -> None:
        if self._told:
            self._tell(f"compiled kernels in {self.seconds:.1f} s")


@contextmanager
def compilation_announced(tell: Callable[[str], None] = say) -> Iterator[Callable[[], float]]:
    """Say so when the work inside has to wait for kernels to be compiled.

    Yields: a function that says how many seconds it has waited so far.

    Args:
        tell: where the two lines go: one as soon as compiling has taken PATIENCE seconds, one at
            the end. Kernels that come from numba's cache cause none.
    """
    stopwatch = _Stopwatch(tell)
    with event.install_listener("numba:compile", stopwatch):
        yield lambda: stopwatch.seconds
    stopwatch.close()


class _CpuClock(event.Listener):
    """Adds up the CPU time of the process while numba compiles kernels or loads them."""

    def __init__(self) -> None:
        self._depth, self._started = 0, 0.0
        self.seconds = 0.0

    def on_start(self, event: event.Event) -> None:
        self._depth += 1
        if self._depth == 1:
            self._started = time.process_time()

    def on_end(self, event: event.Event) -> None:
        self._depth -= 1
        if not self._depth:
            self.seconds += time.process_time() - self._started


@contextmanager
def kernels_clocked() -> Iterator[Callable[[], float]]:
    """Yields: a function that says how much CPU time went into getting kernels so far, in seconds.

    Compiling them counts, and loading them from numba's cache.
    """
    clock = _CpuClock()
    # Kernels are loaded under the lock, and partly compiled outside it.
    with (
        event.install_listener("numba:compile", clock),
        event.install_listener("numba:compiler_lock", clock),
    ):
        yield lambda: clock.seconds


@contextmanager
def parsing_compiled_aside(decoder: str) -> Iterator[None]:
    """Where nothing is compiled yet, let a second process compile what parsing needs meanwhile.

    numba compiles one function at a time in a process. Kernels that the other process has not
    finished when they are needed are compiled here.

    Args:
        decoder: the one that will parse.
    """
    if any(cache_folder().rglob("*.nbi")) or available_processors() < 2:
        yield
        return
    command = [sys.executable, "-m", "gpuparse", "compile", "--parsing", decoder, "--quiet"]
    other = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        other.terminate()
        other.wait()


def main(arguments: Sequence[str]) -> int:
    """Compile what training and parsing need, by training and parsing something tiny.

    Args:
        arguments: `[--all | --parsing DECODER] [--quiet]`.
    Returns:
        0.
    Cost: some ten seconds after installation, one or two later; a minute or more with `--all`.
    """
    parser = argparse.ArgumentParser(
        prog="python -m gpuparse compile",
        description="Compile all kernels now, so that no later command has to. They are kept beside"
        " the package, or in NUMBA_CACHE_DIR if that is set.",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--parsing",
        choices=[str(name) for name in known_keys()["decoder"].choices],
        metavar="DECODER",
        help="only what parsing with this decoder needs",
    )
    which.add_argument(
        "--all",
        action="store_true",
        help="also what higher orders, graphs with several heads per word and learning.batch_size"
        " above 1 need, and first-order decoders with other rules, several best trees and joint"
        " labels",
    )
    parser.add_argument("--quiet", action="store_true", help="say nothing but errors")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    with nullcontext() if options.quiet else compilation_announced():
        if options.parsing:
            _parse_untrained(options.parsing)
        else:
            _train_and_parse([], up_to=3 if options.all else 1)
        if options.all:
            _train_and_parse(["learning.batch_size=2"], up_to=2)
            for overrides in _OF_FIRST_ORDER:
                _train_and_parse(overrides, up_to=1)
    if not options.quiet:
        say(f"all kernels are ready ({time.monotonic() - started:.1f} s)")
    return 0


def _parse_untrained(decoder: str) -> None:
    from gpuparse.commands import parse, train
    from gpuparse.data.conll import treebank_from_bytes
    from gpuparse.learning.trainer import Trainer
    from gpuparse.scoring.cpu_confidence import SUMS

    text = generate(40, 1)
    with tempfile.TemporaryDirectory() as name:
        folder, output = Path(name), Path(name) / "output"
        (folder / "run.yaml").write_text(_TINY_RUN)
        (folder / "text.conllu").write_bytes(text)
        config = load_config(folder / "run.yaml", [f"decoder={decoder}", *_larger(decoder)])
        treebank = treebank_from_bytes(text, "text")
        trainer = Trainer(treebank, *train.templates_of(config), train.trainer_options(config))
        save_parser(trainer.model(16), folder)
        words = [str(folder), str(folder / "text.conllu"), "--output", str(output)]
        parse.main([*words, "--device", "cpu", "--quiet"])
        if decoder in SUMS:  # what calibration needs
            parse.main([*words, "--force", "--device", "cpu", "--quiet", "--probabilities"])


def _larger(decoder: str) -> list[str]:
    """The templates that a decoder beyond the second order needs, as overrides."""
    from gpuparse.inference.decode import DECODERS

    if not DECODERS[decoder].reads_larger:
        return []
    name = "carreras-2007" if DECODERS[decoder].reads_children else "third-order"
    return [f"features={name}", "pruning.folds=2", "pruning.epochs=1"]


def _train_and_parse(overrides: list[str], *, up_to: int) -> None:
    """Learn and parse with every decoder of the orders 1 to `up_to`; 3: whatever is beyond 2."""
    # Imported here: the commands import this module, and `evaluate` does without torch.
    from gpuparse.commands import parse, train
    from gpuparse.inference.decode import DECODERS
    from gpuparse.inference.kernels.cpu.search_k_best import K_BEST

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "run.yaml").write_text(_TINY_RUN)
        (folder / "text.conllu").write_bytes(generate(5, 3))
        for decoder in map(str, known_keys()["decoder"].choices):
            if DECODERS[decoder].order > up_to:
                continue
            model, output = folder / decoder, folder / f"{decoder}-output"
            for bits in (16, 8):  # what calibrates, with dev, reads the weights that are kept
                words = [f"output={model}", f"decoder={decoder}", f"weights.bits={bits}"]
                words += _larger(decoder)
                config = load_config(folder / "run.yaml", [*words, *overrides])
                train.Run(config, silent, quiet=True).train(resume=False, force=True)
            words = [str(model), str(folder / "text.conllu"), "--output", str(output)]
            parse.main([*words, "--device", "cpu", "--quiet"])
            if decoder in K_BEST and up_to > 1:
                several = ["--kbest", "2", "--probabilities", "--force"]
                parse.main([*words, *several, "--device", "cpu", "--quiet"])

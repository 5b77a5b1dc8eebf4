"""`crossval`: every fold of a treebank parsed by a parser of the other folds, and scored."""

import argparse
import hashlib
import json
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gpuparse import __version__
from gpuparse.commands.checkpoint import FOLDER, STATE, Origin, differences
from gpuparse.commands.config import add_overrides
from gpuparse.commands.console import Progress, exit_codes, print_json, program, say, silent
from gpuparse.commands.crossval_scores import scores_as_table, spread
from gpuparse.commands.evaluate import Measures, treebank_scores
from gpuparse.commands.folds import add_folds, consecutive_folds
from gpuparse.commands.gold import (
    check_treebanks,
    guides_of,
    parsed,
    read_gold,
    with_fitting_decoder,
)
from gpuparse.commands.resources import choose_device, thread_count
from gpuparse.commands.train import Run, origin_of, templates_of
from gpuparse.commands.version import described_version
from gpuparse.config import RunConfig, load_config
from gpuparse.data.columns import is_guide_file
from gpuparse.data.conll import treebank_from_bytes, with_misc
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, DataError
from gpuparse.files import lock_file, replace_file
from gpuparse.inference.decoders import DECODERS
from gpuparse.learning import events
from gpuparse.model_folder import load_parser

SCORES, PREDICTED = "scores.json", "predicted"
_TRAIN, _MODEL = "train.conllu", "model"  # in the folder of an unfinished fold


def main(arguments: Sequence[str]) -> int:
    """Parse each fold of the training treebank by a parser trained on the other folds; score them.

    Args: arguments: `CONFIG [KEY=VALUE ...] --output FOLDER [--folds N] [--fold K] [--json]
        [--quiet]`.
    Returns: 0.
    Raises:
        ConfigError: the config is wrong, there are more folds than sentences, or the folder is
            finished, has other files, or folds of another config or treebank.
        DataError: the treebank cannot be used.
        ModelError: the state of an unfinished fold is damaged.
    Cost: a training run per fold, one per thread at a time.
    """
    options = _parser().parse_intermixed_args(arguments)
    tell = silent if options.quiet else say
    config = load_config(options.config, options.overrides)
    data = replace(config.data, dev=None, test=None, dev_guide=None, test_guide=None)
    config = replace(config, data=data)
    folds = Folds(config, Path(options.output), options.folds, tell)
    which = folds.wanted(options.fold)
    _work(folds, which, quiet=options.quiet)
    if options.fold is not None:
        result: dict[str, Any] = folds.scores(options.fold)
        table = scores_as_table([result], None, None)
    else:
        about = {"config": options.config, "overrides": options.overrides}
        result = folds.join(about)
        table = scores_as_table(result["folds"], result["all"], result)
    if options.json:
        print_json(result)
    else:
        print(table, end="")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("crossval"),
        description="Cross-validation on data.train: each fold is parsed by a parser that was"
        " trained on the other folds, and scored. After an interruption, the same command"
        " continues. Threads train folds at the same time, and change no byte.",
        epilog=exit_codes(0, 2, 3, 4, 5),
    )
    parser.add_argument("config", metavar="CONFIG", help="YAML file or name, as for train")
    add_overrides(parser, "overrides a key of the config")
    parser.add_argument(
        "--output", required=True, metavar="FOLDER", help="for the parsed treebank and the scores"
    )
    add_folds(parser)
    parser.add_argument(
        "--fold",
        type=int,
        metavar="K",
        help="work on this fold only, from 1, so that several processes can share the folds; the"
        " same command without --fold then joins them",
    )
    parser.add_argument("--json", action="store_true", help="write JSON instead of a table")
    parser.add_argument("--quiet", action="store_true", help="only errors on stderr")
    return parser


@dataclass(frozen=True)
class _Record:
    """What an output folder knows of a fold: its origin and, when it is finished, its result.

    seconds: of training and parsing, without those before an interruption. sha256: of the parsed
    fold.
    """

    origin: Origin
    folds: int
    version: str
    seconds: float | None = None
    sha256: str | None = None

    @classmethod
    def read(cls, path: Path) -> "_Record | None":
        if not path.exists():
            return None
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            return cls(**(facts | {"origin": Origin(**facts["origin"])}))
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{path}: is no record of a fold; remove the folder, or name another --output"
            ) from error

    def write(self, path: Path) -> None:
        with replace_file(path, force=True) as file:
            file.write((json.dumps(asdict(self), indent=1) + "\n").encode())

    def is_like(self, other: "_Record") -> bool:
        return replace(self, seconds=None, sha256=None) == other


class Folds:
    """The folds of a treebank, and what an output folder has of them.

    Args:
        config: without data.dev and data.test.
        output: the folder.
        n_folds: number of folds.
        tell: writes a line for the user.
    Raises: ConfigError, DataError: as `main`.
    """

    def __init__(
        self, config: RunConfig, output: Path, n_folds: int, tell: Callable[[str], None]
    ) -> None:
        self.on_cpu = choose_device(config.device, tell) == "cpu"
        if self.on_cpu:  # not to be found out for each fold
            config = replace(config, device="cpu")
        self.config, self.tell = config, tell
        self._output = output
        _check_config(config)
        # The decoder `auto` of each fold is chosen by its own training folds.
        some = with_fitting_decoder(config)
        arcs, labels = templates_of(some)
        graphs = DECODERS[some.decoder].gives_graphs
        self.measures = Measures(labelled=labels is not None, graphs=graphs)
        check_treebanks(config)
        gold = read_gold(
            config.data.train, on_error=config.data.on_error,
            single_root=config.data.single_root is True, graphs=graphs, tell=tell,
        )  # fmt: skip
        text = with_misc(gold.treebank, {})
        self._source = gold.treebank.source
        self._suffix = Path(config.data.train).suffix
        if self._suffix not in (".conll", ".conllu"):
            self._suffix = ".conllu"
        spans = treebank_from_bytes(text, self._source).spans
        folds = consecutive_folds(len(spans), n_folds)
        cuts = [0, *(int(spans[fold.start, 0]) for fold in folds[1:]), len(text)]
        self._text, self._cuts, self.n = text, cuts, n_folds
        origin = origin_of(config, gold.sha256, arcs, labels)
        self._expected = _Record(origin, n_folds, __version__)
        self._check_output()

    def _check_output(self) -> None:
        """ConfigError if the folder is finished, or has something else."""
        if self._output.exists() and not self._output.is_dir():
            raise ConfigError(f"{self._output}: is not a folder; name another output")
        if (self._output / SCORES).exists():
            raise ConfigError(
                f"{self._output}: holds a finished cross-validation; name another --output"
            )
        records = sorted(self._output.glob("fold-*.json"))
        for path in records:
            self._check(path)
        ours = {self.predicted, *(path for k in range(1, self.n + 1) for path in self._paths(k))}
        others = {path for path in self._output.glob("*") if not path.name.startswith(".")}
        if others - (ours if records else set()):
            raise ConfigError(f"{self._output}: holds other files; name another --output")

    def _check(self, path: Path) -> _Record | None:
        """A record, if there is one; ConfigError if it is of another config or treebank."""
        record, expected = _Record.read(path), self._expected
        if record is None or record.is_like(expected):
            return record
        found = differences(record.origin, expected.origin)
        if record.folds != expected.folds:
            found.append(f"--folds was {record.folds} and is now {expected.folds}")
        if record.version != expected.version:
            found.append(f"the version was {record.version} and is now {expected.version}")
        lines = [f"{self._output}: cannot continue: {line}" for line in found]
        lines.append(f"{self._output}: give what the folder was begun with, or name another output")
        raise ConfigError("\n".join(lines))

    @property
    def predicted(self) -> Path:
        """The parsed treebank."""
        return self._output / f"{PREDICTED}{self._suffix}"

    def wanted(self, fold: int | None) -> list[int]:
        """The numbers of the folds to work on, from 1; ConfigError if there is no such fold."""
        if fold is not None and not 1 <= fold <= self.n:
            raise ConfigError(f"--fold {fold}: expected a number from 1 to {self.n}")
        self._output.mkdir(parents=True, exist_ok=True)
        return list(range(1, self.n + 1)) if fold is None else [fold]

    def _paths(self, fold: int) -> tuple[Path, Path, Path]:
        """The record of a fold, the parsed fold, and the folder of its unfinished training."""
        name = f"fold-{fold:0{len(str(self.n))}}"
        folder = self._output / name
        return folder.with_suffix(".json"), folder.with_suffix(self._suffix), folder

    def is_finished(self, fold: int) -> bool:
        """Whether a fold is parsed already."""
        record = self._check(self._paths(fold)[0])
        return record is not None and record.sha256 is not None

    def parse(self, fold: int, *, threads: int, watch: Callable[[events.Progress], None]) -> None:
        """Train on the other folds, parse the fold, and keep nothing else.

        Args:
            fold: from 1.
            threads: of training and parsing.
            watch: as that of `Run`.
        """
        record, parsed_fold, work = self._paths(fold)
        with lock_file(record):
            if self.is_finished(fold):
                shutil.rmtree(work, ignore_errors=True)
                self.tell(f"fold {fold}: already done")
                return
            started = time.monotonic()
            self._expected.write(record)
            work.mkdir(exist_ok=True)
            first, last = self._cuts[fold - 1 : fold + 1]
            with replace_file(work / _TRAIN, force=True) as file:
                file.write(self._text[:first] + self._text[last:])
            config = replace(
                self.config, threads=threads, output=str(work / _MODEL),
                data=replace(self.config.data, train=str(work / _TRAIN)),
            )  # fmt: skip
            run = Run(
                with_fitting_decoder(config), lambda line: self.tell(f"fold {fold}: {line}"),
                quiet=True, watch=watch,
            )  # fmt: skip
            resume = (run.output / FOLDER / STATE).exists()
            run.train(resume=resume, force=not resume)
            held_out = self._gold(fold)
            system = parsed(
                load_parser(run.output), held_out,
                guides=guides_of(config, "train", held_out), threads=threads, device=run.device,
            )  # fmt: skip
            text = system.data.tobytes()
            with replace_file(parsed_fold, force=True) as file:
                file.write(text)
            replace(
                self._expected,
                seconds=time.monotonic() - started,
                sha256=hashlib.sha256(text).hexdigest(),
            ).write(record)
            shutil.rmtree(work)

    def _gold(self, fold: int) -> Treebank:
        text = self._text[self._cuts[fold - 1] : self._cuts[fold]]
        return treebank_from_bytes(text, f"{self._source}, fold {fold}")

    def _parsed(self, fold: int) -> tuple[bytes, _Record]:
        record_path, path, _ = self._paths(fold)
        record = self._check(record_path)
        text = path.read_bytes()
        if record is None or hashlib.sha256(text).hexdigest() != record.sha256:
            raise DataError(
                f"{path}: was changed after it was parsed; remove {record_path.name} and give the"
                " same command again"
            )
        return text, record

    def scores(self, fold: int) -> dict[str, Any]:
        """The scores of a finished fold, with its number and seconds."""
        return self._scores_of(fold, *self._parsed(fold))

    def _scores_of(self, fold: int, text: bytes, record: _Record) -> dict[str, Any]:
        system = treebank_from_bytes(text, str(self._paths(fold)[1]))
        found = treebank_scores(self._gold(fold), system, self.measures)
        found.pop("relations", None)
        return {"fold": fold, "seconds": record.seconds} | found

    def join(self, about: dict[str, Any]) -> dict[str, Any]:
        """Write the parsed treebank and the scores of all folds, and remove the folds.

        Args: about: what the scores shall say of the command.
        Returns: The scores.
        """
        parts = [self._parsed(fold) for fold in range(1, self.n + 1)]
        text = b"".join(part for part, _ in parts)
        with lock_file(self.predicted):
            with replace_file(self.predicted, force=True) as file:
                file.write(text)
            folds = [self._scores_of(fold, *part) for fold, part in enumerate(parts, 1)]
            gold = treebank_from_bytes(self._text, self._source)
            system = treebank_from_bytes(text, str(self.predicted))
            origin = self._expected.origin
            result = about | {
                "complete_config": origin.config,
                "treebank_sha256": origin.treebank,
                "version": described_version(),
                "seconds": sum(fold["seconds"] for fold in folds),
                "folds": folds,
                "all": treebank_scores(gold, system, self.measures),
            }
            result |= spread(folds)
            with replace_file(self._output / SCORES) as file:
                text_of = json.dumps(result, indent=1, ensure_ascii=False)
                file.write((text_of + "\n").encode())
        for fold in range(1, self.n + 1):
            record, path, _ = self._paths(fold)
            record.unlink(missing_ok=True)
            path.unlink(missing_ok=True)
        self.tell(f"{self.predicted}, {self._output / SCORES}: written")
        return result


def _check_config(config: RunConfig) -> None:
    """ConfigError for what cannot be learned from folds or scored."""
    if config.data.partial:
        raise ConfigError("data.partial: cross-validation scores need whole trees; set it to false")
    if config.data.guide is not None and is_guide_file(config.data.guide):
        raise ConfigError(
            f"data.guide {config.data.guide}: is a file, which folds are not cut from; write the"
            " guides into MISC and give misc:KEY"
        )


class _Stopped(Exception):
    """Ends the training of a fold after an interruption, or an error in another fold."""


def _work(folds: Folds, which: list[int], *, quiet: bool) -> None:
    """Train and parse these folds, several at a time."""
    threads = thread_count(folds.config.threads)
    # Learning in torch, and devices, serve one fold at a time.
    is_native = folds.config.backend == "cpu" and folds.on_cpu
    at_once = min(threads, len(which)) if is_native else 1
    stopped, lock = threading.Event(), threading.Lock()
    pool = ThreadPoolExecutor(at_once)
    with Progress("crossval, learning", quiet=quiet) as progress:

        def work(fold: int) -> None:
            before = 0

            def watch(event: events.Progress) -> None:
                nonlocal before
                if stopped.is_set():
                    raise _Stopped
                with lock:
                    progress.advance(event.done - before)
                before = 0 if event.epoch_is_over else event.done

            folds.parse(fold, threads=max(1, threads // at_once), watch=watch)

        try:
            futures = [pool.submit(work, fold) for fold in which]
            for n_done, future in enumerate(as_completed(futures), 1):
                future.result()
                with lock:
                    progress.advance(0, note=f"{n_done} of {len(which)} folds parsed")
        finally:
            stopped.set()
            pool.shutdown(cancel_futures=True)

"""Trainings that each leave a part of the sentences out, parse and score it, and can be resumed."""

import json
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextvars import copy_context
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from gpuparse.config import RunConfig
from gpuparse.data.array_file import sha256
from gpuparse.data.columns import is_guide_file
from gpuparse.data.conll import treebank_from_bytes, with_misc
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, DataError, option, plural
from gpuparse.evaluation.reports import Measures, treebank_scores
from gpuparse.files import lock_file, write_file
from gpuparse.inference.decoders import DECODERS
from gpuparse.jobs.checkpoint import is_unfinished
from gpuparse.jobs.doubts import parsed_beside_gold
from gpuparse.jobs.fold_scores import spread
from gpuparse.jobs.gold import check_treebanks, gold_part, guides_of, parsed, with_fitting_decoder
from gpuparse.jobs.progress import Progress
from gpuparse.jobs.receipts import Origin, Receipt
from gpuparse.jobs.resources import choose_device, thread_count
from gpuparse.jobs.train import train
from gpuparse.jobs.train_checks import check_no_best, origin_of, plan_of, templates_of
from gpuparse.jobs.version import described_version
from gpuparse.learning import events
from gpuparse.model.confidence import require_sums_of
from gpuparse.model.folder import load_parser
from gpuparse.model.pipeline import load_stages
from gpuparse.native import cancelled_when

SCORES, PREDICTED = "scores.json", "predicted"
_ANOTHER = "name another output, or remove this folder to learn anew"
_TRAIN, _MODEL = "train.conllu", "model"  # in the folder of an unfinished fold


@dataclass(frozen=True)
class Sample:
    """The number of sentences that each training learns from; None is all. seed: of the draw."""

    sentences: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class FoldSplit:
    """The sentences learned from and those parsed: folds of a treebank, or two treebanks.

    Args:
        train: the sentences that are learned from, each as the bytes of a file.
        dev: the text that is parsed; None for folds of `train`.
        n: number of trainings.
        source: the name of the file that is parsed, in messages.
        contents: SHA-256 of the files, by their keys.
    """

    train: Sequence[bytes]
    dev: bytes | None
    n: int
    source: str
    contents: dict[str, str]

    def known(self, fold: int, sample: Sample) -> bytes:
        """The text that training `fold`, from 1, learns from.

        A sample is drawn without replacement and stays in the order of the file; smaller ones of
        the same seed are contained in larger ones.
        """
        known = self._known(fold)
        if sample.sentences is not None:
            order = np.random.default_rng([sample.seed, fold]).permutation(len(known))
            known = [known[i] for i in sorted(order[: sample.sentences])]
        return b"".join(known)

    @property
    def n_known(self) -> int:
        """Number of sentences that every training can learn from, at least."""
        if self.dev is not None:
            return len(self.train)
        folds = consecutive_folds(len(self.train), self.n)
        return len(self.train) - max(fold.stop - fold.start for fold in folds)

    def _known(self, fold: int) -> Sequence[bytes]:
        if self.dev is not None:
            return self.train
        cut = self._fold(fold)
        return [*self.train[: cut.start], *self.train[cut.stop :]]

    def _fold(self, fold: int) -> slice:
        return consecutive_folds(len(self.train), self.n)[fold - 1]

    def gold(self, fold: int | None = None) -> Treebank:
        """The sentences that training `fold` parses; those of all trainings if None."""
        name = (
            self.source if fold is None or self.dev is not None else f"{self.source}, fold {fold}"
        )
        if self.dev is not None:
            return treebank_from_bytes(self.dev, name)
        parts = self.train if fold is None else self.train[self._fold(fold)]
        return treebank_from_bytes(b"".join(parts), name)


def consecutive_folds(n_sentences: int, n_folds: int) -> list[slice]:
    """Folds of consecutive sentences, of equal size within one sentence.

    Neighbouring sentences are often of the same text. In different folds, they would be parsed by a
    parser that knows the text, and would be parsed too well.

    Raises: ConfigError: fewer than 2 folds, or more than sentences.
    """
    if not 2 <= n_folds <= n_sentences:
        raise ConfigError(
            f"{option('folds', n_folds)}: expected at least 2 and at most {n_sentences}, one for"
            " each sentence of data.train"
        )
    cuts = [i * n_sentences // n_folds for i in range(n_folds + 1)]
    return [slice(*cut) for cut in pairwise(cuts)]


def read_split(config: RunConfig, n_folds: int | None, *, tell: Callable[[str], None]) -> FoldSplit:
    """Read data.train to be cut into folds, or data.train and data.dev.

    Args:
        config: says how files are read. n_folds: None for data.dev.
        tell: writes warnings.
    Raises:
        ConfigError: what is not learned from cannot be scored, or too many folds.
        DataError: a treebank cannot be used.
    Cost: O(bytes).
    """
    _check_config(config, cuts_train=n_folds is not None)
    graphs = DECODERS[with_fitting_decoder(config).decoder].gives_graphs
    check_treebanks(config)
    partial = config.data.partial if n_folds is None else None
    gold = gold_part(config, "train", graphs=graphs, tell=tell, partial=partial)
    text = with_misc(gold.treebank, {})
    source = gold.treebank.source
    starts = treebank_from_bytes(text, source).spans[:, 0].tolist()
    ends = [*starts[1:], len(text)]
    train = [text[start:end] for start, end in zip([0, *starts[1:]], ends, strict=True)]
    contents = {"data.train": gold.sha256}
    if n_folds is not None:
        consecutive_folds(len(train), n_folds)
        return FoldSplit(train, None, n_folds, source, contents)
    assert config.data.dev is not None
    dev = gold_part(config, "dev", graphs=graphs, tell=tell)
    contents["data.dev"] = dev.sha256
    return FoldSplit(train, with_misc(dev.treebank, {}), 1, config.data.dev, contents)


def _check_config(config: RunConfig, *, cuts_train: bool) -> None:
    """ConfigError for what cannot be learned from folds or scored."""
    check_no_best(config)
    if config.data.partial and cuts_train:
        raise ConfigError("data.partial: cross-validation scores need whole trees; set it to false")
    if config.data.guide is not None and is_guide_file(config.data.guide):
        raise ConfigError(
            f"data.guide {config.data.guide}: is a file, which folds are not cut from; write the"
            " guides into MISC and give misc:KEY"
        )


class Folds:
    """The trainings of a config, and what an output folder has of them.

    Args:
        config: without data.test.
        output: the folder.
        split: what is learned from and parsed, of `read_split`.
        sample: how many sentences are learned from.
        probabilities: whether the parsed treebank has probabilities, those of the gold trees too;
            see `gpuparse.jobs.doubts`. Each parser is then calibrated as the config says.
        tell: writes a line for the user.
    Raises: ConfigError: as the command crossval.
    """

    def __init__(
        self,
        config: RunConfig,
        output: Path,
        split: FoldSplit,
        *,
        tell: Callable[[str], None],
        sample: Sample | None = None,
        probabilities: bool = False,
    ) -> None:
        self._probabilities = probabilities
        self.on_cpu = choose_device(config.device, tell) == "cpu"
        if self.on_cpu:  # not to be found out for each fold
            config = replace(config, device="cpu")
        self.config, self.tell, self.n = config, tell, split.n
        self._output, self.split, self._sample = output, split, sample or Sample()
        # The decoder `auto` of each fold is chosen by its own training folds.
        some = with_fitting_decoder(config)
        if probabilities:
            require_sums_of(some.decoder)
        arcs, labels = templates_of(some)
        self.measures = Measures(
            labelled=labels is not None, graphs=DECODERS[some.decoder].gives_graphs
        )
        self._suffix = Path(config.data.train if split.dev is None else split.source).suffix
        if self._suffix not in (".conll", ".conllu"):
            self._suffix = ".conllu"
        origin = origin_of(config, split.contents, arcs, labels)
        more = {"folds": self.n} | {f"sample.{k}": v for k, v in asdict(self._sample).items()}
        more |= {"probabilities": True} if probabilities else {}
        self._origin = replace(origin, options=origin.options | more)
        self._check_output()

    def _check_output(self) -> None:
        """ConfigError if the folder has something else."""
        if self._output.exists() and not self._output.is_dir():
            raise ConfigError(f"{self._output}: is not a folder; name another output")
        if self.is_joined():
            return
        records = sorted(self._output.glob("fold-*.json"))
        for path in records:
            self._receipt(path)
        ours = {self.predicted, *(path for k in range(1, self.n + 1) for path in self._paths(k))}
        others = {path for path in self._output.glob("*") if not path.name.startswith(".")}
        if others - (ours if records else set()):
            raise ConfigError(f"{self._output}: holds other files; name another output")

    def _receipt(self, path: Path) -> Receipt | None:
        """The receipt of a fold; ConfigError if it is of another config or treebank."""
        receipt = Receipt.read(path, _ANOTHER)
        if receipt is not None:
            receipt.origin.check(self._origin, self._output, _ANOTHER)
        return receipt

    @property
    def predicted(self) -> Path:
        """The parsed treebank."""
        return self._output / f"{PREDICTED}{self._suffix}"

    def is_joined(self) -> bool:
        """True if all folds are parsed, scored and joined."""
        return (self._output / SCORES).exists()

    def _paths(self, fold: int) -> tuple[Path, Path, Path]:
        """The receipt of a fold, the parsed fold, and the folder of its unfinished training."""
        name = f"fold-{fold:0{len(str(self.n))}}"
        folder = self._output / name
        return folder.with_suffix(".json"), folder.with_suffix(self._suffix), folder

    def is_finished(self, fold: int) -> bool:
        """True if a fold is parsed already."""
        receipt = self._receipt(self._paths(fold)[0])
        return receipt is not None and bool(receipt.result)

    def parse(
        self, fold: int, *, threads: int, watch: Callable[[events.LearningEvent], None]
    ) -> None:
        """Train without a fold, parse the fold, and keep nothing else.

        Args:
            fold: from 1.
            threads: of training and parsing.
            watch: as that of `train`.
        """
        self._output.mkdir(parents=True, exist_ok=True)
        path, parsed_fold, work = self._paths(fold)
        with lock_file(path):
            if self.is_finished(fold):
                shutil.rmtree(work, ignore_errors=True)
                self.tell(f"fold {fold}: already done")
                return
            started = time.monotonic()
            Receipt(self._origin).write(path)
            work.mkdir(exist_ok=True)
            write_file(work / _TRAIN, self.split.known(fold, self._sample), force=True)
            data = replace(
                self.config.data, treebank=None, train=str(work / _TRAIN), dev=None, dev_guide=None
            )
            config = replace(
                self.config, threads=threads, output=str(work / _MODEL), data=data,
                # Without probabilities only trees are scored, and temperatures change none.
                calibration=self.config.calibration if self._probabilities else "none",
            )  # fmt: skip
            plan = plan_of(
                with_fitting_decoder(config), lambda line: self.tell(f"fold {fold}: {line}")
            )
            resume = is_unfinished(plan.output)
            plan = train(plan, resume=resume, force=not resume, quiet=True, watch=watch).plan
            gold = self.split.gold(fold)
            model = load_parser(plan.output)
            held_out = load_stages(plan.output).annotate(gold, threads=threads)
            part = "train" if self.split.dev is None else "dev"
            guides = guides_of(self.config, part, held_out)
            if self._probabilities:
                system = parsed_beside_gold(model, held_out, guides=guides, threads=threads)
            else:
                system = parsed(model, held_out, guides=guides, threads=threads, device=plan.device)
            text = system.data.tobytes()
            write_file(parsed_fold, text, force=True)
            result = {"seconds": time.monotonic() - started, "sha256": sha256(text)}
            Receipt(self._origin, result).write(path)
            shutil.rmtree(work)

    def _parsed(self, fold: int) -> tuple[bytes, float]:
        """A finished fold, and the seconds of its training and parsing since an interruption."""
        record, path, _ = self._paths(fold)
        receipt = self._receipt(record)
        text = path.read_bytes()
        if receipt is None or sha256(text) != receipt.result.get("sha256"):
            raise DataError(
                f"{path}: was changed after it was parsed; remove {record.name} and give the"
                " same command again"
            )
        return text, receipt.result["seconds"]

    def scores(self, fold: int) -> dict[str, Any]:
        """The scores of a finished fold, with its number and seconds."""
        return self._scores_of(fold, *self._parsed(fold))

    def _scores_of(self, fold: int, text: bytes, seconds: float) -> dict[str, Any]:
        system = treebank_from_bytes(text, str(self._paths(fold)[1]))
        found = treebank_scores(self.split.gold(fold), system, self.measures)
        found.pop("relations", None)
        return {"fold": fold, "seconds": seconds} | found

    def join(self, about: dict[str, Any]) -> dict[str, Any]:
        """Write the parsed treebank and the scores of all folds, and remove the folds.

        Args: about: what the scores shall say of the command.
        Returns: The scores.
        """
        parts = [self._parsed(fold) for fold in range(1, self.n + 1)]
        text = b"".join(part for part, _ in parts)
        with lock_file(self.predicted):
            write_file(self.predicted, text, force=True)
            folds = [self._scores_of(fold, *part) for fold, part in enumerate(parts, 1)]
            system = treebank_from_bytes(text, str(self.predicted))
            result = about | {
                "origin": asdict(self._origin),
                "version": described_version(),
                "seconds": sum(fold["seconds"] for fold in folds),
                "folds": folds,
                "all": treebank_scores(self.split.gold(), system, self.measures),
            }
            result |= spread(folds)
            scores = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
            write_file(self._output / SCORES, scores.encode())
        self._remove_folds()
        self.tell(f"{self.predicted}, {self._output / SCORES}: written")
        return result

    def joined(self) -> dict[str, Any]:
        """The numbers that `join` wrote.

        Raises: ConfigError: it is of another config, treebank or sample. DataError: it is damaged.
        """
        path = self._output / SCORES
        try:
            result = json.loads(path.read_text(encoding="utf-8"))
            before = Origin(**result["origin"])
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: no scores of this command; remove {self._output}") from error
        before.check(self._origin, self._output, _ANOTHER)
        self._remove_folds()
        return result

    def _remove_folds(self) -> None:
        for fold in range(1, self.n + 1):
            record, path, work = self._paths(fold)
            record.unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            shutil.rmtree(work, ignore_errors=True)

    def systems(self) -> tuple[Treebank, Treebank]:
        """The gold treebank and the parsed one, of all folds."""
        text = self.predicted.read_bytes()
        return self.split.gold(), treebank_from_bytes(text, str(self.predicted))


class _Stopped(Exception):
    """Ends the training of a fold after an interruption, or an error in another fold."""


def learn_folds(
    what: str,
    work: Sequence[tuple[Folds, int]],
    *,
    quiet: bool,
    done: Callable[[Folds, int], None] = lambda folds, fold: None,
) -> None:
    """Train and parse folds, several at a time.

    Args:
        what: the work, for the line of progress.
        work: trainings and the number of a fold of each.
        quiet: whether to show no progress.
        done: called after each, by one thread at a time.
    """
    if not work:
        return
    threads = max(thread_count(folds.config.threads) for folds, _ in work)
    # Learning in torch, and devices, serve one fold at a time.
    are_native = all(folds.config.engine == "native" and folds.on_cpu for folds, _ in work)
    at_once = min(threads, len(work)) if are_native else 1
    stopped, lock = threading.Event(), threading.Lock()
    pool = ThreadPoolExecutor(at_once)
    with Progress(what, quiet=quiet) as progress:

        def learn(folds: Folds, fold: int) -> None:
            before = 0

            def watch(event: events.LearningEvent) -> None:
                nonlocal before
                if stopped.is_set():
                    raise _Stopped
                with lock:
                    progress.advance(event.done - before)
                before = 0 if event.epoch_is_over else event.done

            with cancelled_when(stopped.is_set):
                folds.parse(fold, threads=max(1, threads // at_once), watch=watch)
            with lock:
                done(folds, fold)

        try:
            futures = [pool.submit(copy_context().run, partial(learn, *each)) for each in work]
            for n_done, future in enumerate(as_completed(futures), 1):
                future.result()
                with lock:
                    progress.advance(0, note=f"{n_done} of {plural(len(work), 'fold')} parsed")
        finally:
            stopped.set()
            pool.shutdown(cancel_futures=True)

"""Gold treebanks for training: read from files, and checked."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gpuparse.config import RunConfig
from gpuparse.config.schema import known_keys
from gpuparse.data.columns import FORM, IN_MISC, is_guide_file
from gpuparse.data.conll import check_trees, joined, treebank_from_bytes
from gpuparse.data.faults import TreeFault
from gpuparse.data.folders import part_files
from gpuparse.data.graphs import check_graphs, readable_graphs
from gpuparse.data.guides import read_guides
from gpuparse.data.scanner import column_name
from gpuparse.data.treebank import Treebank
from gpuparse.data.trees import check_sentences
from gpuparse.data.vocabulary import NO_FORMS, is_empty_column
from gpuparse.errors import ConfigError, DataError, plural
from gpuparse.features.templates import load_templates
from gpuparse.files import read_input
from gpuparse.jobs.predictions import written
from gpuparse.jobs.progress import silent
from gpuparse.model.decoder_choice import AUTO, fitting_decoder
from gpuparse.model.parser import Parser
from gpuparse.model.pipeline import NO_STAGES

_PARTS = "data.train", "data.dev", "data.test"
SHOWN = 5  # malformed sentences of a file that are reported one by one


@dataclass(frozen=True)
class Gold:
    """A treebank in which every sentence has a tree, or part of one.

    sha256: of its bytes; of several files, of their sums. left_out: number of malformed sentences
    that were skipped.
    """

    treebank: Treebank
    sha256: str
    left_out: int


def check_treebanks(config: RunConfig) -> None:
    """Make sure that the treebanks and word lists of a config exist, before any is read.

    Raises: DataError: names all that are missing, or are pipes, which cannot be read twice.
    """
    names = ("train", "dev", "test", "guide", "dev_guide", "test_guide")
    parts = {f"data.{name}": getattr(config.data, name) for name in names}
    wrong = []
    files = [
        (key, file)
        for key, path in (parts | config.word_lists).items()
        if path is not None
        for file in (part_files(path) if key in _PARTS else [path])
    ]
    for key, path in files:
        if path.startswith(IN_MISC):
            continue
        if not Path(path).exists():
            without = f", or {key}=null to do without" if known_keys()[key].optional else ""
            wrong.append(f"{key}: {path}: no such file; give its path, as in {key}=FILE{without}")
        elif Path(path).is_fifo():
            wrong.append(f"{key}: {path}: a pipe, which is read once only; write it to a file")
    if wrong:
        raise DataError("\n".join(wrong))


def read_gold(
    path: str,
    *,
    on_error: str,
    single_root: bool,
    graphs: bool,
    tell: Callable[[str], None],
    partial: bool | None = None,
) -> Gold:
    """Read a treebank and check its trees.

    Args:
        path: a file; several joined by commas.
        on_error: "fail" or "skip", for malformed sentences and those without a tree.
        single_root: whether a tree with several root words is an error.
        graphs: whether DEPS is read too, so that errors in it count.
        tell: writes warnings, and the first errors with "skip".
        partial: whether words may lack a head; None if no key of the config can allow it.
    Raises: DataError: the file cannot be read, or has no words in FORM; or a sentence is malformed,
        with "fail".
    Cost: O(bytes).
    """
    found = [
        _read_file(file, on_error, single_root, graphs, tell, partial) for file in part_files(path)
    ]
    if len(found) == 1:
        return found[0]
    sums = "".join(each.sha256 for each in found)
    return Gold(
        joined([each.treebank for each in found], path), hashlib.sha256(sums.encode()).hexdigest(),
        sum(each.left_out for each in found),
    )  # fmt: skip


def gold_part(
    config: RunConfig, part: str, *, graphs: bool, tell: Callable[[str], None],
    partial: bool | None = None,
) -> Gold:  # fmt: skip
    """`read_gold` of "train", "dev" or "test" of a config."""
    data = config.data
    return read_gold(
        getattr(data, part), on_error=data.on_error, graphs=graphs, tell=tell, partial=partial,
        single_root=part == "train" and data.single_root is True,
    )  # fmt: skip


def _read_file(
    path: str, on_error: str, single_root: bool, graphs: bool, tell: Callable[[str], None],
    partial: bool | None,
) -> Gold:  # fmt: skip
    text = read_input(path)
    treebank = treebank_from_bytes(text, path, on_error="skip" if on_error == "skip" else "fail")
    for warning in treebank.warnings:
        tell(warning)
    faults = treebank.faults + check_trees(treebank, single_root=single_root, partial=bool(partial))
    if graphs:
        faults += check_graphs(treebank)
    if faults and on_error == "fail":
        more = f" (and {plural(len(faults) - 1, 'more such sentence')})" if len(faults) > 1 else ""
        ways = "data.on_error=skip skips such sentences"
        if partial is False and _lacks_heads_alone(treebank, faults[0]):
            ways += ", data.partial=true learns from the words with a head"
        raise DataError(f"{faults[0]}{more}; {ways}")
    for fault in faults[:SHOWN]:
        tell(f"skipped: {fault}")
    if faults:
        tell(f"{path}: {plural(len(faults), 'malformed sentence')} skipped")
        treebank = _well_formed(treebank, single_root, graphs, bool(partial))
    if treebank.n_words and is_empty_column(treebank, FORM):
        raise DataError(f"{path}: {column_name(FORM)} is _ in every word; {NO_FORMS}")
    return Gold(treebank, hashlib.sha256(text).hexdigest(), len(faults))


def _lacks_heads_alone(treebank: Treebank, fault: DataError) -> bool:
    """True if an error disappears if words may lack a head."""
    of_heads, others = (
        {str(each) for each in check_trees(treebank, partial=partial)} for partial in (False, True)
    )
    return str(fault) in of_heads - others


def _well_formed(treebank: Treebank, single_root: bool, graphs: bool, partial: bool) -> Treebank:
    """The sentences of a treebank that have a tree and a readable graph."""
    starts = treebank.word_starts
    faults, _ = check_sentences(treebank.heads, starts, single_root, partial)
    sound = faults == TreeFault.WELL_FORMED
    if graphs:
        sound &= readable_graphs(treebank)
    return treebank.only(sound)


def with_fitting_decoder(config: RunConfig) -> RunConfig:
    """A config whose decoder `auto` is replaced by the one that fits its scores and gold trees.

    Raises: ConfigError: the template set cannot be read. DataError: as `read_gold` for data.train.
    Cost: data.train is read.
    """
    if config.decoder != AUTO:
        return config
    check_treebanks(config)
    templates = None if config.has_encoder else load_templates(config.features)
    gold = gold_part(config, "train", graphs=False, tell=silent, partial=config.data.partial)
    return replace(config, decoder=fitting_decoder(templates, gold.treebank))


def guide_source(config: RunConfig, part: str) -> str | None:
    """The source of the guides of "train", "dev" or "test"; None for a run without guides.

    Raises: ConfigError: training has guides and this treebank has none.
    """
    data = config.data
    own = None if part == "train" else getattr(data, f"{part}_guide")
    if data.guide is None or own is not None:
        return own or data.guide
    if part != "train" and is_guide_file(data.guide):
        raise ConfigError(
            f"data.{part}_guide: missing; data.guide is a file, which is for data.train only"
        )
    return data.guide


def guides_of(config: RunConfig, part: str, treebank: Treebank) -> np.ndarray | None:
    """The guides of "train", "dev" or "test"; None for a run without guides.

    Raises: ConfigError: as `guide_source`. DataError: as `read_guides`.
    """
    source = guide_source(config, part)
    return None if source is None else read_guides(treebank, source)


def parsed(
    model: Parser,
    treebank: Treebank,
    *,
    guides: np.ndarray | None = None,
    threads: int,
    device: str,
) -> Treebank:
    """The treebank with the heads, relations and columns that a model predicts."""
    treebank = NO_STAGES.filled_by(model, device).annotate(treebank, threads=threads)
    found = model.parse(treebank, guides=guides, threads=threads, device=device)
    return treebank_from_bytes(written(model, treebank, found), f"{treebank.source}, parsed")

"""The check of scores of higher-order parts, and native search over them."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.data.parts import axes_of
from gpuparse.errors import ScoreError
from gpuparse.inference.decoders import DECODERS
from gpuparse.inference.engines import WORTH_A_THREAD, run_in_threads
from gpuparse.inference.scores import (
    Lengths,
    Scores,
    as_float,
    check_scores,
    require_tensor,
    require_usable,
)
from gpuparse.inference.search import Search
from gpuparse.inference.tree_parts import part_tree_scores

# Of `HigherOrderScores` in native/api/higher.h.
_NATIVE_FIELDS = (
    "arc", "sibling", "grandparent", "grand_sibling", "tri_sibling", "inner_grandchild",
    "outer_grandchild", "end",
)  # fmt: skip


def check_parts(
    arc_scores: Tensor,
    lengths: Lengths,
    given: Mapping[str, Tensor | None],
    *,
    may_cross: bool = False,
    has_labels: bool = False,
) -> Scores:
    """`check_scores` for decoders that read higher-order parts too.

    Args:
        arc_scores, lengths: as in `check_scores`.
        given: scores of other parts, by the field of `Scores`, or None; read where
            `read_part_cells` says. -inf forbids.
        may_cross: arcs may cross, so that the head of h may be any other word.
        has_labels: all scores have a last axis more, labels of the arc from h to m.
    Returns: The scores, detached and contiguous, in the widest type of all. Scores that are read
        are -inf or at most a 1/(8n + 8)-th of the largest float, so that no sum overflows.
    Raises: ScoreError: a wrong shape, type, device or length, or an unusable value that is read.
    Cost: the number of cells.
    """
    require_tensor(arc_scores, "arc_scores")
    shape, tail = arc_scores.shape, arc_scores.shape[3:]
    if has_labels and (len(shape) != 4 or shape[1] != shape[2] or tail[0] == 0):
        raise ScoreError(f"arc_scores has shape {tuple(shape)}, expected (B, N, N, L), L > 0")
    arcs = as_float(arc_scores, "arc_scores").detach()
    words = check_scores(arcs.new_zeros(shape[:3]) if has_labels else arcs, lengths).lengths
    parts, dtype = {"arc": arcs}, arcs.dtype
    for name, scores in given.items():
        if scores is None:
            continue
        require_tensor(scores, f"{name}_scores")
        expected = (len(arcs), *[shape[1]] * len(axes_of(name)), *tail)
        if scores.shape != expected or scores.device != arcs.device:
            raise ScoreError(
                f"{name}_scores has shape {tuple(scores.shape)} on {scores.device}, expected"
                f" {expected} on {arcs.device}, as arc_scores"
            )
        parts[name] = as_float(scores, f"{name}_scores").detach()
        dtype = torch.promote_types(dtype, parts[name].dtype)
    parts = {name: scores.to(dtype).contiguous() for name, scores in parts.items()}
    for name, scores in parts.items():
        if has_labels or name != "arc":
            require_usable(scores, words, name, may_cross=may_cross)
    return Scores(lengths=words, **parts)


def check_label_scores(label_scores: Tensor, scores: Scores) -> Tensor:
    """Scores (B, N, N, L) of the labels of arcs under limits, float, contiguous."""
    require_tensor(label_scores, "label_scores")
    expected = tuple(scores.arc.shape)
    if label_scores.dim() != 4 or tuple(label_scores.shape[:3]) != expected:
        raise ScoreError(
            f"label_scores has shape {tuple(label_scores.shape)}, expected {(*expected, 'L')}"
        )
    if label_scores.device != scores.arc.device or label_scores.is_complex():
        raise ScoreError(f"label_scores: expected real numbers on {scores.arc.device}")
    is_narrow = label_scores.dtype in (torch.float32, torch.float16, torch.bfloat16)
    checked = label_scores.detach().to(torch.float32 if is_narrow else torch.float64).contiguous()
    require_usable(checked, scores.lengths, "label")
    return checked


class SearchedTrees(NamedTuple):
    """Trees of a batch: heads, labels (B, N), -1 where nothing was found, and (B,) of each."""

    heads: Tensor
    labels: Tensor
    scores: Tensor
    certified: Tensor
    iterations: Tensor


def search_native(
    name: str, scores: Scores, label_scores: Tensor | None = None, **options: Any
) -> SearchedTrees:
    """The best trees by a decoder of higher order, in native code.

    Args:
        name: of the decoder.
        scores: checked, in main memory; with labels, arcs are (B, N, N, L).
        label_scores: of labels under limits, (B, N, N, L).
        options: fields of `Search`.
    Returns: What was found; scores in float64, -inf where there is no tree.
    """
    fields = {field: field for field in _NATIVE_FIELDS}
    if scores.outermost is not None:  # grand-siblings are those of outermost modifiers
        fields["grand_sibling"] = "outermost"
    given = {field: getattr(scores, source) for field, source in fields.items()}
    given["limited"] = None if label_scores is None else label_scores.double()
    rows = {
        field: None if part is None else part.flatten(1).numpy() for field, part in given.items()
    }
    search = native.struct("Search", Search(DECODERS[name].number, **options))
    has_labels = scores.arc.dim() == 4
    n_labels = scores.arc.shape[3] if has_labels else 1
    words, shape = scores.lengths.numpy(), scores.arc.shape[:2]
    heads, labels = np.empty(shape, np.int64), np.empty(shape, np.int64)
    certified, iterations = np.empty(len(words), np.bool_), np.empty(len(words), np.int64)

    def find(part: slice) -> None:
        of_part = {field: None if row is None else row[part] for field, row in rows.items()}
        native.call(
            "higher_order_batch", SimpleNamespace(n_labels=n_labels, **of_part), search,
            words[part], heads[part], labels[part], certified[part], iterations[part],
        )  # fmt: skip

    power = 4 if DECODERS[name].is_projective else 3
    run_in_threads(find, words, power, torch.get_num_threads(), WORTH_A_THREAD // power)
    trees, chosen = torch.from_numpy(heads), torch.from_numpy(labels)
    totals = part_tree_scores(scores, trees, chosen if has_labels else None)
    if label_scores is not None:
        totals = totals + _label_sums(label_scores, trees, chosen)
    return SearchedTrees(
        trees, chosen, totals, torch.from_numpy(certified), torch.from_numpy(iterations)
    )


def _label_sums(label_scores: Tensor, heads: Tensor, labels: Tensor) -> Tensor:
    """Float64 (B,), the scores of the labels of trees."""
    b, m = (heads >= 0).nonzero(as_tuple=True)
    of_words = torch.zeros(heads.shape, dtype=torch.float64)
    of_words[b, m] = label_scores[b, heads[b, m], m, labels[b, m]].double()
    return of_words.sum(1)

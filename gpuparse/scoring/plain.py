"""The native functions of scores, trees and labels in torch, for machines without native code.

Each has the name and the arguments of the function that native/api/parsing.h declares, and writes
to the same arrays; `native.call` calls it where there is no native code. Sentences of higher-order
decoders are scored and searched one at a time, others in batches.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.data.batch import Batch
from gpuparse.errors import NoTreeError
from gpuparse.features.plan import HigherPlan, LabelPlan
from gpuparse.inference.approximate.dual_decomposition import dual_decomposition_labelled
from gpuparse.inference.approximate.hill_climb import primary_heads
from gpuparse.inference.decoders import DECODERS, Decoder
from gpuparse.inference.higher_order import eisner_grandchild_labelled
from gpuparse.inference.marginals import minimum_bayes_risk
from gpuparse.inference.scores import read_cells, word_mask
from gpuparse.inference.search import Search
from gpuparse.parts import CHILDREN
from gpuparse.scoring.admission import CPU_BUDGET, ROWS_AT_ONCE
from gpuparse.scoring.arcs import TorchScorer, arc_scores, guide_scores
from gpuparse.scoring.higher_order import dense_higher_scores
from gpuparse.scoring.labels import first_best, graph_labels, tree_label_scores
from gpuparse.scoring.native import ArcCells, GraphHeads, Scorer, Sentences
from gpuparse.scoring.siblings import sibling_scores
from gpuparse.scoring.tensors import TensorBatch, as_tensors
from gpuparse.scoring.vector_scores import adding_labels, nodes_of
from gpuparse.scoring.weights import FeatureMap, Weights, label_map
from gpuparse.scoring.word_vectors import WordVectors

MAX_ITERATIONS = 100
"""Of dual decomposition, which does not branch in torch: more iterations certify few more trees."""


@dataclass
class TreeScores:
    """Scores of a batch of sentences, float64; a step of learning adds costs to them.

    parts: by their names in `gpuparse.inference.Scores`. labels: (B, N, N, L) of labels that are
    found with the trees; those of the best ones are in the scores of arcs, unless children have
    labels: then `of_labels` is by part, with labels as the last axis.
    """

    batch: TensorBatch
    parts: dict[str, Tensor]
    labels: Tensor | None = None
    of_labels: dict[str, Tensor] = field(default_factory=dict)

    def forbid_others(self, known: Tensor) -> "TreeScores":
        """The same, where words have no heads but the known ones, (B, N), -1 for none."""
        nodes = torch.arange(self.batch.n_nodes)
        others = (known.unsqueeze(1) >= 0) & (known.unsqueeze(1) != nodes.unsqueeze(1))
        parts = self.parts | {"arc": self.parts["arc"].masked_fill(others, -torch.inf)}
        return TreeScores(self.batch, parts, self.labels, self.of_labels)

    def best_labels(self, heads: Tensor) -> Tensor:
        """(B, N) the best label of each arc of trees, -1 where there is no head."""
        assert self.labels is not None
        of_arcs = self.labels[
            torch.arange(len(heads))[:, None], heads, torch.arange(heads.shape[1])
        ]
        return torch.where(heads >= 0, first_best(of_arcs), -1)


class FoundTrees(NamedTuple):
    """Trees of a batch: heads, labels (B, N), -1 for none; graphs: (B, N, N) bool.

    certificates: (2, B): whether no tree scores more, and the iterations.
    """

    heads: Tensor
    labels: Tensor | None
    graphs: Tensor | None
    certificates: Tensor | None


def score_batch(batch: TensorBatch, scorer: Scorer, allowed: Tensor | None = None) -> TreeScores:
    """Score all parts of a batch.

    Args: allowed: (B, N, N) bool, the arcs that a higher-order decoder may use; None: all.
    """
    plan, table, joint = scorer.plan, scorer.table, scorer.joint
    given = FeatureMap(scorer.rows, len(table.array)), table
    arcs = arc_scores(batch, plan.arcs, *given, backend="torch").double()
    if plan.guide:
        arcs += guide_scores(batch, plan.guide, *given, backend="torch")
    nodes = nodes_of(batch, scorer.vectors)
    if nodes:
        arcs = nodes.with_templates(arcs, not table.is_integer)
    is_arc = read_cells(batch.lengths, batch.n_nodes)
    if allowed is not None:
        is_arc &= allowed
        arcs = arcs.masked_fill(~is_arc, -torch.inf)
    scores = TreeScores(batch, {"arc": arcs})
    if joint:
        lines = label_map(len(joint.table.array))
        more = adding_labels(nodes, not table.is_integer)
        of_labels = TorchScorer(
            batch, joint.plan, lines, joint.table, ROWS_AT_ONCE, more=more
        ).scores()
        scores.labels = of_labels[..., : joint.width].double()
        if joint.higher is None:
            scores.parts["arc"] = arcs + scores.labels.amax(-1)
    if plan.siblings:
        siblings, ends = sibling_scores(batch, plan.siblings, *given, backend="torch")
        scores.parts |= {"sibling": siblings.double(), "end": ends.double()}
        more = nodes.parts("sibling", not table.is_integer) if nodes else None
        if more is not None:
            scores.parts["sibling"] += more
    if plan.higher:
        grandparents = nodes.parts("grandparent", not table.is_integer) if nodes else None
        _add_higher(scores, is_arc, scorer, given, grandparents)
    return scores


def _add_higher(
    scores: TreeScores,
    is_arc: Tensor,
    scorer: Scorer,
    given: tuple[FeatureMap, Weights],
    grandparents: Tensor | None,
) -> None:
    """Add the scores of parts of three and four words; grandparents: those of word vectors."""
    plan, joint, batch = scorer.plan.higher, scorer.joint, scores.batch
    assert plan is not None
    for number, (kind, name) in enumerate(_PART_OF.items()):
        if has_templates(plan, number):
            dense = dense_higher_scores(kind, is_arc, batch, plan, *given)[..., 0]
            if kind == "grandparent" and grandparents is not None:
                dense = dense + grandparents
            if plan.only_last and name.startswith("grand"):
                of_five = dense if dense.dim() == 5 else dense.unsqueeze(3)
                name, dense = "outermost", of_five.expand(*of_five.shape[:3], *is_arc.shape[1:])
            scores.parts[name] = scores.parts.get(name, 0) + dense
    if joint is None or joint.higher is None:
        return
    lines = label_map(len(joint.table.array))
    for number, kind in enumerate(_PART_OF):
        if kind not in CHILDREN or not has_templates(joint.higher, number):
            continue
        dense = dense_higher_scores(kind, is_arc, batch, joint.higher, lines, joint.table)
        scores.of_labels[_PART_OF[kind]] = dense[..., : joint.width]


_PART_OF = {
    "grandparent": "grandparent",
    "grand_sibling": "grand_sibling",
    "tri_sibling": "tri_sibling",
    "head_child": "sibling",
    "inner_grandchild": "inner_grandchild",
    "outer_grandchild": "outer_grandchild",
}
"""Kind of higher-order parts, in the order of the plan -> what decoders call their scores."""


def has_templates(plan: HigherPlan | None, number: int) -> bool:
    """Whether a plan has templates of a higher-order kind."""
    return plan is not None and bool(plan.family_start[number] < plan.family_start[number + 1])


def decoder_of(search: Search) -> Decoder:
    """The decoder of a search."""
    return list(DECODERS.values())[search.decoder]


def find_trees(scores: TreeScores, search: Search) -> FoundTrees:
    """The best trees or graphs of a batch, and their labels if these are found with the trees.

    Raises: NoTreeError: a sentence has no tree.
    """
    decoder, lengths = decoder_of(search), scores.batch.lengths
    if len(search.class_of):
        return _find_limited(scores, search)
    if scores.of_labels:
        assert scores.labels is not None
        parts = {}
        for name in decoder.reads:
            of_words, of_labels = scores.parts.get(name), scores.of_labels.get(name)
            if of_words is not None:
                of_words = of_words[..., None].expand(*of_words.shape, scores.labels.shape[-1])
            given = [part for part in (of_words, of_labels) if part is not None]
            parts[f"{name}_scores"] = sum(given[1:], given[0]) if given else None
        heads, labels, _ = eisner_grandchild_labelled(
            scores.parts["arc"][..., None] + scores.labels, lengths, **parts,
            single_root=search.single_root, backend="torch",
        )  # fmt: skip
        return FoundTrees(heads, labels, None, None)
    parts = {f"{name}_scores": scores.parts[name] for name in decoder.reads if name in scores.parts}
    given = [scores.parts["arc"], lengths]
    if decoder.order == 2:
        given.insert(1, parts.pop("sibling_scores"))
    backend = "torch" if decoder.has("best", "torch") else "auto"
    options: dict[str, Any] = {"single_root": search.single_root, "backend": backend}
    if decoder.certifies or decoder.starts_from:
        options["min_gain"] = search.min_gain
    if decoder.certifies:
        options |= _dual_options(search)
    heads, _, *others = decoder.function()(*given, **parts, **options)
    graphs, certificates = None, None
    if decoder.gives_graphs:
        graphs, heads = heads, primary_heads(heads)
    if decoder.certifies:
        certificates = torch.stack([others[0].long(), others[1]])
    labels = None if scores.labels is None else scores.best_labels(heads)
    return FoundTrees(heads, labels, graphs, certificates)


def _dual_options(search: Search) -> dict[str, Any]:
    iterations = min(search.max_iterations, MAX_ITERATIONS)
    return {"max_iterations": iterations, "granularity": search.granularity}


def _find_limited(scores: TreeScores, search: Search) -> FoundTrees:
    """The best trees under limits on labels."""
    assert scores.labels is not None
    reads, masks = decoder_of(search).reads, search.masks[search.class_of]
    limits = [np.flatnonzero(masks >> k & 1).tolist() for k in range(int(masks.max()).bit_length())]
    found = dual_decomposition_labelled(
        scores.parts["arc"], scores.labels, scores.batch.lengths, limits=limits,
        **{f"{name}_scores": scores.parts[name] for name in reads if name in scores.parts},
        single_root=search.single_root, min_gain=search.min_gain, backend="torch",
        **_dual_options(search),
    )  # fmt: skip
    certificates = torch.stack([found.certified.long(), found.iterations])
    return FoundTrees(found.heads, found.labels, None, certificates)


def marginals_of(scores: TreeScores, search: Search, scale: float) -> tuple[Tensor, Tensor]:
    """(B, N, N) probabilities of arcs, and (B,) log-partitions; scale: nats a point.

    Raises: NoTreeError: a sentence has no tree.
    """
    decoder, arcs = decoder_of(search), scores.parts["arc"] * scale
    given: list[Tensor] = [arcs, scores.batch.lengths]
    options: dict[str, Any] = {"single_root": search.single_root, "backend": "torch"}
    if decoder.reads_siblings:
        given.insert(1, scores.parts["sibling"] * scale)
        options["end_scores"] = scores.parts["end"] * scale
    marginals, log_partitions = (
        decoder.function(quantity)(*given, **options) for quantity in ("marginals", "log_partition")
    )
    return marginals, log_partitions


def parse_batch(
    sentences: Sentences, scorer: Scorer, search: Search, allowed: ArcCells | None,
    heads: np.ndarray, labels: np.ndarray, marks: np.ndarray | None,
) -> int:  # fmt: skip
    """Write the best trees, their labels if found with the trees, and certificates, by token."""

    def parse(batch: TensorBatch, part: np.ndarray) -> None:
        scores = score_batch(batch, scorer, allowed_arcs(batch, allowed))
        found = find_trees(scores.forbid_others(by_node(batch, sentences.known)), search)
        write_by_token(batch, found.heads, heads)
        if found.labels is not None and len(labels):
            write_by_token(batch, found.labels, labels)
        if found.certificates is not None and marks is not None and marks.shape[1]:
            marks[:, sentences.starts[part]] = found.certificates.numpy()

    return for_parts(sentences, search, parse)


def parse_graphs_batch(
    sentences: Sentences, scorer: Scorer, search: Search, firsts: np.ndarray, heads: np.ndarray,
    cells: np.ndarray,
) -> int:  # fmt: skip
    """Write the best graphs, and their primary heads."""

    def parse(batch: TensorBatch, part: np.ndarray) -> None:
        found = find_trees(score_batch(batch, scorer), search)
        assert found.graphs is not None
        write_by_token(batch, found.heads, heads)
        for b, n in enumerate(batch.lengths.tolist()):
            first = firsts[part[b]]
            graph = found.graphs[b, : n + 1, : n + 1].numpy()
            cells[first : first + (n + 1) ** 2] = graph.reshape(-1)

    return for_parts(sentences, search, parse)


def prune_batch(
    sentences: Sentences, scorer: Scorer, search: Search, scale: float, threshold: float,
    max_heads: int, firsts: np.ndarray, cells: np.ndarray,
) -> int:  # fmt: skip
    """Mark the arcs that are left for a higher-order decoder."""

    def prune(batch: TensorBatch, part: np.ndarray) -> None:
        scores = score_batch(batch, scorer)
        known = by_node(batch, sentences.known)
        scores = scores.forbid_others(known)
        found = find_trees(scores, search)
        marginals = marginals_of(scores, search, scale)[0].numpy()
        for b, n in enumerate(batch.lengths.tolist()):
            first = firsts[sentences.starts[part[b]]]
            left = cells[first : first + (n + 1) ** 2].reshape(n + 1, n + 1)
            heads = found.heads[b, : n + 1].numpy()
            _keep_likely(marginals[b, : n + 1, : n + 1], heads, threshold, max_heads, left)
            is_known = known[b, : n + 1].numpy() >= 0
            left[:, is_known] = np.arange(n + 1)[:, None] == heads[is_known]

    return for_parts(sentences, search, prune)


def _keep_likely(
    marginals: np.ndarray, heads: np.ndarray, threshold: float, max_heads: int, left: np.ndarray
) -> None:
    """Mark the arcs of a tree, and the likeliest heads of each word."""
    left[:] = False
    for m in range(1, len(heads)):
        of_word = marginals[:, m].copy()
        of_word[m] = 0.0
        likeliest = of_word.max()
        left[heads[m], m] = True
        of_word[heads[m]] = 0.0
        for h in np.argsort(-of_word, kind="stable")[: max_heads - 1]:
            if of_word[h] <= 0.0 or of_word[h] < threshold * likeliest:
                break
            left[h, m] = True


def find_marginals_batch(
    sentences: Sentences, scorer: Scorer, search: Search, arc_scale: float, label_scale: float,
    least_risk: bool, heads: np.ndarray, labels: np.ndarray, head_marginals: np.ndarray,
    label_marginals: np.ndarray, log_partitions: np.ndarray,
) -> int:  # fmt: skip
    """Write probabilities of the arcs and labels of K trees, and trees of least risk."""

    def find(batch: TensorBatch, part: np.ndarray) -> None:
        scores = score_batch(batch, scorer).forbid_others(by_node(batch, sentences.known))
        marginals, log_partitions[part] = (
            x if i == 0 else x.numpy()
            for i, x in enumerate(marginals_of(scores, search, arc_scale))
        )
        if least_risk:
            risks = marginals.masked_fill(scores.parts["arc"] == -torch.inf, -torch.inf)
            found, _ = minimum_bayes_risk(
                risks, batch.lengths, decoder=decoder_of(search).of_arcs,
                single_root=search.single_root, backend="torch",
            )  # fmt: skip
            write_by_token(batch, found, heads[0])
            if scores.labels is not None:
                write_by_token(batch, scores.best_labels(found), labels[0])
        b, m = torch.arange(len(batch))[:, None], torch.arange(batch.n_nodes)
        for k in range(len(heads)):
            of_tree, of_labels = by_node(batch, heads[k]), by_node(batch, labels[k])
            of_arcs = marginals[b, of_tree, m].clamp(0.0, 1.0)
            write_by_token(batch, of_arcs, head_marginals[k], of_tree >= 0)
            if scores.labels is not None:
                of_arcs = (scores.labels[b, of_tree, m] * label_scale).softmax(-1)
                found = of_arcs.gather(-1, of_labels.clamp(min=0)[..., None])[..., 0]
                write_by_token(batch, found, label_marginals[k], (of_tree >= 0) & (of_labels >= 0))

    return for_parts(sentences, search, find)


def find_k_best_batch(
    sentences: Sentences, scorer: Scorer, search: Search, heads: np.ndarray, labels: np.ndarray,
    scores: np.ndarray,
) -> int:  # fmt: skip
    """Write the k best trees, their labels if found with the trees, and their scores."""

    def find(batch: TensorBatch, part: np.ndarray) -> None:
        of_parts = score_batch(batch, scorer).forbid_others(by_node(batch, sentences.known))
        found, totals = k_best_of(of_parts, search, len(heads))
        scores[:, part] = totals.T.numpy()
        for k in range(len(heads)):
            tree = found[:, k]
            write_by_token(batch, tree, heads[k], tree >= 0)
            if of_parts.labels is not None:
                write_by_token(batch, of_parts.best_labels(tree), labels[k], tree >= 0)

    return for_parts(sentences, search, find)


def k_best_of(scores: TreeScores, search: Search, k: int) -> tuple[Tensor, Tensor]:
    """(B, k, N) heads and (B, k) scores of the k best trees.

    Raises: NoTreeError: a sentence has no tree.
    """
    decoder = decoder_of(search)
    given: list[Tensor] = [scores.parts["arc"], scores.batch.lengths]
    options: dict[str, Any] = {"single_root": search.single_root}
    if decoder.reads_siblings:
        given.insert(1, scores.parts["sibling"])
        options["end_scores"] = scores.parts["end"]
    heads, values = decoder.function("k_best")(*given, k, **options)
    return heads, values


def label_batch(
    sentences: Sentences, plan: LabelPlan, weights: np.ndarray, vectors: WordVectors | None,
    heads: np.ndarray, graphs: GraphHeads | None, labels: np.ndarray,
) -> int:  # fmt: skip
    """Write the best labels of the arcs of finished trees, or of graphs."""
    batch, lines = tensors_of(sentences), Weights(weights)
    trees = by_node(batch, heads)
    if graphs is None:
        scores = tree_label_scores(batch, trees, plan, lines, vectors)
        write_by_token(batch, first_best(scores), labels)
        return native.OK
    numbers, arcs = arcs_of_graphs(sentences, graphs)
    permitted = torch.from_numpy(graphs.may_be_primary)
    labels[numbers] = graph_labels(batch, trees, arcs, plan, lines, permitted, vectors).numpy()
    return native.OK


def arcs_of_graphs(
    sentences: Sentences, graphs: GraphHeads
) -> tuple[np.ndarray, tuple[Tensor, Tensor, Tensor]]:
    """(A,) the numbers of all arcs of some sentences; their sentences, heads and modifiers."""
    lengths = sentences.lengths
    b = np.repeat(np.arange(len(lengths)), lengths)
    m = np.arange(len(b)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + 1
    first = graphs.starts[sentences.starts[b] + m]
    counts = graphs.starts[sentences.starts[b] + m + 1] - first
    numbers = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    arcs = np.repeat(b, counts), graphs.heads[numbers], np.repeat(m, counts)
    sentence, head, modifier = (torch.from_numpy(part.astype(np.int64)) for part in arcs)
    return numbers, (sentence, head, modifier)


def find_label_marginals_batch(
    sentences: Sentences, plan: LabelPlan, weights: np.ndarray, vectors: WordVectors | None,
    scale: float, heads: np.ndarray, labels: np.ndarray, marginals: np.ndarray,
) -> int:  # fmt: skip
    """Write the probabilities of labels of finished trees."""
    batch = tensors_of(sentences)
    scores = tree_label_scores(batch, by_node(batch, heads), plan, Weights(weights), vectors)
    asked = by_node(batch, labels)
    found = (scores.double() * scale).softmax(-1).gather(-1, asked.clamp(min=0)[..., None])
    write_by_token(batch, found[..., 0], marginals, asked >= 0)
    return native.OK


def for_parts(
    sentences: Sentences, search: Search, work: Callable[[TensorBatch, np.ndarray], None]
) -> int:
    """Work on sentences in parts, given as tensors and numbers (K,).

    Returns: The number of the first sentence without a tree, or -1.
    """
    order = decoder_of(search).order
    part: list[int] = []
    for b, n in enumerate([*sentences.lengths.tolist(), None]):
        cells = 0 if n is None else (n + 1) ** (order + 1)
        if part and (n is None or order > 2 or cells * (len(part) + 1) > CPU_BUDGET):
            failed = _attempt(sentences, np.array(part), work)
            if failed >= 0:
                return failed
            part = []
        part.append(b)
    return -1


def _attempt(
    sentences: Sentences, part: np.ndarray, work: Callable[[TensorBatch, np.ndarray], None]
) -> int:
    """The first sentence without a tree, which is found one by one; or -1."""
    try:
        work(tensors_of(sentences, part), part)
    except NoTreeError:
        if len(part) == 1:
            return int(part[0])
        each = (_attempt(sentences, part[b : b + 1], work) for b in range(len(part)))
        return next((failed for failed in each if failed >= 0), -1)
    return -1


def tensors_of(sentences: Sentences, part: np.ndarray | slice = slice(None)) -> TensorBatch:
    """Some of the sentences as tensors."""
    batch = Batch(sentences.values, sentences.starts, sentences.lengths)
    return as_tensors(batch.select(part))


def by_node(batch: TensorBatch, by_token: np.ndarray) -> Tensor:
    """(B, N) from (T,), -1 where there is no word; all -1 for an empty array."""
    places, is_word = batch.places(), word_mask(batch.lengths, batch.n_nodes)
    if len(by_token) == 0:
        return torch.full_like(places, -1)
    return torch.from_numpy(by_token)[places].masked_fill(~is_word, -1)


def write_by_token(
    batch: TensorBatch, by_node: Tensor, by_token: np.ndarray, where: Tensor | None = None
) -> None:
    """Write what is at words, or only at some of them, into (T,)."""
    is_word = word_mask(batch.lengths, batch.n_nodes)
    is_word = is_word if where is None else is_word & where
    by_token[batch.places()[is_word].numpy()] = by_node[is_word].numpy()


def allowed_arcs(batch: TensorBatch, allowed: ArcCells | None) -> Tensor | None:
    """(B, N, N) bool: the arcs that pruning leaves; None: all."""
    if allowed is None or len(allowed.cells) == 0:
        return None
    arcs = torch.zeros(len(batch), batch.n_nodes, batch.n_nodes, dtype=torch.bool)
    for b, (start, n) in enumerate(zip(batch.starts, batch.lengths.tolist(), strict=True)):
        first = int(allowed.firsts[start])
        cells = torch.from_numpy(allowed.cells[first : first + (n + 1) ** 2])
        arcs[b, : n + 1, : n + 1] = cells.reshape(n + 1, n + 1)
    return arcs


FUNCTIONS: dict[str, Callable[..., int]] = {
    function.__name__: function
    for function in (
        parse_batch, parse_graphs_batch, prune_batch, find_marginals_batch, find_k_best_batch,
        label_batch, find_label_marginals_batch,
    )
}  # fmt: skip

"""The dense engine: any scorers, whose tensors of scores are searched, on the CPU or a GPU.

While best trees are found under exact scores, or those of arcs alone, nothing waits for the device
between the first copy and the last: a batch goes there once, trees are written down there by place,
and come back together. Sentences that the device has no memory for, not even one at a time, go to
another engine.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from gpuparse.data.batch import Encoded, incomplete, word_places
from gpuparse.errors import NoTreeError, ResourceError, ScoreError, plural
from gpuparse.inference.approximate.hill_climb import primary_heads
from gpuparse.inference.constraints import constrain
from gpuparse.inference.decoders import DECODERS, Engine, Quantity
from gpuparse.inference.engines import MOST_NODES
from gpuparse.inference.marginals import minimum_bayes_risk
from gpuparse.inference.scores import Scores, as_arcs, unusable_arcs, word_mask
from gpuparse.inference.searches import Parse, decode, parts_for
from gpuparse.model.engines.admission import CPU_BUDGET, Admission, gpu_budget
from gpuparse.model.engines.results import GraphArcs, SearchResult, found_graphs
from gpuparse.model.engines.searcher import (
    BatchOptions,
    BestTrees,
    Marginals,
    Searcher,
    SearchTask,
    empty_marginals,
)
from gpuparse.scorers.scorer import Scorer, Sum, cells_of
from gpuparse.scorers.tensors import first_best, sent_to

Result = TypeVar("Result")
_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class _Scored:
    """Some sentences with their scores, on the device.

    part: as the scorers have it. places: (B, N) the token of each node. scores: with those of the
    best labels if labels are found with the trees, and -inf for arcs against known heads. labels:
    (B, N, N, L), of labels that are found with the trees.
    """

    part: Any
    places: Tensor
    scores: Scores
    labels: Tensor | None


class Dense:
    """Scores as tensors on one device, and the budget of batches there.

    Args:
        engine: of tree search there; with "triton" the scores of templates are summed by kernels.
        otherwise: the engine of sentences that the device has no memory for; None: there is none.
    """

    def __init__(
        self,
        scorers: Sequence[Scorer],
        task: SearchTask,
        device: torch.device | str,
        engine: Engine,
        otherwise: Searcher | None = None,
    ) -> None:
        self._device, self._engine, self._otherwise = torch.device(device), engine, otherwise
        self._scorers, self._scorer, self._task = scorers, Sum(scorers, engine), task
        self._decoder = DECODERS[task.decoder]
        self._is_exact = all(scorer.is_exact for scorer in scorers)
        of_labels = [scorer for scorer in scorers if scorer.has_labels]
        self._has_labels = bool(of_labels)
        self._is_joint = any(scorer.labels_with_trees for scorer in of_labels)
        self.budget = CPU_BUDGET
        if self._device.type == "cuda":
            self.budget = gpu_budget(torch.cuda.mem_get_info(self._device)[0])

    def send(self, batch: Encoded) -> Any:
        """The batch on its way to the device, without waiting."""
        return self._scorer.send(batch, self._device)

    def best(self, batch: Encoded, known: np.ndarray, options: BatchOptions) -> SearchResult:
        """See `Searcher`."""
        try:
            out = torch.full((2, batch.n_tokens), -1, dtype=torch.int64, device=self._device)
        except torch.OutOfMemoryError:  # fewer sentences at a time would not help
            torch.cuda.empty_cache()
            return self._other(batch).best(batch, known, replace(options, sent=None))
        certificates = np.zeros((2, batch.n_tokens), np.int64) if self._decoder.certifies else None
        values: list[Tensor] = []
        arcs: list[GraphArcs] = []

        def work(sent: Any, some: Encoded) -> bool:
            scored = self._scored(sent, some, known)
            found = self._searched(scored)
            values.append(found.scores)
            if found.arcs is not None:
                arcs.append(self._labelled_graphs(scored, found.arcs, out))
                return True
            assert found.heads is not None
            labels = self._best_labels(scored, found.heads)
            out[0].index_put_((scored.places,), found.heads)
            if labels is not None:
                out[1].index_put_((scored.places,), labels)
            if certificates is not None:
                assert found.certified is not None
                assert found.iterations is not None
                certificates[0, some.starts] = found.certified.cpu().numpy()
                certificates[1, some.starts] = found.iterations.cpu().numpy()
            return True

        left = self._run(work, batch, options)
        of_trees = torch.cat(values) if values else torch.zeros(0)
        if bool(of_trees.isnan().any()):
            raise ScoreError("scores of arcs are not finite, or too large to be added")
        if bool((of_trees == -torch.inf).any()):
            raise NoTreeError("a sentence has no tree with its known heads")
        heads, labels = out.cpu().numpy()
        is_graph = self._decoder.gives_graphs
        found = found_graphs(heads, labels, arcs) if is_graph else SearchResult(heads, labels)
        found = replace(found, certificates=certificates)
        if not len(left):
            return found
        some = batch.select(left)
        rest = self._other(some).best(some, known, replace(options, sent=None))
        found.copy_words(word_places(some), rest)
        if found.arcs is None or rest.arcs is None:
            return found
        return found_graphs(found.heads, found.labels, [found.arcs, rest.arcs])

    def marginals(self, batch: Encoded, known: np.ndarray, options: BatchOptions) -> SearchResult:
        """See `Searcher`."""
        heads, labels = np.full((2, 1, batch.n_tokens), -1, np.int64)
        found = empty_marginals(1, batch.n_tokens)

        def work(sent: Any, some: Encoded) -> bool:
            scored = self._scored(sent, some, known)
            marginals = self._sums(scored, "marginals")
            if options.least_risk:
                risks = marginals.masked_fill(scored.scores.arc == -torch.inf, -torch.inf)
                trees, _ = minimum_bayes_risk(
                    risks, scored.scores.lengths, decoder=self._decoder.of_arcs,
                    single_root=self._task.single_root, engine=self._engine,
                )  # fmt: skip
            else:
                trees = self._searched(scored).heads
                assert trees is not None
            best = self._best_labels(scored, trees)
            places = scored.places.cpu().numpy()
            heads[0, places] = trees.cpu().numpy()
            if best is not None:
                labels[0, places] = best.cpu().numpy()
            self._fill(scored, marginals, heads, labels, found)
            return True

        left = self._run(work, batch, options, self._cells_of_sums(batch.lengths))
        result = SearchResult(heads[0], labels[0])
        if options.probabilities:
            result = replace(
                result, head_probabilities=found.heads[0], label_probabilities=found.labels[0]
            )
        if len(left):
            some = batch.select(left)
            rest = self._other(some).marginals(some, known, replace(options, sent=None))
            result.copy_words(word_places(some), rest)
        return result

    def k_best(self, batch: Encoded, known: np.ndarray, k: int, options: BatchOptions) -> BestTrees:
        """See `Searcher`."""
        trees = BestTrees.empty(k, batch)
        number_of = dict(zip(batch.starts.tolist(), range(len(batch)), strict=True))

        def work(sent: Any, some: Encoded) -> bool:
            scored = self._scored(sent, some, known)
            numbers = [number_of[start] for start in some.starts.tolist()]
            # The form in torch does some hundred times the work of native code.
            in_memory = _on(scored.scores, torch.device("cpu"))
            found, scores = self._call("k_best", in_memory, "native", k)
            trees.scores[:, numbers] = scores.T.numpy()
            places = scored.places.cpu().numpy()
            for j in range(k):
                of_rank = found[:, j].contiguous().to(self._device)
                trees.heads[j, places] = found[:, j].numpy()
                labels = self._best_labels(scored, of_rank)
                if labels is not None:
                    trees.labels[j, places] = labels.cpu().numpy()
            if options.probabilities:
                log_partitions = self._sums(scored, "log_partition")
                trees.log_partitions[numbers] = log_partitions.cpu().numpy()
                marginals = self._sums(scored, "marginals")
                self._fill(scored, marginals, trees.heads, trees.labels, trees.marginals)
            return True

        more = self._cells_of_sums(batch.lengths) if options.probabilities else 0.0
        left = self._run(work, batch, options, more)
        if len(left):
            some = batch.select(left)
            rest = self._other(some).k_best(some, known, k, replace(options, sent=None))
            trees.copy_sentences(left, some, rest)
        return trees

    def probabilities_of(
        self, batch: Encoded, heads: np.ndarray, labels: np.ndarray, which: str,
        options: BatchOptions,
    ) -> Marginals:  # fmt: skip
        """See `Searcher`."""
        found = empty_marginals(1, batch.n_tokens)
        of_words = labels
        if not self._is_joint:  # labels of finished trees alone
            of_words = labels.copy()
            whole = ~incomplete(batch, heads)
            of_words[word_places(batch.select(~whole))] = -1

        def work(sent: Any, some: Encoded) -> bool:
            scored = self._scored(sent, some, _NONE)
            marginals = None
            if which != "labels" or self._is_joint:
                marginals = self._sums(scored, "marginals")
            given = of_words if which != "heads" or self._is_joint else np.full_like(labels, -1)
            self._fill(scored, marginals, heads[None], given[None], found)
            return True

        self._refuse(batch, self._run(work, batch, options))
        return found

    def label_trees(self, batch: Encoded, found: SearchResult) -> None:
        """See `Searcher`."""
        if self._is_joint or not self._has_labels:
            return

        def work(sent: Any, some: Encoded) -> bool:
            scored, heads = self._unscored(sent, some, found.heads)
            labels = self._best_labels(scored, heads)
            assert labels is not None
            found.labels[scored.places.cpu().numpy()] = labels.cpu().numpy()
            return True

        self._refuse(batch, self._run(work, batch, BatchOptions()))

    def label_graphs(self, batch: Encoded, heads: np.ndarray, arcs: GraphArcs) -> None:
        """See `Searcher`."""
        if not self._has_labels:
            return
        starts = arcs.starts(batch.n_tokens)

        def work(sent: Any, some: Encoded) -> bool:
            scored, trees = self._unscored(sent, some, heads)
            for b, (start, n) in enumerate(
                zip(some.starts.tolist(), some.lengths.tolist(), strict=True)
            ):
                mine = slice(starts[start + 1], starts[start + n + 1])
                h = torch.from_numpy(arcs.heads[mine]).to(self._device)
                m = torch.from_numpy(arcs.tokens[mine] - start).to(self._device)
                found = self._graph_labels(scored, trees, (torch.full_like(h, b), h, m))
                arcs.labels[mine] = found.cpu().numpy()
            return True

        self._refuse(batch, self._run(work, batch, BatchOptions()))

    def _run(
        self, work: Callable[[Any, Encoded], bool], batch: Encoded, options: BatchOptions,
        more: np.ndarray | float = 0.0,
    ) -> np.ndarray:  # fmt: skip
        """Work on parts of a batch; the numbers of sentences that there is no memory for.

        more: (S,) the cells of each sentence beside its scores.
        """
        sent = self.send(batch) if options.sent is None else options.sent
        more = np.broadcast_to(more, batch.lengths.shape)
        # Words that kernels can count.
        most = MOST_NODES - 1 if self._engine == "triton" else int(batch.lengths.max(initial=0))
        fits = (batch.lengths <= most) & (more <= self.budget)
        left, numbers = [np.flatnonzero(~fits)], np.flatnonzero(fits)
        lengths = batch.lengths[numbers]
        cells = cells_of(self._scorers, lengths) + more[numbers]
        if self._is_joint:
            cells = cells + self._task.n_labels * (lengths + 1) ** 2
        admission = Admission(lengths, options.batch_size, self.budget, cells)
        attempt = or_no_memory(lambda part: work(sent, batch.select(numbers[part])))
        for part, done in admission.run(attempt):
            if done is None:
                left.append(numbers[part])
            else:
                options.progress(len(part))
        self.budget = admission.budget
        return np.concatenate(left)

    def _cells_of_sums(self, lengths: np.ndarray) -> np.ndarray:
        """(S,) about the cells that sums with gradients take in torch, as measured."""
        has_own = self._engine != "torch" and self._decoder.has("marginals", self._engine)
        of_steps = 0.0 if has_own else 4.0
        cells: np.ndarray = of_steps * (lengths + 1.0) ** 3
        return cells

    def _other(self, batch: Encoded) -> Searcher:
        """The engine of sentences that the device has no memory for."""
        if self._otherwise is None:
            raise ResourceError(
                f"device {self._device}: no memory for a sentence of"
                f" {plural(int(batch.lengths.max()), 'word')}"
            )
        return self._otherwise

    def _refuse(self, batch: Encoded, left: np.ndarray) -> None:
        """ResourceError if some sentences are left."""
        if len(left):
            words = plural(int(batch.lengths[left].max()), "word")
            raise ResourceError(f"device {self._device}: no memory for a sentence of {words}")

    def _places(self, some: Encoded) -> tuple[Tensor, int]:
        """(B, N) the token of every node; padding stays within the tokens of the sentence."""
        nodes = np.arange(int(some.lengths.max(initial=0)) + 1)
        last = np.minimum(nodes, some.lengths[:, None] + 1)
        return sent_to(self._device, some.starts[:, None] + last), len(nodes)

    def _scored(self, sent: Any, some: Encoded, known: np.ndarray) -> _Scored:
        places, n_nodes = self._places(some)
        part = self._scorer.part(sent, some)
        scores, labels = self._scorer.score(part), None
        if self._is_joint:
            labels = self._scorer.arc_label_scores(part)
            scores = replace(scores, arc=scores.arc + labels.max(-1).values)
        if len(known):
            of_words = torch.from_numpy(known).to(self._device)[places]
            of_words[:, 0] = -1
            of_words[~word_mask(scores.lengths, n_nodes)] = -1
            nodes = torch.arange(n_nodes, device=self._device)
            is_known = nodes.unsqueeze(1) == of_words.unsqueeze(1)
            scores = replace(scores, arc=constrain(scores.arc, scores.lengths, required=is_known))
        return _Scored(part, places, scores, labels)

    def _unscored(self, sent: Any, some: Encoded, heads: np.ndarray) -> tuple[_Scored, Tensor]:
        """Sentences for their labels alone, and their heads (B, N)."""
        places, n_nodes = self._places(some)
        lengths = torch.from_numpy(some.lengths).to(self._device)
        trees = torch.from_numpy(heads).to(self._device)[places]
        trees = trees.masked_fill(~word_mask(lengths, n_nodes), -1)
        nothing = Scores(trees.new_zeros(len(trees), 0, 0), lengths)
        return _Scored(self._scorer.part(sent, some), places, nothing, None), trees

    def _searched(self, scored: _Scored) -> Parse:
        """The trees or graphs that the decoder finds, on the device."""
        task, scores, engine = self._task, scored.scores, self._engine
        in_memory = not self._decoder.has("best", self._engine)
        if in_memory:  # there is native code only
            scores, engine = _on(scores, torch.device("cpu")), "native"
        unusable = None
        if engine != "native" and not self._is_exact and self._decoder.order == 1:
            # Instead of an error, which would wait: the search gets zeros, and the score is NaN.
            arcs, lengths = as_arcs(scores.arc, scores.lengths)
            unusable = unusable_arcs(arcs, lengths)
            scores = replace(scores, arc=arcs.masked_fill(unusable[:, None, None], 0.0))
        parse = decode(
            task.decoder, scores, single_root=task.single_root, engine=engine,
            min_gain=task.min_gain, granularity=1.0 if self._is_exact else 0.0,
            are_checked=self._is_exact or unusable is not None,
        )  # fmt: skip
        if unusable is not None:
            parse = replace(parse, scores=parse.scores.masked_fill(unusable, torch.nan))
        if in_memory:
            heads = None if parse.heads is None else parse.heads.to(self._device)
            parse = replace(parse, heads=heads)
        return parse

    def _label_scores(self, scored: _Scored, heads: Tensor) -> Tensor:
        """(B, N, L) the scores of all labels of the arcs of trees; of no use without a head."""
        n_sentences, n_nodes = heads.shape
        nodes = torch.arange(n_nodes, device=heads.device)
        b = torch.arange(n_sentences, device=heads.device).unsqueeze(1)
        arcs = b.expand_as(heads), heads.clamp(min=0), nodes.expand_as(heads)
        if scored.labels is not None:
            return scored.labels[arcs]
        found = self._scorer.label_scores(
            scored.part, heads, (arcs[0].flatten(), arcs[1].flatten(), arcs[2].flatten())
        )
        return found.reshape(n_sentences, n_nodes, -1)

    def _best_labels(self, scored: _Scored, heads: Tensor) -> Tensor | None:
        """(B, N) the best labels of trees, -1 where there is no head; None without labels."""
        if not self._has_labels:
            return None
        return torch.where(heads >= 0, first_best(self._label_scores(scored, heads)), -1)

    def _graph_labels(
        self, scored: _Scored, trees: Tensor, arcs: tuple[Tensor, Tensor, Tensor]
    ) -> Tensor:
        """(A,) the best labels of arcs of graphs."""
        b, h, m = arcs
        scores = self._scorer.label_scores(scored.part, trees, arcs)
        if self._task.may_be_primary is not None:
            permitted = torch.from_numpy(self._task.may_be_primary).to(h.device)
            is_primary = (trees[b, m] == h).unsqueeze(1)
            scores = scores.masked_fill(is_primary & ~permitted, -torch.inf)
        return first_best(scores)

    def _labelled_graphs(self, scored: _Scored, graphs: Tensor, out: Tensor) -> GraphArcs:
        """Arcs of graphs (B, N, N), labelled; primary heads are written to out (2, T)."""
        trees = primary_heads(graphs.cpu()).to(self._device)
        out[0].index_put_((scored.places,), trees)
        b, m, h = graphs.to(self._device).transpose(1, 2).nonzero(as_tuple=True)
        labels = torch.full_like(h, -1)
        if self._has_labels:
            labels = self._graph_labels(scored, trees, (b, h, m))
        tokens = scored.places[b, m]
        order = torch.argsort(tokens, stable=True)
        return GraphArcs(*(x[order].cpu().numpy() for x in (tokens, h, labels)))

    def _sums(self, scored: _Scored, quantity: Quantity) -> Tensor:
        """The probabilities of all arcs (B, N, N), or log-partitions (B,), under scores in nats."""
        parts = {
            name: part.double() * self._task.scales.arc
            for name, part in vars(scored.scores).items()
            if part is not None and name != "lengths"
        }
        engine = self._decoder.engine_for(quantity, self._engine)
        found: Tensor = self._call(quantity, replace(scored.scores, **parts), engine)
        return found

    def _call(self, quantity: Quantity, scores: Scores, engine: str, *more: int) -> Any:
        """The result of the public function of a quantity."""
        arcs, parts = parts_for(self._decoder.name, scores)
        return self._decoder.function(quantity)(
            *arcs, scores.lengths, *more, single_root=self._task.single_root, engine=engine, **parts
        )

    def _fill(
        self,
        scored: _Scored,
        marginals: Tensor | None,
        heads: np.ndarray,
        labels: np.ndarray,
        found: Marginals,
    ) -> None:
        """Fill in the probabilities of K trees, (K, T) heads and labels, -1 for none.

        marginals: of all arcs; None: those of labels alone are asked for.
        """
        places = scored.places.cpu().numpy()
        arcs = None if marginals is None else marginals.cpu().numpy()
        is_word = word_mask(scored.scores.lengths, places.shape[1]).cpu().numpy()
        b, m = np.nonzero(is_word)
        tokens = places[b, m]
        for j in range(len(heads)):
            trees = np.full(places.shape, -1, np.int64)
            trees[b, m] = heads[j, tokens]
            h, label = trees[b, m], labels[j, tokens]
            if arcs is not None:
                there = h >= 0
                of_arcs = arcs[b, h.clip(min=0), m].clip(0.0, 1.0)
                found.heads[j, tokens[there]] = of_arcs[there]
            asked = (h >= 0) & (label >= 0)
            if not self._has_labels or not asked.any():
                continue
            scores = self._label_scores(scored, torch.from_numpy(trees).to(self._device))
            shares = (scores.double() * self._task.scales.label).softmax(-1).cpu().numpy()
            of_labels = shares[b, m, label.clip(min=0)]
            found.labels[j, tokens[asked]] = of_labels[asked]


def _on(scores: Scores, device: torch.device) -> Scores:
    """The scores on another device."""
    return Scores(
        **{name: None if part is None else part.to(device) for name, part in vars(scores).items()}
    )


def or_no_memory(work: Callable[[np.ndarray], Result]) -> Callable[[np.ndarray], Result | None]:
    """The same work for `Admission.run`, with the result None where a device has no memory."""

    def attempt(batch: np.ndarray) -> Result | None:
        with suppress(torch.OutOfMemoryError):
            return work(batch)
        torch.cuda.empty_cache()  # not before: the error holds on to what was in use
        return None

    return attempt

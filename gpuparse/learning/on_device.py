"""Online learning of trees in torch, on any device: mini-batches are searched, compared, learned.

As native code learns mini-batches: all trees of a mini-batch are found
with the same weights, and then its sentences are learned from one after the other, each step
computed with the weights of that moment. Here the steps come from the matrix of the products of all
differences (`device_difference.py`), and the weights are moved once a mini-batch.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from gpuparse.config import RunConfig
from gpuparse.data.batch import MARGIN, Batch
from gpuparse.errors import ResourceError
from gpuparse.features.plan import Plan
from gpuparse.inference.backends import choose_backend
from gpuparse.inference.constraints import constrain
from gpuparse.inference.decoders import DECODERS
from gpuparse.learning.device_difference import (
    Differences,
    by_row,
    change,
    coalesced,
    margins,
    products,
)
from gpuparse.learning.device_parts import (
    Parts,
    arcs_that_differ,
    ends_that_differ,
    siblings_that_differ,
)
from gpuparse.learning.updates import steps_in_turn, update_rule
from gpuparse.scoring.admission import Admission, PartSize
from gpuparse.scoring.device import DeviceParser, or_no_memory
from gpuparse.scoring.engines import Scored
from gpuparse.scoring.rows import PartRows
from gpuparse.scoring.tensors import TensorBatch, bag_of, tensors_over
from gpuparse.scoring.weights import FeatureMap, Weights

MAX_CELLS = 1 << 27  # scores of arcs, or of siblings, that are held at a time
ROWS_AT_ONCE = 1 << 24  # feature rows of differing parts, likewise


class DeviceLearner:
    """Learning of arcs in one epoch; the weights come back to main memory when it is finished.

    Args:
        batch: all sentences, in main memory.
        gold: (T,) int64 heads by place, -1 for what is no word and where gold says nothing.
        plan, features: the compiled templates and a hashed map.
        weights, weighted: float32 (rows, 1) and (rows,).
        config: of the run; its decoder is eisner, chu_liu_edmonds or eisner_sibling.
        single_root: whether every tree has exactly one modifier of the root.
        device: where the work is done.
        backend: "torch", "gpu" (Triton kernels), or "auto", which takes the kernels on a GPU.
        max_cells: at a time, as `sentence_cells` counts them; a mini-batch is searched in several
            goes where it has more.
        rows_at_once: feature rows of differing parts that are held at a time, at least. Neither
            this nor max_cells changes a bit of the result.
    Source: McDonald, Crammer & Pereira (2005), figure 3, and McDonald & Pereira (2006), figure 6;
        differs: the trees of a mini-batch are found with the weights before it.
    """

    def __init__(
        self,
        batch: Batch,
        gold: np.ndarray,
        plan: Plan,
        features: FeatureMap,
        weights: Weights,
        weighted: np.ndarray,
        *,
        config: RunConfig,
        single_root: bool,
        device: str,
        backend: str = "auto",
        max_cells: int = MAX_CELLS,
        rows_at_once: int = ROWS_AT_ONCE,
    ) -> None:
        self._values = torch.from_numpy(batch.values).to(device)
        self._gold = torch.from_numpy(gold).to(device)
        self._is_partial = int((gold >= 0).sum()) < int(batch.lengths.sum())
        self._plan, self._features, self._weights = plan, features, weights
        self._kept_weighted = weighted
        self._decoder, self._rule = DECODERS[config.decoder], update_rule(config)
        self._single_root = single_root
        self._max_cells, self._rows_at_once = max_cells, rows_at_once
        # The table that scores are summed from on this device; in main memory, `weights` itself.
        self._table = bag_of(weights, self._values.device, 1).weight.detach()
        self._table[:-1] = torch.from_numpy(weights.array).to(device)
        self._weighted = torch.from_numpy(weighted).to(device)
        # In main memory the torch form too: what runs there is what runs on another device.
        where = self._values.device
        in_torch = backend == "auto" and where.type == "cpu"
        self._backend = choose_backend("torch" if in_torch else backend, where, has_kernels=True)
        scored = Scored(
            plan, features, weights, None, None, None, None, config.decoder, single_root,
            config.min_gain,
        )  # fmt: skip
        self._parser = DeviceParser(scored, where, self._backend)

    @torch.no_grad()
    def learn(self, mini: Batch, seen: int) -> int:
        """Learn from a mini-batch; `seen` sentences came before. Returns wrong words."""
        costs, features = self._compared_in_parts(mini)
        self._move(coalesced(features, self._features.n_rows), costs, seen)
        return int(costs.sum())

    def _compared_in_parts(self, mini: Batch) -> tuple[Tensor, Tensor]:
        """`_compare` for a whole mini-batch, in pieces that fit into memory."""
        device = self._values.device
        admission = Admission(
            mini.lengths, len(mini), self._max_cells, PartSize(2 + self._decoder.reads_siblings)
        )
        costs = torch.zeros(len(mini), dtype=torch.int64, device=device)
        found = [torch.zeros(3, 0, dtype=torch.int64, device=device)]
        compare = or_no_memory(lambda part: self._compare(*self._taken(mini, part)))
        for part, compared in admission.run(compare):
            if compared is None:
                raise ResourceError(
                    f"device {device}: no memory for a sentence of {int(mini.lengths[part[0]])}"
                    " words: leave it out, or learn with learning.backend=cpu"
                )
            sentences = torch.from_numpy(part).to(device)
            costs[sentences], features = compared
            features[0] = sentences[features[0]]
            found.append(features)
        self._max_cells = admission.budget
        return costs, torch.cat(found, 1)

    def _taken(self, mini: Batch, part: np.ndarray) -> tuple[TensorBatch, Tensor]:
        """Some sentences on the device, with no values but their own, and their gold heads (B, N).

        So no work is done for words of other sentences.
        """
        batch = tensors_over(self._values, mini.select(part))
        places = batch.own_places()
        return batch.alone(), self._gold[places[:, MARGIN : MARGIN + batch.n_nodes]]

    def _compare(self, batch: TensorBatch, gold: Tensor) -> tuple[Tensor, Tensor]:
        """Search the trees of a batch, and list the features in which they differ from gold.

        Returns: (B,) int64 wrong words; (3, F) int64: sentence, row of the weights, sign.
        """
        found, target = self._search(batch, gold)
        costs = ((gold >= 0) & (gold != found)).sum(1)
        found = torch.where((costs > 0).unsqueeze(1), found, target)
        return costs, self._rows_of(batch, target, found)

    def _search(self, batch: TensorBatch, gold: Tensor) -> tuple[Tensor, Tensor]:
        """(B, N) heads of the tree found, and of the tree that is learned towards."""
        arcs, *others = self._parser.scores(batch, self._parser.sums(batch.values))
        target = self._completed(batch.lengths, arcs, others, gold) if self._is_partial else gold
        if self._rule.cost > 0.0:
            # The cost of a wrong head; without a gold head, all heads have it.
            nodes = torch.arange(arcs.shape[1], device=arcs.device)
            arcs += self._rule.cost * (gold.unsqueeze(1) != nodes.unsqueeze(1))
        return self._decoded(batch.lengths, arcs, others), target

    def _decoded(self, lengths: Tensor, arcs: Tensor, others: Sequence[Tensor]) -> Tensor:
        how = {"single_root": self._single_root, "backend": self._backend}
        if not others:
            return self._decoder.function()(arcs, lengths, **how)[0]
        siblings, ends = others
        return self._decoder.function()(arcs, siblings, lengths, end_scores=ends, **how)[0]

    def _completed(
        self, lengths: Tensor, arcs: Tensor, others: Sequence[Tensor], gold: Tensor
    ) -> Tensor:
        """The best trees that have all heads that gold says; gold where it says all."""
        nodes = torch.arange(gold.shape[1], device=gold.device)
        is_open = (gold < 0) & (nodes > 0) & (nodes <= lengths.unsqueeze(1))
        some = is_open.any(1).nonzero().squeeze(1)
        if len(some) == 0:
            return gold
        required = gold[some].unsqueeze(1) == nodes.unsqueeze(1)
        under_gold = constrain(arcs[some], lengths[some], required=required)
        best = self._decoded(lengths[some], under_gold, [part[some] for part in others])
        return gold.index_copy(0, some, best)

    def _rows_of(self, batch: TensorBatch, target: Tensor, found: Tensor) -> Tensor:
        """(3, F) the features that only one of two trees has: sentence, row, sign."""
        rows, silent = PartRows(batch, self._plan, self._features), self._features.n_rows
        size = max(1, self._rows_at_once // rows.longest_line)
        features = []

        def add(parts: Parts, find: Callable[[Parts], Tensor]) -> None:
            for columns in zip(*(column.split(size) for column in parts), strict=True):
                some = Parts(*columns)
                lines = find(some)
                fires = lines != silent
                sentence, sign = (
                    x.unsqueeze(1).expand_as(lines) for x in (some.sentence, some.sign)
                )
                features.append(torch.stack([x[fires] for x in (sentence, lines, sign)]))

        add(arcs_that_differ(target, found), lambda p: rows.of_arcs(*p[:3]))
        if self._plan.siblings:
            add(siblings_that_differ(target, found), lambda p: rows.of_siblings(*p[:4]))
            add(ends_that_differ(target, found), lambda p: rows.of_ends(*p[:4]))
        return torch.cat(features, 1)

    def _move(self, differences: Differences, costs: Tensor, seen: int) -> None:
        """Take the steps of all sentences of a mini-batch."""
        n, column = len(costs), by_row(differences)
        before = margins(differences, self._table[:, 0], n)
        with_each_other = products(differences, column, n)
        # The steps follow from one another, and from B^2 numbers: in main memory.
        small = torch.cat([with_each_other, before.unsqueeze(0), costs.double().unsqueeze(0)])
        *gram, of_weights, of_mistakes = small.cpu().numpy()
        steps = steps_in_turn(self._rule, of_mistakes, of_weights, np.stack(gram))
        # The second line is for the average: `seen` as in the compiled learner.
        sizes = torch.from_numpy(np.stack([steps, steps * (seen + np.arange(n))]))
        moved, counted = change(differences, column, sizes.to(self._values.device)).float()
        # Every row is there once, so that no two additions meet.
        self._table[:, 0].index_add_(0, column.rows, moved)
        self._weighted.index_add_(0, column.rows, counted)

    def finish(self) -> None:
        """Bring the weights, and the sums for their average, back to main memory."""
        if self._values.device.type != "cpu":
            self._weights.array[:] = self._table[:-1].cpu().numpy()
        self._kept_weighted[:] = self._weighted.cpu().numpy()

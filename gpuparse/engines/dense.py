"""From token ids to heads and labels on a device: scores in torch, search there or by kernels.

Nothing waits for the device between the first copy and the last: ids go there once for all the
sentences of a batch, trees are written down there by place, and come back together.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from gpuparse.data.batch import Batch
from gpuparse.engines.admission import CPU_BUDGET, Admission, gpu_budget
from gpuparse.engines.found import NO_ARCS, Found, GraphArcs, Scored, found_graphs
from gpuparse.errors import NoTreeError
from gpuparse.inference.approximate.hill_climb import primary_heads
from gpuparse.inference.backends import MOST_NODES
from gpuparse.inference.constraints import constrain
from gpuparse.inference.decoders import DECODERS, Engine
from gpuparse.scorers.linear.arcs import arc_scores, guide_scores
from gpuparse.scorers.linear.labels import best_arc_labels, best_graph_labels, best_labels
from gpuparse.scorers.linear.siblings import sibling_scores
from gpuparse.scorers.sizes import PartSize
from gpuparse.scorers.tensors import TensorBatch, tensors_over
from gpuparse.scorers.vectors.scores import DeviceVectors, NodeVectors

Result = TypeVar("Result")


class Sent(NamedTuple):
    """The values of a batch on a device, perhaps still on their way there.

    In main memory where the device had no room for them as they were sent.
    """

    values: Tensor
    arrived: Any  # torch.cuda.Event, None where there is nothing to wait for


class DeviceParser:
    """A model's tables on one device, and the budget of batches there.

    Args: engine: that of tree search, "torch" or "triton".
    """

    def __init__(self, scored: Scored, device: torch.device | str, engine: Engine) -> None:
        device = torch.device(device)
        self._scored, self._device = scored, device
        self._decoder = DECODERS[scored.decoder]
        self._engine = engine
        self.budget, self._copies = CPU_BUDGET, None
        if device.type == "cuda":
            self.budget = gpu_budget(torch.cuda.mem_get_info(device)[0])
            self._copies = torch.cuda.Stream(device)
        self._vectors = DeviceVectors(scored.vectors, device) if scored.vectors else None

    def send(self, batch: Batch) -> Sent:
        """Send the values of a batch in main memory; they travel while other work goes on."""
        if self._copies is None:
            return Sent(torch.from_numpy(batch.values).to(self._device), None)
        try:
            with torch.cuda.stream(self._copies):
                values = (
                    torch.from_numpy(batch.values).pin_memory().to(self._device, non_blocking=True)
                )
                arrived = torch.cuda.Event()
                arrived.record(self._copies)
        except torch.OutOfMemoryError:  # the batch before may leave more
            return Sent(torch.from_numpy(batch.values), None)
        return Sent(values, arrived)

    def parse(
        self,
        batch: Batch,
        sent: Sent,
        known: np.ndarray,
        batch_size: int,
        progress: Callable[[int], None],
    ) -> tuple[Found, np.ndarray]:
        """Trees of all sentences of a batch in main memory whose values are sent.

        Returns: What was found, in main memory; and the numbers of the sentences that the device
            has no memory for, not even one at a time.
        Raises: NoTreeError: a sentence has no tree.
        """
        begun = None
        with suppress(torch.OutOfMemoryError):
            begun = self._begin(sent, known)
        if begun is None:  # fewer sentences at a time would not help
            return self._nothing(batch)
        values, given, out = begun
        # Words that kernels can count.
        most = MOST_NODES - 1 if self._engine == "triton" else batch.n_nodes
        left = [np.flatnonzero(batch.lengths > most)]
        numbers = np.flatnonzero(batch.lengths <= most)
        siblings = self._scored.plan.siblings is not None
        admission = Admission(
            batch.lengths[numbers], batch_size, self.budget, PartSize(2 + siblings)
        )

        @or_no_memory
        def of_part(part: np.ndarray) -> tuple[Any, ...]:
            some = tensors_over(values, batch.select(numbers[part]))
            return self._parse(some, given, out)

        found: list[Tensor] = []
        arcs: list[Any] = []
        for part, parsed in admission.run(of_part):
            if parsed is None:
                left.append(numbers[part])
                continue
            progress(len(part))
            found.append(parsed[0])
            arcs += parsed[1:]
        self.budget = admission.budget
        if found and bool((torch.cat(found) == -torch.inf).any()):
            raise NoTreeError("a sentence has no tree with its known heads")
        heads, labels = out.cpu().numpy()
        if self._decoder.gives_graphs:
            return found_graphs(heads, labels, arcs), np.concatenate(left)
        return Found(heads, labels), np.concatenate(left)

    def _begin(self, sent: Sent, known: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        """On the device: values, known heads, and where trees are written down."""
        if sent.arrived is not None:
            torch.cuda.current_stream(self._device).wait_event(sent.arrived)
            sent.values.record_stream(torch.cuda.current_stream(self._device))
        values = sent.values.to(self._device)
        given = torch.from_numpy(known).to(self._device)
        out = torch.full((2, values.shape[1]), -1, dtype=torch.int64, device=self._device)
        return values, given, out

    def _nothing(self, batch: Batch) -> tuple[Found, np.ndarray]:
        """What is found where the device has no memory for anything: all sentences are left."""
        torch.cuda.empty_cache()
        heads, labels = np.full((2, batch.values.shape[1]), -1, np.int64)
        arcs = NO_ARCS if self._decoder.gives_graphs else None
        return Found(heads, labels, arcs), np.arange(len(batch))

    def vectors(self, batch: TensorBatch) -> NodeVectors | None:
        """The word vectors of a batch on the device, None for a model without any."""
        return self._vectors.nodes(batch) if self._vectors else None

    def scores(self, batch: TensorBatch, vectors: NodeVectors | None = None) -> tuple[Tensor, ...]:
        """The scores that the decoder reads, of a batch on the device, without joint labels."""
        plan = self._scored.plan
        if vectors and not plan.guide and not plan.arcs.n_families:
            arcs = vectors.arcs()
        else:
            arcs = self._arc_scores(batch)
            if vectors:
                arcs = vectors.with_templates(arcs)
        if plan.siblings is None:
            return (arcs,)
        given = plan.siblings, self._scored.features, self._scored.arcs
        siblings, ends = sibling_scores(batch, *given, backend="torch")
        more = vectors.parts("sibling") if vectors else None
        if more is not None:
            siblings += more
        return arcs, siblings, ends

    def _parse(self, batch: TensorBatch, known: Tensor, out: Tensor) -> tuple[Any, ...]:
        """Write heads and labels into out (2, T); the values of the trees, and arcs of graphs."""
        scored, places = self._scored, batch.places()
        vectors = self.vectors(batch)
        arcs, *others = self.scores(batch, vectors)
        arc_labels = None
        if scored.joint and scored.label_weights:
            best, arc_labels = best_arc_labels(
                batch, scored.joint.plan, scored.label_weights, vectors=vectors
            )
            arcs = arcs + best
        if len(known):
            of_words = known[places]
            of_words[:, 0] = -1
            nodes = torch.arange(places.shape[1], device=self._device)
            is_known = nodes.unsqueeze(1) == of_words.unsqueeze(1)
            arcs = constrain(arcs, batch.lengths, required=is_known)
        found, values = self.trees(batch, (arcs, *others))
        if self._decoder.gives_graphs:
            return values, self._write_graphs(batch, places, found, out, vectors)
        out[0].index_put_((places,), found)
        if scored.label_plan and scored.label_weights:
            labels = best_labels(
                batch, found, scored.label_plan, scored.label_weights, vectors=vectors,
                backend="torch",
            )  # fmt: skip
            out[1].index_put_((places,), labels)
        if arc_labels is not None:
            of_heads = arc_labels.gather(1, found.clamp(min=0).unsqueeze(1)).squeeze(1)
            out[1].index_put_((places,), torch.where(found >= 0, of_heads, -1))
        return (values,)

    def _arc_scores(self, batch: TensorBatch) -> Tensor:
        scored = self._scored
        given = scored.features, scored.arcs
        arcs = arc_scores(batch, scored.plan.arcs, *given, backend="torch")
        if scored.plan.guide:
            arcs += guide_scores(batch, scored.plan.guide, *given, backend="torch")
        return arcs

    def trees(self, batch: TensorBatch, parts: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """What the decoder finds under scores, on the device, and (B,) what it scores."""
        scored, single_root = self._scored, self._scored.single_root
        if self._decoder.has("best", "torch"):
            search = self._decoder.tensor_function(self._engine)
            return search(*parts, batch.lengths, single_root=single_root)
        # By single changes, one after the other, in main memory.
        in_memory = [part.cpu() for part in (*parts, batch.lengths)]
        found, values, *_ = self._decoder.function()(
            in_memory[0], in_memory[1], in_memory[3], end_scores=in_memory[2],
            single_root=single_root, min_gain=scored.min_gain,
        )  # fmt: skip
        return found.to(self._device), values

    def _write_graphs(
        self,
        batch: TensorBatch,
        places: Tensor,
        graphs: Tensor,
        out: Tensor,
        vectors: NodeVectors | None,
    ) -> GraphArcs:
        """Arcs of graphs (B, N, N), labelled."""
        trees = primary_heads(graphs.cpu()).to(self._device)
        out[0].index_put_((places,), trees)
        b, m, h = graphs.transpose(1, 2).nonzero(as_tuple=True)
        labels = torch.full_like(h, -1)
        scored = self._scored
        if scored.label_weights and scored.label_plan and scored.may_be_primary is not None:
            best = best_graph_labels(
                batch, trees, graphs, scored.label_plan, scored.label_weights,
                scored.may_be_primary, vectors=vectors, backend="torch",
            )  # fmt: skip
            labels = best[b, h, m]
        order = torch.argsort(places[b, m], stable=True)
        return GraphArcs(*(x[order].cpu().numpy() for x in (places[b, m], h, labels)))


def or_no_memory(work: Callable[[np.ndarray], Result]) -> Callable[[np.ndarray], Result | None]:
    """The same work for `Admission.run`, with the result None where a device has no memory."""

    def attempt(batch: np.ndarray) -> Result | None:
        with suppress(torch.OutOfMemoryError):
            return work(batch)
        torch.cuda.empty_cache()  # not before: the error holds on to what was in use
        return None

    return attempt

"""The stage of an encoder: all heads and the pretrained body, learned together by gradients."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpuparse.config.schema import EncoderConfig
from gpuparse.data.batch import ranges
from gpuparse.errors import ModelError
from gpuparse.inference.distributions import NonProjectiveTrees, ProjectiveTrees
from gpuparse.inference.losses import conditional_loss, hinge_loss, smoothed_cross_entropy
from gpuparse.inference.scores import read_cells
from gpuparse.learning.events import EpochCounts
from gpuparse.learning.stages.encoder.processes import Processes
from gpuparse.learning.stages.stage import Shape, Stage
from gpuparse.scorers.encoder.network import Network, PieceTensors, batch_of, nodes_of
from gpuparse.scorers.encoder.pieces import EncodedPieces, Windows
from gpuparse.scorers.tensors import sent_to

EPOCHS, MOST_EPOCHS, STEPS = 9, 30, 1500  # see `epochs_of`
# Chosen on the development part of EWT with MiniLM: "Pretrained encoders" in benchmarks/book.md.
BATCH = 400  # pieces of words of a step, padding included
RATE, HEAD_RATE = 5e-4, 1e-3  # largest step sizes of the last layer, and of the heads
LAYER_DECAY = 0.85  # of the step size, from each layer to the one below (Howard & Ruder 2018)
WARM_UP = 0.06  # share of training in which step sizes rise
SMOOTHING = 0.1  # share of each gold value that losses spread over all values
POOL = 1024  # sentences that are sorted by length, so that batches have little padding
BETAS = (0.9, 0.98)
DECAY = 0.01  # of weights, a step at the full rate
LARGEST_GRADIENT = 1.0
STEPS_OF_EVENT = 8
_FORBIDDEN = -1e9  # nats, of arcs that there are not
_TO_DO = "give another seed, and start again"
_LAYER = re.compile(r"\.layers?\.(\d+)\.")  # in the names of parameters
_MOMENTS = ("exp_avg", "exp_avg_sq")


class EncoderGold(NamedTuple):
    """Gold values by word (W,); -1 where a word has none.

    heads: 0 for the root. labels: None without relations. columns: numbers of values by key.
    starts: (W + 1,), of graphs, where heads and labels are those of arcs (A,): word w has the arcs
    starts[w]:starts[w + 1]. None: of trees.
    """

    heads: np.ndarray
    labels: np.ndarray | None
    columns: dict[str, np.ndarray]
    starts: np.ndarray | None = None

    def arcs_of(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The arcs into words: the place of each arc's word among them, its place in `heads`."""
        if self.starts is None:
            places = np.flatnonzero(self.heads[words] >= 0)
            return places, words[places]
        firsts, ends = self.starts[words], self.starts[words + 1]
        return np.repeat(np.arange(len(words)), ends - firsts), ranges(firsts, ends)


class EncoderStage(Stage):
    """Learns a network in steps of AdamW.

    The sentences of a step go through the network in parts if they need more memory than there is,
    or if several processes share them; their gradients are added. With the loss `local` nothing
    waits for a GPU within a step.

    Args:
        network: before anything is learned; it is changed in place.
        batch: the training sentences. gold: of their words.
        is_projective, single_root: of the trees, for the loss `conditional`.
        seed: of what is dropped and of the order of batches.
        tell: writes a line for the user.
        group: of the processes that learn together.
    Source: biaffine scores and the loss of heads: Dozat & Manning (2017), of graphs: Dozat &
        Manning (2018); differs: vectors are those of a pretrained transformer (Devlin et al. 2019),
        tags are learned with the trees.
    """

    name = "encoder"
    drawn_for = 6

    def __init__(
        self,
        network: Network,
        batch: EncodedPieces,
        gold: EncoderGold,
        config: EncoderConfig,
        *,
        is_projective: bool,
        single_root: bool,
        seed: int,
        tell: Callable[[str], None],
        group: Processes | None = None,
    ) -> None:
        super().__init__(epochs_of(config, int(batch.whole.pieces.sum())))
        self.network, self._batch, self._gold, self._config = network, batch, gold, config
        self._is_projective, self._single_root, self._seed = is_projective, single_root, seed
        self._tell, self._group = tell, group
        self._at_once = BATCH  # pieces that go through the network together
        self._device = network.mix.device
        self._failed = torch.zeros((), device=self._device)  # 1 after a gradient that is not finite
        network.body.requires_grad_(config.train)
        for module in network.body.modules():
            if type(module).__name__.endswith("SelfAttention"):
                module.dropout.p = 0.0  # of attention: "Pretrained encoders" in benchmarks/book.md
        self._table = _PieceTable.of(network, batch)
        self._names = [name for name, p in network.named_parameters() if p.requires_grad]
        self._optimizer = torch.optim.AdamW(
            self._groups(), betas=BETAS, weight_decay=DECAY, fused=True
        )
        self._starts = {name: p.detach().cpu().numpy().copy() for name, p in self._parameters()}

    def _parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """The parameters that are learned, by name."""
        return ((n, p) for n, p in self.network.named_parameters() if p.requires_grad)

    def _groups(self) -> list[dict]:
        """Parameters with their rates."""
        groups: dict[tuple[float, float], list[nn.Parameter]] = {}
        n_layers = int(self.network.body.config.num_hidden_layers)
        for name, parameter in self._parameters():
            rate = HEAD_RATE
            if name.startswith("body."):
                layer = _LAYER.search(name)
                below = n_layers - 1 - int(layer[1]) if layer else n_layers
                rate = RATE * LAYER_DECAY**below
            groups.setdefault((rate, 0.0 if parameter.dim() < 2 else DECAY), []).append(parameter)
        return [
            {"params": parameters, "lr": rate, "rate": rate, "weight_decay": decay}
            for (rate, decay), parameters in groups.items()
        ]

    @property
    def has_labels(self) -> bool:
        """True if relations are learned."""
        return self._gold.labels is not None

    def prepare(self) -> None:
        """Let the other processes end where nothing is left to learn."""
        if self._group is not None and self.done == self.epochs:
            self._group.begin()

    def follow(self, order: Callable[[int], np.ndarray]) -> None:
        """Learn together with the first process until it has learned all epochs.

        Args: order: that of the sentences in an epoch.
        """
        assert self._group is not None
        while (epoch := self._group.begin()) is not None:
            sentences = order(epoch)
            for _ in self._learn(sentences, epoch):
                pass

    def learn(self, order: np.ndarray, seen: int) -> Iterator[EpochCounts]:
        """As `Stage.learn`; batches have sentences of similar lengths."""
        epoch = seen // max(1, len(order))
        if self._group is not None:
            self._group.begin(epoch)
        yield from self._learn(order, epoch)
        if self._group is not None and epoch + 1 == self.epochs:
            self._group.begin()

    def _learn(self, order: np.ndarray, epoch: int) -> Iterator[EpochCounts]:
        torch.manual_seed(_drawn(self._seed, epoch, self._group.rank if self._group else 0))
        random = np.random.default_rng([self._seed, self.drawn_for, epoch])
        batches = self._batches(order, random)
        n_words = int(self._batch.lengths.sum())
        done = words = 0
        missed = torch.zeros((), dtype=torch.int64, device=self._device)
        self.network.train()
        for step, sentences in enumerate(batches, 1):
            self._set_rates((epoch + words / n_words) / self.epochs)
            missed = missed + self._step(sentences)
            done += len(sentences)
            words += int(self._batch.lengths[sentences].sum())
            is_last = step == len(batches)
            if not (is_last or step % STEPS_OF_EVENT == 0):
                continue
            wrong = int(missed)
            if bool(self._failed):
                raise ModelError(f"encoder: the gradient of a step is no longer finite: {_TO_DO}")
            if is_last:
                self._check_finite()
                self.network.eval()
            yield EpochCounts(done, len(order), wrong, max(1, words))

    def _batches(self, order: np.ndarray, random: np.random.Generator) -> list[np.ndarray]:
        """The sentences of each step, with about equal numbers of pieces."""
        found: list[np.ndarray] = []
        for start in range(0, len(order), POOL):
            pool = order[start : start + POOL]
            found += self._batch.whole.batches(pool, BATCH)
        return [found[i] for i in random.permutation(len(found))]

    def _set_rates(self, share: float) -> None:
        """The rates after a share of training: they rise to the full ones, and fall to 0."""
        factor = share / WARM_UP if share < WARM_UP else (1.0 - share) / (1.0 - WARM_UP)
        for group in self._optimizer.param_groups:
            group["lr"] = group["rate"] * factor

    def _step(self, sentences: np.ndarray) -> Tensor:
        """Learn from some sentences; returns the number of wrong heads, or arcs of graphs.

        Nothing is learned from a gradient that is not finite, nor from those after it.
        """
        parameters = [parameter for _, parameter in self._parameters()]
        if self._group is not None:
            self._group.send(parameters)
        missed = self._gradients(sentences)
        if self._group is not None:
            missed = self._added(self._group, parameters, missed)
        if self._group is None or self._group.rank == 0:
            norm = nn.utils.clip_grad_norm_(parameters, LARGEST_GRADIENT)
            self._failed.copy_(self._failed.maximum(~torch.isfinite(norm)))
            self._optimizer.found_inf = self._failed  # with it, torch leaves out the step
            self._optimizer.step()
        return missed

    def _added(self, group: Processes, parameters: list[nn.Parameter], missed: Tensor) -> Tensor:
        """Let the first process have the sums of all gradients; returns that of mistakes there."""
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        group.add([missed, *(p.grad for p in parameters if p.grad is not None)])
        return missed

    def _gradients(self, sentences: np.ndarray) -> Tensor:
        """Compute the gradients of the loss of some sentences; returns the arcs that are wrong.

        Where memory does not suffice, fewer pieces go through the network at once from now on.
        """
        n_gold = self._n_gold(sentences)
        part = sentences if self._group is None else self._group.part(sentences)
        while True:
            self._optimizer.zero_grad(set_to_none=True)
            missed = torch.zeros((), dtype=torch.int64, device=self._device)
            try:
                for some in self._batch.whole.batches(part, self._at_once):
                    loss, wrong = self._loss(some, n_gold)
                    loss.backward()
                    missed = missed + wrong
                return missed
            except torch.OutOfMemoryError:
                if len(some) == 1:
                    raise
            torch.cuda.empty_cache()
            self._at_once //= 2
            self._tell(
                f"encoder: out of memory: {self._at_once} pieces go through the network at once"
                f" from now on; steps still read {BATCH}"
            )

    def _words(self, sentences: np.ndarray) -> np.ndarray:
        """The words of some sentences, one sentence after the other."""
        starts = self._batch.whole.word_starts
        return ranges(starts[sentences], starts[sentences + 1])

    def _n_gold(self, sentences: np.ndarray) -> dict[str, int]:
        """Gold values of some sentences: of arcs, which have the labels, and of each column."""
        words, gold = self._words(sentences), self._gold
        found = {name: int((ids[words] >= 0).sum()) for name, ids in gold.columns.items()}
        return found | {"arcs": len(gold.arcs_of(words)[0])}

    def _loss(self, sentences: np.ndarray, n_gold: Mapping[str, int]) -> tuple[Tensor, Tensor]:
        """The losses of arcs, labels and columns, added, in nats; and how many arcs are wrong.

        Args: n_gold: what each sum over words is divided by.
        """
        whole, gold = self._batch.whole, self._gold
        windows = whole.windows(sentences)
        rows = self._table.rows_of(windows)
        batch = batch_of(rows, self._table.pad, self._device)
        states, roots = self._hidden(batch, whole.tags_of(windows))
        nodes, b, m, lengths = nodes_of(states, roots, self._batch.lengths[sentences])
        nodes = nn.functional.dropout(nodes, self.network.heads.dropout / 2, training=True)
        words = self._words(sentences)
        places, arcs = gold.arcs_of(words)
        of_arcs = gold.heads[arcs].astype(np.int64), places
        heads, at = (sent_to(self._device, each) for each in of_arcs)
        with self.network.products(self._device):
            scores = self.network.heads.arc_scores(nodes).float()
        if gold.starts is None:
            of_words = gold.heads[words].astype(np.int64)
            loss, missed = self._loss_of_heads(scores, lengths, b, m, of_words)
        else:
            loss, missed = loss_of_graphs(scores, lengths, b[at], heads, m[at])
        loss = loss / max(1, n_gold["arcs"])
        if gold.labels is not None:
            with self.network.products(self._device):
                found = self.network.heads.label_scores(nodes[b[at], heads], nodes[b[at], m[at]])
            of_labels = cross_entropy(found.float(), gold.labels[arcs], SMOOTHING)
            loss = loss + of_labels / max(1, n_gold["arcs"])
        states = nodes[b, m]
        for name, ids in gold.columns.items():
            with self.network.products(self._device):
                found = self.network.heads.columns[name](states).float()
            loss = loss + cross_entropy(found, ids[words], SMOOTHING) / max(1, n_gold[name])
        return loss, missed

    def _hidden(self, batch: PieceTensors, tags: Mapping[str, np.ndarray]) -> tuple[Tensor, Tensor]:
        """`Network.hidden`; on a CPU the gradients of torch's fused attention take far longer."""
        if self._device.type != "cpu":
            return self.network.hidden(batch, tags)
        with sdpa_kernel(SDPBackend.MATH):
            return self.network.hidden(batch, tags)

    def _loss_of_heads(
        self, scores: Tensor, lengths: Tensor, b: Tensor, m: Tensor, gold_heads: np.ndarray
    ) -> tuple[Tensor, Tensor]:
        """The loss of heads, a sum over words, and how many heads do not score best."""
        nodes = torch.arange(scores.shape[1], device=scores.device)
        no_head = nodes[None, :, None] > lengths[:, None, None]
        no_head = no_head | (nodes[:, None] == nodes)
        of_words = scores.masked_fill(no_head, -torch.inf)[b, :, m]
        heads = sent_to(self._device, gold_heads)
        missed = ((of_words.detach().argmax(1) != heads) & (heads >= 0)).sum()
        if self._config.loss == "local" or not (gold_heads >= 0).any():
            return cross_entropy(of_words, gold_heads, SMOOTHING), missed
        kind = ProjectiveTrees if self._is_projective else NonProjectiveTrees
        trees = kind(scores, lengths, single_root=self._single_root)
        gold = torch.full_like(scores[:, :, 0], -1, dtype=torch.int64)
        gold[b, m] = heads
        of_trees = conditional_loss if self._config.loss == "conditional" else hinge_loss
        partial = bool((gold_heads < 0).any())
        loss = of_trees(trees, gold, unreachable="projectivise", partial=partial).sum()
        return loss.float(), missed

    def _check_finite(self) -> None:
        """Raises: ModelError: learning has gone wrong; what is kept of earlier epochs stays."""
        for name, parameter in self._parameters():
            if not bool(torch.isfinite(parameter).all()):
                raise ModelError(f"encoder: {name} is no longer finite: {_TO_DO}")

    def averages(self) -> list[np.ndarray]:
        """Copies of the learned weights, in the order of names."""
        return [p.detach().cpu().numpy().copy() for _, p in self._parameters()]

    def average_sizes(self, done: int) -> list[tuple[int, ...]]:
        """The shapes of `averages`."""
        return [tuple(p.shape) for _, p in self._parameters()]

    def arrays(self) -> dict[str, np.ndarray]:
        """All numbers of the network so far, or of the best epoch if it is chosen."""
        found = {
            name: parameter.detach().cpu().numpy().copy()
            for name, parameter in self.network.named_parameters()
        }
        if self.best is not None and self.best.is_chosen:
            found |= dict(zip(self._names, self.best.averages, strict=True))
        found[self._table.name] = self._table.whole(found[self._table.name])
        return self.network.heads.whole(found)

    def state(self) -> dict[str, np.ndarray]:
        """The weights and the moments of the optimizer; empty before the first epoch."""
        if not self.done:
            return {}
        kept = {}
        for name, parameter in self._parameters():
            kept[name] = parameter.detach().cpu().numpy()
            own = self._optimizer.state[parameter]
            kept |= {f"{name}:{each}": own[each].cpu().numpy() for each in _MOMENTS if own}
            kept[f"{name}:step"] = np.array([int(own["step"]) if own else 0])
        return kept

    def shapes(self, done: int, state: Mapping[str, np.ndarray]) -> dict[str, Shape]:
        """As `Stage.shapes`."""
        shapes: dict[str, Shape] = {}
        for name, parameter in self._parameters() if done else ():
            sizes = tuple(parameter.shape)
            shapes[name] = Shape(np.float32, sizes)
            shapes[f"{name}:step"] = Shape(np.int64, (1,))
            if f"{name}:{_MOMENTS[0]}" in state:  # a parameter that no loss reads has none
                shapes |= {f"{name}:{each}": Shape(np.float32, sizes) for each in _MOMENTS}
        return shapes

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a state, or from the start."""
        self._optimizer.state.clear()
        with torch.no_grad():
            for name, parameter in self._parameters():
                found = state[name] if state else self._starts[name]
                parameter.copy_(torch.from_numpy(np.array(found)))
                if f"{name}:{_MOMENTS[0]}" in state:
                    own = {
                        each: torch.from_numpy(state[f"{name}:{each}"].copy()).to(self._device)
                        for each in _MOMENTS
                    }
                    step = float(state[f"{name}:step"][0])
                    self._optimizer.state[parameter] = own | {
                        "step": torch.tensor(step, device=self._device)
                    }


class _PieceTable(NamedTuple):
    """The embeddings of the pieces that the training sentences have, which alone are learned.

    Others have no gradient: they stay as they are pretrained, and cost nothing in a step.

    name: of the parameter. weights: (V, width) of all pieces, as pretrained. learned: (K,) the
    pieces that are learned. rows: (V,) the place of each piece among these. pad: that of padding.
    """

    name: str
    weights: np.ndarray
    learned: np.ndarray
    rows: np.ndarray
    pad: int

    @classmethod
    def of(cls, network: Network, batch: EncodedPieces) -> _PieceTable:
        """Leave the embeddings of other pieces out of a network."""
        weight = network.body.get_input_embeddings().weight
        [name] = [name for name, p in network.named_parameters() if p is weight]
        splitter = batch.whole.splitter
        special = [network.pad, *splitter.prefix, *splitter.suffix]
        learned = np.unique(np.concatenate([batch.whole.forms.values, special]))
        rows = np.zeros(len(weight), np.int32)
        rows[learned] = np.arange(len(learned))
        kept = weight.detach()[sent_to(weight.device, learned)]
        network.body.set_input_embeddings(
            nn.Embedding.from_pretrained(kept, freeze=not weight.requires_grad)
        )
        whole = weight.detach().cpu().numpy()
        return cls(name, whole, learned, rows, int(rows[network.pad]))

    def rows_of(self, windows: Windows) -> Windows:
        """Windows with the places of pieces among those that are learned."""
        return windows._replace(ids=self.rows[windows.ids])

    def whole(self, learned: np.ndarray) -> np.ndarray:
        """(V, width) the embeddings of all pieces; learned: (K, width)."""
        found = self.weights.copy()
        found[self.learned] = learned
        return found


def epochs_of(config: EncoderConfig, n_pieces: int) -> int:
    """The epochs of a config; `auto`: EPOCHS, or up to MOST_EPOCHS until there are STEPS steps."""
    if not isinstance(config.epochs, str):
        return config.epochs
    wanted = -(-STEPS * BATCH // max(1, n_pieces))
    return min(max(EPOCHS, wanted), MOST_EPOCHS)


def cross_entropy(scores: Tensor, gold: np.ndarray, smoothing: float) -> Tensor:
    """The sum over words with a gold value, in nats.

    Args: gold: (W,), -1 without a value; in main memory, so that nothing waits for the device.
        smoothing: share of each gold value that all values which are not forbidden have instead, in
        equal parts (Szegedy et al. 2016).
    """
    known = np.flatnonzero(gold >= 0)
    places, values = (sent_to(scores.device, each) for each in (known, gold[known]))
    return smoothed_cross_entropy(scores[places], values, smoothing).sum()


def loss_of_graphs(
    scores: Tensor, lengths: Tensor, b: Tensor, h: Tensor, m: Tensor
) -> tuple[Tensor, Tensor]:
    """The binary cross-entropy of all arcs that a graph may have, a sum in nats; and wrong arcs.

    Args: scores: (B, N, N), the log-odds of arcs. lengths: (B,). b, h, m: (A,), the gold arcs.
    Returns: the loss; how many arcs are missing, or have a score above 0 and are not gold.
    Source: Dozat & Manning (2018), section 2.2; differs: a sum over all arcs, which the caller
        divides by the number of gold arcs; the factor of the loss of labels is 1.
    """
    gold = torch.zeros_like(scores).index_put((b, h, m), scores.new_ones(()))
    found = scores.masked_fill(~read_cells(lengths, scores.shape[1]), _FORBIDDEN)
    loss = nn.functional.binary_cross_entropy_with_logits(found, gold, reduction="sum")
    return loss, ((found > 0) != (gold > 0)).sum()


def _drawn(seed: int, epoch: int, rank: int) -> int:
    """The seed of the numbers that a process drops in an epoch."""
    return int(np.random.SeedSequence([seed, 7, epoch, rank]).generate_state(1)[0])

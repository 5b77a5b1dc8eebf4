"""Learns a parser whose scores are those of a pretrained encoder."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import torch

from gpuparse.config import RunConfig
from gpuparse.data.batch import word_places
from gpuparse.data.columns import DEPREL
from gpuparse.data.tag_columns import read_column, require_values
from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import is_empty_column
from gpuparse.errors import DataError
from gpuparse.inference.decoders import DECODERS
from gpuparse.learning.config_checks import check_encoder
from gpuparse.learning.gold import check_relations, read_gold, without_unreachable
from gpuparse.learning.stages.encoder.pretrained import Pretrained, read_pretrained
from gpuparse.learning.stages.encoder.processes import Processes
from gpuparse.learning.stages.encoder.stage import EncoderGold, EncoderStage
from gpuparse.learning.stages.encoder.vocabulary import with_vocabulary
from gpuparse.learning.trainer import SINGLE_ROOT, StagesTrainer
from gpuparse.model.engines.searcher import Scales
from gpuparse.model.parser import Parser
from gpuparse.scorers.encoder.columns import NUMBERS, learned_values
from gpuparse.scorers.encoder.network import Heads, Network
from gpuparse.scorers.encoder.pieces import EncodedPieces
from gpuparse.scorers.encoder.quantised import FAMILIES as QUANTISED_FAMILIES
from gpuparse.scorers.encoder.scorer import PARTS, TAG_SCALE, EncoderScorer, tags_of
from gpuparse.scorers.encoder.sizes import Sizes

# torch keeps code for each shape of a product, of 1,024 shapes by itself: some gigabytes.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")

__all__ = ["EncoderTrainer", "Processes", "read_pretrained"]

# Sizes of the vectors that arcs and relations are scored with ("Pretrained encoders" in
# benchmarks/book.md), and the share of their numbers that is left out at random (Dozat & Manning).
ARC_SIZE, LABEL_SIZE, DROPOUT = 384, 64, 0.33


class EncoderTrainer(StagesTrainer):
    """Learns an encoder with its heads from gold trees or graphs, and columns.

    Args:
        treebank: gold trees, checked.
        config: the keys of the run; those of templates are not read.
        pretrained: the encoder that is trained further.
        tell: writes a line for the user.
        device: where it is learned.
        group: of the processes that learn together.
    Raises: ConfigError: the decoder reads parts that an encoder does not score. DataError: a
        treebank without sentences, or as `without_unreachable` says.
    """

    most_loss: float | None = 0.15

    def __init__(
        self, treebank: Treebank, config: RunConfig, pretrained: Pretrained,
        tell: Callable[[str], None], device: str = "cpu", group: Processes | None = None,
    ) -> None:  # fmt: skip
        check_encoder(config)
        if len(treebank) == 0:
            raise DataError(f"{treebank.source}: no sentences to learn from")
        n_read = len(treebank)
        treebank, _ = without_unreachable(treebank, None, config)
        self.config, self.n_sentences = config, len(treebank)
        self._keys = config.encoder
        pretrained = with_vocabulary(pretrained, treebank, self._keys.vocabulary, tell)
        self._pretrained = pretrained
        self._tags = {} if not self._keys.read_tags else _read_tags(treebank)
        tags = {name: tags_of(treebank, name, texts) for name, texts in self._tags.items()}
        batch = EncodedPieces.of(treebank, pretrained.splitter, tags)
        # The loss `local` needs no tree of the decoder: heads of any tree are learned.
        is_local = self._keys.loss == "local" and not DECODERS[config.decoder].gives_graphs
        decoder = "chu_liu_edmonds" if is_local else config.decoder
        trees = read_gold(
            treebank, batch, decoder, unreachable=config.learning.unreachable,
            single_root=SINGLE_ROOT[config.data.single_root],
        )  # fmt: skip
        self.single_root = trees.single_root
        self.n_unreachable = n_read - len(treebank) + trees.n_unreachable
        filled = [name for name in NUMBERS if getattr(self._keys, name) and name not in self._tags]
        self._values, columns = learned_values(treebank, filled)
        self._graphs = trees.graphs
        self.label_names, labels = self._labels(treebank)
        places = word_places(batch)
        gold = EncoderGold(trees.arc_heads[places], labels, columns)
        if self._graphs is not None:
            starts = self._graphs.arc_starts[np.append(places, batch.n_tokens)]
            gold = gold._replace(heads=self._graphs.arc_heads, starts=starts)
        is_quantised = pretrained.config["model_type"] in QUANTISED_FAMILIES
        sizes = Sizes(
            ARC_SIZE, LABEL_SIZE, len(self.label_names),
            self._values.sizes, {name: len(texts) for name, texts in self._tags.items()},
        )  # fmt: skip
        torch.manual_seed(config.seed)
        heads = Heads(pretrained.width, sizes, DROPOUT, self._values.parts)
        precision = _precision(self._keys.precision, device)
        network = Network(pretrained.body(), pretrained.pad, heads, precision).to(device)
        self._stage = EncoderStage(
            network, batch, gold, self._keys, is_projective=DECODERS[config.decoder].is_projective,
            single_root=self.single_root, seed=config.seed, tell=tell, group=group,
        )  # fmt: skip
        self.stages = [self._stage]
        if not is_quantised:
            self.most_loss = None

    def follow(self) -> None:
        """Learn together with the first process of the group, until it has learned all."""
        self._stage.follow(lambda epoch: self._order(self._stage, epoch))

    def _labels(self, treebank: Treebank) -> tuple[list[str], np.ndarray | None]:
        """The relations, and their numbers, as `EncoderGold` has them."""
        if self.config.labels.kind == "none":
            return [], None
        if self._graphs is not None:
            check_relations(treebank, self._graphs.names)
            check_relations(treebank, (name for name in self._graphs.primary if name is not None))
            return self._graphs.names, self._graphs.relations
        if is_empty_column(treebank, DEPREL):
            return [], None
        column = read_column(treebank, DEPREL)
        check_relations(treebank, column.names)
        ids = np.where(treebank.heads < 0, -1, column.ids).astype(np.int64)
        return list(column.names), ids

    def model(self, bits: int, config: str = "") -> Parser:
        """The parser with the network so far.

        Args: bits: 8: the transformer is quantised. config: the YAML text of the run.
        """
        scorer = EncoderScorer(
            config=self._pretrained.config, splitter=self._pretrained.splitter,
            arrays=self._stage.arrays() | {TAG_SCALE: np.ones(1, np.float32)},
            values=self._values, tags=self._tags, n_labels=len(self.label_names),
            precision=self._keys.precision,
        )  # fmt: skip
        if bits == 8:
            scorer = scorer.in_bytes
        return Parser(
            scorers=(scorer,),
            labels=self.label_names,
            primary=self._graphs.primary if self._graphs and self.label_names else None,
            decoder=self.config.decoder,
            min_gain=self.config.min_gain * PARTS,
            single_root=self.single_root,
            scales=Scales(*scorer.nats_per_point),
            config=config,
        )


def _precision(given: str, device: str) -> str:
    """The precision of learning: `auto` is bfloat16 on a CPU, too, if that multiplies with it."""
    known = getattr(torch.cpu, "get_capabilities", None)  # older releases do not have it
    if given == "auto" and device == "cpu" and known is not None and known().get("avx512_bf16"):
        return "bfloat16"
    return given


def _read_tags(treebank: Treebank) -> dict[str, list[str]]:
    """The values of the columns of tags that a treebank has, after one for unknown ones."""
    columns = {name: read_column(treebank, NUMBERS[name]).names for name in NUMBERS}
    for name, texts in columns.items():
        require_values(treebank, name.upper(), texts)
    return {name: ["", *names] for name, names in columns.items() if not set(names) <= {"_"}}

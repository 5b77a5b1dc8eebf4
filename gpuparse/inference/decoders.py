"""The table of decoders: what each reads, what it finds, and what is known of its trees, and where.

This is the one place that says which quantities exist for which decoder on which engine. Commands,
the parser, the learner and the tests ask the table. It imports no torch: searches.py has the
functions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, get_args

Engine = Literal["native", "torch", "triton"]
Quantity = Literal["best", "k_best", "log_partition", "marginals", "entropy", "samples"]

ENGINES: tuple[Engine, ...] = get_args(Engine)
"""Functions and commands take one of these, or "auto"."""

SIBLING_PARTS = ("sibling", "end")
GRAND_PARTS = ("grandparent", "grand_sibling")
CHILD_PARTS = ("head_child", "inner_grandchild", "outer_grandchild")


@dataclass(frozen=True)
class Decoder:
    """A decoder and what it needs and gives.

    name: in configs, and of the public function that finds the best trees.
    trees: the kind of trees among which it searches.
    search, time: whether it is exact, and what it costs, as docs/decoders.md says it; n words, k
    candidate heads per word.
    engines: those that compute each quantity. The function of `best` is (arc_scores, lengths, *,
    single_root, engine) -> (heads, scores, ...); one of the second order takes sibling_scores
    after arc_scores, and the keyword end_scores; a higher-order one takes all scores but those of
    arcs by keyword.
    parts: the part kinds, as template sets name them, that it reads; needs: at least one of these
    must have templates. reads: the fields of `Scores`, besides `arc`, that hold their scores.
    certifies: it says which trees are known to be the best ones, and keeps limits on labels.
    starts_from: the decoder whose tree it improves, where it does.
    """

    name: str
    trees: Literal["projective", "all", "graphs"]
    search: str
    time: str
    engines: Mapping[Quantity, tuple[Engine, ...]]
    parts: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    certifies: bool = False
    starts_from: str | None = None

    def __reduce__(self) -> tuple[Callable[[str], "Decoder"], tuple[str]]:
        """Copies and pickles are the row of the table."""
        return _row, (self.name,)

    def has(self, quantity: Quantity, engine: Engine | None = None) -> bool:
        """True if a quantity exists, on this engine or, for None, on any."""
        engines = self.engines.get(quantity)
        return engines is not None and (engine is None or engine in engines)

    def engine_for(self, quantity: Quantity, engine: str) -> str:
        """The engine, or "auto" where it does not have the quantity."""
        return engine if engine in self.engines[quantity] else "auto"

    def function(self, quantity: Quantity = "best") -> Callable[..., Any]:
        """The public function of a quantity that exists. It needs torch."""
        from gpuparse.inference.searches import FUNCTIONS

        return FUNCTIONS[self.name, quantity]

    @property
    def number(self) -> int:
        """As native/decoder_numbers.h counts them."""
        return list(DECODERS).index(self.name)

    @property
    def is_projective(self) -> bool:
        """True if its trees have no crossing arcs."""
        return self.trees == "projective"

    @property
    def gives_graphs(self) -> bool:
        """True if arcs come instead of heads, since a word may have several."""
        return self.trees == "graphs"

    @property
    def needs_projective_tree(self) -> bool:
        """True if it fails where no projective tree exists: it finds one, or starts from one."""
        return self.is_projective or self.starts_from is not None

    @property
    def reads_siblings(self) -> bool:
        """True if it reads scores of two modifiers of one head."""
        return "sibling" in self.reads

    @property
    def is_higher_order(self) -> bool:
        """True if it reads parts other than arcs, siblings and ends."""
        return not set(self.parts) <= set(SIBLING_PARTS)

    @property
    def reads_children(self) -> bool:
        """True if it reads scores of an arc with the children around it."""
        return set(CHILD_PARTS) <= set(self.parts)

    @property
    def order(self) -> int:
        """1 for arcs, 2 for siblings, 3 for higher orders."""
        if self.is_higher_order:
            return 3
        return 2 if self.reads_siblings else 1

    @property
    def of_arcs(self) -> Literal["eisner", "chu_liu_edmonds"]:
        """The first-order decoder that finds the same kind of trees."""
        return "eisner" if self.is_projective else "chu_liu_edmonds"


DERIVED: Mapping[str, Quantity] = {"expected cost": "marginals", "KL": "marginals"}
"""Quantities that distributions compute from another one, and that one."""


def _row(name: str) -> Decoder:
    return DECODERS[name]


def with_quantity(quantity: Quantity, engine: Engine | None = None) -> tuple[str, ...]:
    """Names of the decoders that have a quantity, on this engine or, for None, on any."""
    return tuple(name for name, decoder in DECODERS.items() if decoder.has(quantity, engine))


def _engines(**engines: tuple[Engine, ...]) -> Mapping[Quantity, tuple[Engine, ...]]:
    """The engines of quantities."""
    found: dict[Any, tuple[Engine, ...]] = engines
    return MappingProxyType(found)


_OF_SIBLINGS: dict[str, Any] = {
    "parts": SIBLING_PARTS,
    "needs": ("sibling",),
    "reads": SIBLING_PARTS,
}

_TABLE = (
    Decoder(
        "eisner",
        "projective",
        "exact",
        "n³",
        _engines(
            best=("native", "torch", "triton"),
            k_best=("native", "torch"),
            log_partition=("native", "torch", "triton"),
            marginals=("native", "torch", "triton"),
            entropy=("native", "torch", "triton"),
            samples=("native", "torch"),
        ),
    ),
    Decoder(
        "chu_liu_edmonds",
        "all",
        "exact",
        "n²",
        _engines(
            best=("native", "torch", "triton"),
            k_best=("native", "torch"),
            log_partition=("native", "torch"),
            marginals=("native", "torch"),
            entropy=("native", "torch"),
            samples=("native", "torch"),
        ),
    ),
    Decoder(
        "eisner_sibling",
        "projective",
        "exact",
        "n³",
        _engines(
            best=("native", "torch", "triton"),
            k_best=("native", "torch"),
            log_partition=("native", "torch", "triton"),
            marginals=("native", "torch", "triton"),
            entropy=("native", "torch", "triton"),
            samples=("native", "torch"),
        ),
        **_OF_SIBLINGS,
    ),
    Decoder(
        "hill_climb",
        "all",
        "approximate: starts from the best projective tree, and changes one head at a time while"
        " the score rises",
        "n³, and n² per change",
        _engines(best=("native",)),
        starts_from="eisner_sibling",
        **_OF_SIBLINGS,
    ),
    Decoder(
        "multi_parent",
        "graphs",
        "approximate: as hill_climb, and heads can be added",
        "n³, and n² per change",
        _engines(best=("native",)),
        starts_from="eisner_sibling",
        **_OF_SIBLINGS,
    ),
    Decoder(
        "eisner_grandchild",
        "projective",
        "exact",
        "n⁴, or n²k²",
        _engines(best=("native",)),
        parts=("sibling", *CHILD_PARTS),
        needs=CHILD_PARTS,
        reads=("sibling", "inner_grandchild", "outer_grandchild"),
    ),
    Decoder(
        "eisner_grand_sibling",
        "projective",
        "exact",
        "n⁴, or nk³ + n²k²",
        _engines(best=("native",)),
        parts=(*SIBLING_PARTS, *GRAND_PARTS),
        needs=GRAND_PARTS,
        reads=(*SIBLING_PARTS, *GRAND_PARTS),
    ),
    Decoder(
        "eisner_tri_sibling",
        "projective",
        "exact; scores grandparents and grand-siblings only for the outermost modifier of each"
        " side",
        "n⁴, or nk³ + n²k²",
        _engines(best=("native",)),
        parts=(*SIBLING_PARTS, *GRAND_PARTS, "tri_sibling"),
        needs=("tri_sibling",),
        reads=(*SIBLING_PARTS, "tri_sibling", "outermost"),
    ),
    Decoder(
        "dual_decomposition",
        "all",
        "exact where the tree is certified",
        "n² + nk³ per iteration",
        _engines(best=("native",)),
        parts=(*SIBLING_PARTS, *GRAND_PARTS),
        needs=("sibling", *GRAND_PARTS),
        reads=(*SIBLING_PARTS, *GRAND_PARTS),
        certifies=True,
    ),
)

DECODERS: Mapping[str, Decoder] = MappingProxyType({decoder.name: decoder for decoder in _TABLE})
"""By name, in the order of native/decoder_numbers.h."""

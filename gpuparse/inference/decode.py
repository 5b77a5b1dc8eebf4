"""Name in a config -> decoder. The one such table."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from gpuparse.errors import ConfigError, ScoreError
from gpuparse.inference.approximate.dual_decomposition import dual_decomposition
from gpuparse.inference.chu_liu_edmonds import chu_liu_edmonds
from gpuparse.inference.eisner import eisner
from gpuparse.inference.eisner_sibling import eisner_sibling
from gpuparse.inference.higher_order import (
    eisner_grand_sibling,
    eisner_grandchild,
    eisner_tri_sibling,
)
from gpuparse.inference.hill_climb import hill_climb
from gpuparse.inference.integer_program import integer_program
from gpuparse.inference.multi_parent import multi_parent
from gpuparse.inference.scores import Parse, Scores

SIBLING_PARTS = ("sibling", "end")
GRAND_PARTS = ("grandparent", "grand_sibling")
CHILD_PARTS = ("head_child", "inner_grandchild", "outer_grandchild")


@dataclass(frozen=True)
class Decoder:
    """A decoder and what it needs and gives.

    search: the public function: (arc_scores, lengths, *, single_root, backend) -> (heads,
    scores, ...). One of the second order takes sibling_scores after arc_scores, and the keyword
    end_scores; one beyond it takes all scores but those of arcs by keyword.
    reads: the fields of `Scores`, besides that of arcs, that it reads.
    parts: the parts, as sets of templates name them, whose scores these are; needs: at least one of
    these must have templates.
    is_projective: its trees have no crossing arcs.
    has_backends: it takes a backend; otherwise it reads tensors in main memory.
    gives_graphs: arcs come instead of heads, for a word may have several.
    certifies: it says which trees are known to be the best ones, and keeps limits on labels.
    is_program: its trees come from a solver that compiled code cannot call.
    """

    search: Callable[..., tuple[Any, ...]]
    reads: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    is_projective: bool = False
    has_backends: bool = True
    gives_graphs: bool = False
    certifies: bool = False
    is_program: bool = False

    @property
    def reads_siblings(self) -> bool:
        """Whether it reads what two modifiers of one head score."""
        return "sibling" in self.reads

    @property
    def reads_larger(self) -> bool:
        """Whether it is beyond the second order of siblings: it reads parts of other words."""
        return not set(self.parts) <= set(SIBLING_PARTS)

    @property
    def reads_children(self) -> bool:
        """Whether it reads what an arc scores with the children around it."""
        return set(CHILD_PARTS) <= set(self.parts)

    @property
    def order(self) -> int:
        """1 of arcs, 2 of siblings, 3 for all that is beyond."""
        if self.reads_larger:
            return 3
        return 2 if self.reads_siblings else 1

    @property
    def of_arcs(self) -> str:
        """The decoder of the first order that finds the same kind of trees."""
        return "eisner" if self.is_projective else "chu_liu_edmonds"


def _by_integer_program(
    arc_scores: Tensor,
    lengths: Tensor,
    *,
    sibling_scores: Tensor | None = None,
    end_scores: Tensor | None = None,
    grandparent_scores: Tensor | None = None,
    grand_sibling_scores: Tensor | None = None,
    single_root: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """`integer_program` with all larger parts by keyword, as its peers take them."""
    return integer_program(
        arc_scores, sibling_scores, lengths, end_scores=end_scores,
        grandparent_scores=grandparent_scores, grand_sibling_scores=grand_sibling_scores,
        single_root=single_root,
    )  # fmt: skip


_OF_SIBLINGS: dict[str, Any] = {
    "reads": SIBLING_PARTS,
    "parts": SIBLING_PARTS,
    "needs": ("sibling",),
}

DECODERS: dict[str, Decoder] = {
    "eisner": Decoder(eisner, is_projective=True),
    "chu_liu_edmonds": Decoder(chu_liu_edmonds),
    "eisner_sibling": Decoder(eisner_sibling, is_projective=True, **_OF_SIBLINGS),
    "hill_climb": Decoder(hill_climb, has_backends=False, **_OF_SIBLINGS),
    "multi_parent": Decoder(multi_parent, has_backends=False, gives_graphs=True, **_OF_SIBLINGS),
    "eisner_grandchild": Decoder(
        eisner_grandchild,
        ("sibling", "inner_grandchild", "outer_grandchild"),
        ("sibling", *CHILD_PARTS),
        CHILD_PARTS,
        is_projective=True,
    ),
    "eisner_grand_sibling": Decoder(
        eisner_grand_sibling,
        (*SIBLING_PARTS, *GRAND_PARTS),
        (*SIBLING_PARTS, *GRAND_PARTS),
        GRAND_PARTS,
        is_projective=True,
    ),
    "eisner_tri_sibling": Decoder(
        eisner_tri_sibling,
        (*SIBLING_PARTS, "tri_sibling", "outermost"),
        (*SIBLING_PARTS, *GRAND_PARTS, "tri_sibling"),
        ("tri_sibling",),
        is_projective=True,
    ),
    "dual_decomposition": Decoder(
        dual_decomposition,
        (*SIBLING_PARTS, *GRAND_PARTS),
        (*SIBLING_PARTS, *GRAND_PARTS),
        ("sibling", *GRAND_PARTS),
        certifies=True,
    ),
    "ilp": Decoder(
        _by_integer_program,
        (*SIBLING_PARTS, *GRAND_PARTS),
        (*SIBLING_PARTS, *GRAND_PARTS),
        ("sibling", *GRAND_PARTS),
        has_backends=False,
        is_program=True,
    ),
}


def decode(name: str, scores: Scores, *, single_root: bool = False, backend: str = "auto") -> Parse:
    """Trees or graphs under the decoder of that name.

    Args:
        name: a key of `DECODERS`.
        scores: what the decoder reads.
        single_root: exactly one modifier of the root; otherwise one or more.
        backend: "auto", "torch", "cpu" or "gpu".

    Raises:
        ConfigError: no decoder has this name.
        ScoreError, NoTreeError: from the decoder; ScoreError too if sibling scores are missing that
            one of the second order needs.

    Cost: that of the decoder.
    """
    if name not in DECODERS:
        raise ConfigError(f"unknown decoder {name!r}: expected one of {', '.join(DECODERS)}")
    decoder = DECODERS[name]
    if not decoder.has_backends and backend not in ("auto", "cpu"):
        raise ScoreError(f"{name} runs on the CPU only, not with the backend {backend!r}")
    given = {f"{field}_scores": getattr(scores, field) for field in decoder.reads}
    parts = [scores.arc]
    if decoder.reads_siblings and not decoder.reads_larger:
        parts.append(given.pop("sibling_scores"))
        if scores.sibling is None:
            raise ScoreError(f"{name} reads sibling scores, and there are none")
    search = partial(decoder.search, *parts, scores.lengths, single_root=single_root, **given)
    found, values, *_ = search(backend=backend) if decoder.has_backends else search()
    return Parse(None, values, found) if decoder.gives_graphs else Parse(found, values)

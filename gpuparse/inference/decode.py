"""Name in a config -> decoder. The one such table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpuparse.errors import ConfigError, ScoreError
from gpuparse.inference.chu_liu_edmonds import chu_liu_edmonds
from gpuparse.inference.eisner import eisner
from gpuparse.inference.eisner_sibling import eisner_sibling
from gpuparse.inference.scores import Parse, Scores


@dataclass(frozen=True)
class Decoder:
    """A decoder and what it needs and gives.

    search: the public function: (arc_scores, lengths, *, single_root, backend) -> (heads, scores),
    with sibling_scores after arc_scores if it reads them.
    is_projective: its trees have no crossing arcs.
    """

    search: Callable[..., tuple[Any, ...]]
    reads_siblings: bool = False
    is_projective: bool = False


DECODERS: dict[str, Decoder] = {
    "eisner": Decoder(eisner, is_projective=True),
    "chu_liu_edmonds": Decoder(chu_liu_edmonds),
    "eisner_sibling": Decoder(eisner_sibling, reads_siblings=True, is_projective=True),
}
FIRST_ORDER = tuple(name for name, decoder in DECODERS.items() if not decoder.reads_siblings)
PROJECTIVE = frozenset(name for name, decoder in DECODERS.items() if decoder.is_projective)
"""The decoders whose trees have no crossing arcs."""


def decode(name: str, scores: Scores, *, single_root: bool = False, backend: str = "auto") -> Parse:
    """Best trees under the decoder of that name.

    Args:
        name: a key of `DECODERS`.
        scores: what the decoder reads.
        single_root: exactly one modifier of the root; otherwise one or more.
        backend: "auto", "torch" or "cpu".

    Raises:
        ConfigError: no decoder has this name.
        ScoreError, NoTreeError: from the decoder; ScoreError too if sibling scores are missing.

    Cost: that of the decoder.
    """
    if name not in DECODERS:
        raise ConfigError(f"unknown decoder {name!r}: expected one of {', '.join(DECODERS)}")
    decoder = DECODERS[name]
    if decoder.reads_siblings:
        if scores.sibling is None:
            raise ScoreError(f"{name} reads sibling scores, and there are none")
        heads, values = decoder.search(
            scores.arc, scores.sibling, scores.lengths, single_root=single_root, backend=backend
        )
    else:
        heads, values = decoder.search(
            scores.arc, scores.lengths, single_root=single_root, backend=backend
        )
    return Parse(heads, values)

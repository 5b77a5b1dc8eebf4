"""Name in a config -> decoder. The one such table."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from gpuparse.errors import ConfigError, ScoreError
from gpuparse.inference.chu_liu_edmonds import chu_liu_edmonds
from gpuparse.inference.eisner import eisner
from gpuparse.inference.eisner_sibling import eisner_sibling
from gpuparse.inference.hill_climb import hill_climb
from gpuparse.inference.multi_parent import multi_parent
from gpuparse.inference.scores import Parse, Scores


@dataclass(frozen=True)
class Decoder:
    """A decoder and what it needs and gives.

    search: the public function: (arc_scores, lengths, *, single_root, backend) -> (heads,
    scores, ...), with sibling_scores after arc_scores, and the keyword end_scores, if it reads
    them.
    is_projective: its trees have no crossing arcs.
    has_backends: it takes a backend; otherwise it reads tensors in main memory.
    gives_graphs: arcs come instead of heads, for a word may have several.
    """

    search: Callable[..., tuple[Any, ...]]
    reads_siblings: bool = False
    is_projective: bool = False
    has_backends: bool = True
    gives_graphs: bool = False


DECODERS: dict[str, Decoder] = {
    "eisner": Decoder(eisner, is_projective=True),
    "chu_liu_edmonds": Decoder(chu_liu_edmonds),
    "eisner_sibling": Decoder(eisner_sibling, reads_siblings=True, is_projective=True),
    "hill_climb": Decoder(hill_climb, reads_siblings=True, has_backends=False),
    "multi_parent": Decoder(
        multi_parent, reads_siblings=True, has_backends=False, gives_graphs=True
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
        ScoreError, NoTreeError: from the decoder; ScoreError too if sibling scores are missing.

    Cost: that of the decoder.
    """
    if name not in DECODERS:
        raise ConfigError(f"unknown decoder {name!r}: expected one of {', '.join(DECODERS)}")
    decoder = DECODERS[name]
    if decoder.reads_siblings and scores.sibling is None:
        raise ScoreError(f"{name} reads sibling scores, and there are none")
    if not decoder.has_backends and backend not in ("auto", "cpu"):
        raise ScoreError(f"{name} runs on the CPU only, not with the backend {backend!r}")
    parts = (scores.arc, scores.sibling) if decoder.reads_siblings else (scores.arc,)
    ends = {"end_scores": scores.end} if decoder.reads_siblings else {}
    search = partial(decoder.search, *parts, scores.lengths, single_root=single_root, **ends)
    found, values, *_ = search(backend=backend) if decoder.has_backends else search()
    return Parse(None, values, found) if decoder.gives_graphs else Parse(found, values)

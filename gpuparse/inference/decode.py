"""Name in a config -> decoder. The one such table."""

from collections.abc import Callable

from torch import Tensor

from gpuparse.errors import ConfigError
from gpuparse.inference.chu_liu_edmonds import chu_liu_edmonds
from gpuparse.inference.eisner import eisner
from gpuparse.inference.scores import Parse, Scores

Decoder = Callable[..., tuple[Tensor, Tensor]]
"""(arc_scores, lengths, *, single_root, backend) -> (heads, scores)."""

DECODERS: dict[str, Decoder] = {
    "eisner": eisner,
    "chu_liu_edmonds": chu_liu_edmonds,
}
PROJECTIVE = frozenset({"eisner"})
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
        ScoreError, NoTreeError: from the decoder.

    Cost: that of the decoder.
    """
    if name not in DECODERS:
        raise ConfigError(f"unknown decoder {name!r}: expected one of {', '.join(DECODERS)}")
    heads, values = DECODERS[name](
        scores.arc, scores.lengths, single_root=single_root, backend=backend
    )
    return Parse(heads, values)

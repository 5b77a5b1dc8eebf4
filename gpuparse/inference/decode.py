"""Decoding by name: scores of parts in, trees or graphs out."""

from functools import partial

from gpuparse.errors import ConfigError, ScoreError
from gpuparse.inference.decoders import DECODERS, ENGINES
from gpuparse.inference.scores import Parse, Scores


def decode(name: str, scores: Scores, *, single_root: bool = False, backend: str = "auto") -> Parse:
    """Trees or graphs under the decoder of that name.

    Args:
        name: a key of `DECODERS`.
        scores: those of the parts that the decoder reads; others are not looked at.
        single_root: exactly one modifier of the root; otherwise one or more.
        backend: "auto", "torch", "cpu" or "gpu".

    Raises:
        ConfigError: no decoder has this name.
        ScoreError, NoTreeError: from the decoder; ScoreError too for a backend that it does not run
            on, and if sibling scores are missing that one of the second order needs.

    Cost: that of the decoder.
    """
    if name not in DECODERS:
        raise ConfigError(f"unknown decoder {name!r}: expected one of {', '.join(DECODERS)}")
    decoder = DECODERS[name]
    if backend in ENGINES and not decoder.has("best", ENGINES[backend]):
        known = [key for key, engine in ENGINES.items() if decoder.has("best", engine)]
        raise ScoreError(
            f"{name} does not run on the backend {backend!r}, only on {' or '.join(known)}"
        )
    parts = {f"{field}_scores": getattr(scores, field) for field in decoder.reads}
    arcs = [scores.arc]
    if decoder.order == 2:
        if scores.sibling is None:
            raise ScoreError(f"{name} reads sibling scores, and there are none")
        arcs.append(parts.pop("sibling_scores"))
    search = partial(decoder.function("best"), *arcs, scores.lengths, backend=backend)
    found, values, *_ = search(single_root=single_root, **parts)
    return Parse(None, values, found) if decoder.gives_graphs else Parse(found, values)

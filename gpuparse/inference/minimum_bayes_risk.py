"""The tree with the most heads expected to be right."""

from typing import Literal

from torch import Tensor

from gpuparse.errors import ScoreError
from gpuparse.inference.chu_liu_edmonds import chu_liu_edmonds
from gpuparse.inference.eisner import eisner

SEARCHES = {"eisner": eisner, "chu_liu_edmonds": chu_liu_edmonds}


def minimum_bayes_risk(
    marginals: Tensor,
    lengths: Tensor,
    *,
    decoder: Literal["eisner", "chu_liu_edmonds"],
    single_root: bool = False,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """The tree with the highest sum of marginals: that with the fewest wrong heads to expect.

    Args:
        marginals: probability of head h -> modifier m, (B, N, N). A probability of 0 forbids
            nothing; -inf does, and should stand where an arc is forbidden.
        lengths: words of each sentence, int (B,), 0..N-1.
        decoder: "eisner" for projective trees, "chu_liu_edmonds" for any.
        single_root: exactly one modifier of the root; otherwise one or more.
        backend: as the decoder takes it.

    Returns:
        heads int64 (B, N), -1 at position 0 and in padding; expected number of right heads, float64
        (B,). Ties: as the decoder's.

    Raises:
        ScoreError: an unknown decoder, or what the decoder does not accept.
        NoTreeError: a sentence, named by its index, has no tree without forbidden arcs.

    Cost: that of the decoder.
    Source: Smith & Smith 2007, section 4.2; Goodman 1996 for the idea.
    """
    if decoder not in SEARCHES:
        raise ScoreError(f"unknown decoder {decoder!r}: expected one of {', '.join(SEARCHES)}")
    scores = marginals.detach().double()
    return SEARCHES[decoder](scores, lengths, single_root=single_root, backend=backend)

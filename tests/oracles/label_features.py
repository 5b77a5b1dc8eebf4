"""Features of a labelled arc as tuples of strings, and the nodes that its templates look at.

Shares no line with the package. `heads` are the (primary) heads of words 1..n.
"""

from tests.oracles.arc_features import Sentence, look


def node_of(role: str, h: int, m: int, heads: list[int]) -> int | None:
    """The node that a role stands for on the arc h -> m, None where there is none."""
    words = range(1, len(heads) + 1)
    of_head = [k for k in words if heads[k - 1] == h]
    of_modifier = [k for k in words if heads[k - 1] == m]
    nodes = {
        "h": [h],
        "m": [m],
        "g": [heads[h - 1]] if h > 0 else [],
        "p": [k for k in of_head if k < m][-1:],
        "q": [k for k in of_head if k > m][:1],
        "l": of_modifier[:1],
        "r": of_modifier[-1:],
        "o": [heads[m - 1]] if heads[m - 1] != h else [],
    }[role]
    return nodes[0] if nodes else None


def label_features(
    templates: list[str],
    sentence: Sentence,
    heads: list[int],
    h: int,
    m: int,
    known: dict[str, list[str]],
    buckets: tuple[int, ...],
) -> list[tuple | None]:
    """The features of the arc h -> m, in the order of the templates; None for a silent one."""
    features: list[tuple | None] = []
    for number, template in enumerate(templates):
        seen: list[object] = [number]
        for word in template.split():
            if word == "direction":
                seen.append("right" if h < m else "left")
            elif word == "distance":
                seen.append(sum(abs(h - m) > end for end in buckets))
            else:
                role, _, field = word.partition(".")
                node = node_of(role[0], h, m, heads)
                # A role that is not filled reads like the edge after the last word.
                node = len(sentence) + 1 if node is None else node + int(role[1:] or 0)
                seen.append(look(field, node, sentence, known, 3))
        features.append(None if None in seen else tuple(seen))
    return features

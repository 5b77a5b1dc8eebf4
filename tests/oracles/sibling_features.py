"""Features of two siblings and their head as tuples of strings, read from the templates' text.

Shares no line with the package. Words are looked at as in `arc_features`.
"""

from collections import Counter

from tests.oracles.arc_features import Sentence, look


def sibling_features(
    templates: list[str],
    sentence: Sentence,
    part: tuple[int, int, int],
    known: dict[str, list[str]],
    pos_column: int = 3,
    buckets: tuple[int, ...] = (),
) -> Counter:
    """The features of (h, m, s): m a modifier of h, s the one just inside it, h if there is none.

    Without an inner sibling the root stands in its place, and direction and distance are those
    from h to m; otherwise those from s to m.
    """
    h, m, s = part
    features: Counter = Counter()
    for number, template in enumerate(templates):
        seen: list[object] = [number]
        for word in template.split():
            if word == "direction":
                seen.append("right" if s < m else "left")
            elif word == "distance":
                seen.append(sum(abs(m - s) > end for end in buckets))
            else:
                role, _, field = word.partition(".")
                node = {"h": h, "m": m, "s": 0 if s == h else s}[role[0]] + int(role[1:] or 0)
                seen.append(look(field, node, sentence, known, pos_column))
        if None not in seen:
            features[tuple(seen)] += 1
    return features

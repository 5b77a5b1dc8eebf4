"""Features of siblings and of ends as tuples of strings, read from the templates' text.

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
    from h to m; otherwise those from s to m. What stands beside a sibling that is not there is
    nothing.
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
                if s == h and role[0] == "s" and role != "s":
                    seen.append(None)
                    continue
                node = {"h": h, "m": m, "s": 0 if s == h else s}[role[0]] + int(role[1:] or 0)
                seen.append(look(field, node, sentence, known, pos_column))
        if None not in seen:
            features[tuple(seen)] += 1
    return features


def end_features(
    templates: list[str],
    sentence: Sentence,
    part: tuple[int, int, str],
    known: dict[str, list[str]],
    pos_column: int = 3,
    buckets: tuple[int, ...] = (),
) -> Counter:
    """The features of (h, m, side): m the last modifier of h to the "right" or "left", h for none.

    Without one the root stands in its place, at the smallest distance there is.
    """
    h, m, side = part
    features: Counter = Counter()
    for number, template in enumerate(templates):
        seen: list[object] = ["end", number]
        for word in template.split():
            if word == "direction":
                seen.append(side)
            elif word == "distance":
                seen.append(0 if m == h else sum(abs(m - h) > end for end in buckets))
            else:
                role, _, field = word.partition(".")
                node = (0 if m == h else m) if role == "e" else h + int(role[1:] or 0)
                seen.append(look(field, node, sentence, known, pos_column))
        if None not in seen:
            features[tuple(seen)] += 1
    return features

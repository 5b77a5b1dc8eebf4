"""Features of an arc as tuples of strings, read word by word from the text of its templates.

Shares no line with the package. A sentence is a list of rows of ten CoNLL columns.
"""

from collections import Counter

Sentence = list[list[str]]

COLUMN = {"form": 1, "lower": 1, "lemma": 2, "cpos": 3, "fpos": 4, "feats": 5}


def source_column(field: str, pos_column: int) -> int:
    return pos_column if field == "pos" else COLUMN[field.split("[")[0].split(".")[0]]


def value_of(field: str, row: list[str], pos_column: int) -> str | None:
    """The value that a field reads in a row; None if it reads nothing."""
    text = row[source_column(field, pos_column)]
    if field.startswith("feats."):
        found = None
        for piece in text.split("|"):
            name, equals, value = piece.partition("=")
            if text != "_" and name == field[len("feats.") :]:
                found = value if equals and value else name
        return found
    name, _, cut = field.partition("[")
    if name == "lower":
        cut_text = text.lower()
    else:
        cut_text = text
    if cut:
        size = int(cut.strip(":-]"))
        if len(text) <= size:
            return None
        return cut_text[:size] if cut.startswith(":") else cut_text[-size:]
    if text == "_" and name not in ("form", "lower"):
        return None
    return cut_text


def known_values(
    treebank: list[Sentence], fields: list[str], pos_column: int
) -> dict[str, list[str]]:
    """The values of each field in a treebank, in order of first appearance."""
    known: dict[str, list[str]] = {field: [] for field in fields}
    for sentence in treebank:
        for row in sentence:
            for field in fields:
                value = value_of(field, row, pos_column)
                if value is not None and value not in known[field]:
                    known[field].append(value)
    return known


def look(
    field: str, node: int, sentence: Sentence, known: dict[str, list[str]], pos_column: int
) -> tuple[str, ...] | None:
    """The values of an atom at a node, which may lie beyond the edges; None: it is silent."""
    if node < 0:
        return ("<before>",)
    if node == 0:
        return ("<root>",)
    if node > len(sentence):
        return ("<after>",)
    value = value_of(field, sentence[node - 1], pos_column)
    if value is None or value not in known[field]:
        return None
    return ("word", value)


def arc_features(
    templates: list[str],
    sentence: Sentence,
    h: int,
    m: int,
    known: dict[str, list[str]],
    pos_column: int = 3,
    buckets: tuple[int, ...] = (),
) -> Counter:
    """The number of times that each feature fires on the arc h -> m."""
    features: Counter = Counter()
    for number, template in enumerate(templates):
        seen: list[object] = [number]
        middles: list[tuple] = [()]
        for word in template.split():
            if word == "direction":
                seen.append("right" if h < m else "left")
            elif word == "distance":
                seen.append(sum(abs(h - m) > end for end in buckets))
            else:
                role, _, field = word.partition(".")
                if role == "between":
                    middles = [
                        (look(field, k, sentence, known, pos_column),)
                        for k in range(min(h, m) + 1, max(h, m))
                    ]
                else:
                    node = {"h": h, "m": m}[role[0]] + int(role[1:] or 0)
                    seen.append(look(field, node, sentence, known, pos_column))
        if None not in seen:
            features.update((*seen, *middle) for middle in middles if None not in middle)
    return features

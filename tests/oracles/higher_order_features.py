"""Features of parts of three and four words as tuples, read from the templates' text.

Shares no line with the package. Words are looked at as in `arc_features`.
"""

from tests.oracles.arc_features import Sentence, look

ROLES = {
    "grandparent": "ghm",
    "grand_sibling": "ghsm",
    "tri_sibling": "htsm",
    "head_child": "hmc",
    "inner_grandchild": "hmc",
    "outer_grandchild": "hmc",
}


def higher_order_features(
    kind: str,
    templates: list[str],
    sentence: Sentence,
    words: tuple[int, ...],
    known: dict[str, list[str]],
    pos_column: int = 3,
) -> list[tuple | None]:
    """The values that every template of a kind sees of a part, None if it is silent.

    The direction is on which side of h the modifier m stands, and, where there is a g, on which
    side of g the head h does. Beside the root, and whoever is not there, is nothing.
    """
    at = dict(zip(ROLES[kind], words, strict=True))
    features: list[tuple | None] = []
    for number, template in enumerate(templates):
        seen: list[object] = [kind, number]
        for word in template.split():
            if word == "direction":
                seen.append(at["h"] < at["m"])
                seen.append("g" in at and at["g"] < at["h"])
                continue
            role, _, field = word.partition(".")
            offset = int(role[1:] or 0)
            node = at[role[0]]
            is_there = node > 0 or offset == 0
            seen.append(
                look(field, node + offset, sentence, known, pos_column) if is_there else None
            )
        features.append(None if None in seen else tuple(seen))
    return features

"""Attachment scores again, word by word from the text, sharing no line with the package."""

import random
import unicodedata


def sentences(text: str) -> list[list[list[str]]]:
    """Rows of ten columns, words only, by sentence."""
    result: list[list[list[str]]] = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        rows = [line.split("\t") for line in block.split("\n") if line and line[0] != "#"]
        words = [row for row in rows if row[0].isdigit()]
        if words:
            result.append(words)
    return result


def is_punctuation(form: str) -> bool:
    return all(unicodedata.category(character).startswith("P") for character in form)


def dominates(heads: list[int], ancestor: int, word: int) -> bool:
    """True if `ancestor` is reached from `word` by going up; 0 dominates all."""
    while word not in (0, ancestor):
        word = heads[word - 1]
    return word == ancestor


def crossing_words(rows: list[list[str]]) -> set[int]:
    """Words whose arc has a word between its ends that the head does not dominate."""
    heads = [int(row[6]) for row in rows]
    found = set()
    for modifier, head in enumerate(heads, 1):
        between = range(min(head, modifier) + 1, max(head, modifier))
        if any(not dominates(heads, head, word) for word in between):
            found.add(modifier)
    return found


def attachment(gold_text: str, system_text: str, keep=lambda row: True) -> dict[str, dict]:
    """All counts; relations as {name: [gold, system, right]}."""
    names = ("words", "uas", "las", "las_full", "label")
    count = dict.fromkeys((*names, "sentences", "complete", "complete_labelled"), 0)
    roots = {"gold": 0, "system": 0, "both": 0}
    crossing = {"gold": 0, "system": 0, "found": 0, "right": 0}
    relations: dict[str, list[int]] = {}
    for gold, system in zip(sentences(gold_text), sentences(system_text), strict=True):
        kept = heads_right = both_right = 0
        gold_crossing, system_crossing = crossing_words(gold), crossing_words(system)
        for position, (g, s) in enumerate(zip(gold, system, strict=True), 1):
            if not keep(g):
                continue
            kept += 1
            head = g[6] == s[6]
            full = g[7] == s[7]
            heads_right += head
            both_right += head and full
            count["las"] += head and g[7].split(":")[0] == s[7].split(":")[0]
            count["label"] += full
            roots["gold"] += g[6] == "0"
            roots["system"] += s[6] == "0"
            roots["both"] += g[6] == s[6] == "0"
            crossing["gold"] += position in gold_crossing
            crossing["system"] += position in system_crossing
            crossing["found"] += position in gold_crossing and head
            crossing["right"] += position in system_crossing and head
            relations.setdefault(g[7], [0, 0, 0])[0] += 1
            relations.setdefault(s[7], [0, 0, 0])[1] += 1
            relations[g[7]][2] += head and full
        count["words"] += kept
        count["uas"] += heads_right
        count["las_full"] += both_right
        if kept:
            count["sentences"] += 1
            count["complete"] += heads_right == kept
            count["complete_labelled"] += both_right == kept
    return {"count": count, "roots": roots, "crossing": crossing, "relations": relations}


def random_tree(draw: random.Random, n: int, *, single_root: bool = True) -> list[int]:
    """Heads of a random tree."""
    order = list(range(1, n + 1))
    draw.shuffle(order)
    heads = [0] * n
    for k, word in enumerate(order[1:], 1):
        heads[word - 1] = draw.choice(order[:k] if single_root else [0, *order[:k]])
    return heads

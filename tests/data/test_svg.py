"""Drawings of trees and graphs as SVG, by geometry: no text over another, few lines that cross."""

import itertools
import random
import re
from xml.etree import ElementTree

import pytest

from gpuparse.data.arc_layout import FONT, SMALL, Arc, lay_out, text_width
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.svg import svg_graph
from gpuparse.data.treebank import Sentence
from tests.drawings import crossed
from tests.synthetic import generate

LINE = r"M([\d.]+),(\d+)V\d+Q\S+ \S+,(\d+)H\S+Q([\d.]+),\d+ .*V(\d+)"
SVG = "{http://www.w3.org/2000/svg}"
LABELS = ["nsubj", "obl:agent", "a", "", "a-very-long-relation:indeed"]


def drawn_tree(forms, heads, labels):
    arcs = [(h, m, label) for m, (h, label) in enumerate(zip(heads, labels, strict=True), 1)]
    return svg_graph(forms, arcs)


def texts(picture: str) -> list[tuple[float, float, float, float, str]]:
    """The boxes of all texts: left, top, right, bottom; and the text."""
    found = []
    for text in ElementTree.fromstring(picture).iter(f"{SVG}text"):
        size, x, y = int(text.get("font-size")), float(text.get("x")), float(text.get("y"))
        half = text_width(text.text or "", size) / 2
        found.append((x - half, y - 0.8 * size, x + half, y + 0.2 * size, text.text))
    return found


def lines(picture: str) -> list[tuple[float, float, float, float, float]]:
    """Each arc's places of head and modifier, its height, and the feet of both ends."""
    found = []
    for path in ElementTree.fromstring(picture).iter(f"{SVG}path"):
        arc = re.fullmatch(LINE, path.get("d"))
        if arc:
            h, foot, top, m, end = map(float, arc.groups())
            found.append((h, m, top, foot, end))
    return found


def overlap(one: tuple, two: tuple) -> bool:
    return one[0] < two[2] and two[0] < one[2] and one[1] < two[3] and two[1] < one[3]


def random_graph(seed: int) -> tuple[list[str], list[Arc], list[str]]:
    draw = random.Random(seed)
    n = draw.randrange(1, 12)
    words = ["".join(draw.choices("aiWm漢é,", k=draw.randrange(1, 9))) for _ in range(n)]
    every = [(h, m) for h in range(n + 1) for m in range(1, n + 1) if h != m]
    arcs = draw.sample(every, min(len(every), draw.randrange(2 * n)))
    drawn = [Arc(h, m, draw.choice(LABELS), draw.random() < 0.3) for h, m in arcs]
    return words, drawn, draw.choices(["NOUN", "X"], k=n)


@pytest.mark.parametrize("seed", range(60))
def test_no_text_lies_over_another_or_outside(seed):
    words, arcs, tags = random_graph(seed)
    picture = svg_graph(words, arcs, tags=tags)
    boxes, root = texts(picture), ElementTree.fromstring(picture)
    assert crossed(lay_out(words, arcs, tags)) == []
    assert len(boxes) == 2 * len(words) + sum(bool(arc.label) for arc in arcs)
    for one, two in itertools.combinations(boxes, 2):
        assert not overlap(one, two), (one, two)
    for left, top, right, bottom, _ in boxes:
        assert left >= 0
        assert top >= 0
        assert right <= float(root.get("width"))
        assert bottom <= float(root.get("height"))


def sentences() -> list[Sentence]:
    return list(treebank_from_bytes(generate(60, 4), "text"))


def crossings(heads: list[int]) -> int:
    arcs = [(min(h, m), max(h, m)) for m, h in enumerate(heads, 1) if h]
    return sum(a < c < b < d or c < a < d < b for (a, b), (c, d) in itertools.combinations(arcs, 2))


def test_lines_cross_only_where_arcs_do():
    n_crossing = 0
    for sentence in sentences():
        drawn = lines(drawn_tree(sentence.forms, sentence.heads, sentence.labels))
        assert len(drawn) == sum(h > 0 for h in sentence.heads)
        found = 0
        for (h, m, top, _, _), (g, k, height, _, _) in itertools.permutations(drawn, 2):
            # An end of one arc, as high as that arc, passes through the level of the other.
            found += sum(min(h, m) <= x <= max(h, m) and height <= top for x in (g, k))
        assert (found == 0) == (crossings(sentence.heads) == 0), sentence.sent_id
        n_crossing += found > 0
    assert 0 < n_crossing < 30


def test_words_labels_and_tags_are_there_escaped():
    picture = svg_graph(["<a>", "b&\x1b"], [(0, 2, "root"), (2, 1, 'x<"y')], tags=["T", "&"])
    assert [text for *_, text in texts(picture)] == ["root", 'x<"y', "<a>", "b&�", "T", "&"]
    assert ElementTree.fromstring(picture).find(f"{SVG}title").text == "<a> b&�"
    ElementTree.fromstring(svg_graph([], []))


def test_scripts_from_right_to_left_are_drawn_so():
    def order(words: list[str]) -> list[str]:
        boxes = sorted(texts(drawn_tree(words, [2, 0, 2], ["a", "b", "c"])))
        return [box[4] for box in boxes if box[4] in words]

    assert order(["one", "two", "three"]) == ["one", "two", "three"]
    assert order(["אחד", "שתיים", "three"]) == ["three", "שתיים", "אחד"]
    root = ElementTree.fromstring(drawn_tree(["אחד", "("], [0, 1], ["root", "punct*"]))
    given = {text.text: text.get("direction") for text in root.iter(f"{SVG}text")}
    assert given == {"אחד": "rtl", "(": "rtl", "root": None, "punct*": None}
    assert root.get("direction") == "ltr"
    assert order(["أحمد", "يقرأ", "الكتاب"]) == ["الكتاب", "يقرأ", "أحمد"]


def test_arcs_out_of_the_sentence_are_refused():
    for h, m in ((3, 1), (1, 0), (1, 3), (-1, 1), (1, 1)):
        with pytest.raises(ValueError, match=f"from {h} to {m} is not in a sentence of 2 words"):
            svg_graph(["a", "b"], [(h, m, "x")])
    with pytest.raises(ValueError, match="one length"):
        svg_graph(["a"], [], tags=[])


def test_widths_of_texts():
    assert text_width("", FONT) == text_width("\u0301", FONT) == 0
    assert text_width("漢", FONT) > text_width("W", FONT) > text_width("i", FONT)
    assert text_width("ab", SMALL) < text_width("ab", FONT)


def test_further_arcs_are_below_the_words():
    below = Arc(0, 2, "y", True), Arc(1, 2, "z", True)
    layout = lay_out(["a", "b"], [Arc(2, 1, "x"), *below], ["T", "U"])
    x, y, z = (line.label.y for line in layout.lines)
    assert x < min(word.y for word in layout.words)
    assert max(tag.y for tag in layout.tags) < z < y
    assert y + SMALL < layout.height


def test_texts_of_known_width_keep_it_in_every_face():
    picture = svg_graph(["πολύς", "كتاب", "漢字", "Żółć"], [])
    given = [text.get("textLength") for text in ElementTree.fromstring(picture).iter(f"{SVG}text")]
    assert [length is not None for length in given] == [True, False, True, True]
    assert float(given[0]) == pytest.approx(text_width("πολύς", FONT), abs=0.05)

"""Features of siblings and of ends against a naive extractor that works on strings."""

from collections import Counter, defaultdict

import pytest

from gpuparse.data.batch import Batch
from gpuparse.data.vocabulary import Encoder, Vocabularies
from gpuparse.errors import ConfigError
from gpuparse.features import plan as plan_module
from gpuparse.features.plan import LINE, Plan, compile_arcs, compile_plan
from gpuparse.features.templates import TemplateSet, load_templates, parse_set
from gpuparse.scorers.linear.weights import FeatureMap, hashed_map
from tests.oracles.arc_features import known_values
from tests.oracles.sibling_features import end_features, sibling_features
from tests.rows import (
    end_parts,
    rows_of_arcs,
    rows_of_ends,
    rows_of_siblings,
    sibling_parts,
    wide_map,
)
from tests.samples import Sentence, random_sentences, row, template_set_text, treebank_of

ARCS = ["h.form m.form", "h.pos m.pos direction distance", "h.pos between.pos m.pos"]
EVERY_ATOM = [
    "s.form",
    "m.lower direction",
    "s.lemma m.lemma distance",
    "s.cpos m.fpos direction distance",
    "s.pos m.pos",
    "s.feats m.feats.Case",
    "s.feats.Number m.feats.Number direction",
    "s.form[:5] m.lower[:1]",
    "s.pos m-1.pos m.pos m+1.pos",
    "s.pos m+3.form distance",
    "m-2.lemma",
    "s-1.pos",
    "s+1.pos m.pos direction",
    "s-3.form s.pos s+1.pos m-1.pos m.pos distance",
    "s.form s.pos m.form m.pos",
    "h.pos s.pos m.pos",
    "h.pos s.pos m.pos direction distance",
    "h.lemma s.feats.Case m.form[-3:] distance",
    "h.feats s.fpos m.cpos direction",
    "direction",
    "direction distance",
]
EVERY_END = [
    "h.form",
    "e.lower direction",
    "h.lemma e.lemma distance",
    "h.cpos e.fpos direction distance",
    "h.pos e.pos",
    "h.feats e.feats.Case direction",
    "h.feats.Number e.feats.Number direction",
    "h.form[:5] e.lower[:1]",
    "h-1.pos h.pos h+1.pos e.pos direction",
    "h+3.form e.pos distance",
    "h-2.lemma",
    "h.form h.pos e.form e.pos",
    "direction",
    "distance",
]
SETS = {
    "every atom": (EVERY_ATOM, (1, 2, 5), EVERY_END),
    "no buckets": (
        ["s.pos m.pos direction distance", "h.pos s.pos m.pos distance"],
        (),
        ["h.pos e.pos direction distance"],
    ),
    "every suffix": (
        [
            f"{words} {suffix}"
            for words in ("h.pos s.pos m.pos", "s.pos m.pos", "s.form", "m.pos")
            for suffix in ("", "direction", "distance", "direction distance")
        ],
        (1, 2),
        [
            f"{words} {suffix}"
            for words in ("h.pos e.pos", "h.form", "e.pos")
            for suffix in ("", "direction", "distance", "direction distance")
        ],
    ),
    "triples only": (["h.form s.pos m.pos", "h.pos s.lemma m.pos direction"], (1,), []),
    "pairs only": (["s.form m.pos", "s.pos m.form direction"], (1,), []),
    "ends beside triples": (["h.form s.pos m.pos"], (1,), ["h.form e.pos", "e.form direction"]),
    "mcdonald-pereira-2006": (
        [str(t) for t in load_templates("mcdonald-pereira-2006").sibling],
        load_templates("mcdonald-pereira-2006").distance,
        [],
    ),
    "extended": (
        [str(t) for t in load_templates("extended").sibling],
        load_templates("extended").distance,
        [str(t) for t in load_templates("extended").end],
    ),
}
# Which triple families are found by shifts: all, those of small fields, none.
CELLS = {"direct": 1 << 26, "mixed": 1 << 12, "hashed": 0}


def compiled(
    sibling: list[str],
    train: list[Sentence],
    distance: tuple[int, ...],
    end: list[str] = (),
    pos_column: int = 3,
) -> tuple[Vocabularies, Plan]:
    text = template_set_text(arc=ARCS, sibling=sibling, end=end, distance=distance)
    return of_set(parse_set(text, "test"), train, pos_column)


def of_set(
    templates: TemplateSet, train: list[Sentence], pos_column: int = 3
) -> tuple[Vocabularies, Plan]:
    fields = sorted({f for part in ("arc", "sibling", "end") for f in templates.fields(part)})
    vocabularies = Vocabularies.build(treebank_of(train), fields, pos_column)
    return vocabularies, compile_plan(templates, vocabularies)


def encoded(sentences: list[Sentence], vocabularies: Vocabularies) -> Batch:
    return Encoder(vocabularies).encode(treebank_of(sentences))


def of_every_part(
    sibling: list[str],
    sentences: list[Sentence],
    train: list[Sentence],
    distance: tuple[int, ...],
    end: list[str] = (),
    pos_column: int = 3,
) -> dict[tuple, Counter]:
    """The oracle's features of each part (sentence, h, m, s) and end (sentence, h, m, side)."""
    words = {word for text in [*sibling, *end] for word in text.split() if "." in word}
    known = known_values(train, sorted({w.partition(".")[2] for w in words}), pos_column)
    how = known, pos_column, distance
    found: dict[tuple, Counter] = {}
    for b, sentence in enumerate(sentences):
        for part in sibling_parts(len(sentence)):
            found[b, *part] = sibling_features(sibling, sentence, part, *how)
        for last in end_parts(len(sentence)):
            found[b, *last] = end_features(end, sentence, last, *how)
    return found


def of_every_row(batch: Batch, plan: Plan, features: FeatureMap) -> dict:
    return {
        (b, *part): Counter(rows)
        for b in range(len(batch))
        for rows_of in (rows_of_siblings, rows_of_ends)
        for part, rows in rows_of(batch, b, plan, features).items()
    }


def incidence(found: dict) -> Counter:
    """The number of features for each set of (part, times it fires)."""
    parts_of = defaultdict(set)
    for part, features in found.items():
        for feature, times in features.items():
            parts_of[feature].add((part, times))
    return Counter(frozenset(parts) for parts in parts_of.values())


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("pos_column", [3, 4])
@pytest.mark.parametrize("cells", CELLS)
def test_parts_share_weight_rows_just_when_they_share_features(
    name: str, pos_column: int, cells: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_module, "MAX_TRIPLE_CELLS", CELLS[cells])
    # So many that no two features of so small a sample meet.
    monkeypatch.setattr(plan_module, "HASHED_TRIPLE_CELLS", 1 << 30)
    sibling, distance, end = SETS[name]
    train, test = random_sentences(1, 4, 6), random_sentences(2, 3, 6)
    vocabularies, plan = compiled(sibling, train[:3], distance, end, pos_column)
    hashed = plan.siblings.triple["is_hashed"]
    assert len(hashed) == 0 or cells == "mixed" or set(hashed) == {cells == "hashed"}
    sentences = train + test  # words of train[3:] and test may be unknown
    batch = encoded(sentences, vocabularies)
    by_row = of_every_row(batch, plan, wide_map(plan))
    by_name = of_every_part(sibling, sentences, train[:3], distance, end, pos_column)
    assert incidence(by_row) == incidence(by_name)
    assert len(incidence(by_name)) > 2


def test_both_kinds_of_triples_were_met(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_module, "MAX_TRIPLE_CELLS", CELLS["mixed"])
    _, plan = compiled(EVERY_ATOM, random_sentences(1, 3, 6), (1, 2, 5))
    assert set(plan.siblings.triple["is_hashed"]) == {0, 1}


@pytest.mark.parametrize("map_rows", [1 << 28, 200_000_003])
def test_a_huge_table_keeps_features_apart_as_well(map_rows: int) -> None:
    """Features of siblings differ from each other and from those of arcs, in keys of 32 bits."""
    sibling, distance, _ = SETS["mcdonald-pereira-2006"]
    end = SETS["extended"][2]
    sentences = random_sentences(5, 4, 7)
    vocabularies, plan = compiled(sibling, sentences, distance, end)
    batch = encoded(sentences, vocabularies)
    features = hashed_map(map_rows, plan.dense_lines)
    by_row = of_every_row(batch, plan, features)
    assert incidence(by_row) == incidence(
        of_every_part(sibling, sentences, sentences, distance, end)
    )
    of_arcs = {
        found
        for b in range(len(batch))
        for rows in rows_of_arcs(batch, b, plan.arcs, features).values()
        for found in rows
    }
    of_siblings = {found for rows in by_row.values() for found in rows}
    assert not of_arcs & of_siblings
    assert max(of_arcs | of_siblings) < features.n_rows


def test_features_of_a_sentence_written_out_by_hand() -> None:
    sentence = [
        row(1, "Dogs", 2, cpos="N", feats="Number=Plur"),
        row(2, "bark", 0, cpos="V"),
        row(3, "very", 4, cpos="A"),
        row(4, "loudly", 2, cpos="A"),
    ]
    sibling = [
        "h.pos s.pos m.pos direction distance",  # 0
        "s.form m.pos",  # 1
        "s.feats.Number m.form distance",  # 2
        "m+1.form direction",  # 3
    ]
    word = lambda text: ("word", text)  # noqa: E731
    root, after = ("<root>",), ("<after>",)
    expected = {
        # without a sibling: the root stands in its place, the distance is from the head
        (2, 1, 2): [
            (0, word("V"), root, word("N"), "left", 0),
            (1, root, word("N")),
            (2, root, word("Dogs"), 0),
            (3, word("bark"), "left"),
        ],
        (2, 4, 2): [
            (0, word("V"), root, word("A"), "right", 1),
            (1, root, word("A")),
            (2, root, word("loudly"), 1),
            (3, after, "right"),
        ],
        (0, 2, 0): [
            (0, root, root, word("V"), "right", 1),
            (1, root, word("V")),
            (2, root, word("bark"), 1),
            (3, word("very"), "right"),
        ],
        # with one: from the sibling
        (2, 4, 3): [
            (0, word("V"), word("A"), word("A"), "right", 0),
            (1, word("very"), word("A")),
            (3, after, "right"),  # the sibling has no number
        ],
        (0, 4, 1): [
            (0, root, word("N"), word("A"), "right", 1),
            (1, word("Dogs"), word("A")),
            (2, word("Plur"), word("loudly"), 1),
            (3, after, "right"),
        ],
        (4, 1, 2): [
            (0, word("A"), word("V"), word("N"), "left", 0),
            (1, word("bark"), word("N")),
            (3, word("bark"), "left"),
        ],
    }
    found = of_every_part(sibling, [sentence], [sentence], (1,))
    for part, features in expected.items():
        assert found[0, *part] == Counter(features), part
    vocabularies, plan = compiled(sibling, [sentence], (1,))
    batch = encoded([sentence], vocabularies)
    rows = rows_of_siblings(batch, 0, plan, wide_map(plan))
    for part, features in expected.items():
        assert len(rows[part]) == len(set(rows[part])) == len(features)


def test_features_of_ends_written_out_by_hand() -> None:
    sentence = [
        row(1, "Dogs", 2, cpos="N", feats="Number=Plur"),
        row(2, "bark", 0, cpos="V"),
        row(3, "very", 4, cpos="A"),
        row(4, "loudly", 2, cpos="A"),
    ]
    end = [
        "h.pos e.pos direction distance",  # 0
        "h+1.form e.pos",  # 1
        "h.form e.feats.Number distance",  # 2
        "e.form direction",  # 3
    ]
    word = lambda text: ("word", text)  # noqa: E731
    root, after = ("<root>",), ("<after>",)
    expected = {
        (2, 1, "left"): [
            ("end", 0, word("V"), word("N"), "left", 0),
            ("end", 1, word("very"), word("N")),
            ("end", 2, word("bark"), word("Plur"), 0),
            ("end", 3, word("Dogs"), "left"),
        ],
        (2, 4, "right"): [
            ("end", 0, word("V"), word("A"), "right", 1),
            ("end", 1, word("very"), word("A")),
            ("end", 3, word("loudly"), "right"),  # it has no number
        ],
        (0, 2, "right"): [
            ("end", 0, root, word("V"), "right", 1),
            ("end", 1, word("Dogs"), word("V")),
            ("end", 3, word("bark"), "right"),
        ],
        # no modifier: the root in its place, at the smallest distance
        (4, 4, "right"): [
            ("end", 0, word("A"), root, "right", 0),
            ("end", 1, after, root),
            ("end", 2, word("loudly"), root, 0),
            ("end", 3, root, "right"),
        ],
        (3, 3, "left"): [
            ("end", 0, word("A"), root, "left", 0),
            ("end", 1, word("loudly"), root),
            ("end", 2, word("very"), root, 0),
            ("end", 3, root, "left"),
        ],
        (0, 0, "right"): [
            ("end", 0, root, root, "right", 0),
            ("end", 1, word("Dogs"), root),
            ("end", 2, root, root, 0),
            ("end", 3, root, "right"),
        ],
    }
    found = of_every_part(["s.pos"], [sentence], [sentence], (1,), end)
    for part, features in expected.items():
        assert found[0, *part] == Counter(features), part
    vocabularies, plan = compiled(["s.pos"], [sentence], (1,), end)
    batch = encoded([sentence], vocabularies)
    rows = rows_of_ends(batch, 0, plan, wide_map(plan))
    for part, features in expected.items():
        assert len(rows[part]) == len(set(rows[part])) == len(features)


def test_what_stands_beside_no_sibling_is_silent() -> None:
    sentence = [row(m, f"w{m}", m - 1, cpos="N") for m in range(1, 5)]
    sibling = ["s-1.form m.pos", "s+1.form", "s.form m.pos", "s-1.form distance"]
    vocabularies, plan = compiled(sibling, [sentence], (1,))
    batch = encoded([sentence], vocabularies)
    rows = rows_of_siblings(batch, 0, plan, wide_map(plan))
    for (h, _, s), found in rows.items():
        assert len(found) == (1 if s == h else 4)


def test_few_cells_are_shared_and_the_first_line_stays_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plan_module, "MAX_TRIPLE_CELLS", 0)
    monkeypatch.setattr(plan_module, "HASHED_TRIPLE_CELLS", 64)
    sentences = random_sentences(6, 5, 8)
    vocabularies, plan = compiled(SETS["triples only"][0], sentences, (1,))
    batch = encoded(sentences, vocabularies)
    features = hashed_map(1 << 10, plan.dense_lines)
    rows = of_every_row(batch, plan, features)
    cells = {
        found - features.rows.dense - int(family["line"]) * LINE
        for found_rows in rows.values()
        for found in found_rows
        for family in plan.siblings.triple
        if found >= features.rows.dense + int(plan.siblings.triple["line"][0]) * LINE
    }
    of_first = {cell for cell in cells if 0 <= cell < 64}
    assert min(of_first) >= LINE
    assert len(of_first) > 16


@pytest.mark.parametrize("name", ["mcdonald-pereira-2006", "extended"])
def test_arcs_have_the_features_that_they_have_without_siblings(name: str) -> None:
    sentences = random_sentences(7, 4, 7)
    templates = load_templates(name).expanded(["Case", "Number"])
    vocabularies, plan = of_set(templates, sentences)
    alone = compile_arcs(templates, vocabularies)
    bare = compile_plan(templates.first_order(), vocabularies)
    assert bare.siblings is None
    batch = encoded(sentences, vocabularies)
    table = hashed_map(1 << 20, plan.dense_lines)
    for each in (alone, bare.arcs):
        small = hashed_map(1 << 20, each.dense_lines)
        for b in range(len(batch)):
            expected = rows_of_arcs(batch, b, each, small)
            assert rows_of_arcs(batch, b, plan.arcs, table) == expected
    assert plan.dense_lines > alone.dense_lines == bare.dense_lines


def test_too_many_variants_for_a_line_are_refused() -> None:
    with pytest.raises(ConfigError, match="need 18 weights; at most 16 fit"):
        compiled(
            ["h.pos s.pos m.pos direction distance", "h.pos s.pos m.pos distance"],
            random_sentences(9, 2, 4),
            (1, 2, 3, 4, 5),
        )

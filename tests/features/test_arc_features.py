"""Features of arcs against a naive extractor that works on strings."""

from collections import Counter, defaultdict

import pytest

from gpuparse.data.batch import Batch
from gpuparse.data.vocabulary import Encoder, Vocabularies
from gpuparse.features.plan import ArcPlan, compile_arcs
from gpuparse.features.templates import load_templates, parse_set
from tests.oracles.arc_features import arc_features, known_values
from tests.rows import rows_of_arcs, wide_map
from tests.samples import (
    Sentence,
    random_sentences,
    row,
    template_set_text,
    treebank_of,
)

EVERY_ATOM = [
    "h.form",
    "m.lower direction",
    "h.lemma m.lemma distance",
    "h.cpos m.fpos direction distance",
    "h.pos m.pos",
    "h.feats m.feats.Case",
    "m.feats.Flag",
    "h.feats.Number m.feats.Number direction",
    "h.form[:5] m.lower[:1]",
    "m.form[-3:]",
    "h.lemma[-2:] m.pos",
    "h-1.pos h.pos h+1.pos m-1.pos m.pos m+1.pos",
    "h-3.form m+3.form",
    "h+3.pos m-3.pos",
    "h+2.pos m-2.pos distance",
    "between.pos",
    "h.pos between.pos m.pos",
    "h.pos between.pos m.pos direction distance",
    "h+1.pos between.cpos",
    "between.fpos m-1.pos direction",
    "between.feats.Case",
    "between.form direction",
    "direction",
    "distance",
    "direction distance",
]


def compiled(
    arc: list[str], train: list[Sentence], distance: tuple[int, ...], pos_column: int = 3
) -> tuple[Vocabularies, ArcPlan]:
    templates = parse_set(template_set_text(arc=arc, distance=distance), "test")
    vocabularies = Vocabularies.build(treebank_of(train), templates.fields("arc"), pos_column)
    return vocabularies, compile_arcs(templates, vocabularies)


def encoded(sentences: list[Sentence], vocabularies: Vocabularies) -> Batch:
    return Encoder(vocabularies).encode(treebank_of(sentences))


def of_every_arc(
    arc: list[str],
    sentences: list[Sentence],
    train: list[Sentence],
    distance: tuple[int, ...],
    pos_column: int = 3,
) -> dict[tuple[int, int, int], Counter]:
    """The oracle's features of each arc (sentence, head, modifier)."""
    fields = {field for text in arc for field in naive_fields(text)}
    known = known_values(train, sorted(fields), pos_column)
    return {
        (b, h, m): arc_features(arc, sentence, h, m, known, pos_column, distance)
        for b, sentence in enumerate(sentences)
        for m in range(1, len(sentence) + 1)
        for h in range(len(sentence) + 1)
        if h != m
    }


def naive_fields(template: str) -> list[str]:
    return [word.partition(".")[2] for word in template.split() if "." in word]


def incidence(found: dict[tuple[int, int, int], Counter]) -> Counter:
    """The number of features for each set of (arc, times it fires)."""
    arcs_of = defaultdict(set)
    for arc, features in found.items():
        for feature, times in features.items():
            arcs_of[feature].add((arc, times))
    return Counter(frozenset(arcs) for arcs in arcs_of.values())


SETS = {
    "every atom": (EVERY_ATOM, (1, 2, 5)),
    "mcdonald-2005": (
        [str(t) for t in load_templates("mcdonald-2005").arc],
        load_templates("mcdonald-2005").distance,
    ),
    "no buckets": (["h.pos m.pos direction distance", "m.form distance"], ()),
    "every suffix": (
        [
            f"{words} {suffix}"
            for words in ("h.pos m.pos", "m.form", "h.pos between.pos")
            for suffix in ("", "direction", "distance", "direction distance")
        ],
        (1, 2),
    ),
    "words only": (["h.pos", "m.form"], (1,)),
    "between only": (["between.pos", "between.pos distance"], (1, 3)),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("pos_column", [3, 4])
def test_arcs_share_weight_rows_just_when_they_share_features(name: str, pos_column: int) -> None:
    arc, distance = SETS[name]
    train, test = random_sentences(1, 5, 6), random_sentences(2, 3, 6)
    vocabularies, plan = compiled(arc, train[:3], distance, pos_column)
    sentences = train + test  # words of train[3:] and test may be unknown
    batch = encoded(sentences, vocabularies)
    features = wide_map(plan)
    by_row = {
        (b, h, m): Counter(rows)
        for b in range(len(batch))
        for (h, m), rows in rows_of_arcs(batch, b, plan, features).items()
    }
    by_name = of_every_arc(arc, sentences, train[:3], distance, pos_column)
    assert incidence(by_row) == incidence(by_name)
    assert len(incidence(by_name)) > 2


def test_features_of_a_sentence_written_out_by_hand() -> None:
    sentence = [
        row(1, "Dogs", 2, cpos="N", feats="Number=Plur"),
        row(2, "bark", 0, cpos="V"),
        row(3, "loudly", 2, cpos="A"),
    ]
    arc = [
        "h.pos m.pos direction distance",  # 0
        "m.form[:5]",  # 1
        "h.form m-1.pos",  # 2
        "h.pos between.pos m.pos",  # 3
        "h.feats.Number",  # 4
        "m+1.lower",  # 5
    ]
    word = lambda text: ("word", text)  # noqa: E731
    root, after = ("<root>",), ("<after>",)
    expected = {
        (0, 1): [
            (0, root, word("N"), "right", 0),
            (2, root, root),
            (4, root),
            (5, word("bark")),
        ],
        (0, 2): [
            (0, root, word("V"), "right", 1),
            (2, root, word("N")),
            (3, root, word("V"), word("N")),
            (4, root),
            (5, word("loudly")),
        ],
        (0, 3): [
            (0, root, word("A"), "right", 1),
            (1, word("loudl")),
            (2, root, word("V")),
            (3, root, word("A"), word("N")),
            (3, root, word("A"), word("V")),
            (4, root),
            (5, after),
        ],
        (1, 2): [
            (0, word("N"), word("V"), "right", 0),
            (2, word("Dogs"), word("N")),
            (4, word("Plur")),
            (5, word("loudly")),
        ],
        (3, 1): [
            (0, word("A"), word("N"), "left", 1),
            (2, word("loudly"), root),
            (3, word("A"), word("N"), word("V")),
            (5, word("bark")),
        ],
        (2, 3): [
            (0, word("V"), word("A"), "right", 0),
            (1, word("loudl")),
            (2, word("bark"), word("V")),
            (5, after),
        ],
    }
    found = of_every_arc(arc, [sentence], [sentence], (1,))
    for (h, m), features in expected.items():
        assert found[0, h, m] == Counter(features), (h, m)
    vocabularies, plan = compiled(arc, [sentence], (1,))
    rows = rows_of_arcs(encoded([sentence], vocabularies), 0, plan, wide_map(plan))
    for arc_of, features in expected.items():
        assert len(rows[arc_of]) == len(set(rows[arc_of])) == len(features)

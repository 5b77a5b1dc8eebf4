"""The template language: what it reads, what it refuses, and the sets that are shipped."""

import itertools
import math
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuparse.data.atoms import Atom
from gpuparse.data.vocabulary import Vocabularies
from gpuparse.errors import ConfigError
from gpuparse.features.plan import MAX_DENSE_LINES, compile_plan
from gpuparse.features.templates import (
    PARTS,
    SETS,
    Template,
    TemplateSet,
    dump_set,
    load_templates,
    parse_set,
    parse_template,
)
from tests.samples import template_set_text

FIELDS = [
    "form", "lower", "lemma", "cpos", "fpos", "pos", "feats", "feats.Case", "feats.*",
    "feats.**", "feats.Ca-se[x]", "form[:1]", "form[:9]", "form[-1:]", "form[-9:]", "lower[:3]",
    "lower[-3:]", "lemma[:5]", "lemma[-2:]",
]  # fmt: skip


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_of_every_role_and_offset(field: str) -> None:
    for role, offset in itertools.product("hm", range(-3, 4)):
        word = f"{role}{offset:+d}.{field}" if offset else f"{role}.{field}"
        assert parse_template(word) == Template((Atom(role, offset, field),), None, frozenset())
        assert str(parse_template(word)) == word
    assert parse_template(f"between.{field}") == Template((), field, frozenset())


def test_whole_template() -> None:
    template = parse_template("  h-1.pos  between.cpos distance m+3.form[-2:]  direction ")
    assert template.atoms == (Atom("h", -1, "pos"), Atom("m", 3, "form[-2:]"))
    assert template.between == "cpos"
    assert template.suffix == {"direction", "distance"}
    assert template.of("h") == (Atom("h", -1, "pos"),)
    assert template.of("m") == (Atom("m", 3, "form[-2:]"),)
    assert sorted(template.fields()) == ["cpos", "form[-2:]", "pos"]
    assert str(template) == "h-1.pos m+3.form[-2:] between.cpos direction distance"


@pytest.mark.parametrize("role", PARTS["label"])
def test_label_templates_look_at_more_of_the_tree(role: str) -> None:
    assert parse_template(f"{role}.pos", "label").atoms == (Atom(role, 0, "pos"),)
    if role not in "hm":
        with pytest.raises(ConfigError, match=f"cannot read '{role}.pos'.*a role of h, m"):
            parse_template(f"{role}.pos")


def test_sibling_templates_look_at_three_words() -> None:
    template = parse_template("h.pos s.cpos m.form[:2] distance direction", "sibling")
    assert template.of("h") == (Atom("h", 0, "pos"),)
    assert template.of("s") == (Atom("s", 0, "cpos"),)
    assert template.of("m") == (Atom("m", 0, "form[:2]"),)
    assert str(template) == "h.pos s.cpos m.form[:2] direction distance"
    for text in (
        "s.pos s.feats m-1.form m.pos m+3.lemma", "s.pos", "m+1.pos", "direction",
        "s-1.pos s+3.form m.pos", "s+1.pos distance",
    ):  # fmt: skip
        assert str(parse_template(text, "sibling")) == text
    with pytest.raises(ConfigError, match=r"cannot read 's.pos'.*a role of h, m"):
        parse_template("s.pos m.pos")


def test_end_templates_look_at_a_head_and_its_outermost_modifier() -> None:
    for text in (
        "h.pos e.pos", "h-1.pos h.form h+3.lemma e.pos e.feats.Case direction distance", "e.pos",
        "h+1.pos", "direction",
    ):  # fmt: skip
        assert str(parse_template(text, "end")) == text
    template = parse_template("h.pos e.form[-2:] distance", "end")
    assert template.of("h") == (Atom("h", 0, "pos"),)
    assert template.of("e") == (Atom("e", 0, "form[-2:]"),)
    for part in ("arc", "sibling", "label"):
        with pytest.raises(ConfigError, match=r"cannot read 'e.pos'"):
            parse_template("e.pos", part)


FAULTY = {
    "end": [
        ("h.pos e+1.pos", "e takes no offset, for there may be no modifier"),
        ("e-1.form", "e takes no offset, for there may be no modifier"),
        ("e.pos e-1.pos", "e takes no offset"),
        ("h.pos between.pos e.pos", "between.FIELD is for arc templates only"),
        ("h.pos m.pos", "cannot read 'm.pos'; write ROLE.FIELD with a role of h, e"),
        ("s.pos e.pos", "cannot read 's.pos'; write ROLE.FIELD with a role of h, e"),
        ("h+4.pos e.pos", "looks further than 3 words"),
        ("h.pos e.word", "unknown field 'word'"),
        ("e.pos e.pos", "an atom appears twice"),
        (" ", "empty template"),
    ],
    "sibling": [
        ("h.pos s-1.pos m.pos", "one atom of each of h, s and m, without offsets"),
        ("s-4.pos m.pos", "looks further than 3 words"),
        ("e.pos m.pos", "cannot read 'e.pos'; write ROLE.FIELD with a role of h, s, m"),
        ("h.pos", "takes one atom of each of h, s and m, without offsets"),
        ("h.pos m.pos", "one atom of each of h, s and m"),
        ("h.pos s.pos", "one atom of each of h, s and m"),
        ("h.pos h.form s.pos m.pos", "one atom of each of h, s and m"),
        ("h.pos s.pos s.form m.pos", "one atom of each of h, s and m"),
        ("h.pos s.pos m.pos m.form", "one atom of each of h, s and m"),
        ("h+1.pos s.pos m.pos", "without offsets"),
        ("h.pos s.pos m-1.pos", "without offsets"),
        ("s.pos between.pos m.pos", "between.FIELD is for arc templates only"),
        ("g.pos m.pos", "cannot read 'g.pos'; write ROLE.FIELD with a role of h, s, m"),
        ("s.pos m+4.pos", "looks further than 3 words"),
        ("s.pos m.word", "unknown field 'word'"),
        ("s.pos s.pos", "an atom appears twice"),
        (" ", "empty template"),
    ],
    "arc": [
        ("x.form", "cannot read 'x.form'"),
        ("hm.form", "cannot read 'hm.form'"),
        ("form", "cannot read 'form'"),
        ("h.", "cannot read 'h.'"),
        ("h1.form", "cannot read 'h1.form'"),
        ("between+1.pos", "cannot read 'between+1.pos'"),
        ("h+.pos", "cannot read 'h+.pos'"),
        ("directions", "cannot read 'directions'"),
        ("h.word", "unknown field 'word'"),
        ("m.form[5]", "unknown field 'form[5]'"),
        ("m.form[:0]", "unknown field 'form[:0]'"),
        ("m.form[:10]", "unknown field 'form[:10]'"),
        ("m.form[5:]", "unknown field 'form[5:]'"),
        ("m.form[:-5]", "unknown field 'form[:-5]'"),
        ("m.pos[:2]", "unknown field 'pos[:2]'"),
        ("m.feats.", "unknown field 'feats.'"),
        ("between.word", "unknown field 'word'"),
        ("between.", "unknown field ''"),
        ("between", "unknown field ''"),
        ("h+4.pos", "'h+4.pos' looks further than 3 words"),
        ("m-99.pos", "'m-99.pos' looks further than 3 words"),
        ("between.pos between.cpos", "only one between.FIELD"),
        ("h.pos m.pos h.pos", "an atom appears twice"),
        ("h.pos h+0.pos", "an atom appears twice"),
        ("", "empty template"),
        ("  ", "empty template"),
    ],
}


@pytest.mark.parametrize(
    ("part", "text", "message"),
    [(part, *fault) for part, faults in FAULTY.items() for fault in faults],
)
def test_faulty_templates(part: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        parse_template(text, part)
    assert text.strip() == "" or text in str(caught.value) or part != "arc"
    blocks = {"arc": "h.pos", part: text}
    lines = [f"{name}: [{{templates: ['{each}']}}]" for name, each in blocks.items()]
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        parse_set("\n".join(lines), "a")
    assert str(caught.value).startswith("a: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("arc: []\n", "at least one template"),
        ("{}\n", "at least one template"),
        ("- 1\n", "has the keys name, distance, arc, sibling, end, guide"),
        ("arcs: []\n", "has the keys name, distance, arc, sibling, end, guide"),
        ("arc:\n  - {template: [h.pos]}\n", "has the keys suffixes and templates"),
        ("arc:\n  - h.pos\n", "has the keys suffixes and templates"),
        ("arc:\n  - {templates: [h.pos, h.pos]}\n", "'h.pos' appears twice"),
        ("arc:\n  - {suffixes: [direction, direction], templates: [h.pos]}\n", "appears twice"),
        ("arc:\n  - {templates: [h.pos]}\n  - {templates: [h.pos]}\n", "'h.pos' appears twice"),
        ("arc:\n  - {templates: [g.pos]}\n", "cannot read 'g.pos'"),
        ("arc:\n  - {templates: [h.pos]}\ndistance: [2, 1]\n", "at most six upper ends, rising"),
        ("arc:\n  - {templates: [h.pos]}\ndistance: [1, 1]\n", "at most six upper ends, rising"),
        ("arc:\n  - {templates: [h.pos]}\ndistance: [0, 1]\n", "rising, from 1"),
        ("arc:\n  - {templates: [h.pos]}\ndistance: [1, 2, 3, 4, 5, 6, 7]\n", "at most six"),
        ("arc:\n  - {templates: [h.pos]}\ndistance: [10001]\n", "above 10,000 words"),
        ("arc:\n  - {templates: [h.pos]}\ndistance: [2000000000]\n", "above 10,000 words"),
        (
            f"arc:\n  - {{templates: {[f'h.feats.{i}' for i in range(1000)]},"
            f" suffixes: {[f'm.feats.{i}' for i in range(1000)]}}}\n",
            "1,000,000 templates, more than 10,000",
        ),
        (f"arc:\n  - {{templates: [h+{'9' * 5000}.pos]}}\n", "cannot read"),
        ("arc:\n  - {templates: [h.pos]}\ndistance: [true]\n", "whole numbers"),
        ("arc:\n  - {templates: [h.pos]}\ndistance: [1.5]\n", "whole numbers"),
        ("arc:\n  - {templates: [h.pos]}\ndistance: 3\n", "whole numbers"),
        (
            "arc: mcdonald-2006\n",
            "one of carreras-2007, carreras-2007-h, carreras-2007-h-mo, extended,",
        ),
        ("arc: a.yaml\n", "a list of blocks is expected, or one of"),
        ("arc: 7\n", "a list of blocks is expected"),
        ("arc: extended\nsibling: mcdonald-2005\n", "that has sibling templates"),
        ("arc: extended\nend: mcdonald-2005\n", "that has end templates"),
        ("arc: extended\nguide: extended\n", "that has guide templates"),
        ("arc: extended\nend: 7\n", "a list of blocks is expected"),
        ("guide:\n  - {templates: [h.pos]}\n", "at least one template"),
        ("arc: extended\nguide: [{templates: [e.pos]}]\n", "cannot read 'e.pos'"),
        ("arc: extended\nguide: [{templates: ['', '']}]\n", "appears twice"),
        ("arc: extended\nguide: [{templates: [between.pos]}]\n", "for arc templates only"),
        ("arc: extended\nend: [{templates: [h.pos e.pos, e.pos h.pos]}]\n", "appears twice"),
        (
            "arc: extended\nends: []\n",
            "has the keys name, distance, arc, sibling, end, guide",
        ),
        ("end:\n  - {templates: [h.pos e.pos]}\n", "at least one template"),
        ("arc: labels\n", "that has arc templates"),
        ("sibling:\n  - {templates: [s.pos m.pos]}\n", "at least one template"),
        ("arc: extended\nsibling: [{templates: [s.pos m.pos, m.pos s.pos]}]\n", "appears twice"),
        (
            "arc: extended\nsiblings: []\n",
            "has the keys name, distance, arc, sibling, end, guide",
        ),
        ("arc: {\n", "a.yaml"),
        ("arc: [extended, extended]\n", "'h.form h.pos direction' appears twice"),
        ("arc: [extended, {templates: [h.form direction]}]\n", "appears twice"),
        ("arc: [labels]\n", "suffixes and templates, or is one of"),
        ("label: [extended]\n", "that has label templates"),
        ("arc: []\narc: []\n", "is already in line 1"),
    ],
)
def test_faulty_sets(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        parse_set(text, "a.yaml")
    assert str(caught.value).startswith("a.yaml")


def test_blocks_cross_templates_with_suffixes() -> None:
    templates = parse_set(
        """
distance: [1, 4]
arc:
  - suffixes: ["", direction distance]
    templates: [h.pos m.pos, m.form]
  - templates: [h.form direction]
label:
  - templates: [g.pos m.pos]
""",
        "a.yaml",
    )
    assert [str(t) for t in templates.arc] == [
        "h.pos m.pos", "h.pos m.pos direction distance", "m.form", "m.form direction distance",
        "h.form direction",
    ]  # fmt: skip
    assert [str(t) for t in templates.label] == ["g.pos m.pos"]
    assert templates.distance == (1, 4)
    assert templates.fields("arc") == ["form", "pos"]
    assert templates.fields("label") == ["pos"]


def atoms(roles: str) -> st.SearchStrategy[Atom]:
    return st.builds(Atom, st.sampled_from(roles), st.integers(-3, 3), st.sampled_from(FIELDS))


@st.composite
def template_lists(draw: st.DrawFn, roles: str, *, between: bool) -> tuple[Template, ...]:
    middle = st.none() | st.sampled_from(FIELDS) if between else st.none()
    suffixes = st.frozensets(st.sampled_from(["direction", "distance"]))
    looks = st.lists(atoms(roles), min_size=1, max_size=4, unique=True).map(tuple)
    whole = st.builds(Template, looks, middle, suffixes)
    # Sorted atoms: the same atoms in another order would be the same template.
    whole = whole.map(lambda t: Template(tuple(sorted(t.atoms)), t.between, t.suffix))
    return tuple(draw(st.lists(whole, min_size=1, max_size=6, unique=True)))


@st.composite
def sibling_templates(draw: st.DrawFn) -> Template:
    """Templates of siblings and words around the outer one, or one field of three words."""
    suffix = draw(st.frozensets(st.sampled_from(["direction", "distance"])))
    if draw(st.booleans()):
        looks = [Atom(role, 0, draw(st.sampled_from(FIELDS))) for role in PARTS["sibling"]]
    else:
        looks = draw(st.lists(atoms("sm"), min_size=1, max_size=4, unique=True))
    return Template(tuple(sorted(looks)), None, suffix)


@st.composite
def end_templates(draw: st.DrawFn) -> Template:
    """Templates of the words around a head and of its outermost modifier."""
    suffix = draw(st.frozensets(st.sampled_from(["direction", "distance"])))
    last = st.builds(Atom, st.just("e"), st.just(0), st.sampled_from(FIELDS))
    looks = draw(st.lists(last | atoms("h"), min_size=1, max_size=4, unique=True))
    return Template(tuple(sorted(looks)), None, suffix)


_EMPTY = Template((), None, frozenset())  # a guide template that looks at nothing else


@settings(deadline=None, max_examples=40)
@given(
    st.builds(
        TemplateSet,
        st.text("ab- 0:#", min_size=1),
        st.lists(st.integers(1, 30), max_size=6, unique=True).map(lambda ends: tuple(sorted(ends))),
        template_lists("hm", between=True),
        template_lists("hmgpqlr", between=False),
        st.lists(sibling_templates(), max_size=5, unique=True).map(tuple),
        st.lists(end_templates(), max_size=5, unique=True).map(tuple),
        template_lists("hm", between=False).map(lambda templates: (*templates, _EMPTY)),
    )
)
def test_a_set_written_is_the_set_read(templates: TemplateSet) -> None:
    assert parse_set(dump_set(templates), "again") == templates


def test_sets_of_one_part_alone_are_written_and_read() -> None:
    arcs = parse_set("name: a\narc:\n  - {templates: [h.pos]}\n", "a")
    labels = parse_set("name: a\nlabel:\n  - {templates: [g.pos]}\n", "a")
    assert parse_set(dump_set(arcs), "again") == arcs
    assert parse_set(dump_set(labels), "again") == labels


def test_parts_of_shipped_sets_are_taken_by_name() -> None:
    extended, guided, both = map(load_templates, ("extended", "guided", "extended-guided"))
    assert guided.arc == load_templates("mcdonald-2005").arc
    assert guided.sibling == guided.end == ()
    assert _EMPTY in guided.guide
    assert {str(template) for template in guided.guide} == {
        "", "direction distance", "h.pos", "h.pos direction distance", "m.pos",
        "m.pos direction distance", "h.pos m.pos", "h.pos m.pos direction distance",
    }  # fmt: skip
    parts = both.arc, both.sibling, both.end, both.guide, both.distance
    assert parts == (extended.arc, extended.sibling, extended.end, guided.guide, extended.distance)
    assert both.first_order().guide == guided.guide
    expanded = both.expanded(["Case"])
    assert expanded.guide == guided.guide


def test_every_attribute_in_turn() -> None:
    templates = parse_set(
        "arc:\n  - {templates: [h.feats.* m.feats.* direction, h.pos, between.feats.*]}\n"
        "label:\n  - {templates: [g.feats.* m.feats.Case]}\n",
        "a",
    ).expanded(["Case", "Number"])
    assert [str(t) for t in templates.arc] == [
        "h.feats.Case m.feats.Case direction",
        "h.feats.Number m.feats.Number direction",
        "h.pos",
        "between.feats.Case",
        "between.feats.Number",
    ]
    assert [str(t) for t in templates.label] == [
        "g.feats.Case m.feats.Case",
        "g.feats.Number m.feats.Case",
    ]
    assert [str(t) for t in templates.expanded([]).arc] == [str(t) for t in templates.arc]


def test_shipped_sets_are_taken_between_blocks() -> None:
    text = "arc:\n  - extended\n  - {templates: [h.feats.Case m.pos]}\nsibling: [extended]\n"
    templates, extended = parse_set(text, "a"), load_templates("extended")
    assert templates.arc == (*extended.arc, parse_template("h.feats.Case m.pos"))
    assert templates.sibling == extended.sibling


def test_pairs_of_attributes() -> None:
    templates = parse_set(
        "arc:\n  - {templates: [h.feats.* m.feats.**, h.pos m+1.feats.** m.feats.*, h.pos]}\n"
        "  - {templates: [h.feats.** between.feats.* m.feats.**, between.feats.**, m.feats.**]}\n"
        "label: [{templates: [g.feats.* h.feats.** m.feats.*]}]\n",
        "a",
    )
    assert templates.has_pairs()
    expanded = templates.expanded(["A", "B"], [("A", "A"), ("B", "A")])
    assert [str(t) for t in expanded.arc] == [
        "h.feats.A m.feats.A", "h.feats.B m.feats.A",
        "h.pos m+1.feats.A m.feats.A", "h.pos m+1.feats.A m.feats.B",
        "h.pos",
        "h.feats.A m.feats.A between.feats.A", "h.feats.A m.feats.A between.feats.B",
        "between.feats.A", "between.feats.B", "m.feats.A", "m.feats.B",
    ]  # fmt: skip
    assert [str(t) for t in expanded.label] == [
        "g.feats.A h.feats.A m.feats.A",
        "g.feats.B h.feats.A m.feats.B",
    ]
    assert not expanded.has_pairs()
    assert [str(t) for t in templates.expanded([]).arc] == ["h.pos"]
    assert parse_set(dump_set(templates), "again") == templates


@pytest.mark.parametrize("text", ["h.feats.* m.feats.*", "h.feats.** m.feats.**"])
def test_one_attribute_in_both_places_is_no_pair(text: str) -> None:
    templates = parse_set(template_set_text(arc=[text]), "a")
    assert not templates.has_pairs()
    expanded = templates.expanded(["A", "B"], [("A", "B")])
    assert [str(t) for t in expanded.arc] == ["h.feats.A m.feats.A", "h.feats.B m.feats.B"]


def test_every_attribute_in_turn_of_siblings_too() -> None:
    templates = parse_set(
        "name: a\narc: [{templates: [h.pos]}]\n"
        "sibling: [{templates: [s.feats.* m.feats.* direction, h.pos s.feats.* m.pos]}]\n"
        "end: [{templates: [h.feats.* e.feats.* distance, e.lemma]}]\n",
        "a",
    )
    expanded = templates.expanded(["Case", "Number"])
    assert [str(t) for t in expanded.sibling] == [
        "s.feats.Case m.feats.Case direction",
        "s.feats.Number m.feats.Number direction",
        "h.pos s.feats.Case m.pos",
        "h.pos s.feats.Number m.pos",
    ]
    assert expanded.fields("sibling") == ["feats.Case", "feats.Number", "pos"]
    assert [str(t) for t in expanded.end] == [
        "h.feats.Case e.feats.Case distance",
        "h.feats.Number e.feats.Number distance",
        "e.lemma",
    ]
    assert expanded.fields("end") == ["feats.Case", "feats.Number", "lemma"]
    assert [str(t) for t in templates.expanded([]).end] == ["e.lemma"]
    assert expanded.arc == templates.arc
    assert templates.expanded([]).sibling == ()
    assert parse_set(dump_set(expanded), "again") == expanded


def test_the_first_order_part_has_all_but_the_siblings_and_ends() -> None:
    whole = load_templates("extended")
    first = whole.first_order()
    assert (first.name, first.distance, first.arc) == (whole.name, whole.distance, whole.arc)
    assert first.label == whole.label
    assert first.sibling == () != whole.sibling
    assert first.end == () != whole.end
    assert first.first_order() == first
    assert parse_set(dump_set(first), "again") == first


@pytest.mark.parametrize("name", ["mcdonald-2005", "extended", "mcdonald-pereira-2006"])
def test_the_arcs_of_a_shipped_set_by_name(name: str) -> None:
    templates = parse_set(f"arc: {name}\nsibling: [{{templates: [s.pos m.pos]}}]\n", "mine")
    assert templates.arc == load_templates(name).arc
    assert [str(t) for t in templates.sibling] == ["s.pos m.pos"]
    assert templates.distance == ()  # the buckets are the set's own
    assert parse_set(dump_set(templates), "again") == templates


SHIPPED = sorted(path.stem for path in SETS.glob("*.yaml"))


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_sets_load_and_repeat_no_template(name: str) -> None:
    templates = load_templates(name)
    assert templates.name == name
    for part in (templates.arc, templates.sibling, templates.end, templates.label):
        conjunctions = [(frozenset(t.atoms), t.between, t.suffix) for t in part]
        assert len(set(conjunctions)) == len(conjunctions)
    assert templates.arc or templates.label or templates.word_vectors
    assert parse_set(dump_set(templates), "again") == templates


def test_sets_are_loaded_by_path_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("arc:\n  - {templates: [h.lemma]}\n")
    assert [str(t) for t in load_templates(str(path)).arc] == ["h.lemma"]
    with pytest.raises(ConfigError, match=r"no feature set 'no-such'.*mcdonald-2005"):
        load_templates("no-such")


def test_mcdonald_2005_is_table_1_of_the_paper() -> None:
    # Table 1 a and b as printed; section 2.4 adds prefixes of words, for all words at once.
    unigrams = ["p-word p-pos", "p-word", "p-pos", "c-word c-pos", "c-word", "c-pos"]
    bigrams = [
        "p-word p-pos c-word c-pos",
        "p-pos c-word c-pos",
        "p-word c-word c-pos",
        "p-word p-pos c-pos",
        "p-word p-pos c-word",
        "p-word c-word",
        "p-pos c-pos",
    ]
    words = unigrams + bigrams
    words += [line.replace("word", "prefix") for line in words if "word" in line]
    surrounding = [
        "p-pos p-pos+1 c-pos-1 c-pos",
        "p-pos-1 p-pos c-pos-1 c-pos",
        "p-pos p-pos+1 c-pos c-pos+1",
        "p-pos-1 p-pos c-pos c-pos+1",
    ]
    # "back-off features to various trigrams where one of the local context POS tags was removed"
    trigrams = {
        " ".join(tag for tag in line.split() if tag != removed)
        for line in surrounding
        for removed in line.split()
        if removed[-2:] in ("+1", "-1")
    }
    assert len(trigrams) == 4
    expected = set()
    for line in [*words, "p-pos b-pos c-pos", *surrounding, *trigrams]:
        atoms_of_line = frozenset(map(ours, line.split()))
        # "All features are conjoined with the direction of attachment as well as the distance"
        expected |= {(atoms_of_line, False), (atoms_of_line, True)}
    found = {
        (
            frozenset(str(template).removesuffix(" direction distance").split()),
            "direction distance" in str(template),
        )
        for template in load_templates("mcdonald-2005").arc
    }
    assert found == expected
    assert load_templates("mcdonald-2005").label == ()


def test_mcdonald_pereira_2006_is_section_5_of_the_paper() -> None:
    # "s-POS, x_i-pos x_k-pos x_j-pos; x_k-pos x_j-pos; x_k-word x_j-word; x_k-word x_j-pos;
    # x_k-pos x_j-word", with x_k the inner sibling of x_j, each "also conjoined with the direction
    # and distance between the two siblings"
    words = [
        "h.pos s.pos m.pos", "s.pos m.pos", "s.form m.form", "s.form m.pos", "s.pos m.form",
    ]  # fmt: skip
    templates = load_templates("mcdonald-pereira-2006")
    expected = {f"{line}{suffix}" for line in words for suffix in ("", " direction distance")}
    assert {str(template) for template in templates.sibling} == expected
    first = load_templates("mcdonald-2005")
    assert (templates.arc, templates.distance) == (first.arc, first.distance)
    assert templates.label == templates.end == ()


def test_extended_has_the_siblings_of_the_paper_or_their_like() -> None:
    """Every pair and the triple of the paper, each at least with the direction."""
    looks = {
        frozenset(str(atom) for atom in template.atoms)
        for template in load_templates("extended").sibling
        if "direction" in template.suffix
    }
    assert {
        frozenset(str(atom) for atom in template.atoms)
        for template in load_templates("mcdonald-pereira-2006").sibling
    } <= looks


def test_extended_looks_at_ends_by_tags_and_words_of_both() -> None:
    """Without the direction the two sides of a head, which are alike in nothing, would be one."""
    ends = load_templates("extended").end
    assert all("direction" in template.suffix for template in ends)
    assert all(template.of("h") and template.of("e") for template in ends)
    looks = {" ".join(map(str, template.atoms)) for template in ends}
    assert {"h.pos e.pos", "h.lemma e.pos", "h.pos e.lemma"} <= looks
    assert any("distance" in template.suffix for template in ends)


def ours(word: str) -> str:
    """An atom of the paper's table in the template language."""
    match = re.fullmatch(r"(p|c|b)-(word|pos|prefix)([+-]1)?", word)
    assert match is not None
    role = {"p": "h", "c": "m", "b": "between"}[match[1]]
    field = {"word": "form", "pos": "pos", "prefix": "form[:5]"}[match[2]]
    return f"{role}{match[3] or ''}.{field}"


def test_an_attribute_named_and_found_by_the_star_stands_once():
    templates = parse_set(
        "arc: [{templates: [h.feats.* m.feats.*, h.feats.Case m.feats.Case]}]", "text"
    ).expanded(["Case", "Number"])
    assert [str(template) for template in templates.arc] == [
        "h.feats.Case m.feats.Case",
        "h.feats.Number m.feats.Number",
    ]
    assert parse_set(dump_set(templates), "text") == templates


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("arc: [{templates: [m.pos h.pos, h.pos m.pos]}]", "appears twice"),
        ("arc: [{templates: [h.pos direction direction]}]", "direction appears twice"),
        ("arc: h.pos", "list of blocks"),
        ("arc: [{templates: h.pos}]", "lists are expected"),
        ("label: [{templates: [h.pos between.pos]}]", "for arc templates only"),
    ],
)
def test_sets_that_would_not_mean_what_they_say_are_refused(text, complaint):
    with pytest.raises(ConfigError, match=complaint):
        parse_set(text, "text")


def test_a_set_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "set.yaml").write_bytes(b"arc: \xff\xfe")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_templates(str(tmp_path / "set.yaml"))


def test_too_many_attributes_are_refused() -> None:
    templates = parse_set("arc: [{templates: [h.feats.* m.pos, h.pos]}]", "x")
    assert len(templates.expanded([f"A{i}" for i in range(9_999)]).arc) == 10_000
    with pytest.raises(ConfigError, match="10,001 templates with 10000 attributes"):
        templates.expanded([f"A{i}" for i in range(10_000)])
    pairs = parse_set("arc: [{templates: [h.feats.* m.feats.**]}]", "x")
    with pytest.raises(ConfigError, match="10,001 templates"):
        pairs.expanded([], [("A", f"B{i}") for i in range(10_001)])


@pytest.mark.parametrize("sizes", [(1 << 22, 1 << 21, 1 << 21), (1 << 22, 2, 3), (5, 6, 7)])
@pytest.mark.parametrize("n_families", [1, 3])
def test_between_families_take_all_lines_that_they_may(
    sizes: tuple[int, int, int], n_families: int
) -> None:
    class Sized(Vocabularies):
        def size(self, field: str) -> int:
            return dict(zip(("form", "lemma", "pos"), sizes, strict=True)).get(field, 1)

    others = ["h.pos between.pos", "between.pos m.pos"][: n_families - 1]
    text = template_set_text(arc=["h.form between.lemma m.pos", *others])
    plan = compile_plan(parse_set(text, "x"), Sized({"form": [], "lemma": [], "pos": []}, 3))
    first = plan.arcs.between[0]
    told = [int(first[name]) for name in ("n_heads", "n_middles", "n_modifiers")]
    room = MAX_DENSE_LINES // n_families
    assert math.prod(told) <= room
    most = max(told) + 1
    if told != list(sizes):
        assert math.prod(min(size, most) for size in sizes) > room

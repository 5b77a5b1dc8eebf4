"""Templates in words: every atom that a template of a shipped set may have."""

import re

import pytest

from gpuparse.data.parts import PART_KINDS
from gpuparse.features.phrases import ROLES, clauses, value_phrase
from gpuparse.features.templates import PARTS, load_templates, parse_template, shipped_sets


def test_every_role_has_a_name() -> None:
    roles = {role for kind in PART_KINDS for role in kind.roles}
    assert roles | {"w"} == set(ROLES)
    assert len(set(ROLES.values())) == len(ROLES)


@pytest.mark.parametrize("name", shipped_sets())
def test_every_atom_of_the_shipped_sets_has_a_phrase(name: str) -> None:
    """Each value is said once, and nothing of the notation of templates is left."""
    templates = load_templates(name).expanded(["Case"], [("Case", "Number")])
    for part, roles in PARTS.items():
        for template in getattr(templates, part):
            n_between = template.between is not None
            values = [f"V{i}" for i in range(len(template.atoms) + n_between)]
            values += ["left"] if "direction" in template.suffix else []
            values += ["7"] if "distance" in template.suffix else []
            said = clauses(template, values, near=roles[0])
            text = ", ".join(f"{place} {value}" for place, value in said)
            for value in values:
                assert len(re.findall(rf"{value}\b", text)) == 1, (str(template), text)
            assert not re.search(r"\.pos|\.form|\.lemma|\[|\]|\*", text)
            for atom in template.atoms:
                assert any(ROLES[atom.role] in place for place, _ in said)


@pytest.mark.parametrize(
    ("template", "values", "said"),
    [
        ("h.pos m.pos direction distance", ["VERB", "NOUN", "left", "2"],
         [("head", "verb"), ("modifier", "noun"), ("", "2 words left of the head")]),
        ("h.form h-1.pos m+2.lemma distance", ["ship", "DT", "go", "1"],
         [("head", '"ship"'), ("word before the head", "DT"),
          ("2 words after the modifier", "lemma go"), ("", "1 word from the head")]),
        ("h.pos between.pos direction", ["(root)", "IN", "right"],
         [("head", "root"), ("between them", "IN"), ("", "right of the head")]),
        ("h.cpos h.pos h.feats.Case m.form[-3:] m.lemma[:2]", ["N", "N", "Acc", "ing", "ab"],
         [("head", "N Case=Acc"), ("modifier", "ends in -ing lemma begins in ab-")]),
        ("h.cpos m-1.pos", ["A", "(before the sentence)"],
         [("head", "A"), ("word before the modifier", "none")]),
    ],
)  # fmt: skip
def test_phrases(template: str, values: list[str], said: list[tuple[str, str]]) -> None:
    assert list(clauses(parse_template(template), values, near="h")) == said


def test_special_values() -> None:
    assert value_phrase("form", "(root)") == "root"
    assert value_phrase("feats", "Case=Nom|Number=Sing") == "Case=Nom|Number=Sing"

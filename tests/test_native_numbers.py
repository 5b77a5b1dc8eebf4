"""Numbers that Python and native code both state are the same."""

import re
from pathlib import Path

import pytest

from gpuparse import native
from gpuparse.config import RULES
from gpuparse.data import columns, scanner
from gpuparse.data.faults import DepsFault, TreeFault
from gpuparse.data.parts import BY_NAME, HIGHER_ORDER, MOST_WORDS
from gpuparse.features import plan
from gpuparse.inference import DECODERS, native_trees
from gpuparse.learning import mira
from gpuparse.scorers.linear import part_rows, weights

NATIVE = Path(__file__).parents[1] / "native"
LINE_FAULTS = (
    "NO_LINE_FAULT", "COLUMN_COUNT", "LINE_TOO_LONG", "LONE_RETURN", "NOT_UTF8", "BAD_ID",
    "UNEXPECTED_ID", "EMPTY_FORM", "RANGE_REVERSED", "RANGE_OVERLAPS", "RANGE_MISPLACED",
    "RANGE_PAST_END",
)  # fmt: skip


def numbered(*names: str) -> dict[str, int]:
    return {name: number for number, name in enumerate(names)}


def of_module(module: object, *names: str) -> dict[str, int]:
    return {name: getattr(module, name) for name in names}


RULE_NAMES = [name.upper().replace("-", "_") for name in RULES]
ENUMS = {
    ("decoder_numbers.h", "DecoderNumber"): {
        f"BY_{name.upper()}": decoder.number for name, decoder in DECODERS.items()
    },
    ("updates.h", "RuleNumber"): of_module(mira, *RULE_NAMES),
    ("part_kinds.h", "HigherKind"): numbered(
        *(kind.name.upper() for kind in HIGHER_ORDER), "HIGHER_KINDS"
    ),
    ("trees.h", "TreeFault"): {fault.name: fault.value for fault in TreeFault},
    ("conll_columns.h", "DepsFault"): {fault.name: fault.value for fault in DepsFault},
    ("conll_scanner.h", "LineFault"): {"NO_LINE_FAULT": 0} | of_module(scanner, *LINE_FAULTS[1:]),
    ("conll_scanner.h", "ConllColumn"): of_module(
        columns, "FORM", "HEAD", "DEPREL", "DEPS", "MISC"
    ),
    ("api/types.h", "Status"): of_module(native, "OK", "NO_MEMORY", "BAD_SHAPE", "BAD_TYPE"),
    ("eisner_kbest.h", ""): {"RANK_BITS": 20, "MAX_RANK": native_trees.MAX_TREES},
}
CONSTANTS = {
    ("conll_scanner.h", "N_COLUMNS"): scanner.N_COLUMNS,
    ("conll_writer.h", "MAX_KEYS"): columns.MAX_KEYS,
    ("feature_rows.h", "LINE"): plan.LINE,
    ("feature_rows.h", "NO_SIBLING"): plan.NO_SIBLING,
    ("joint_labels.h", "LABEL_LANES"): weights.LANES,
    ("labels.h", "NO_NODE"): plan.NO_NODE,
    ("labels.h", "NO_NODE_VALUE"): plan.NO_NODE_VALUE,
    ("part_kinds.h", "ABSENT_WORD"): part_rows.ABSENT_WORD,
    ("part_kinds.h", "PART_WORDS"): MOST_WORDS,
}


def found(header: str, pattern: str) -> str:
    """The text that a pattern's group matches in a header without its comments."""
    text = re.sub(r"//[^\n]*", "", (NATIVE / header).read_text())
    [match] = re.findall(pattern, text)
    return str(match)


def value(text: str, names: dict[str, int]) -> float:
    """A number of C++: a literal, perhaps shifted, of earlier names."""
    return eval(re.sub(r"(?<=\d)[uL]+", "", text), {}, names)  # noqa: S307


@pytest.mark.parametrize(("header", "enum"), ENUMS)
def test_enumerations(header, enum):
    body = found(header, rf"enum {enum}\s*(?::\s*\w+\s*)?{{([^}}]*)}}")
    numbers: dict[str, int] = {}
    for item in filter(None, (item.strip() for item in body.split(","))):
        name, _, given = item.partition("=")
        numbers[name.strip()] = int(
            value(given, numbers) if given else max(numbers.values(), default=-1) + 1
        )
    assert numbers == ENUMS[header, enum]


@pytest.mark.parametrize(("header", "name"), CONSTANTS)
def test_constants(header, name):
    text = found(header, rf"constexpr [^;]*?\b{name} = ([^;,]+)[;,]")
    assert value(text, {}) == CONSTANTS[header, name]


def test_words_of_parts():
    for name, role in (("HEAD_POSITION", "h"), ("MODIFIER_POSITION", "m")):
        positions = found("part_kinds.h", rf"{name}\[HIGHER_KINDS\] = {{([^}}]*)}}").split(",")
        assert [int(text) for text in positions] == [k.roles.index(role) for k in HIGHER_ORDER]
    roles = found("labels.h", r"enum LabelRole : int64_t {([^}]*)}").split(",")
    assert [text.strip() for text in roles].index("LABEL_ROLES") == len(BY_NAME["label"].roles)

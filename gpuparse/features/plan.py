"""A template set compiled to integer tables: what the scoring kernels and their torch twin read.

Templates that differ only in `direction` and `distance` form a family. A family's feature for
one arc is a *base row*, found from the words' values alone, and a *code*, found from direction
and distance alone; its weight row is base XOR code. The codes of a family are smaller than 16,
so that all its weights for one pair of words lie within 16 consecutive rows: one cache line.

    word families       look at the head alone, or at the modifier alone: summed once a word
    pair families       look at both: base = head part XOR modifier part, each hashed once a word
    between families    look at head, modifier and a word between: rows found by direct index;
                        of a field with very many values only the first are told apart
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpuparse.data.vocabulary import Vocabularies
from gpuparse.errors import ConfigError
from gpuparse.features.templates import Atom, Template, TemplateSet

LINE = 16  # rows within which all codes of a family lie
NO_CODE = -1
HEAD, MODIFIER = 0, 1
MAX_DENSE_LINES = 1 << 19  # of all between families together
SIDE_BITS = 28  # of an exact key for the head's values, and as many for the modifier's
MAX_EXACT_FAMILIES = 127


def _record(*names: str) -> np.dtype:
    return np.dtype([(name, np.int64) for name in names])


# Tables of the plan. Fields `*_side` are numbers of sides, fields `*_codes` of code tables, of
# which the second may be NO_CODE; `slots` is the number of rows that a value takes in an exact
# map, a power of two; `seed` is the number of the family, also the top of its exact keys.
ATOM = _record(
    "row",  # of the batch's values
    "offset",  # words to the right of the role's word
    "shift",  # bit of the exact key where the atom's value begins
)
WORD = _record("role", "side", "first_codes", "second_codes", "slots", "seed")
PAIR = _record("head_side", "modifier_side", "first_codes", "second_codes", "slots", "seed")
BETWEEN = _record(
    "head_side",  # one atom or none each
    "modifier_side",
    "row",  # of the batch's values of the word between
    "n_heads",  # numbers of values told apart; those from the last one on share its lines
    "n_middles",
    "n_modifiers",
    "line",  # the first one, counted from the dense region's start
    "first_codes",
    "second_codes",
)


class ArcPlan(NamedTuple):
    """Arc templates as arrays. S sides, K code tables, C combinations.

    A side is a sequence of atoms of one role; sides are shared between families.
    A combination is a direction with a distance bucket: `direction * buckets + bucket`,
    direction 0 for a head to the left of its modifier.

    Few arrays with records in them: numba takes the longer to compile a function the more arrays
    it is given.
    """

    buckets: np.ndarray  # (L,) int64: bucket of distance d at d - 1, the last one for all beyond
    n_buckets: int
    codes: np.ndarray  # (K, C) uint32: code of each combination in code table k
    side_start: np.ndarray  # (S + 1,) int64: side s has atoms side_start[s]:side_start[s + 1]
    atoms: np.ndarray  # of ATOM
    word: np.ndarray  # of WORD, one record a family; role HEAD or MODIFIER
    pair: np.ndarray  # of PAIR
    between: np.ndarray  # of BETWEEN
    dense_lines: int  # lines of the dense region, LINE rows each


_Looks = tuple[tuple[Atom, ...], tuple[Atom, ...], str | None]  # head, modifier, between


def _families(templates: Sequence[Template]) -> list[tuple[_Looks, list[frozenset[str]]]]:
    """Families in order of first appearance, each with its suffixes."""
    groups: dict[_Looks, list[frozenset[str]]] = {}
    for template in templates:
        looks = (template.of("h"), template.of("m"), template.between)
        groups.setdefault(looks, []).append(template.suffix)
    # A base row has room for two suffixes of at most 16 codes together.
    return [
        (looks, suffixes[i : i + 2])
        for looks, suffixes in groups.items()
        for i in range(0, len(suffixes), 2)
    ]


def compile_arcs(templates: TemplateSet, vocabularies: Vocabularies) -> ArcPlan:
    """Compile the arc templates of an expanded set.

    Raises:
        ConfigError: a `between` template with several atoms of one role.
    """
    return _Compiler(templates, vocabularies).plan()


class _Compiler:
    def __init__(self, templates: TemplateSet, vocabularies: Vocabularies) -> None:
        self._vocabularies = vocabularies
        self._n_buckets = len(templates.distance) + 1
        self._ends = templates.distance
        self._families = _families(templates.arc)
        self._n_between = sum(between is not None for (_, _, between), _ in self._families)
        self._row = {field: row for row, field in enumerate(vocabularies.fields)}
        self._sides: dict[tuple[Atom, ...], int] = {}
        self._tables: dict[tuple[frozenset[str], int], int] = {}
        self._lines = 0

    def plan(self) -> ArcPlan:
        word, pair, between = [], [], []
        for seed, ((head, modifier, middle), suffixes) in enumerate(self._families, start=1):
            first, second, slots = self._codes(suffixes)
            if middle is not None:
                between.append((*self._between(head, middle, modifier), first, second))
            elif head and modifier:
                sides = self._side(head), self._side(modifier)
                pair.append((*sides, first, second, slots, seed))
            else:
                role = MODIFIER if modifier else HEAD
                word.append((role, self._side(head or modifier), first, second, slots, seed))
        side_start, atoms = self._side_arrays()
        return ArcPlan(
            bucket_table(self._ends),
            self._n_buckets,
            self._code_tables(),
            side_start,
            atoms,
            np.array(word, WORD),
            np.array(pair, PAIR),
            np.array(between, BETWEEN),
            self._lines,
        )

    def _side(self, atoms: tuple[Atom, ...]) -> int:
        return self._sides.setdefault(atoms, len(self._sides))

    def _codes(self, suffixes: list[frozenset[str]]) -> tuple[int, int, int]:
        """Both code tables of a family's suffixes, and the rows that their codes span."""
        tables, first = [], 0
        for suffix in suffixes:
            tables.append(self._tables.setdefault((suffix, first), len(self._tables)))
            first += self._count(suffix)
        if first > LINE:
            raise ConfigError(
                f"a template's direction and distance variants need {first} weights; at most "
                f"{LINE} fit: use fewer distance buckets"
            )
        one, two = [*tables, NO_CODE][:2]
        return one, two, 1 << (first - 1).bit_length()

    def _count(self, suffix: frozenset[str]) -> int:
        directions = 2 if "direction" in suffix else 1
        return directions * (self._n_buckets if "distance" in suffix else 1)

    def _code_tables(self) -> np.ndarray:
        combinations = np.arange(2 * self._n_buckets)
        direction, bucket = np.divmod(combinations, self._n_buckets)
        tables = np.zeros((len(self._tables), len(combinations)), np.uint32)
        for (suffix, first), table in self._tables.items():
            code = np.zeros_like(combinations)
            if "direction" in suffix:
                code = direction
            if "distance" in suffix:
                code = code * self._n_buckets + bucket
            tables[table] = first + code
        return tables

    def _side_arrays(self) -> tuple[np.ndarray, np.ndarray]:
        starts, records = [0], []
        for atoms in self._sides:
            # Heads fill an exact key from its lowest bit, modifiers from the middle.
            shift = SIDE_BITS if atoms and atoms[0].role == "m" else 0
            for atom in atoms:
                records.append((self._row[atom.field], atom.offset, shift))
                shift += (self._vocabularies.size(atom.field) - 1).bit_length()
            starts.append(len(records))
        return np.array(starts, np.int64), np.array(records, ATOM)

    def _between(
        self, head: tuple[Atom, ...], middle: str, modifier: tuple[Atom, ...]
    ) -> tuple[int, int, int, int, int, int, int]:
        if len(head) > 1 or len(modifier) > 1:
            raise ConfigError(
                f"a template with between.{middle} takes at most one atom of the head and one "
                "of the modifier"
            )
        size = self._vocabularies.size
        sizes = [
            size(head[0].field) if head else 1,
            size(middle),
            size(modifier[0].field) if modifier else 1,
        ]
        most = max(sizes)
        while np.prod(np.minimum(sizes, most)) > MAX_DENSE_LINES // self._n_between:
            most -= 1
        n_heads, n_middles, n_modifiers = np.minimum(sizes, most).tolist()
        first = self._lines
        self._lines += n_heads * n_middles * n_modifiers
        sides = self._side(head), self._side(modifier)
        return *sides, self._row[middle], n_heads, n_middles, n_modifiers, first


def bucket_table(ends: Sequence[int]) -> np.ndarray:
    """The bucket of distance d at d - 1, for buckets with the given upper ends in words."""
    last = ends[-1] if ends else 0
    return np.searchsorted(ends, np.arange(1, last + 2)).astype(np.int64)


def check_exact_keys(plan: ArcPlan, vocabularies: Vocabularies) -> None:
    """Make sure that the values of every family fit the 63 bits of an exact key.

    Raises:
        ConfigError: they do not.
    """
    widths = [(vocabularies.size(field) - 1).bit_length() for field in vocabularies.fields]
    for side in range(len(plan.side_start) - 1):
        rows = plan.atoms["row"][plan.side_start[side] : plan.side_start[side + 1]]
        if sum(widths[row] for row in rows) > SIDE_BITS:
            fields = " ".join(vocabularies.fields[row] for row in rows)
            raise ConfigError(
                f"feature_map.kind exact: a template joins {fields} of one word, which have too "
                "many values for an exact key: use the hashed map"
            )
    for between in plan.between:
        field = vocabularies.fields[between["row"]]
        if between["n_middles"] < vocabularies.size(field):
            raise ConfigError(
                f"feature_map.kind exact: between.{field} has too many values to tell all of them "
                "apart: use the hashed map, or a field such as cpos"
            )
    families = len(plan.word) + len(plan.pair) + len(plan.between)
    if families > MAX_EXACT_FAMILIES:
        raise ConfigError(
            f"feature_map.kind exact: {families} templates that differ in more than direction and "
            f"distance, at most {MAX_EXACT_FAMILIES} have room: use the hashed map"
        )

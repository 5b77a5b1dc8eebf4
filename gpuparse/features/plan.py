"""A template set compiled to integer tables: what the scoring kernels and their torch twin read.

Templates that differ only in `direction` and `distance` form a family. A family's feature for
one arc is a *base row*, found from the words' values alone, and a *code*, found from direction
and distance alone; its weight row is base XOR code. The codes of a family are smaller than 16,
so that all its weights for one pair of words lie within 16 consecutive rows: one cache line.

    word families       look at the head alone, or at the modifier alone: summed once a word
    pair families       look at both: base = head part XOR modifier part, each hashed once a word
    between families    look at head, modifier and a word between: rows found by direct index
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
MAX_DENSE_LINES = 1 << 19
SIDE_BITS = 28  # of an exact key for the head's values, and as many for the modifier's
MAX_EXACT_FAMILIES = 127


class ArcPlan(NamedTuple):
    """Arc templates as arrays. S sides, F families of a kind, K code tables, C combinations.

    A side is a sequence of atoms of one role; sides are shared between families.
    A combination is a direction with a distance bucket: `direction * buckets + bucket`,
    direction 0 for a head to the left of its modifier.
    """

    buckets: np.ndarray  # (L,) int64: bucket of distance d at d - 1, the last one for all beyond
    n_buckets: int
    codes: np.ndarray  # (K, C) uint32: code of each combination in code table k
    side_start: np.ndarray  # (S + 1,) int64: side s has atoms side_start[s]:side_start[s + 1]
    atom_row: np.ndarray  # (A,) int64: row of the batch's values
    atom_offset: np.ndarray  # (A,) int64: words to the right of the role's word
    atom_shift: np.ndarray  # (A,) int64: bit of the exact key where the atom's value begins
    word_role: np.ndarray  # (F,) int64: HEAD or MODIFIER
    word_side: np.ndarray  # (F,) int64
    word_codes: np.ndarray  # (F, 2) int64: code tables; the second may be NO_CODE
    word_slots: np.ndarray  # (F,) int64: rows that a value takes in an exact map, a power of two
    word_seed: np.ndarray  # (F,) int64: number of the family, also the top of its exact keys
    pair_head: np.ndarray  # (F,) int64: side of the head
    pair_modifier: np.ndarray  # (F,) int64: side of the modifier
    pair_codes: np.ndarray  # (F, 2) int64
    pair_slots: np.ndarray  # (F,) int64
    pair_seed: np.ndarray  # (F,) int64
    between_side: np.ndarray  # (F, 2) int64: sides of head and modifier, one atom or none each
    between_row: np.ndarray  # (F,) int64: row of the batch's values of the word between
    between_size: np.ndarray  # (F, 3) int64: number of values of head, between and modifier
    between_line: np.ndarray  # (F,) int64: first line, counted from the dense region's start
    between_codes: np.ndarray  # (F, 2) int64
    dense_lines: int  # lines of the dense region, LINE rows each


class _Families:
    """Families in order of first appearance: (head atoms, modifier atoms, between) -> suffixes."""

    def __init__(self, templates: Sequence[Template]) -> None:
        groups: dict[tuple, list[frozenset[str]]] = {}
        for template in templates:
            key = (template.of("h"), template.of("m"), template.between)
            groups.setdefault(key, []).append(template.suffix)
        # A base row has room for two suffixes of at most 16 codes together.
        self.all = [
            (key, suffixes[i : i + 2])
            for key, suffixes in groups.items()
            for i in range(0, len(suffixes), 2)
        ]


def compile_arcs(templates: TemplateSet, vocabularies: Vocabularies) -> ArcPlan:
    """Compile the arc templates of an expanded set.

    Raises:
        ConfigError: a `between` template with several atoms of one role, or with more values
            than the dense region holds.
    """
    return _Compiler(templates, vocabularies).plan()


class _Compiler:
    def __init__(self, templates: TemplateSet, vocabularies: Vocabularies) -> None:
        self._vocabularies = vocabularies
        self._n_buckets = len(templates.distance) + 1
        self._ends = templates.distance
        self._families = _Families(templates.arc).all
        self._row = {field: row for row, field in enumerate(vocabularies.fields)}
        self._sides: dict[tuple[Atom, ...], int] = {}
        self._tables: dict[tuple[frozenset[str], int], int] = {}
        self._lines = 0

    def plan(self) -> ArcPlan:
        word, pair, between = [], [], []
        for seed, ((head, modifier, middle), suffixes) in enumerate(self._families, start=1):
            codes, slots = self._codes(suffixes)
            if middle is not None:
                between.append((*self._between(head, middle, modifier), codes))
            elif head and modifier:
                pair.append((self._side(head), self._side(modifier), codes, slots, seed))
            else:
                role = MODIFIER if modifier else HEAD
                word.append((role, self._side(head or modifier), codes, slots, seed))
        sides, rows, offsets, shifts = self._side_arrays()
        word_role, word_side, word_codes, word_slots, word_seed = _arrays(word, (0, 0, 2, 0, 0))
        pair_head, pair_modifier, pair_codes, pair_slots, pair_seed = _arrays(pair, (0, 0, 2, 0, 0))
        between_side, between_row, between_size, between_line, between_codes = _arrays(
            between, (2, 0, 3, 0, 2)
        )
        return ArcPlan(
            buckets=bucket_table(self._ends),
            n_buckets=self._n_buckets,
            codes=self._code_tables(),
            side_start=sides,
            atom_row=rows,
            atom_offset=offsets,
            atom_shift=shifts,
            word_role=word_role,
            word_side=word_side,
            word_codes=word_codes,
            word_slots=word_slots,
            word_seed=word_seed,
            pair_head=pair_head,
            pair_modifier=pair_modifier,
            pair_codes=pair_codes,
            pair_slots=pair_slots,
            pair_seed=pair_seed,
            between_side=between_side,
            between_row=between_row,
            between_size=between_size,
            between_line=between_line,
            between_codes=between_codes,
            dense_lines=self._lines,
        )

    def _side(self, atoms: tuple[Atom, ...]) -> int:
        return self._sides.setdefault(atoms, len(self._sides))

    def _codes(self, suffixes: list[frozenset[str]]) -> tuple[list[int], int]:
        """Code tables of a family's suffixes, one after the other, and the rows they span."""
        tables, first = [], 0
        for suffix in suffixes:
            tables.append(self._tables.setdefault((suffix, first), len(self._tables)))
            first += self._count(suffix)
        if first > LINE:
            raise ConfigError(
                f"a template's direction and distance variants need {first} weights; at most "
                f"{LINE} fit: use fewer distance buckets"
            )
        return [*tables, NO_CODE][:2], 1 << (first - 1).bit_length()

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

    def _side_arrays(self) -> tuple[np.ndarray, ...]:
        starts, rows, offsets, shifts = [0], [], [], []
        for atoms in self._sides:
            # Heads fill an exact key from its lowest bit, modifiers from the middle.
            shift = SIDE_BITS if atoms and atoms[0].role == "m" else 0
            for atom in atoms:
                rows.append(self._row[atom.field])
                offsets.append(atom.offset)
                shifts.append(shift)
                shift += (self._vocabularies.size(atom.field) - 1).bit_length()
            starts.append(len(rows))
        return tuple(np.array(column, np.int64) for column in (starts, rows, offsets, shifts))

    def _between(
        self, head: tuple[Atom, ...], middle: str, modifier: tuple[Atom, ...]
    ) -> tuple[list[int], int, list[int], int]:
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
        first = self._lines
        self._lines += int(np.prod(sizes))
        if self._lines > MAX_DENSE_LINES:
            raise ConfigError(
                f"templates with between.{middle} need {self._lines} lines of weights, more "
                f"than {MAX_DENSE_LINES}: use a field with fewer values than {max(sizes)}, "
                "such as cpos"
            )
        return [self._side(head), self._side(modifier)], self._row[middle], sizes, first


def bucket_table(ends: Sequence[int]) -> np.ndarray:
    """The bucket of distance d at d - 1, for buckets with the given upper ends in words."""
    last = ends[-1] if ends else 0
    return np.searchsorted(ends, np.arange(1, last + 2)).astype(np.int64)


def _arrays(families: list[tuple], widths: tuple[int, ...]) -> list[np.ndarray]:
    """One array a property; `widths` gives the shapes of properties of no family at all."""
    columns = list(zip(*families, strict=True)) or [() for _ in widths]
    return [
        np.array(column, np.int64).reshape((len(families), width) if width else len(families))
        for column, width in zip(columns, widths, strict=True)
    ]


def check_exact_keys(plan: ArcPlan, vocabularies: Vocabularies) -> None:
    """Make sure that the values of every family fit the 63 bits of an exact key.

    Raises:
        ConfigError: they do not.
    """
    widths = [(vocabularies.size(field) - 1).bit_length() for field in vocabularies.fields]
    for side in range(len(plan.side_start) - 1):
        atoms = plan.atom_row[plan.side_start[side] : plan.side_start[side + 1]]
        if sum(widths[row] for row in atoms) > SIDE_BITS:
            fields = " ".join(vocabularies.fields[row] for row in atoms)
            raise ConfigError(
                f"feature_map.kind exact: a template joins {fields} of one word, which have too "
                "many values for an exact key: use the hashed map"
            )
    families = len(plan.pair_seed) + len(plan.word_seed) + len(plan.between_row)
    if families > MAX_EXACT_FAMILIES:
        raise ConfigError(
            f"feature_map.kind exact: {families} templates that differ in more than direction and "
            f"distance, at most {MAX_EXACT_FAMILIES} have room: use the hashed map"
        )

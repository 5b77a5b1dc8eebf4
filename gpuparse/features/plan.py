"""A template set compiled to integer tables: what the scoring kernels and their torch twin read.

Templates that differ only in `direction` and `distance` form a family. A family's feature for
one arc is a *base row*, found from the words' values alone, and a *code*, found from direction
and distance alone; its weight row is base XOR code. The codes of a family are smaller than 16,
so that all its weights for one pair of words lie within 16 consecutive rows: one cache line.

    word families       look at the head alone, or at the modifier alone: summed once per word
    pair families       look at both: base = head part XOR modifier part, each hashed once per word
    between families    look at head, modifier and a word between: rows found by direct index;
                        of a field with very many values only the first are told apart

Sibling templates that look at two words are families of the same kinds, with the inner sibling in
the place of the head; without a sibling, those of the root.

    triple families     look at head, inner sibling and modifier: rows of a region of their own,
                        found by three shifts, or by hash where the values have too many bits

The feature of a higher-order template for a part is a hash: the XOR of one number for each word of
the part, which is hashed once per word from all that the template reads there. A part of four words
costs three XORs then, and one row of weights a template.

A label template of finished trees reads one arc and the words around it; its key is a hash of all
values that it reads, and finds a line of weights, one weight per label.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import chain
from math import prod
from typing import Literal, NamedTuple

import numpy as np

from gpuparse.data.atoms import Atom
from gpuparse.data.parts import BY_NAME, HIGHER_ORDER, MOST_WORDS
from gpuparse.data.vocabulary import Vocabularies
from gpuparse.errors import ConfigError
from gpuparse.features.templates import Template, TemplateSet

LINE = 16  # rows within which all codes of a family lie
NO_CODE = -1
NO_SIBLING = 0  # stands for an absent sibling or modifier: the root is never one
HEAD, MODIFIER = 0, 1
MAX_DENSE_LINES = 1 << 19  # of all between families together
MAX_TRIPLE_CELLS = 1 << 22  # of a triple family found by shifts
HASHED_TRIPLE_CELLS = 1 << 20
NO_NODE = -1  # node of a label role that a tree does not fill
NO_NODE_VALUE = 3  # value read at such a node: that of the edge after the last word


def _record(*names: str) -> np.dtype:
    return np.dtype([(name, np.int64) for name in names])


# Tables of the plan. Fields `*_side` are numbers of sides, fields `*_codes` of code tables, of
# which the second may be NO_CODE; `seed` is the number of the family.
ATOM = _record(
    "row",  # of the batch's values
    "offset",  # words to the right of the role's word
)
WORD = _record("role", "side", "first_codes", "second_codes", "seed")
PAIR = _record("head_side", "modifier_side", "first_codes", "second_codes", "seed")
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


TRIPLE = _record(
    "head_row",  # of the batch's values
    "sibling_row",
    "modifier_row",
    "head_shift",  # bits; a value's place in its cell's number
    "sibling_shift",
    "modifier_shift",
    "is_hashed",  # whether the places are hashes of the values instead
    "line",  # the first one of the family's region, counted from the dense region's start
    "cells",  # rows of the region, a power of two; the first LINE of them stay zero
    "slots",  # rows that the values of three words take, a power of two
    "seed",
    "first_codes",
    "second_codes",
)


class ArcPlan(NamedTuple):
    """Arc templates as arrays. S sides, K code tables, C combinations.

    A side is a sequence of atoms of one role; sides are shared between families.
    A combination is a direction with a distance bucket: `direction * buckets + bucket`,
    direction 0 for a head to the left of its modifier.
    """

    buckets: np.ndarray  # (L,) int64: bucket of distance d at d - 1, the last one for all beyond
    n_buckets: int
    codes: np.ndarray  # (K, C) uint32: code of each combination in code table k
    side_start: np.ndarray  # (S + 1,) int64: side s has atoms side_start[s]:side_start[s + 1]
    atoms: np.ndarray  # of ATOM
    word: np.ndarray  # of WORD, one record a family; role HEAD or MODIFIER
    pair: np.ndarray  # of PAIR
    between: np.ndarray  # of BETWEEN
    dense_lines: int  # lines of the dense region up to the end of these families', LINE rows each


class SiblingPlan(NamedTuple):
    """Sibling templates as arrays."""

    pairs: ArcPlan  # of the inner sibling, as if it were the head, and the modifier
    triple: np.ndarray  # of TRIPLE; the code tables are those of `pairs`
    ends: ArcPlan  # of heads and their outermost modifiers on a side


class GuidePlan(NamedTuple):
    """Templates of the arcs that another parser proposes."""

    arcs: ArcPlan  # without between families
    row: int  # of the batch's values: the other parser's head + 1, 0 for none


class HigherPlan(NamedTuple):
    """Templates of parts of three and four words as arrays: F templates, S sides, A atoms.

    A side is a sequence of atoms that are read of one word; templates share them. Side 0 is empty.
    """

    family_start: np.ndarray  # (kinds + 1,) int64: the templates of the k-th kind of HIGHER_ORDER
    sides: np.ndarray  # (F, MOST_WORDS) int64: the side that is read of each word of a part
    with_direction: np.ndarray  # (F,) bool
    side_start: np.ndarray  # (S + 1,) int64: side s has the atoms side_start[s]:side_start[s + 1]
    atoms: np.ndarray  # of ATOM
    only_last: bool  # whether parts with a grandparent are those of outermost modifiers alone


class LabelPlan(NamedTuple):
    """Label templates of finished trees as arrays: F templates, A atoms."""

    buckets: np.ndarray  # (L,) int64: bucket of distance d at d - 1, the last one for all beyond
    start: np.ndarray  # (F + 1,) int64: template f has atoms start[f]:start[f + 1]
    role: np.ndarray  # (A,) int64: index into the roles of labels
    row: np.ndarray  # (A,) int64: row of the batch's values
    offset: np.ndarray  # (A,) int64: words to the right of the role's word
    direction: np.ndarray  # (F,) bool: whether the arc's direction takes part
    distance: np.ndarray  # (F,) bool: whether its distance bucket does


class Plan(NamedTuple):
    """All templates that trees are searched for with.

    siblings is None for the first order, guide without guide templates, higher for decoders of at
    most the second order.
    """

    arcs: ArcPlan
    siblings: SiblingPlan | None = None
    guide: GuidePlan | None = None
    higher: HigherPlan | None = None

    @property
    def dense_lines(self) -> int:
        """Lines of the dense region, LINE rows each."""
        return self.siblings.ends.dense_lines if self.siblings else self.arcs.dense_lines

    @property
    def of_arcs(self) -> "Plan":
        """The plan of the first order: arcs and guides alone."""
        return Plan(self.arcs, None, self.guide)


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


def _family_kind(
    looks: _Looks, suffixes: list[frozenset[str]], pairs_of_distance: bool
) -> Literal["word", "pair", "between"]:
    head, modifier, middle = looks
    if middle is not None:
        return "between"
    has_distance = any("distance" in suffix for suffix in suffixes)
    return "pair" if (head and modifier) or (pairs_of_distance and has_distance) else "word"


class RowTemplates(NamedTuple):
    """The templates of the rows of a part, in the order of `gpuparse.scorers.linear.part_rows`."""

    of_words: list[Template]  # of one or two words
    between: list[list[Template]]  # by family: of each word in between


def templates_of_rows(
    templates: Sequence[Template], *, pairs_of_distance: bool = False
) -> RowTemplates:
    """The templates of the rows of arcs.

    Args: pairs_of_distance: of `compile_joint_labels`.
    """
    found: dict[str, list[list[Template]]] = {"word": [], "pair": [], "between": []}
    for looks, suffixes in _families(templates):
        head, modifier, middle = looks
        found[_family_kind(looks, suffixes, pairs_of_distance)].append(
            [Template((*head, *modifier), middle, suffix) for suffix in suffixes]
        )
    return RowTemplates(list(chain(*found["word"], *found["pair"])), found["between"])


def templates_of_sibling_rows(templates: Sequence[Template]) -> list[Template]:
    """The templates of the rows of siblings; those of two words have the roles s and m."""
    pairs = [_as_arc(template) for template in templates if not template.of("h")]
    named = [_with_role(template, "h", "s") for template in templates_of_rows(pairs).of_words]
    triples = [template for template in templates if template.of("h")]
    return named + list(chain(*_triple_groups(triples).values()))


def templates_of_end_rows(templates: Sequence[Template]) -> list[Template]:
    """The templates of the rows of ends."""
    of_arcs = templates_of_rows([_as_arc(template) for template in templates])
    return [_with_role(template, "m", "e") for template in of_arcs.of_words]


def _triple_groups(templates: Sequence[Template]) -> dict[tuple[str, ...], list[Template]]:
    """Templates of three words by what they look at."""
    groups: dict[tuple[str, ...], list[Template]] = {}
    for template in templates:
        looks = tuple(template.of(role)[0].field for role in BY_NAME["sibling"].roles)
        groups.setdefault(looks, []).append(template)
    return groups


def _with_role(template: Template, old: str, new: str) -> Template:
    atoms = [Atom(new if a.role == old else a.role, a.offset, a.field) for a in template.atoms]
    return Template(tuple(atoms), template.between, template.suffix)


def compile_plan(
    templates: TemplateSet, vocabularies: Vocabularies, *, higher: bool = False
) -> Plan:
    """Compile all templates of an expanded set but those of labels.

    higher: whether to make a plan of higher-order parts even if they have no templates: for a
    higher-order decoder.

    Raises:
        ConfigError: a `between` template with several atoms of one role; more variants by direction
            and distance than a line has weights.
    """
    arcs = compile_arcs(templates, vocabularies)
    pairs = [_as_arc(template) for template in templates.sibling if not template.of("h")]
    ends = [_as_arc(template) for template in templates.end]
    first_seed, siblings = 1 + len(_families(templates.arc)), None
    if templates.scores("sibling"):
        compiler = _Compiler(templates.distance, vocabularies, first_seed, arcs.dense_lines)
        triple = compiler.triples([template for template in templates.sibling if template.of("h")])
        of_two = compiler.plan(pairs)
        first_seed += len(_families(pairs))
        compiler = _Compiler(templates.distance, vocabularies, first_seed, of_two.dense_lines)
        siblings = SiblingPlan(of_two, triple, compiler.plan(ends))
        first_seed += len(_families(ends))
    guide, of_higher = None, compile_higher(templates, vocabularies, even_if_none=higher)
    if templates.guide:
        compiler = _Compiler(templates.distance, vocabularies, first_seed, 0)
        guide = GuidePlan(compiler.plan(templates.guide), len(vocabularies.fields))
    return Plan(arcs, siblings, guide, of_higher)


def compile_arcs(templates: TemplateSet, vocabularies: Vocabularies) -> ArcPlan:
    """Compile the arc templates of an expanded set.

    Raises: ConfigError: as `compile_plan`.
    """
    return _Compiler(templates.distance, vocabularies, 1, 0).plan(templates.arc)


def compile_joint_labels(templates: TemplateSet, vocabularies: Vocabularies) -> ArcPlan:
    """Compile the label templates of an expanded set for labels that are found with the trees.

    Templates of one word with the distance are pair families here, one side of them empty: word
    families look at the direction at most, so that their lines are summed twice per word.

    Raises: ConfigError: as `check_joint_templates`.
    """
    check_joint_templates(templates)
    compiler = _Compiler(templates.distance, vocabularies, 1, 0, pairs_of_distance=True)
    return compiler.plan(templates.label)


def check_joint_templates(templates: TemplateSet) -> None:
    """Make sure that the label templates of a set can be read while the tree is searched for.

    Raises: ConfigError: a template that looks at more of the tree than the arc.
    """
    for template in templates.label:
        others = sorted({atom.role for atom in template.atoms} - set(BY_NAME["arc"].roles))
        if others:
            raise ConfigError(
                f"labels.kind joint: template '{template}' looks at {', '.join(others)}, and while"
                " the tree is searched for only h and m are known: choose a set such as"
                " joint-labels, or labels.kind second-stage"
            )


def compile_higher(
    templates: TemplateSet, vocabularies: Vocabularies, *, even_if_none: bool = False
) -> HigherPlan | None:
    """Compile the templates of higher-order parts of an expanded set.

    even_if_none: whether there is a plan without templates too, instead of None.
    """
    row = {field: row for row, field in enumerate(vocabularies.fields)}
    numbers: dict[tuple[tuple[int, int], ...], int] = {(): 0}
    sides, with_direction, starts = [], [], [0]

    def side(atoms: tuple[Atom, ...]) -> int:
        reads = tuple((row[atom.field], atom.offset) for atom in atoms)
        return numbers.setdefault(reads, len(numbers))

    for kind in HIGHER_ORDER:
        for template in getattr(templates, kind.name):
            of_words = [side(template.of(role)) for role in kind.roles]
            sides.append(of_words + [0] * (MOST_WORDS - len(of_words)))
            with_direction.append("direction" in template.suffix)
        starts.append(len(sides))
    if not sides and not even_if_none:
        return None
    return HigherPlan(
        np.array(starts, np.int64),
        np.array(sides, np.int64).reshape(len(sides), MOST_WORDS),
        np.array(with_direction, np.bool_),
        np.cumsum([0, *map(len, numbers)]),
        np.array([atom for reads in numbers for atom in reads], ATOM),
        bool(templates.tri_sibling),
    )


def compile_labels(templates: TemplateSet, vocabularies: Vocabularies) -> LabelPlan:
    """Compile the label templates of an expanded set for labels of finished trees."""
    row = {field: row for row, field in enumerate(vocabularies.fields)}
    atoms = [atom for template in templates.label for atom in template.atoms]
    counts = [len(template.atoms) for template in templates.label]
    roles = BY_NAME["label"].roles
    return LabelPlan(
        bucket_table(templates.distance),
        np.cumsum([0, *counts]),
        np.array([roles.index(atom.role) for atom in atoms], np.int64),
        np.array([row[atom.field] for atom in atoms], np.int64),
        np.array([atom.offset for atom in atoms], np.int64),
        np.array(["direction" in template.suffix for template in templates.label], np.bool_),
        np.array(["distance" in template.suffix for template in templates.label], np.bool_),
    )


def _as_arc(template: Template) -> Template:
    """A template of two words with the inner sibling as the head, the end as the modifier."""
    roles = {"s": "h", "e": "m"}
    atoms = [Atom(roles.get(a.role, a.role), a.offset, a.field) for a in template.atoms]
    return Template(tuple(atoms), None, template.suffix)


class _Compiler:
    """Compiles some families; seeds and dense lines are counted on from those given."""

    def __init__(
        self,
        distance: Sequence[int],
        vocabularies: Vocabularies,
        first_seed: int,
        first_line: int,
        *,
        pairs_of_distance: bool = False,  # whether a template with the distance is one of a pair
    ) -> None:
        self._vocabularies = vocabularies
        self._n_buckets = len(distance) + 1
        self._ends = distance
        self._row = {field: row for row, field in enumerate(vocabularies.fields)}
        self._sides: dict[tuple[Atom, ...], int] = {}
        self._tables: dict[tuple[frozenset[str], int], int] = {}
        self._first_seed = first_seed
        self._lines = first_line
        self._pairs_of_distance = pairs_of_distance

    def plan(self, templates: Sequence[Template]) -> ArcPlan:
        families = _families(templates)
        n_between = sum(between is not None for (_, _, between), _ in families)
        word, pair, between = [], [], []
        for seed, ((head, modifier, middle), suffixes) in enumerate(families, self._first_seed):
            first, second, _ = self._codes(suffixes)
            kind = _family_kind((head, modifier, middle), suffixes, self._pairs_of_distance)
            if middle is not None:
                record = self._between(head, middle, modifier, n_between)
                between.append((*record, first, second))
            elif kind == "pair":
                sides = self._side(head), self._side(modifier)
                pair.append((*sides, first, second, seed))
            else:
                role = MODIFIER if modifier else HEAD
                word.append((role, self._side(head or modifier), first, second, seed))
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

    def triples(self, templates: Sequence[Template]) -> np.ndarray:
        """The triple families of sibling templates; to be called before `plan`."""
        records: list[tuple[int, ...]] = []
        for fields, group in _triple_groups(templates).items():
            suffixes = [template.suffix for template in group]
            for i in range(0, len(suffixes), 2):
                codes = self._codes(suffixes[i : i + 2])
                records.append(self._triple(fields, *codes, len(records) + 1))
        return np.array(records, TRIPLE)

    def _triple(
        self, fields: tuple[str, ...], first_codes: int, second_codes: int, slots: int, seed: int
    ) -> tuple[int, ...]:
        widths = [(self._vocabularies.size(field) - 1).bit_length() for field in fields]
        shifts = np.cumsum([slots.bit_length() - 1, *widths]).tolist()
        cells = max(LINE, 1 << shifts.pop())
        is_hashed = cells > MAX_TRIPLE_CELLS
        if is_hashed:  # places are not shifted, and shifts could have more bits than there are
            cells, shifts = HASHED_TRIPLE_CELLS, [0] * len(shifts)
        rows = [self._row[field] for field in fields]
        line = self._take_lines(cells // LINE)
        return *rows, *shifts, is_hashed, line, cells, slots, seed, first_codes, second_codes

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
            records += [(self._row[atom.field], atom.offset) for atom in atoms]
            starts.append(len(records))
        return np.array(starts, np.int64), np.array(records, ATOM)

    def _between(
        self, head: tuple[Atom, ...], middle: str, modifier: tuple[Atom, ...], n_between: int
    ) -> tuple[int, ...]:
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
        sizes = self._dense_sizes(sizes, n_between)
        sides = self._side(head), self._side(modifier)
        return *sides, self._row[middle], *sizes, self._take_lines(prod(sizes))

    def _dense_sizes(self, sizes: list[int], n_families: int) -> list[int]:
        """The numbers of values of each word that families tell apart within the table."""
        room = MAX_DENSE_LINES // n_families
        # One more than the largest limit for which there is room.
        most = bisect_right(
            range(max(sizes) + 1), room, key=lambda most: prod(min(size, most) for size in sizes)
        )
        return [min(size, most - 1) for size in sizes]

    def _take_lines(self, count: int) -> int:
        first = self._lines
        self._lines += count
        return first


def bucket_table(ends: Sequence[int]) -> np.ndarray:
    """The bucket of distance d at d - 1, for buckets with the given upper ends in words."""
    last = ends[-1] if ends else 0
    return np.searchsorted(ends, np.arange(1, last + 2)).astype(np.int64)


def most_arc_rows(plan: ArcPlan, n: int) -> int:
    """No arc of a sentence of n words has more weight rows than this."""
    return 2 * (len(plan.word) + len(plan.pair) + n * len(plan.between))


def most_sibling_rows(plan: SiblingPlan) -> int:
    """No sibling part or end has more weight rows than this."""
    pairs = most_arc_rows(plan.pairs, 0) + 2 * len(plan.triple)
    return max(pairs, most_arc_rows(plan.ends, 0))

"""The template language: a feature template is a conjunction of atoms, written as data.

    h.form m.pos direction distance

docs/features.md describes atoms, fields, suffixes, the words of each kind of parts and when a
feature fires. `feats.*` is replaced by each attribute seen in training, and with `feats.**` beside
it by the MAX_ATTRIBUTE_PAIRS pairs of attributes that the most gold arcs have.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpuparse.data.atoms import Atom, checked_field, parse_atom
from gpuparse.data.parts import BY_NAME, CHILDREN, PART_KINDS
from gpuparse.data.plain_yaml import dump_yaml, parse_value, read_yaml
from gpuparse.errors import ConfigError
from gpuparse.features.word_vectors import (
    FURTHER,
    SECTION,
    VectorTemplates,
    dump_vectors,
    parse_vectors,
)
from gpuparse.limits import MAX_DISTANCE, MAX_TEMPLATES

SETS = Path(__file__).parent / "sets"
MAX_ATTRIBUTE_PAIRS = 64  # that `feats.*` with `feats.**` stands for
SUFFIXES = ("direction", "distance")
PARTS = {kind.name: kind.roles for kind in PART_KINDS}
_KEYS_OF_BLOCKS = "a block of templates has the keys suffixes and templates"
_ONE_AND_ANOTHER = frozenset(("feats.*", "feats.**"))
_KEYS = ("name", "distance", *PARTS, SECTION)


@dataclass(frozen=True)
class Template:
    """A conjunction of atoms, at most one of them `between`, and the arc's own properties."""

    atoms: tuple[Atom, ...]
    between: str | None
    suffix: frozenset[str]

    def of(self, role: str) -> tuple[Atom, ...]:
        """The atoms that look at one role's word or its neighbours."""
        return tuple(atom for atom in self.atoms if atom.role == role)

    def fields(self) -> list[str]:
        between = [self.between] if self.between else []
        return [atom.field for atom in self.atoms] + between

    def __str__(self) -> str:
        words = [str(atom) for atom in self.atoms]
        if self.between:
            words.append(f"between.{self.between}")
        return " ".join(words + [name for name in SUFFIXES if name in self.suffix])


@dataclass(frozen=True)
class TemplateSet:
    """Templates in their order, and the upper ends, in words, of the distance buckets."""

    name: str
    distance: tuple[int, ...]
    arc: tuple[Template, ...]
    label: tuple[Template, ...]
    sibling: tuple[Template, ...] = ()
    end: tuple[Template, ...] = ()
    guide: tuple[Template, ...] = ()
    grandparent: tuple[Template, ...] = ()
    grand_sibling: tuple[Template, ...] = ()
    tri_sibling: tuple[Template, ...] = ()
    head_child: tuple[Template, ...] = ()
    inner_grandchild: tuple[Template, ...] = ()
    outer_grandchild: tuple[Template, ...] = ()
    word_vectors: VectorTemplates | None = None

    def fields(self, part: str) -> list[str]:
        """The distinct fields that the templates of "arc", "sibling", ... look at."""
        templates: Sequence[Template] = getattr(self, part)
        return sorted({field for template in templates for field in template.fields()})

    def expanded(
        self, attributes: Sequence[str], pairs: Sequence[tuple[str, str]] = ()
    ) -> "TemplateSet":
        """The set with attributes in place of `feats.*` and `feats.**`, each template once.

        Args:
            attributes: those that `feats.*` is replaced by in turn; `feats.**` too in templates
                without `feats.*`.
            pairs: attributes in place of `feats.*` and `feats.**` in templates with both.
        Raises: ConfigError: that makes more than MAX_TEMPLATES.
        """
        count = sum(
            len(_replacements(template, attributes, pairs))
            for part in PARTS
            for template in getattr(self, part)
        )
        _check_count(count, f" with {len(attributes)} attributes of FEATS")
        expanded: dict[str, Any] = {
            part: tuple(dict.fromkeys(_expand(getattr(self, part), attributes, pairs)))
            for part in PARTS
        }
        if self.word_vectors:
            expanded[SECTION] = self.word_vectors.expanded(attributes)
        return replace(self, **expanded)

    def has_pairs(self) -> bool:
        """True if a template looks at pairs of attributes: at `feats.*` and `feats.**`."""
        return any(
            set(template.fields()) >= _ONE_AND_ANOTHER
            for part in PARTS
            for template in getattr(self, part)
        )

    def only(self, parts: Iterable[str]) -> "TemplateSet":
        """The set with the templates of arcs, guides, labels, vectors and the parts named.

        Vectors score grandparents only where templates do.
        """
        kept = {"arc", "guide", "label", *parts}
        left_out: dict[str, Any] = {part: () for part in PARTS if part not in kept}
        absent = [kind for kind in FURTHER if not (self.scores(kind) and kind in kept)]
        return replace(self._with_sizes(absent), **left_out)

    def scores(self, part: str) -> bool:
        """True if a part has templates, or is one that word vectors score without any."""
        return bool(getattr(self, part)) or part in _WITHOUT_TEMPLATES & self.vector_parts

    @property
    def vector_parts(self) -> set[str]:
        """The parts beside arcs that word vectors score."""
        section = self.word_vectors
        return {kind for kind in FURTHER if section and getattr(section, kind)}

    @property
    def vector_reads(self) -> dict[str, str]:
        """The field that each template of word vectors looks at, by its text."""
        return self.word_vectors.reads if self.word_vectors else {}

    @property
    def scores_labels(self) -> bool:
        """True if labels are scored without label templates."""
        return bool(self.word_vectors and self.word_vectors.label)

    def without_vector_pairs(self) -> "TemplateSet":
        """The set whose word vectors score only arcs and labels."""
        return self._with_sizes(FURTHER)

    def without_vectors(self) -> "TemplateSet":
        """The set of templates alone."""
        return replace(self, word_vectors=None)

    def _with_sizes(self, absent: Iterable[str]) -> "TemplateSet":
        if self.word_vectors is None:
            return self
        sizes = dict.fromkeys(absent, 0)
        return replace(self, word_vectors=self.word_vectors.of_sizes(**sizes))

    def first_order(self) -> "TemplateSet":
        """The set without templates of more than an arc."""
        return self.only(())


_WITHOUT_TEMPLATES = {"sibling"}  # parts that vectors may score alone
NO_TEMPLATES = TemplateSet("none", (), (), ())  # of parsers with other scores


def fields_read(arcs: TemplateSet, labels: TemplateSet | None) -> list[str]:
    """All fields that a model reads, sorted.

    Args: arcs: templates of arcs and other parts; labels: those of labels, None for heads only.
    """
    fields = {field for part in PARTS if part != "label" for field in arcs.fields(part)}
    fields |= set(arcs.vector_reads.values())
    if labels is not None:
        fields |= {field for part in ("label", *CHILDREN) for field in labels.fields(part)}
    return sorted(fields)


def _check_count(count: int, of_what: str = "") -> None:
    if count > MAX_TEMPLATES:
        raise ConfigError(f"{count:,} templates{of_what}, more than {MAX_TEMPLATES:,}: write fewer")


def _replacements(
    template: Template, attributes: Sequence[str], pairs: Sequence[tuple[str, str]]
) -> Sequence[tuple[str, str]]:
    """The attributes that `feats.*` and `feats.**` stand for, one pair per template."""
    found = _ONE_AND_ANOTHER & set(template.fields())
    if len(found) == 2:
        return pairs
    return [(name, name) for name in attributes] if found else [("", "")]


def _expand(
    templates: Iterable[Template], attributes: Sequence[str], pairs: Sequence[tuple[str, str]]
) -> Iterable[Template]:
    for template in templates:
        for one, another in _replacements(template, attributes, pairs):
            names = {"feats.*": f"feats.{one}", "feats.**": f"feats.{another}"}
            yield Template(
                tuple(Atom(a.role, a.offset, names.get(a.field, a.field)) for a in template.atoms),
                names.get(template.between or "", template.between),
                template.suffix,
            )


def parse_template(text: str, part: str = "arc") -> Template:
    """Read one template.

    Args:
        text: atoms separated by blanks.
        part: the kind of parts that it is for, a name in data/parts.py. Only templates of arcs
            have `between`; those of guides may be empty.
    Raises: ConfigError: an unknown role, field or word; two `between`s; no atom, suffix or between.
    """
    kind = BY_NAME[part]
    atoms: list[Atom] = []
    between: str | None = None
    suffix: set[str] = set()
    for word in text.split():
        role, _, field = word.partition(".")
        if word in SUFFIXES:
            if word in suffix:
                raise ConfigError(f"template '{text}': {word} appears twice")
            suffix.add(word)
        elif role == "between":
            if between is not None:
                raise ConfigError(f"template '{text}': only one between.FIELD is allowed")
            if part != "arc":
                raise ConfigError(f"template '{text}': between.FIELD is for arc templates only")
            between = checked_field(field, text)
        else:
            atoms.append(parse_atom(word, text, kind.roles))
    if not (atoms or suffix or between or kind.is_guide):
        raise ConfigError("an empty template: write atoms such as 'h.pos m.pos'")
    if len(set(atoms)) < len(atoms):
        raise ConfigError(f"template '{text}': an atom appears twice")
    template = Template(tuple(atoms), between, frozenset(suffix))
    if part == "sibling":
        _check_sibling(template, text)
    if any(atom.offset for atom in template.of("e")):
        raise ConfigError(f"template '{text}': e takes no offset, for there may be no modifier")
    if "distance" in template.suffix and kind.is_higher_order:
        raise ConfigError(f"template '{text}': a higher-order part has no distance")
    return template


def _check_sibling(template: Template, text: str) -> None:
    """Only what can be scored once a pair, or looked up by three small numbers, is affordable."""
    if not template.of("h"):
        return
    if any(len(template.of(role)) != 1 for role in BY_NAME["sibling"].roles) or any(
        atom.offset for atom in template.atoms
    ):
        raise ConfigError(
            f"template '{text}': a sibling template that looks at h takes one atom of each of "
            "h, s and m, without offsets; others look at s and m alone"
        )


def shipped_sets() -> list[str]:
    """The names of the sets in this folder."""
    return sorted(file.stem for file in SETS.glob("*.yaml"))


def load_templates(name: str) -> TemplateSet:
    """Load a shipped set by name, or any set by the path of its YAML file.

    Raises: ConfigError: no such set; a key, template or bucket that cannot be read.
    """
    path = SETS / f"{name}.yaml"
    if not path.exists():
        path = Path(name)
    if not path.is_file():
        known = ", ".join(shipped_sets())
        raise ConfigError(f"no feature set '{name}': give one of {known}, or a YAML file's path")
    return _build_set(read_yaml(path).value, str(path))


def parse_set(text: str, source: str) -> TemplateSet:
    """Read a template set from YAML text; `source` names it in messages."""
    return _build_set(parse_value(text, source), source)


def _build_set(content: object, source: str) -> TemplateSet:
    if not isinstance(content, dict) or set(content) - set(_KEYS):
        raise ConfigError(f"{source}: a feature set has the keys {', '.join(_KEYS)}")
    buckets = content.get("distance", [])
    if not isinstance(buckets, list) or any(type(end) is not int for end in buckets):
        raise ConfigError(f"{source}: distance: a list of whole numbers is expected")
    if sorted(set(buckets)) != buckets or len(buckets) > 6 or (buckets and buckets[0] < 1):
        raise ConfigError(f"{source}: distance: at most six upper ends, rising, from 1")
    if buckets and buckets[-1] > MAX_DISTANCE:
        raise ConfigError(f"{source}: distance: no upper end may be above {MAX_DISTANCE:,} words")
    try:
        _check_count(sum(_count(content.get(part)) for part in PARTS))
        parts = {part: _parse_part(content.get(part), part) for part in PARTS}
        vectors = _parse_section(content.get(SECTION))
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None
    if not (parts["arc"] or parts["label"] or vectors):
        raise ConfigError(f"{source}: arc, label or {SECTION}: at least one template is needed")
    name = str(content.get("name", source))
    return TemplateSet(name, tuple(buckets), **parts, word_vectors=vectors)


def dump_set(templates: TemplateSet) -> str:
    """A set as YAML text that `parse_set` reads back."""
    parts: dict[str, Sequence[Template]] = {part: getattr(templates, part) for part in PARTS}
    content: dict[str, Any] = {"name": templates.name, "distance": list(templates.distance)}
    content |= {part: [{"templates": list(map(str, parts[part]))}] for part in PARTS}
    if templates.word_vectors:
        content[SECTION] = dump_vectors(templates.word_vectors)
    return dump_yaml(content)


def _count(blocks: object) -> int:
    """The number of templates of blocks with all suffixes; 0 if they are no such blocks."""
    count = 0
    for block in blocks if isinstance(blocks, list) else []:
        suffixes, texts = (
            (block.get("suffixes", [""]), block.get("templates", []))
            if isinstance(block, dict)
            else ([], [])
        )
        if isinstance(suffixes, list) and isinstance(texts, list):
            count += len(suffixes) * len(texts)
    return count


def _parse_part(content: object, part: str) -> tuple[Template, ...]:
    """Blocks, or the name of a shipped set whose templates of that part are taken."""
    if not isinstance(content, str):
        return _parse_blocks(content, part)
    found = _shipped(content, part)
    if not found:
        raise ConfigError(f"{part}: a list of blocks is expected, or {_one_with(part)}")
    return found


def _shipped(name: str, part: str) -> tuple[Template, ...]:
    found: tuple[Template, ...] = ()
    if name in shipped_sets():
        found = getattr(load_templates(name), part)
    return found


def _one_with(part: str) -> str:
    return f"one of {', '.join(shipped_sets())} that has {part} templates"


def _parse_section(content: object) -> VectorTemplates | None:
    """The section of word vectors; a shipped set stands for the whole, or for its templates."""
    if content is None:
        return None
    if isinstance(content, str):
        return _shipped_vectors(content)
    if isinstance(content, Mapping) and isinstance(content.get("templates"), str):
        shipped = _shipped_vectors(content["templates"])
        content = {**content, "templates": dump_vectors(shipped)["templates"]}
    return parse_vectors(content)


def _shipped_vectors(name: str) -> VectorTemplates:
    vectors = load_templates(name).word_vectors if name in shipped_sets() else None
    if vectors is None:
        raise ConfigError(f"{SECTION}: '{name}' is no shipped set that has {SECTION}")
    return vectors


def _parse_blocks(blocks: object, part: str) -> tuple[Template, ...]:
    """Templates of blocks and of shipped sets that are named between them, each once."""
    templates: dict[tuple[frozenset[Atom], str | None, frozenset[str]], Template] = {}
    if not isinstance(blocks, list | None):
        raise ConfigError(f"{', '.join(PARTS)}: a list of blocks is expected")
    for block in blocks or []:
        found = _shipped(block, part) if isinstance(block, str) else _parse_block(block, part)
        if isinstance(block, str) and not found:
            raise ConfigError(f"{_KEYS_OF_BLOCKS}, or is {_one_with(part)}")
        for template in found:
            meaning = frozenset(template.atoms), template.between, template.suffix
            if meaning in templates:
                raise ConfigError(f"template '{template}' appears twice")
            templates[meaning] = template
    return tuple(templates.values())


def _parse_block(block: object, part: str) -> tuple[Template, ...]:
    """A block is {suffixes: [...], templates: [...]}: every template with every suffix."""
    if not isinstance(block, dict) or set(block) - {"suffixes", "templates"}:
        raise ConfigError(_KEYS_OF_BLOCKS)
    suffixes, texts = block.get("suffixes", [""]), block.get("templates", [])
    if not (isinstance(suffixes, list) and isinstance(texts, list)):
        raise ConfigError("suffixes and templates: lists are expected")
    return tuple(parse_template(f"{text} {suffix}", part) for text in texts for suffix in suffixes)

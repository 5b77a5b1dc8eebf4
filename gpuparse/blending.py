"""One parser of several: its scores are the weighted sum of theirs, so that it costs one search.

Tables of template weights can be summed row by row where all keys are the same: the same templates,
values of fields and rows. Templates that one table alone was learned with would read rows of the
others that have weights of other features, so sets must be equal, or empty. Networks of word
vectors lie side by side. Scores are summed in the nats that each parser states, which without
calibration are the units of cost that it was learned in.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from gpuparse.data.lexicon import is_lexicon_field
from gpuparse.data.vocabulary import Vocabularies
from gpuparse.engines.engine import Scales
from gpuparse.errors import ConfigError, one_line
from gpuparse.features.templates import PARTS, TemplateSet, fields_read
from gpuparse.inference.decoders import DECODERS
from gpuparse.parser import Parser, are_scales
from gpuparse.scorers.addends import ADDENDS
from gpuparse.scorers.linear.pruning import Pruner
from gpuparse.scorers.linear.scorer import LinearScorer
from gpuparse.scorers.linear.weights import Weights, quantised, whole_weights

_LEAST_SCALE = 1e-12  # nats a point of a score, of models that are read
_MOST_GAIN = 1e12  # points
_OF_TREES = tuple(part for part in PARTS if part != "label")


class BlendedParser(NamedTuple):
    """A parser, its name in messages, and what its scores of trees and labels are multiplied by."""

    name: str
    parser: Parser
    weight: float
    label_weight: float

    @property
    def value(self) -> float:
        """Of a point of a tree's score in the sum."""
        return self.weight * self.parser.scales.arc

    @property
    def label_value(self) -> float:
        """Of a point of a label's score in the sum."""
        parser = self.parser
        scale = parser.scales.arc if parser.labels_with_trees else parser.scales.label
        return self.label_weight * scale

    @property
    def has_templates(self) -> bool:
        """Whether trees are scored by templates, and not by an addend alone."""
        return any(getattr(self.parser.linear.templates, part) for part in _OF_TREES)

    @property
    def has_label_templates(self) -> bool:
        """Whether labels are scored by templates, and not by an addend alone."""
        templates = self.parser.linear.label_templates
        return templates is not None and bool(templates.label)


def blend(shares: Sequence[BlendedParser]) -> Parser:
    """The parser whose scores are the weighted sum of those of several.

    The first one with templates says what else it has: decoder, pruning, record.

    Args: shares: one at least, of loaded models, with weights above 0.
    Returns: It is not calibrated. Its weights have as many bits as the widest of theirs.
    Raises:
        ConfigError: no sum of them can be made; it says what differs. ScoreError: scores are too
            large.
    Cost: a few passes over the weights.
    """
    for share in shares:
        if share.parser.fused is None:
            raise ConfigError(
                f"{share.name} cannot be blended: its scores are of kind {share.parser.kinds}, and"
                " have no tables that could be summed"
            )
    first = next((share for share in shares if share.has_templates), shares[0])
    of_labels = next((share for share in shares if share.has_label_templates), None)
    of_labels = of_labels or next((share for share in shares if share.parser.labels), first)
    for share in shares:
        _check(share, first)
        if share.parser.labels:
            _check_labels(share, of_labels)
    arcs, labels = _sum_of_arcs(shares, first), _sum_of_labels(shares, of_labels)
    is_joint = of_labels.parser.labels_with_trees
    whole = whole_weights(arcs, labels, _bits(shares), is_joint=is_joint)
    scale, label_scale = whole.scale, whole.label_scale
    are_labels = whole.labels is not None and whole.labels.largest > 0
    if not (whole.arcs.largest or (is_joint and are_labels)):
        scale = 1.0 / first.parser.scales.arc  # no weight decides how fine scores are
    if not are_labels:
        label_scale = scale if is_joint else 1.0 / of_labels.parser.scales.label
    if not are_scales(1.0 / scale, 1.0 / label_scale):
        raise ConfigError(
            f"{first.name} cannot be blended: scores of trees or labels are too large"
        )
    _check_addends(shares)
    templates = first.parser.linear.templates
    for kind in ADDENDS.values():
        templates = kind.common(templates, [each.parser.linear.templates for each in shares])
    label_templates = of_labels.parser.linear.label_templates
    vocabularies = _vocabularies(shares, templates, label_templates)
    sums = []
    for kind in ADDENDS.values():
        given = [
            (scorer, (each.value, each.label_value, _label_order(each, of_labels)))
            for each in shares
            for scorer in each.parser.scorers[1:]
            if scorer.kind == kind.kind
        ]
        if given:
            points = scale, label_scale
            templates, numbers = kind.blended(given, templates, vocabularies, points)
            sums.append((kind, numbers))
    gains = [each.value * each.parser.min_gain for each in shares if _searches_as(each, first)]
    if not sum(gains) * scale <= _MOST_GAIN:
        raise ConfigError(f"{first.name} cannot be blended: its min_gain is too large")
    linear = LinearScorer(
        templates=templates,
        label_templates=label_templates,
        vocabularies=vocabularies,
        features=first.parser.linear.features,
        arcs=whole.arcs,
        label_weights=whole.labels,
        labels_with_trees=is_joint,
        decoder=first.parser.decoder,
        pruner=_pruner([share for share in shares if share.has_templates]),
    )
    return Parser(
        scorers=(linear, *(kind.after(linear, numbers) for kind, numbers in sums)),
        labels=of_labels.parser.labels,
        primary=of_labels.parser.primary,
        decoder=first.parser.decoder,
        min_gain=sum(gains) * scale,
        single_root=first.parser.single_root,
        scales=Scales(1.0 / scale, 1.0 / label_scale),
        config=first.parser.config,
    )


def _searches_as(share: BlendedParser, first: BlendedParser) -> bool:
    return share.parser.decoder == first.parser.decoder


def _check(share: BlendedParser, first: BlendedParser) -> None:
    """ConfigError unless trees are searched for alike, with the same templates or none."""
    one, other = first.parser, share.parser
    scales = [
        other.scales.arc,
        other.scales.label,
        *([other.linear.pruner.scale] if other.linear.pruner else []),
    ]
    if min(scales) < _LEAST_SCALE:
        what = f"a point of its scores is {min(scales):g} nats, less than {_LEAST_SCALE:g}"
        raise ConfigError(f"{share.name} cannot be blended: {what}")
    decoders = {one.decoder}
    if not share.has_templates:
        decoders.add(DECODERS[one.decoder].of_arcs)
    are_graphs = DECODERS[one.decoder].gives_graphs
    if other.decoder not in decoders or (are_graphs and len(other.scorers) > 1):
        _refuse(first, share, f"the decoders are {one.decoder} and {other.decoder}")
    if one.single_root != other.single_root:
        _refuse(first, share, "one has trees with one root, the other with any number of roots")
    if one.scales.is_calibrated != other.scales.is_calibrated:
        _refuse(
            first, share, "one is calibrated and the other is not, so that a point has no common"
            " unit", "calibrate both, or train both with calibration=none",
        )  # fmt: skip
    if share.has_templates:
        _check_templates(first, share, one.linear.templates, other.linear.templates, _OF_TREES)
        rows = one.linear.features.rows.rows, other.linear.features.rows.rows
        if rows[0] != rows[1]:
            _refuse(first, share, f"the tables have {rows[0]:,} and {rows[1]:,} rows")


def _check_addends(shares: Sequence[BlendedParser]) -> None:
    """ConfigError unless scorers after the templates are alike."""
    for kind in ADDENDS.values():
        first = None
        for share in shares:
            if all(scorer.kind != kind.kind for scorer in share.parser.scorers[1:]):
                continue
            first = first or share
            sets = (each.parser.linear.templates for each in (first, share))
            what = kind.difference(*sets, (first.name, share.name))
            if what:
                _refuse(first, share, what)


def _check_labels(share: BlendedParser, of_labels: BlendedParser) -> None:
    """ConfigError unless the labels are the same, with the same templates or none."""
    one, other = of_labels.parser, share.parser
    for here, there, name in ((one, other, of_labels.name), (other, one, share.name)):
        alone = [label for label in here.labels if label not in set(there.labels)]
        if alone:
            _refuse(of_labels, share, one_line(f"relation {alone[0]!r} is in {name} alone"))
    primary = [dict(zip(each.labels, each.primary or (), strict=False)) for each in (one, other)]
    if primary[0] != primary[1]:
        _refuse(of_labels, share, "relations of DEPS have other relations in DEPREL")
    if not share.has_label_templates:
        return
    assert one.linear.label_templates is not None
    assert other.linear.label_templates is not None
    assert one.linear.label_weights is not None
    assert other.linear.label_weights is not None
    if one.labels_with_trees != other.labels_with_trees:
        _refuse(of_labels, share, "one finds labels with the trees (joint), the other afterwards")
    _check_templates(
        of_labels, share, one.linear.label_templates, other.linear.label_templates, tuple(PARTS)
    )
    lines = len(one.linear.label_weights.array), len(other.linear.label_weights.array)
    if lines[0] != lines[1]:
        _refuse(of_labels, share, f"label tables have {lines[0]:,} and {lines[1]:,} lines")


def _check_templates(
    first: BlendedParser,
    share: BlendedParser,
    one: TemplateSet,
    other: TemplateSet,
    parts: Iterable[str],
) -> None:
    if one.distance != other.distance:
        ends = f"{list(one.distance)} and {list(other.distance)}"
        _refuse(first, share, f"the distance buckets of templates end at {ends}")
    for part in parts:
        here, there = getattr(one, part), getattr(other, part)
        for some, others, name in ((here, there, first.name), (there, here, share.name)):
            alone = [template for template in some if template not in set(others)]
            if alone:
                what = f"{part} template '{alone[0]}' is in {name} alone, and the rows of a table"
                _refuse(first, share, one_line(f"{what} depend on all of its templates"))
        if here != there:
            _refuse(first, share, f"the {part} templates are in another order")


def _refuse(
    first: BlendedParser,
    share: BlendedParser,
    what: str,
    hint: str = "train them from one treebank with the same config but for its seed",
) -> None:
    raise ConfigError(f"{first.name} and {share.name} cannot be blended: {what}: {hint}")


def _bits(shares: Sequence[BlendedParser]) -> int:
    """Of the widest weights of templates."""
    tables = [share.parser.linear.arcs if share.has_templates else None for share in shares]
    tables += [share.parser.linear.label_weights for share in shares if share.has_label_templates]
    there = [table for table in tables if table is not None]
    return max((8 * table.array.dtype.itemsize for table in there), default=16)


def _sum_of_arcs(shares: Sequence[BlendedParser], first: BlendedParser) -> np.ndarray:
    """(R,) float64."""
    total = np.zeros(len(first.parser.linear.arcs.array))
    for share in shares:
        if share.has_templates:
            total += share.parser.linear.arcs.array[:, 0] * share.value
    return total


def _sum_of_labels(shares: Sequence[BlendedParser], of_labels: BlendedParser) -> np.ndarray | None:
    """(lines, L) float64; None without labels."""
    if of_labels.parser.linear.label_weights is None:
        return None
    total = np.zeros(of_labels.parser.linear.label_weights.array.shape)
    for share in shares:
        if share.has_label_templates and share.parser.linear.label_weights is not None:
            order = _label_order(share, of_labels)
            total += share.parser.linear.label_weights.array[:, order] * share.label_value
    return total


def _label_order(share: BlendedParser, of_labels: BlendedParser) -> np.ndarray:
    """(L,) the number of each label of the sum among those of a parser; empty if it has none."""
    numbers = {label: number for number, label in enumerate(share.parser.labels)}
    if not numbers:
        return np.zeros(0, np.int64)
    return np.array([numbers[label] for label in of_labels.parser.labels], np.int64)


def _pruner(shares: Sequence[BlendedParser]) -> Pruner | None:
    """The mean of the pruning parsers; it leaves what the most generous one leaves."""
    pruners = [share.parser.linear.pruner for share in shares]
    there = [pruner for pruner in pruners if pruner is not None]
    if not there:
        return None
    without = next((s for s, pruner in zip(shares, pruners, strict=True) if pruner is None), None)
    if without is not None:
        _refuse(shares[0], without, "one prunes the arcs of its trees, the other does not")
    total, bits = np.zeros(len(there[0].weights.array)), 8
    for share, pruner in zip(shares, there, strict=True):
        total += pruner.weights.array[:, 0] * (pruner.scale * share.weight)
        bits = max(bits, 8 * pruner.weights.array.dtype.itemsize)
    whole, scale = quantised(total / sum(share.weight for share in shares), bits)
    return there[0]._replace(
        weights=Weights(whole[:, np.newaxis]),
        scale=1.0 / scale,
        threshold=min(pruner.threshold for pruner in there),
        max_heads=max(pruner.max_heads for pruner in there),
    )


def _vocabularies(
    shares: Sequence[BlendedParser], templates: TemplateSet, labels: TemplateSet | None
) -> Vocabularies:
    """All fields that are read; ConfigError where one has other values in two parsers."""
    values: dict[str, list[str]] = {}
    sources: dict[str, BlendedParser] = {}
    lexicon, with_lexicon = None, shares[0]
    for share in shares:
        known = share.parser.linear.vocabularies
        if known.pos_column != shares[0].parser.linear.vocabularies.pos_column:
            _refuse(shares[0], share, "pos is the coarse tag in one, the fine tag in the other")
        if lexicon is None:
            lexicon, with_lexicon = known.lexicon, share
        elif known.lexicon is not None and known.lexicon.text != lexicon.text:
            _refuse(with_lexicon, share, "they have other lexicons")
        for field, found in known.values.items():
            source = sources.setdefault(field, share)
            if values.setdefault(field, found) != found:
                what = f"they have other values of the field {field}"
                _refuse(source, share, one_line(f"{what}, as from different treebanks"))
    read = fields_read(templates, labels)
    pos_column = shares[0].parser.linear.vocabularies.pos_column
    if not any(map(is_lexicon_field, read)):
        lexicon = None
    return Vocabularies({field: values[field] for field in read}, pos_column, lexicon)

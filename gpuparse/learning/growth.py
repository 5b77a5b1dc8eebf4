"""Models to learn on from: the same weights with a larger vocabulary.

New values and relations are numbered after those of the model, so that hashed features keep their
rows. What is found by direct index is moved to its new place. No score of a sentence of old values
changes: rows of new values begin with zeros, and new relations with the mean of the old ones, which
is never above the best of them.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from gpuparse.config import RunConfig
from gpuparse.config.schema import yaml_word
from gpuparse.data.vocabulary import Vocabularies
from gpuparse.errors import ConfigError
from gpuparse.features.plan import BETWEEN, LINE, TRIPLE, ArcPlan, Plan
from gpuparse.features.templates import PARTS, TemplateSet, are_expanded
from gpuparse.learning.gold import GoldGraphs
from gpuparse.learning.stages.addends import ADDEND_STAGES
from gpuparse.learning.start import config_of
from gpuparse.parser import Parser
from gpuparse.scorers.linear.hashing import WORD, fold, mix

# Keys whose values are in a model; others say how to learn, and may change.
_KEPT = (
    "decoder", "feature_map.rows", "labels.kind", "labels.rows", "pruning.max_heads",
    "pruning.threshold", *(key for stage in ADDEND_STAGES for key in stage.kept_keys),
)  # fmt: skip
_ROLES = ("head", "sibling", "modifier")
_SHIFTED_BITS = 62
_POS = {"coarse": 3, "fine": 4}


def check_start(start: Parser, config: RunConfig) -> None:
    """Make sure that a run can go on from a model.

    Raises: ConfigError: it cannot; says which key has another value.
    """
    before = config_of(start)
    for key in _KEPT:
        old, new = (_value(each, key) for each in (before, config))
        if old != new:
            raise ConfigError(
                f"{key}: {yaml_word(new)}, and the model of init_from has {yaml_word(old)}: give"
                f" {key}={yaml_word(old)}"
            )
    column = _POS.get(config.data.pos, start.linear.vocabularies.pos_column)
    if column != start.linear.vocabularies.pos_column:
        raise ConfigError(
            f"data.pos: {config.data.pos}, and the model of init_from reads the other column: give"
            " data.pos=auto"
        )


def _value(config: RunConfig, key: str) -> Any:
    """The value of a dotted key."""
    value: Any = config
    for name in key.split("."):
        value = getattr(value, name)
    return value


def continued_templates(
    start: Parser, arcs: TemplateSet, labels: TemplateSet | None, config: RunConfig
) -> tuple[TemplateSet, TemplateSet | None]:
    """The templates of a model, with what stages of addends learn on from.

    Args: arcs, labels: of the config, with the parts that the decoder reads.
    Raises: ConfigError: they are other templates.
    """
    names = [f"features: the set {arcs.name!r}"]
    one: TemplateSet | None = start.linear.templates
    for stage in ADDEND_STAGES:
        if one is not None:
            one = stage.continued(one, arcs, config, has_labels=bool(start.labels))
    are_same = one is not None and _are_instances(start.linear.templates, arcs)
    if are_same and labels is not None:
        names.append(f"labels.features: the set {labels.name!r}")
        are_same = start.linear.label_templates is not None
        are_same = are_same and _are_instances(start.linear.label_templates, labels)
    if one is None or not are_same:
        raise ConfigError(
            f"{names[-1]} has other templates than the model of init_from: give the set that the"
            " model was learned with"
        )
    return one, start.linear.label_templates


def _are_instances(expanded: TemplateSet | None, templates: TemplateSet) -> bool:
    """Whether a set can be the other one with some attributes of FEATS in place of `feats.*`."""
    assert expanded is not None
    return expanded.distance == templates.distance and all(
        are_expanded(getattr(expanded, part), getattr(templates, part)) for part in PARTS
    )


def grown_weights(
    weights: np.ndarray, table_rows: int, old: Plan, known: Vocabularies, new: Plan, n_rows: int
) -> np.ndarray:  # fmt: skip
    """(n_rows, 1) weights of arcs and other parts with a larger vocabulary.

    Args:
        weights: (R, 1), of all parts or of arcs alone; table_rows: before the dense region.
        old, new: the same templates, compiled with the values `known` and with more.
    Raises: ConfigError: old values cannot all be told apart any more.
    """
    rows = np.full(new.dense_lines * LINE, -1, np.int64)
    for one, other in zip(old.arcs.between, new.arcs.between, strict=True):
        _carry_between(rows, old.arcs, known, one, other)
    triples = () if old.siblings is None else old.siblings.triple
    for k, one in enumerate(triples):
        assert new.siblings is not None
        _carry_triple(rows, known, weights[table_rows:, 0], one, new.siblings.triple[k])
    rows = rows[: n_rows - table_rows]
    dense = np.zeros((len(rows), 1), weights.dtype)
    dense[rows >= 0] = weights[table_rows + rows[rows >= 0]]
    return np.concatenate([weights[:table_rows], dense])


def _carry_between(
    rows: np.ndarray, plan: ArcPlan, known: Vocabularies, old: np.void, new: np.void
) -> None:
    """Write which row of the old dense region each one of a between family continues."""
    names = BETWEEN.names or ()
    of_old, of_new = (dict(zip(names, record.tolist(), strict=True)) for record in (old, new))
    sizes = [
        _side_size(plan, known, of_old["head_side"]), known.size(known.fields[of_old["row"]]),
        _side_size(plan, known, of_old["modifier_side"]),
    ]  # fmt: skip
    place, is_known = np.zeros((1, 1, 1), np.int64), np.ones((1, 1, 1), np.bool_)
    for axis, (name, size) in enumerate(
        zip(("n_heads", "n_middles", "n_modifiers"), sizes, strict=True)
    ):
        count, more = of_old[name], of_new[name]
        if more < count:
            _refuse_growth(known, of_old["row"])
        value = np.arange(more)
        shared = count - 1 if count < size else -1  # what values beyond have
        value = np.where(value < count, value, shared)
        shape = [1, 1, 1]
        shape[axis] = more
        value = value.reshape(shape)
        place, is_known = place * count + value, is_known & (value >= 0)
    line = np.where(is_known, of_old["line"] + place, -1).reshape(-1, 1)
    first = of_new["line"] * LINE
    of_lines = np.where(line >= 0, line * LINE + np.arange(LINE), -1)
    rows[first : first + of_lines.size] = of_lines.reshape(-1)


def _side_size(plan: ArcPlan, known: Vocabularies, side: int) -> int:
    """Values of a side of one atom or none."""
    first, last = plan.side_start[side : side + 2].tolist()
    return known.size(known.fields[int(plan.atoms["row"][first])]) if last > first else 1


def _carry_triple(
    rows: np.ndarray, known: Vocabularies, weights: np.ndarray, old: np.void, new: np.void
) -> None:
    """The same of a triple family; weights: of the old dense region."""
    names = TRIPLE.names or ()
    of_old, of_new = (dict(zip(names, record.tolist(), strict=True)) for record in (old, new))
    first, place = of_new["line"] * LINE, np.arange(of_new["cells"])
    begin = of_old["line"] * LINE
    if of_old["is_hashed"] < of_new["is_hashed"]:
        places, hashed = _hashed_places(weights[begin : begin + of_old["cells"]], of_old, of_new)
        rows[first + hashed] = begin + places
        return
    if of_old["is_hashed"]:
        rows[first : first + len(place)] = begin + place
        return
    ends = [of_new[f"{role}_shift"] for role in _ROLES[1:]] + [_SHIFTED_BITS]
    carried, is_known = place & (of_new["slots"] - 1), np.ones(len(place), np.bool_)
    for role, end in zip(_ROLES, ends, strict=True):
        shift = of_new[f"{role}_shift"]
        value = (place >> shift) & ((1 << (end - shift)) - 1)
        is_known &= value < known.size(known.fields[of_old[f"{role}_row"]])
        carried += value << of_old[f"{role}_shift"]
    rows[first : first + len(place)] = np.where(is_known, begin + carried, -1)


def _hashed_places(
    weights: np.ndarray, old: dict[str, int], new: dict[str, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Places of a triple family that are found by shifts, and by hash in the larger one.

    Of several with one hash the largest weight comes last. weights: (cells,) of the family.
    """
    places = np.flatnonzero(weights)
    places = places[np.argsort(np.abs(weights[places].astype(np.float64)), kind="stable")]
    ends = [old[f"{role}_shift"] for role in _ROLES[1:]] + [_SHIFTED_BITS]
    hashed = np.zeros(len(places), np.int64)
    for number, (role, end) in enumerate(zip(_ROLES, ends, strict=True)):
        shift = old[f"{role}_shift"]
        value = (places >> shift) & ((1 << (end - shift)) - 1)
        key = mix(fold(value * 0, value), 3 * new["seed"] + number)
        hashed ^= (key & WORD) * new["slots"] & (new["cells"] - 1)
    is_read = hashed >= LINE  # the first line stays zero
    return places[is_read], (hashed ^ (places & (old["slots"] - 1)))[is_read]


def _refuse_growth(known: Vocabularies, row: int) -> None:
    raise ConfigError(
        f"init_from: with the new values of {known.fields[row]} in data.train the model's table has"
        " no room for all that it knows: write the model's values in their place, or train with all"
        " treebanks together"
    )


def grown_graphs(graphs: GoldGraphs, start: Parser) -> GoldGraphs:
    """Gold graphs whose relations are numbered after those of the model."""
    names = list(dict.fromkeys([*start.labels, *graphs.names]))
    primary = dict(zip(graphs.names, graphs.primary, strict=True))
    primary |= {
        name: deprel
        for name, deprel in zip(start.labels, start.primary or (), strict=True)
        if deprel is not None
    }
    numbers = {name: number for number, name in enumerate(names)}
    relations = np.array([numbers[name] for name in graphs.names], np.int64)[graphs.relations]
    return replace(
        graphs, names=names, relations=relations, primary=[primary.get(name) for name in names]
    )

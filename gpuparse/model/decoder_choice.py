"""Choice of a decoder for learning, or of another one for parsing, and limits on labels."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from gpuparse.data.treebank import Treebank
from gpuparse.data.trees import nonprojective_arcs
from gpuparse.errors import ConfigError, plural
from gpuparse.features.plan import compile_higher
from gpuparse.features.templates import TemplateSet
from gpuparse.inference.decoders import DECODERS, Decoder
from gpuparse.inference.search import MOST_LIMITS, classes_of_labels
from gpuparse.model.engines.results import LabelLimits
from gpuparse.model.parser import Parser
from gpuparse.scorers.scorer import ReadsWholes

AUTO = "auto"  # in configs: the decoder of `fitting_decoder`
# Decoders of projective trees and of all trees, the highest order first.
_FITTING = (
    ("eisner_grand_sibling", "dual_decomposition"),
    ("eisner_sibling", "hill_climb"),
    ("eisner", "chu_liu_edmonds"),
)
_MOST_CROSSING, _MOST_WITH_SIBLINGS = 0.005, 0.01  # shares of the arcs


def fitting_decoders(templates: TemplateSet | None) -> tuple[str, str]:
    """The decoders of the highest order that templates allow: of projective and of all trees.

    Siblings that vectors alone score gain nothing in the search for all trees.

    Args: templates: None for an encoder, which scores arcs alone.
    """
    if templates is None:
        return _FITTING[-1]

    def highest(scores: Callable[[str], object]) -> tuple[str, str]:
        for names in _FITTING:
            needs = DECODERS[names[0]].needs
            if not needs or any(map(scores, needs)):
                break
        return names

    return highest(templates.scores)[0], highest(partial(getattr, templates))[1]


def fitting_decoder(templates: TemplateSet | None, treebank: Treebank) -> str:
    """The one of `fitting_decoders` for a treebank.

    Its trees are projective if at most 0.5 % of the arcs of the gold trees are non-projective:
    English and Spanish have 0.1 to 0.2 %, where projective parsers are better, Danish has 0.95 %,
    where they are worse. Where only projective trees are of a higher order, it is at most 1 %:
    siblings gain more than the crossing arcs of Danish lose.

    Args: templates: as there. treebank: gold trees, checked.
    Cost: the sum of the lengths of the arcs, at most.
    """
    crossing = nonprojective_arcs(treebank.heads, treebank.word_starts)
    names = fitting_decoders(templates)
    most = _MOST_CROSSING if names in _FITTING else _MOST_WITH_SIBLINGS
    return names[bool(crossing.sum() > most * len(crossing))]


def with_decoder(parser: Parser, name: str) -> Parser:
    """The parser, searching with another decoder; saved, it still names its own.

    The weights were not learned with it: 1 to 10 points of UAS are lost.

    Args: name: a decoder; the parser's own gives the parser as it was saved.
    Raises: ConfigError: no such decoder, or one that the parser lacks scores for.
    """
    if name not in DECODERS:
        raise ConfigError(f"unknown decoder {name!r}: expected one of {', '.join(DECODERS)}")
    if name != parser.decoder:
        _check_decoder(parser, name)
    parser = replace(parser, other_decoder=name)
    if not parser.has_templates:
        return parser
    linear = parser.linear
    pruner, compiled = linear.pruner, None
    if pruner:  # so that among the arcs left there is a tree of the other kind
        pruner = pruner._replace(decoder=DECODERS[name].of_arcs)
    if DECODERS[name].is_higher_order == (linear.plan.higher is not None):
        compiled = linear.plans
    return parser.with_linear(
        decoder=name, learned_decoder=parser.decoder, pruner=pruner, compiled=compiled
    )


def _check_decoder(parser: Parser, name: str) -> None:
    """Refuse decoders that need, or would ignore, a part of the model."""
    why = _objection(parser, DECODERS[parser.decoder], DECODERS[name])
    if why:
        raise ConfigError(
            f"decoder {name}: it {why}; the model was trained with {parser.decoder}, and no option"
            f" changes that; train a model with decoder={name}"
        )


def _objection(parser: Parser, mine: Decoder, other: Decoder) -> str:
    """Why a parser cannot search with another decoder; "" if it can."""
    if other.gives_graphs and not mine.gives_graphs:
        return (
            "finds graphs, and the model was learned from trees: it has no scores for a second head"
            " of a word"
        )
    if mine.gives_graphs and not other.gives_graphs:
        return (
            "finds trees, and the model was learned from graphs: its scores and relations are those"
            " of DEPS"
        )
    is_of_arcs = isinstance(parser.scorers[0], ReadsWholes)
    if not parser.has_templates and not is_of_arcs:
        return ""
    scores = set[str]().__contains__ if is_of_arcs else parser.linear.templates.scores
    if other.needs and not any(map(scores, other.needs)):
        needs = " or ".join(other.needs).replace("_", " ")
        order = "is of the first order" if not mine.parts else "has other parts"
        return f"reads {needs} scores, and the model {order}: it has none"
    ignored = [part for part in mine.parts if scores(part) and part not in other.parts]
    if ignored:
        parts = " and ".join(ignored).replace("_", " ")
        order = "" if other.parts else "is of the first order and "
        return (
            f"{order}does not read the model's {parts} scores, which were learned together with"
            " the other scores"
        )
    return ""


def limit_labels(parser: Parser, limits: Sequence[Sequence[str]]) -> Parser:
    """The parser, no head of whose trees has two modifiers with relations of one set.

    Args: limits: sets of relations, such as those of all kinds of subjects.
    Raises:
        ConfigError: a relation that the parser does not know, no or too many sets; a parser whose
            labels are not found with the trees, or a decoder other than dual_decomposition.
    """
    if not (DECODERS[parser.search_decoder].certifies and parser.labels_with_trees):
        raise ConfigError(
            "limits on relations need decoder dual_decomposition and joint labels; this model"
            f" searches with {parser.search_decoder}"
            + (
                ""
                if parser.labels_with_trees
                else ", and its labels are not joint: train with labels.kind=joint"
            )
        )
    if not 0 < len(limits) <= MOST_LIMITS:
        raise ConfigError(
            f"{plural(len(limits), 'limit')} on relations: expected 1 to {MOST_LIMITS}"
        )
    labels = list(parser.labels)
    for name in (name for limit in limits for name in limit):
        if name not in labels:
            known = ", ".join(sorted(labels))
            raise ConfigError(f"no relation {name!r} in this model, which knows {known}")
    numbers = [[labels.index(name) for name in limit] for limit in limits]
    limited = replace(parser, limits=LabelLimits(*classes_of_labels(numbers, len(labels))))
    # All labels of each arc are scored where there are templates of children, if only none.
    plans, vocabularies = parser.linear.plans, parser.linear.vocabularies
    higher = compile_higher(TemplateSet("", (), (), ()), vocabularies, even_if_none=True)
    assert plans.joint is not None
    joint = plans.joint._replace(higher=higher)
    return limited.with_linear(compiled=plans._replace(joint=joint))

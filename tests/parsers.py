"""Parsers with parts of other ones."""

from dataclasses import fields, replace
from typing import Any

from gpuparse.model.parser import Parser
from gpuparse.scorers.vectors.scorer import VectorScorer, vectors_of


def parser_with(parser: Parser, **changes: Any) -> Parser:
    """A parser with other fields, its own or those of its templates, or with other `vectors`."""
    own = {name: changes.pop(name) for name in {f.name for f in fields(parser)} & changes.keys()}
    numbers = changes.pop("vectors", vectors_of(parser.scorers))
    linear = replace(parser.linear, **changes)
    scorers = (linear, *([VectorScorer.after(linear, numbers)] if numbers else []))
    return replace(parser, **({"scorers": scorers} | own))

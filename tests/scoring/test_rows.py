"""Rows of parts in torch: those of the kernels, each as often as its feature fires."""

import numpy as np
import pytest
import torch

from gpuparse.data.batch import Batch
from gpuparse.data.vocabulary import Encoder, Vocabularies
from gpuparse.features import plan as plan_module
from gpuparse.features.plan import Plan, compile_plan
from gpuparse.features.templates import TemplateSet, load_templates, parse_set
from gpuparse.scorers.linear.rows import PartRows
from gpuparse.scorers.linear.weights import FeatureMap, Weights, hashed_map
from tests.rows import rows_of_arcs, rows_of_ends, rows_of_siblings
from tests.samples import random_sentences, template_set_text, treebank_of
from tests.scoring.forms import as_tensors
from tests.scoring.test_guides import random_guides

MIXED = parse_set(
    template_set_text(
        arc=[
            "h.form", "m.form[-3:] direction", "h.form m.form", "h.pos m.pos direction distance",
            "h-1.pos h.pos m.pos m+1.pos distance", "h.pos between.pos m.pos direction",
            "between.pos", "h.lemma between.form distance", "m.feats.Case", "distance",
        ],
        sibling=[
            "s.form", "m.form[-3:] direction", "s.lemma m.lemma direction distance",
            "s.pos m-1.pos m.pos m+1.pos distance", "distance", "h.pos s.pos m.pos",
            "h.pos s.pos m.pos direction distance", "h.lemma s.feats.Case m.form direction",
            "s-1.pos m.pos direction", "s+1.form distance",
        ],
        end=["h.form", "e.form[-3:] direction", "h.lemma e.lemma direction distance", "direction"],
        guide=["", "direction distance", "h.pos m.pos direction", "h.form m-1.pos"],
    ),
    "mixed",
)  # fmt: skip
TEMPLATES = {
    "mixed": MIXED,
    "mcdonald-2005": load_templates("mcdonald-2005"),
    "extended": load_templates("extended"),
}
TRAIN, SENTENCES = random_sentences(6, 10, 9), random_sentences(11, 9, 10)
GUIDES = random_guides(SENTENCES, 1)


def prepared(
    templates: TemplateSet, kind: int, device: torch.device
) -> tuple[Batch, Batch, Plan, FeatureMap]:
    """The batch in main memory and on the device."""
    parts = ("arc", "sibling", "end", "guide")
    fields = sorted({field for part in parts for field in templates.fields(part)})
    vocabularies = Vocabularies.build(treebank_of(TRAIN), fields, 3)
    plan, encoder = compile_plan(templates, vocabularies), Encoder(vocabularies)
    batch = encoder.encode(treebank_of(SENTENCES)).guided(np.concatenate(GUIDES))
    return batch, as_tensors(batch).to(device), plan, hashed_map(kind, plan.dense_lines)


def firing(lines: torch.Tensor, silent: int) -> list[list[int]]:
    return [sorted(row for row in line if row != silent) for line in lines.tolist()]


def columns(parts: list[tuple], b: int, device: torch.device) -> list[torch.Tensor]:
    numbers = [[b] * len(parts), *zip(*parts, strict=True)]
    return [torch.tensor(column, device=device) for column in numbers]


@pytest.mark.parametrize("cells", [1 << 22, 0], ids=["triples by shifts", "hashed triples"])
@pytest.mark.parametrize("kind", [1 << 14, 100_003])
@pytest.mark.parametrize("name", TEMPLATES)
def test_rows_are_those_of_the_kernels(
    name: str, kind: int, cells: int, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_module, "MAX_TRIPLE_CELLS", cells)
    batch, moved, plan, features = prepared(TEMPLATES[name], kind, device)
    weights = Weights(np.zeros((features.n_rows, 1), np.float32))
    found = PartRows(moved, plan, features, weights)
    compared = 0
    for b in range(len(batch)):
        arcs = rows_of_arcs(batch, b, plan.arcs, features)
        if plan.guide:
            of_guides = rows_of_arcs(batch, b, plan.guide.arcs, features)
            for (h, m), rows in arcs.items():
                rows += of_guides[h, m] if GUIDES[b][m - 1] == h else []
        lines = found.of_arcs(*columns(list(arcs), b, device))
        assert firing(lines, features.n_rows) == [sorted(rows) for rows in arcs.values()]
        assert lines.shape[1] <= found.longest_line
        compared += lines.ne(features.n_rows).sum()
        if plan.siblings is None:
            continue
        siblings = rows_of_siblings(batch, b, plan, features)
        lines = found.of_siblings(*columns(list(siblings), b, device))
        assert firing(lines, features.n_rows) == [sorted(rows) for rows in siblings.values()]
        assert lines.shape[1] <= found.longest_line
        ends = rows_of_ends(batch, b, plan, features)
        parts = [(h, m, side == "right") for h, m, side in ends]
        lines = found.of_ends(*columns(parts, b, device))
        assert firing(lines, features.n_rows) == [sorted(rows) for rows in ends.values()]
    assert compared > 1000

"""Threads, stops and batches of one sentence: the model has the same bytes."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from gpuparse.config import RunConfig
from gpuparse.config.schema import PruningConfig
from gpuparse.features.templates import TemplateSet, parse_set
from gpuparse.inference.decoders import DECODERS, with_quantity
from gpuparse.learning.trainer import Trainer
from tests.learning.literal import OPTIONS, learned, trainer_of, with_graphs, without_heads
from tests.learning.test_guides import TEMPLATES, guides_of
from tests.runs import changed
from tests.samples import Sentence, fingerprint, random_sentences, template_set_text

pytestmark = pytest.mark.usefixtures("three_folds")
LABELS = parse_set(
    template_set_text(label=["m.form direction", "h.form m.form", "o.pos", "g.pos"]), "labels"
)
SMALL = changed(OPTIONS, epochs=3, label_epochs=2)
CROSSING = with_graphs(random_sentences(93, 40, 9, projective=False), 93)
PARTIAL = without_heads(random_sentences(94, 20, 8), 0.4, 3)
GUIDED = random_sentences(50, 30, 6)


class Run(NamedTuple):
    options: RunConfig
    sentences: list[Sentence] = CROSSING
    templates: TemplateSet | None = None
    guides: np.ndarray | None = None

    def trainer(self, threads: int = 1, **change: int) -> Trainer:
        return trainer_of(
            self.sentences, changed(self.options, **change), threads=threads,
            templates=self.templates, labels=LABELS, guides=self.guides,
        )  # fmt: skip


RUNS = {
    "one by one": Run(SMALL),
    "small batches": Run(changed(SMALL, batch_size=3)),
    "large batches": Run(changed(SMALL, batch_size=64)),
    **{
        f"{name}, {size}": Run(changed(SMALL, decoder=name, batch_size=size, min_gain=0.5))
        for name, decoder in DECODERS.items() if decoder.order == 2 for size in (1, 8)
    },
    **{
        f"{name}, k best": Run(changed(SMALL, decoder=name, batch_size=16, k=5))
        for name in with_quantity("k_best")
    },
    "higher order": Run(
        changed(
            SMALL, decoder="eisner_grand_sibling", batch_size=8, cost_augmented=True,
            map_rows=1 << 20,
        ),
        random_sentences(70, 30, 7),
    ),
    "joint": Run(changed(SMALL, labels_kind="joint", batch_size=16, k=3)),
    "guides": Run(
        changed(SMALL, batch_size=4, map_rows=1 << 18), GUIDED, TEMPLATES, guides_of(GUIDED)
    ),
    "pruned": Run(
        changed(
            replace(SMALL, pruning=PruningConfig(threshold=0.01, max_heads=2)), batch_size=5,
            decoder="eisner_grand_sibling", map_rows=1 << 18, cost_augmented=True,
        ),
        random_sentences(71, 17, 7),
    ),
    **{
        f"partial, {name}": Run(changed(SMALL, **change), PARTIAL)
        for name, change in {
            "mira": {}, "joint": {"labels_kind": "joint", "k": 3},
            "conditional": {"rule": "conditional", "max_step": 0.1},
            "factored": {"rule": "mira-factored"}, "crossing": {"decoder": "chu_liu_edmonds"},
        }.items()
    },
}  # fmt: skip
every_run = pytest.mark.parametrize("name", RUNS)


@pytest.mark.parametrize("name", [name for name, run in RUNS.items()
                                  if run.options.learning.batch_size > 1])  # fmt: skip
def test_threads_change_nothing(name: str) -> None:
    one, *more = (fingerprint(learned(RUNS[name].trainer(n)).model(16)) for n in (1, 2, 5))
    assert all(other == one for other in more)


def assert_a_stop_after_any_epoch_changes_nothing(trainer: Callable[[], Trainer]) -> None:
    """The events after it and the model are the same."""
    whole, states, ended = trainer(), [], []
    for event in whole.learn():
        if event.epoch_is_over:
            states.append({name: array.copy() for name, array in whole.state().items()})
            ended.append((event.stage, event.epoch, event.wrong))
    expected = fingerprint(whole.model(16))
    assert len(states) > 2
    for done, state in enumerate(states[:-1], 1):
        again = trainer()
        again.restore(state)
        assert sum(again.epochs_done.values()) == done
        events = [(e.stage, e.epoch, e.wrong) for e in again.learn() if e.epoch_is_over]
        assert events == ended[done:]
        assert fingerprint(again.model(16)) == expected, done


@every_run
def test_a_resumed_run_ends_with_the_same_model(name: str) -> None:
    assert_a_stop_after_any_epoch_changes_nothing(RUNS[name].trainer)


K_BEST_RUNS = [f"{name}, k best" for name in with_quantity("k_best")]


@pytest.mark.parametrize(
    "name", ["one by one", "eisner_sibling, 1", "multi_parent, 1", *K_BEST_RUNS]
)
def test_a_batch_of_one_sentence_learns_as_one_after_the_other(name: str) -> None:
    """A batch of one sentence goes the way of whole batches, where all is found beforehand."""
    run = RUNS[name]._replace(sentences=[max(CROSSING, key=len)])
    one, many = (
        fingerprint(learned(run.trainer(batch_size=size, epochs=5)).model(16)) for size in (1, 8)
    )
    assert one == many

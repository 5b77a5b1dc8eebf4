"""What training says: the lines of epochs, and the time that is left."""

import io
import sys
from dataclasses import replace

import pytest

from gpuparse.config import load_config
from gpuparse.features.templates import load_templates
from gpuparse.inference.decoders import DECODERS
from gpuparse.jobs import checkpoint
from gpuparse.jobs.checkpoint import Checkpoint, States
from gpuparse.jobs.receipts import Origin
from gpuparse.jobs.training_log import TimeLeft, TrainingLog, expected_costs


class Clock:
    """A clock that is set."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def left_of(costs):
    clock = Clock()
    return clock, TimeLeft(costs, clock)


def test_time_left_by_what_was_learned_so_far():
    clock, left = left_of({"one": 1.0, "two": 3.0})
    assert left.left() is None
    clock.now += 5
    left.advance("one", 0.5)  # the whole part takes 10 seconds, the second one three times that
    assert left.left() == pytest.approx(5 + 30)
    clock.now += 5
    left.advance("one", 1.0)
    assert left.left() == pytest.approx(30)
    clock.now += 4
    left.advance("two", 0.1)  # it takes 40 seconds, not 30
    assert left.left() == pytest.approx(36)
    clock.now += 36
    left.advance("two", 1.0)
    assert left.left() == 0


def test_what_was_done_before_takes_no_time():
    clock, left = left_of({"one": 1.0, "two": 1.0, "three": 2.0})
    clock.now += 50  # reading
    left.skip("one", 1.0)
    left.skip("two", 0.5)
    assert left.left() is None
    clock.now += 10
    left.advance("two", 0.75)
    assert left.left() == pytest.approx(10 + 2 * 40)
    left.advance("unexpected", 1.0)  # nothing was expected of it
    assert left.left() == pytest.approx(10 + 2 * 40)


@pytest.mark.parametrize(
    ("name", "keys", "parts"),
    [
        ("fast", {"decoder": "eisner"}, ["vectors", "arcs", "labels", "calibration"]),
        ("fast", {"decoder": "eisner", "data.dev": "x"}, ["vectors", "arcs", "labels"]),
        ("default", {"decoder": "hill_climb"}, ["vectors", "arcs"]),  # without probabilities
        ("best", {"decoder": "eisner_grand_sibling", "calibration": "none"},
         ["vectors", "pruning", "arcs"]),
        ("pipeline", {"decoder": "eisner", "data.dev": "x", "labels.kind": "none"},
         ["tokeniser", "tagger", "lemmatiser", "tags of data.train", "vectors", "arcs"]),
        ("pipeline", {"decoder": "eisner", "parser": False}, ["tokeniser", "tagger", "lemmatiser"]),
        ("pipeline", {"decoder": "eisner", "tagger.folds": 1, "calibration": "none"},
         ["tokeniser", "tagger", "lemmatiser", "vectors", "arcs", "labels"]),
    ],
)  # fmt: skip
def test_the_parts_of_a_run(name, keys, parts):
    config = load_config(name, {"data.train": "x"} | keys)
    templates = load_templates(config.features).only(DECODERS[config.decoder].parts)
    costs = expected_costs(config, templates, 2)
    assert list(costs) == parts
    assert all(cost > 0 for cost in costs.values())
    more = replace(config, learning=replace(config.learning, epochs=99))
    assert expected_costs(more, templates, 2).get("arcs", 0) >= costs.get("arcs", 0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def log_of(monkeypatch, stream, *, quiet=False):
    monkeypatch.setattr(sys, "stderr", stream)
    clock, left = left_of({"arcs": 1.0})
    said = []
    return TrainingLog(said.append, quiet=quiet, left=left, clock=clock), clock, said


def epochs_of(log, clock, n, seconds):
    for epoch in range(1, n + 1):
        clock.now += seconds
        log.draw("arcs", epoch / n, f"arcs, epoch {epoch} of {n}", 1.0, "note")
        log.epoch(f"epoch {epoch}", is_last=epoch == n, end="; end")


def test_without_a_terminal_a_line_comes_every_ten_seconds_and_at_the_end(monkeypatch):
    log, clock, said = log_of(monkeypatch, io.StringIO())
    epochs_of(log, clock, 12, 3.0)
    assert said == [
        "epoch 4, about 0:24 left", "epoch 8, about 0:12 left", "epoch 12; end",
    ]  # fmt: skip
    said.clear()
    epochs_of(log, clock, 3, 60.0)  # a line an epoch at most
    assert len(said) == 3
    assert sys.stderr.getvalue() == ""


def test_on_a_terminal_each_epoch_has_a_line_and_the_work_at_hand_is_drawn(monkeypatch):
    log, clock, said = log_of(monkeypatch, Terminal())
    epochs_of(log, clock, 3, 1.0)
    assert said == ["epoch 1, about 0:02 left", "epoch 2, about 0:01 left", "epoch 3; end"]
    drawn = sys.stderr.getvalue()
    assert "\r\x1b[Kgpuparse: arcs, epoch 2 of 3: 100% [####################] note, about" in drawn
    assert drawn.endswith("\r\x1b[K")


def test_quiet_says_nothing(monkeypatch):
    log, clock, said = log_of(monkeypatch, Terminal(), quiet=True)
    epochs_of(log, clock, 3, 60.0)
    watch = log.begin("arcs")
    watch(0.5, "note")
    log.end("arcs", "done")
    assert (said, sys.stderr.getvalue()) == ([], "")


def test_a_part_without_epochs_has_a_line_at_its_end_and_one_a_minute(monkeypatch):
    log, clock, said = log_of(monkeypatch, io.StringIO())
    watch = log.begin("arcs")
    for second in range(1, 100):
        clock.now += 1
        watch(second / 100, "0.5 % wrong")
    clock.now += 1
    log.end("arcs", "3 rules")
    assert said == [
        "arcs: 60%, 0.5 % wrong, about 0:40 left", "arcs: 100.0 s, 3 rules",
    ]  # fmt: skip
    log.end("arcs", "3 rules")  # it was learned before an interruption
    assert said[-1] == "arcs: 3 rules"


def test_states_take_a_fiftieth_of_the_time(tmp_path, monkeypatch):
    clock, written = Clock(), []

    def write(*given):
        clock.now += 0.5
        written.append(given[2].learning_seconds)

    monkeypatch.setattr(checkpoint, "SHARE", 0.02)
    monkeypatch.setattr(checkpoint.time, "monotonic", clock)
    monkeypatch.setattr(checkpoint, "write_checkpoint", write)
    states = States(tmp_path, Origin({}, {}))
    for epoch in range(1, 99):
        clock.now += 3
        states.after_epoch(lambda epoch=epoch: Checkpoint({}, float(epoch)), is_last=epoch == 98)
    # The first one, then one after 25 seconds, of which each epoch takes 3, and the last one.
    assert written == [1.0, *(float(1 + 9 * k) for k in range(1, 11)), 98.0]

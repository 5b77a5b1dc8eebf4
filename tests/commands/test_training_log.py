"""The lines of training about epochs."""

import io
import sys

from gpuparse.jobs import checkpoint
from gpuparse.jobs.checkpoint import Checkpoint, States
from gpuparse.jobs.receipts import Origin
from gpuparse.jobs.training_log import TrainingLog
from tests.commands.conftest import Clock, Terminal


def log_of(monkeypatch, stream, *, quiet=False):
    monkeypatch.setattr(sys, "stderr", stream)
    clock, said = Clock(), []
    return TrainingLog(said.append, quiet=quiet, clock=clock), clock, said


def epochs_of(log, clock, n, seconds):
    for epoch in range(1, n + 1):
        clock.now += seconds
        log.draw(f"arcs, epoch {epoch} of {n}", 1.0, "note")
        log.epoch(f"epoch {epoch}", is_last=epoch == n, end="; end")


def test_without_a_terminal_a_line_comes_every_ten_seconds_and_at_the_end(monkeypatch):
    log, clock, said = log_of(monkeypatch, io.StringIO())
    epochs_of(log, clock, 12, 3.0)
    assert said == [
        "epoch 4", "epoch 8", "epoch 12; end",
    ]  # fmt: skip
    said.clear()
    epochs_of(log, clock, 3, 60.0)  # a line an epoch at most
    assert len(said) == 3
    assert sys.stderr.getvalue() == ""


def test_on_a_terminal_each_epoch_has_a_line_and_the_work_at_hand_is_drawn(monkeypatch):
    log, clock, said = log_of(monkeypatch, Terminal())
    epochs_of(log, clock, 3, 1.0)
    assert said == ["epoch 1", "epoch 2", "epoch 3; end"]
    drawn = sys.stderr.getvalue()
    assert "\r\x1b[Kgpuparse: arcs, epoch 2 of 3: 100% [####################] note" in drawn
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
        "arcs: 60%, 0.5 % wrong", "arcs: 100.0 s, 3 rules",
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

"""Training in several processes: the same bytes, one voice, and clear ends."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuparse.commands import train
from gpuparse.commands.console import run
from tests.commands.conftest import ROOT, program
from tests.runs import model_files

WORDS = ["learning.shards=3", "data.dev=null", "labels.epochs=1"]


class Several:
    """Processes of one run, started as torchrun would."""

    def __init__(self, count: int, *words: object, per_rank: dict[int, list[str]] | None = None):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        at = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(count)}
        self.processes = [
            subprocess.Popen(
                [sys.executable, "train.py", *map(str, words), *(per_rank or {}).get(rank, [])],
                cwd=ROOT, env=os.environ | at | {"RANK": str(rank)}, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
            for rank in range(count)
        ]  # fmt: skip

    def ends(self) -> list[tuple[int, str, str]]:
        """(exit code, stdout, stderr) of each, none of which may hang."""
        ends = []
        for process in self.processes:
            out, err = process.communicate(timeout=240)
            ends.append((process.returncode, out, err))
        return ends

    def kill(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="module")
def alone(trained, tmp_path_factory) -> tuple[dict[str, bytes], str]:
    """The model of one process, and the scores it prints."""
    folder = tmp_path_factory.mktemp("alone") / "model"
    done = program("train.py", trained.config, f"output={folder}", *WORDS)
    assert done.returncode == 0, done.stderr
    return model_files(folder), done.stdout.decode()


def test_two_processes_give_the_same_bytes_and_one_speaks(trained, alone, tmp_path):
    folder = tmp_path / "model"
    first, second = Several(2, trained.config, f"output={folder}", *WORDS).ends()
    assert first[0] == second[0] == 0, (first, second)
    assert model_files(folder) == alone[0]
    assert first[1] == alone[1]
    assert second[1:] == ("", "")
    assert "arcs, epoch 3 of 3: " in first[2]


def test_with_torchrun(trained, alone, tmp_path):
    folder = tmp_path / "model"
    done = program(
        "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2,
        "train.py", trained.config, f"output={folder}", *WORDS, "--quiet",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert model_files(folder) == alone[0]
    assert done.stdout.decode() == alone[1]


def test_learning_in_shards_learns(trained, alone):
    """Nearly as much in three epochs, and not the same."""
    uas = [float(text.split("UAS")[1].split()[0]) for text in (trained.out, alone[1])]
    assert uas[1] > uas[0] - 6
    assert alone[0]["weights.safetensors"] != (trained.model / "weights.safetensors").read_bytes()


LONG = ["learning.shards=2", "learning.epochs=40", "data.dev=null", "data.test=null"]


def until_checkpoint(several: Several, folder: Path) -> None:
    deadline = time.monotonic() + 200
    while not (folder / "last" / "state.safetensors").exists():
        assert all(process.poll() is None for process in several.processes), several.ends()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_case_35_a_killed_run_goes_on_in_any_number_of_processes(trained, tmp_path):
    folder = tmp_path / "model"
    words = [trained.config, f"output={folder}", *LONG]
    several = Several(2, *words)
    until_checkpoint(several, folder)
    several.kill()
    assert not (folder / "weights.safetensors").exists(), "it was killed too late to show anything"
    shutil.copytree(folder, tmp_path / "copy")
    assert program("train.py", *words, "--resume").returncode == 0
    found = model_files(folder)
    shutil.rmtree(folder)
    (tmp_path / "copy").rename(folder)
    first, second = Several(2, *words, "--resume").ends()
    assert first[0] == second[0] == 0, (first, second)
    assert "arcs, epoch 1 of 40" not in first[2]
    assert model_files(folder) == found
    assert program("train.py", *words, "--force").returncode == 0
    assert model_files(folder) == found


@pytest.mark.parametrize("dies", [0, 1])
def test_when_one_dies_the_others_say_so_and_end(trained, tmp_path, dies):
    folder = tmp_path / "model"
    several = Several(2, trained.config, f"output={folder}", *LONG, "learning.epochs=4000")
    until_checkpoint(several, folder)
    several.processes[dies].send_signal(signal.SIGKILL)
    ends = several.ends()
    assert ends[dies][0] == -signal.SIGKILL
    assert ends[1 - dies][0] == 5
    assert "gpuparse: error: another process of this run has ended" in ends[1 - dies][2]


def test_processes_must_learn_the_same(trained, tmp_path):
    words = [trained.config, f"output={tmp_path / 'model'}", *LONG]
    first, second = Several(2, *words, per_rank={1: ["seed=5"]}).ends()
    assert second[0] == 2
    assert "process 1 has another config, treebank or template sets than the first" in second[2]
    assert first[0] == 5
    assert not (tmp_path / "model" / "weights.safetensors").exists()


def test_no_more_processes_than_shards(trained, tmp_path):
    ends = Several(2, trained.config, f"output={tmp_path / 'model'}", "learning.shards=1").ends()
    assert [end[0] for end in ends] == [2, 2]
    assert "learning.shards is 1: 2 processes need at least as many shards" in ends[0][2]


def test_an_environment_that_is_not_whole(trained, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("RANK", raising=False)
    assert run(train.main, [str(trained.config), f"output={tmp_path / 'model'}"]) == 2
    assert "RANK expected, but not set; start them with torchrun" in capsys.readouterr().err

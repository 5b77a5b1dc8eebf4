"""Who has to wait for kernels is told so, and who need not is not."""

import time

import numba
import pytest

from gpuparse.commands import kernels
from gpuparse.commands.kernels import compilation_announced, kernels_clocked
from gpuparse.inference.decode import DECODERS
from tests.commands.conftest import program


def compile_something() -> int:
    """A kernel that calls another; both are new, whatever was compiled before."""

    @numba.njit
    def inner(x):
        return x + 1

    @numba.njit
    def outer(x):
        return inner(x) * 2

    return outer(1)


def test_a_long_compilation_is_told_while_it_lasts_and_at_its_end(monkeypatch):
    monkeypatch.setattr(kernels, "PATIENCE", 0.001)
    said = []
    with compilation_announced(said.append) as seconds:
        assert compile_something() == 4
        assert 0 < seconds() < 100
        assert said == ["compiling kernels, once after installation; this takes some seconds"]
        compile_something()
    assert len(said) == 2
    assert said[1].startswith("compiled kernels in ")


def test_short_compilations_add_up(monkeypatch):
    said = []
    with compilation_announced(said.append):
        compile_something()
        assert said == []
        monkeypatch.setattr(kernels, "PATIENCE", 0.001)
        compile_something()
    assert len(said) == 2


def test_nothing_to_compile_nothing_to_say(monkeypatch):
    monkeypatch.setattr(kernels, "PATIENCE", 0.0)
    said = []
    with compilation_announced(said.append):
        sum(range(1000))
    assert said == []


def test_the_cpu_time_of_kernels_is_told_apart():
    with kernels_clocked() as seconds:
        began = time.process_time()
        assert compile_something() == 4
        compiling = seconds()
        sum(range(3_000_000))
        assert seconds() == compiling
        spent = time.process_time() - began
    assert 0.01 < compiling < spent


def test_after_the_compile_command_nothing_is_left_to_compile(trained, tmp_path):
    # The cache of this environment: what is compiled is compiled for the other tests too.
    done = program("-m", "gpuparse", "compile")
    assert done.returncode == 0, done.stderr
    assert b"gpuparse: all kernels are ready (" in done.stderr.splitlines()[-1]
    code = (
        "import sys; from gpuparse.commands import kernels, train, parse; kernels.PATIENCE = 0.0;"
        "train.main(sys.argv[1:3] + ['--force']); parse.main(sys.argv[3:])"
    )
    words = [trained.config, f"output={tmp_path}/model", trained.model, trained.test]
    done = program("-c", code, *words)
    assert done.returncode == 0, done.stderr
    assert b"kernels" not in done.stderr


def test_all_of_the_second_order_is_compiled_with_the_rest(trained, tmp_path):
    call = "kernels._train_and_parse([], up_to=2)"  # what --all begins with, but for larger parts
    done = program("-c", f"from gpuparse.commands import kernels; {call}")
    assert done.returncode == 0, done.stderr
    code = (
        "import sys; from gpuparse.commands import kernels, train, parse; kernels.PATIENCE = 0.0;"
        "train.main(sys.argv[1:7]); parse.main(sys.argv[7:])"
    )
    for decoder in ("eisner_sibling", "hill_climb", "multi_parent"):
        model = f"{tmp_path}/{decoder}"
        words = [f"output={model}", f"decoder={decoder}", "features=extended"]
        words += ["feature_map.rows=1048576", "learning.epochs=1"]
        done = program("-c", code, trained.config, *words, model, trained.test)
        assert done.returncode == 0, done.stderr
        assert b"kernels" not in done.stderr


def test_a_second_process_compiles_only_where_nothing_is_compiled_yet(monkeypatch, tmp_path):
    started = []

    class Process:
        def __init__(self, command, **_):
            started.append(command)

        def terminate(self):
            started.append("ended")

        def wait(self):
            pass

    monkeypatch.setattr(kernels.subprocess, "Popen", Process)
    monkeypatch.setattr(kernels, "available_processors", lambda: 2)
    monkeypatch.setattr(kernels, "cache_folder", lambda: tmp_path)
    with kernels.parsing_compiled_aside("eisner"):
        assert started[0][1:] == ["-m", "gpuparse", "compile", "--parsing", "eisner", "--quiet"]
    assert started[1:] == ["ended"]
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "kernel.nbi").touch()
    with kernels.parsing_compiled_aside("eisner"):
        pass
    assert len(started) == 2


@pytest.mark.parametrize("decoder", DECODERS)
def test_compiling_for_parsing_only_is_a_command(decoder):
    done = program("-m", "gpuparse", "compile", "--parsing", decoder)
    assert done.returncode == 0, done.stderr

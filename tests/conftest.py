"""Fixtures for all tests."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from hypothesis import settings

import gpuparse
from gpuparse import native
from gpuparse.errors import NativeError
from gpuparse.jobs import checkpoint
from tests.multiword_texts import CONFIG, with_multiword_tokens
from tests.small_stages import small_stages as with_small_stages
from tests.synthetic import generate

if not torch.cuda.is_available():
    # Triton reads it when its kernels are imported: without a GPU they run in its interpreter.
    os.environ.setdefault("TRITON_INTERPRET", "1")


# Workers begin with these, so that none has much to do at the end.
LONG_FILES = {
    "test_pages.py", "test_pipeline.py", "test_kills.py", "test_hostile_models.py", "test_doors.py",
    "test_ray.py", "test_spark.py", "test_spacy_pipeline.py", "test_ladder.py", "test_train.py",
    "test_page.py", "test_tune.py", "test_stages.py", "test_worker.py",
}  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rounds", type=int, default=3, help="how often tests of threads repeat (3)")
    parser.addoption(
        "--thorough", action="store_true", help="ten times as many random cases; tests marked slow"
    )


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config.option, "loadscopereorder"):  # of pytest-xdist: files in our order
        config.option.loadscopereorder = False
    if config.getoption("thorough"):
        os.environ["GPUPARSE_THOROUGH"] = "1"  # tests/strategies.py reads it
    # Tensors are small here: on busy cores the barriers of torch's threads would take all the time.
    torch.set_num_threads(1)
    examples = 100 if config.getoption("thorough") else 25
    # A busy machine is no failure.
    settings.register_profile("untimed", deadline=None, max_examples=examples)
    settings.load_profile("untimed")
    build_native()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long files first; without the tests marked slow, unless --thorough is given."""
    items.sort(key=lambda item: item.path.name not in LONG_FILES)
    if not config.getoption("thorough"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]


def build_native() -> None:
    """Compile the library where it is missing or older than its sources."""
    with suppress(NativeError):
        native.library()
        return
    script = Path(__file__).parents[1] / "native" / "build.py"
    if subprocess.run([sys.executable, script], check=False).returncode:
        pytest.exit("native/build.py failed; see its output above", returncode=3)
    try:
        native.library()
    except NativeError as error:
        pytest.exit(f"the compiled library does not load: {error}", returncode=3)


@pytest.fixture(scope="module")
def small_stages() -> Iterator[None]:
    """`tests.small_stages` in a module."""
    with with_small_stages():
        yield


@pytest.fixture(scope="session")
def multiword_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model with all stages, which knows multiword tokens."""
    folder = tmp_path_factory.mktemp("multiword")
    (folder / "train.conllu").write_bytes(with_multiword_tokens(generate(400, 1)))
    own = {"data.train": folder / "train.conllu", "output": folder / "model"}
    with with_small_stages():
        gpuparse.train(CONFIG | own, quiet=True)
    return folder / "model"


@pytest.fixture(scope="session", autouse=True)
def own_caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Which models were checked is not remembered among the user's caches. No file of a test has to
    outlive the machine: nothing waits for the disk.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("caches")))
        yield


@pytest.fixture(autouse=True)
def one_torch_thread() -> Iterator[None]:
    """Commands and tests of threads set others."""
    yield
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def usual_signals() -> Iterator[None]:
    """Tests of signals work in a background job, which ignores SIGINT, and under nohup."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    ignored = [number for number in usual if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, usual[number])
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture
def states_of_all_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state of a run is written after every epoch, however long that takes."""
    monkeypatch.setattr(checkpoint, "SHARE", float("inf"))


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Threads take turns as often as Python lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> torch.device:
    """Every device on which a test runs."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device on this machine")
    return torch.device(request.param)

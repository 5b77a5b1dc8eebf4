"""A model with all stages, served in this process and in one of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import gpuparse
from gpuparse.__main__ import main
from tests.small_stages import small_stages
from tests.synthetic import generate
from tests.test_doors import KEYS

httpx = pytest.importorskip("httpx")
pytest.importorskip("uvicorn")
from starlette.testclient import TestClient  # noqa: E402 (the server's packages may be missing)

from gpuparse.server.app import Limits, Service, make_app  # noqa: E402
from gpuparse.server.models import ServedModel, load_models  # noqa: E402

ROOT = Path(__file__).parents[2]


class Trained:
    """A model, texts that it can parse, and what the command gives for them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "train.conllu").write_bytes(generate(150, 1))
        self.model = folder / "quick"
        keys = KEYS | {"data.train": folder / "train.conllu", "output": self.model}
        with small_stages(epochs=1):
            gpuparse.train(keys, quiet=True)
        self.conllu = generate(60, 3)

    def command(self, content: bytes, kind: str, *options: str) -> str:
        """The output of `parse` for an input."""
        source, target = self.folder / "input", self.folder / "output"
        source.write_bytes(content)
        given = [str(source), "-o", str(target), "--force", "--quiet", "--threads", "1"]
        assert main(["parse", str(self.model), *given, "--input", kind, *options]) == 0
        return target.read_bytes().decode()

    def paragraphs(self) -> list[str]:
        """Raw texts: one sentence, several, several paragraphs, none."""
        lines = [
            line.removeprefix("# text = ")
            for line in self.conllu.decode().splitlines() if line.startswith("# text = ")
        ]  # fmt: skip
        several = [" ".join(lines[i : i + 4]) for i in range(0, 40, 4)]
        return [
            *lines[:12],
            *several,
            "\n\n".join(several[:3]),
            "",
            " \n\n ",
            "Don't go, Ærøskøbing!",
        ]


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Trained:
    return Trained(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def models(trained) -> dict[str, ServedModel]:
    return load_models([f"first={trained.model}", str(trained.model)], threads=1, device="cpu")


Start = Callable[..., tuple[TestClient, Service]]


@pytest.fixture
def start(models) -> Iterator[Start]:
    """Starts the application; limits: as those of Limits."""
    clients = []

    def start(*, page: Path | None = None, token: bytes | None = None, **limits) -> tuple:
        service = Service(models, Limits(**limits), token)
        app = make_app(service) if page is None else make_app(service, page=page)
        client = TestClient(app)
        client.__enter__()
        clients.append(client)
        return client, service

    yield start
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def client(start) -> TestClient:
    return start()[0]


class Process:
    """`gpuparse serve` in a process of its own, on a free port of this machine."""

    def __init__(self, model: str | Path, folder: Path, *options: str) -> None:
        self.log = folder / f"log-{time.monotonic_ns()}"
        command = [sys.executable, "-m", "gpuparse", "serve", "--port", "0", "--threads", "1"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [*command, str(model), *options], stderr=log, stdout=log, cwd=ROOT,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
            )  # fmt: skip
        end = time.monotonic() + 60
        while "listening on" not in self.said():
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < end
            time.sleep(0.05)
        self.url = self.said().split("listening on ")[1].split()[0]
        self.port = int(self.url.rpartition(":")[2])
        while time.monotonic() < end:
            try:
                httpx.get(f"{self.url}/health")
                return
            except httpx.TransportError:
                time.sleep(0.05)

    def said(self) -> str:
        return self.log.read_text()

    def memory(self) -> int:
        """Resident bytes."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(30)


@pytest.fixture(scope="session")
def process(trained) -> Iterator[Process]:
    """A server that tests share."""
    started = Process(
        trained.model, trained.folder, "--max-bytes", "3000000", "--max-words", "200000"
    )
    yield started
    started.stop()


def body_of(text: str) -> bytes:
    return json.dumps({"text": text}).encode()

"""Tiny encoders, models that are trained from them once, and ways to parse with them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gpuparse
from gpuparse.commands import parse
from gpuparse.commands.console import run
from tests.samples import without
from tests.small_stages import small_stages
from tests.synthetic import generate, treebank_file
from tests.tiny_encoders import write_encoder

KEYS = {
    "data.train": treebank_file(40, 1), "data.dev": treebank_file(20, 2), "threads": 1,
    "device": "cpu", "decoder": "chu_liu_edmonds", "encoder.precision": "float32",
    "encoder.epochs": 1, "tokenizer.learn": False,
}  # fmt: skip


def rows(text: bytes) -> list[list[str]]:
    """The fields of the words of CoNLL-U."""
    found = (line.split("\t") for line in text.decode().split("\n"))
    return [fields for fields in found if fields[0].isdigit()]


def column(text: bytes, number: int) -> list[str]:
    """A column of CoNLL-U."""
    return [fields[number] for fields in rows(text)]


class Models:
    """Encoders by family, and models by name, each made when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.gold = generate(20, 3)
        self.forms = without(self.gold, *range(2, 9))
        self._made: set[str] = set()
        self._calls = 0

    def encoder(self, family: str) -> Path:
        """The folder of an encoder."""
        folder = self.folder / f"pretrained-{family}"
        if not folder.exists():
            write_encoder(folder, family)
        return folder

    def keys(self, family: str, output: Path, **keys: Any) -> dict[str, Any]:
        """The keys of a run; those given have `__` for the dot."""
        own = {name.replace("__", "."): value for name, value in keys.items()}
        given = {"encoder.model": str(self.encoder(family)), "output": str(output)}
        return KEYS | given | own

    def words(self, family: str, output: Path, **keys: Any) -> list[str]:
        """The words of the command `train`."""
        words = ["encoder"]
        for name, value in self.keys(family, output, **keys).items():
            words.append(f"{name}={str(value).lower() if isinstance(value, bool) else value}")
        return words

    def model(self, family: str, name: str = "plain", **keys: Any) -> Path:
        """The folder of a model; the same name is for the same keys."""
        folder = self.folder / f"{family}-{name}"
        if str(folder) not in self._made:
            gpuparse.train("encoder", self.keys(family, folder, **keys), quiet=True)
            self._made.add(str(folder))
        return folder

    def parse(self, model: Path, text: bytes, *words: object, batch: int = 64) -> bytes:
        """The output of the command; batch: most sentences at a time."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(parse, "default_batch_size", lambda device: batch)
            code, out = self.call(model, text, *words)
        assert code == 0
        return out

    def call(self, model: Path, text: bytes, *words: object) -> tuple[int, bytes]:
        """The exit code of the command in this process, and what it writes."""
        self._calls += 1
        source = self.folder / f"{self._calls}.conllu"
        output = self.folder / f"{self._calls}-parsed.conllu"
        source.write_bytes(text)
        given = [model, source, "-o", output, "--quiet", "--device", "cpu", *words]
        if "--threads" not in words:
            given += ["--threads", "1"]
        code = run(parse.main, [str(word) for word in given])
        return code, output.read_bytes() if output.exists() else b""


@pytest.fixture(scope="package")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    """Models of small sizes, which learn from few words."""
    for module in ("torch", "transformers", "tokenizers"):
        pytest.importorskip(module, reason=f"an encoder needs the package {module}")
    from gpuparse.learning.stages.encoder import stage, trainer

    with pytest.MonkeyPatch.context() as patch, small_stages(epochs=1):
        patch.setattr(trainer, "ARC_SIZE", 32)
        patch.setattr(trainer, "LABEL_SIZE", 16)
        patch.setattr(stage, "HEAD_RATE", 0.02)
        yield Models(tmp_path_factory.mktemp("encoders"))

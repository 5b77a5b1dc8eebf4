"""The subjects of the cases: generated treebanks, and models learned from them."""

from pathlib import Path
from typing import Any

import gpuparse
from tests.synthetic import generate, treebank_file


def learned_model(name: str, folder: Path, *, small: bool, **keys: Any) -> str:
    """The folder of a model of a shipped config after two epochs on generated sentences.

    keys: of the config, `__` for the dot.
    """
    given = {"learning.epochs": 2, "word_vectors.epochs": 1, "weights.bits": 16, "threads": 0}
    given |= {"data.train": treebank_file(40 if small else 2000, 1), "output": folder / name}
    given |= {key.replace("__", "."): value for key, value in keys.items()}
    gpuparse.train(name, given, quiet=True)
    return str(folder / name)


def long_input(folder: Path, copies: int, *, raw: bool) -> tuple[str, str]:
    """A tenth of some copies, and all, of 4,000 generated sentences, a treebank or a raw text."""
    data = generate(4000, 1)
    if raw:
        texts = (line.partition(b"# text = ")[2] for line in data.split(b"\n"))
        data = b"\n".join(text for text in texts if text) + b"\n"
    paths = [folder / f"{name}{'.txt' if raw else '.conllu'}" for name in ("few", "long")]
    for path, n in zip(paths, (max(1, copies // 10), copies), strict=True):
        path.write_bytes(data * n)
    return str(paths[0]), str(paths[1])

"""The systems that campaigns train, kill and damage: small models of every kind."""

from __future__ import annotations

import os
import random
import shutil
from functools import cache
from pathlib import Path

from gpuparse.commands import parse, train
from tests.campaign.running import Child, Failure, call
from tests.graphs_by_place import acyclic_graph, with_deps
from tests.runs import model_files
from tests.samples import random_sentences, text_of
from tests.synthetic import generate

PRUNING = ["pruning.max_heads=6"]
JOINT = ["labels.kind=joint", "labels.features=joint-labels"]
STAGES = [
    "tokenizer.learn=true", "tagger.learn=true", "tagger.folds=3", "lemmatizer.learn=true",
]  # fmt: skip
VECTORS = [
    "features=fast", "labels.features=fast-labels", "word_vectors.networks=2",
    "word_vectors.epochs=2",
]  # fmt: skip
PIPELINE, ALONE = "pipeline", "stages"
GRAPHS = "multi-parent"
SYSTEMS = {
    "first-order": ["decoder=chu_liu_edmonds", "features=mcdonald-2005", "learning.epochs=6"],
    "second-order": ["decoder=eisner_sibling", "features=mcdonald-pereira-2006"],
    "joint-labels": ["decoder=eisner_sibling", "features=mcdonald-pereira-2006", *JOINT],
    "grandchildren": ["decoder=eisner_grandchild", "features=grandchildren", *JOINT, *PRUNING],
    "third-order": ["decoder=eisner_grand_sibling", "features=third-order", *PRUNING],
    "dual-decomposition": ["decoder=dual_decomposition", "features=third-order", *PRUNING],
    GRAPHS: ["decoder=multi_parent", "features=mcdonald-pereira-2006",
             "labels.features=graph-labels"],
    # Without data.dev probabilities are calibrated by a second tagger and a second parser.
    PIPELINE: ["decoder=eisner", *VECTORS, *STAGES, "data.dev=null"],
    "best-epochs": ["decoder=eisner_grand_sibling", "features=third-order-vectors",
                    "word_vectors.networks=2", "word_vectors.epochs=2", "learning.keep=best",
                    *JOINT, *PRUNING],
    ALONE: ["parser=false", *STAGES],
}  # fmt: skip
CONFIG = """\
decoder: eisner
device: cpu
threads: 1
feature_map: {rows: 4096}
learning: {epochs: 3}
labels: {rows: 1024, epochs: 2}
data: {train: train.conllu, dev: dev.conllu, test: dev.conllu}
"""


def trees(seed: int, count: int) -> bytes:
    """A treebank with random trees."""
    return text_of(random_sentences(seed, count, 9, projective=False)).encode()


def graphs(seed: int, count: int) -> bytes:
    """A treebank with random graphs in DEPS."""
    draw = random.Random(seed)
    sentences = random_sentences(seed, count, 9, projective=False)
    return text_of([with_deps(s, acyclic_graph(draw, s)) for s in sentences]).encode()


class Bench:
    """A scratch folder with treebanks, and models that are trained when first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._models: dict[str, Path] = {}
        self._seconds: dict[str, float] = {}
        self.servers: list[Child] = []  # that trials share
        self.input = folder / "input.conllu"
        self.input.write_bytes(generate(300, 9))

    @cache  # noqa: B019 (there is one bench)
    def config(self, system: str) -> Path:
        """The config of a system, beside its treebanks."""
        folder = self.folder / f"of-{system}"
        folder.mkdir()
        made = graphs if system == GRAPHS else trees
        (folder / "train.conllu").write_bytes(made(1, 30))
        (folder / "dev.conllu").write_bytes(made(2, 10))
        (folder / "run.yaml").write_text(CONFIG)
        return folder / "run.yaml"

    def start(self, system: str, output: Path, *words: str) -> Child:
        """Start training."""
        given = [self.config(system), *SYSTEMS[system], f"output={output}", *words]
        return Child(train.main, given, output.parent)

    def model(self, system: str = "first-order") -> Path:
        """The model of a system."""
        if system not in self._models:
            folder = self.folder / f"model-of-{system}"
            folder.mkdir()
            child = self.start(system, folder / "model")
            ended = child.wait()
            if ended.code:
                raise Failure(f"training {system} ends with {ended.code}: {ended.err}")
            self._models[system] = folder / "model"
            self._seconds[system] = child.seconds
        return self._models[system]

    def seconds(self, system: str) -> float:
        """The seconds that training a system took, undisturbed."""
        self.model(system)
        return self._seconds[system]

    @cache  # noqa: B019
    def bytes_of(self, system: str) -> dict[str, bytes]:
        """The files of the model of a system."""
        return model_files(self.model(system))

    @cache  # noqa: B019
    def parsed(self, path: Path, system: str = "first-order") -> bytes:
        """A file as the model of a system parses it, undisturbed."""
        ended = call(parse.main, [self.model(system), path, "--threads", 1], self.folder)
        if ended.code:
            raise Failure(f"parsing {path} ends with {ended.code}: {ended.err}")
        return ended.out

    def close(self) -> None:
        """End what trials share."""
        for child in self.servers:
            child.kill()

    def place(self) -> Path:
        """An empty folder for one trial."""
        folder = self.folder / "trial"
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        return folder

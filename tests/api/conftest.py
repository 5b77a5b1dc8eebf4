"""Small models of several kinds, trained once from Python, and their texts."""

import random
from pathlib import Path

import pytest

import gpuparse
from tests.graphs_by_place import acyclic_graph, with_deps
from tests.samples import random_sentences, text_of
from tests.synthetic import generate

CONFIGS = Path(__file__).parents[2] / "configs"
SMALL = {
    "device": "cpu", "threads": 1, "feature_map.rows": 65536, "labels.rows": 16384,
    "learning.epochs": 2, "labels.epochs": 1, "word_vectors.networks": 1,
    "word_vectors.epochs": 1, "calibration": "none",
}  # fmt: skip
KINDS = {
    "fast": ("fast", {"decoder": "eisner"}),
    "default": ("default", {"decoder": "eisner_sibling"}),
    "third order": ("third-order-non-projective", {}),
    "graphs": ("multi-parent", {}),
}
COMMENTED = (
    "# sent_id = first\n# text = a b\n1\ta\ta\tX\tX\t_\t_\t_\t_\tKey=1\n2-3\tbc\t_\t_\t_\t_\t_\t_\t"
    "_\t_\n2\tb\tb\tY\tY\t_\t_\t_\t_\t_\n3\tc\tc\tX\tX\t_\t_\t_\t_\t_\n\n"
    "# sent_id = second\n1\td\td\tY\tY\t_\t_\t_\t_\t_\n\n"
)


class Kinds:
    """Models by kind, each trained when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        draw = random.Random(5)
        graphs = [
            with_deps(s, acyclic_graph(draw, s))
            for s in random_sentences(5, 60, 9, projective=False)
        ]
        (folder / "graphs.conllu").write_text(text_of(graphs))
        (folder / "trees.conllu").write_bytes(generate(60, 1))
        (folder / "test.conllu").write_bytes(generate(40, 2))
        self._runs: dict[str, gpuparse.TrainedRun] = {}

    def run(self, kind: str) -> gpuparse.TrainedRun:
        if kind not in self._runs:
            name, keys = KINDS[kind]
            train = "graphs" if kind == "graphs" else "trees"
            own = {"data.train": self.folder / f"{train}.conllu", "output": self.folder / kind}
            self._runs[kind] = gpuparse.train(
                CONFIGS / f"{name}.yaml", SMALL | keys | own, quiet=True
            )
        return self._runs[kind]

    def text(self, kind: str) -> bytes:
        """Sentences that a model of the kind can parse, with comments in some."""
        if kind == "graphs":
            return COMMENTED.encode() + (self.folder / "graphs.conllu").read_bytes()
        return (self.folder / "test.conllu").read_bytes()


@pytest.fixture(scope="session")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Kinds:
    return Kinds(tmp_path_factory.mktemp("kinds"))


@pytest.fixture(scope="session")
def parser(kinds: Kinds) -> gpuparse.SentenceParser:
    """A parser of trees with probabilities that reads words, lemmas, tags and features."""
    return gpuparse.load(kinds.run("default").folder, threads=1)


@pytest.fixture(scope="session")
def text_parser(multiword_model: Path) -> gpuparse.SentenceParser:
    """A parser with all stages, which knows multiword tokens; its sentences have one root."""
    return gpuparse.load(multiword_model, threads=1, single_root=True)

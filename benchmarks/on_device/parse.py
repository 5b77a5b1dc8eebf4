"""File to file on a device and on the CPU of the same machine."""

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks.on_device.contest import Contest
from benchmarks.subjects import read_subject, trained_model
from gpuparse.commands import parse
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.model.folder import save_parser
from tests.synthetic import generate

TITLE = "Parsing from file to file on a device"
SYSTEMS = (
    ("mcdonald-2005", "eisner"),
    ("vectors", "eisner"),
    ("mcdonald-pereira-2006", "eisner_sibling"),
)  # templates, decoder
COLUMNS = ["system", "on", "sentences", "seconds", "sentences/s", "same bytes"]
SECONDS = 8.0  # a text is as long as a device parses in about this time
MOST = 1_000_000  # sentences


def run(options: argparse.Namespace, contest: Contest) -> None:
    """Parse one text by the command on both, after checking that a short one comes out equal."""
    for features, decoder in SYSTEMS[:1] if options.small else SYSTEMS:
        if contest.is_over(f"{features}, {decoder}"):
            continue
        contest.rows += _one_system(options, contest, features, decoder)
    contest.note(
        "Time on the clock of the command `parse`, from a warm start: reading, labels and writing "
        "included. The text is a treebank repeated for as long as the slower one takes seconds."
    )


def _one_system(
    options: argparse.Namespace, contest: Contest, features: str, decoder: str
) -> list[list[object]]:
    if options.small:
        treebank = treebank_from_bytes(generate(40, 1), "generated")
    else:
        treebank = read_subject(options.treebank)
    rows = 1 << (12 if options.small else 22)
    labels = "vectors" if features == "vectors" else "labels"
    model = trained_model(treebank, features, decoder=decoder, n_rows=rows, labels=labels)
    ways = {"cpu": ["--device", "cpu"]}
    if contest.device.type == "cuda":
        ways["cuda"] = ["--device", "cuda"]
    else:  # a second way to the same bytes
        ways["cpu, torch"] = ["--device", "cpu", "--engine", "torch"]
    table = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model").mkdir()
        save_parser(model, folder / "model")
        outputs = {}
        for way, words in ways.items():
            (folder / "short.conllu").write_bytes(treebank.data.tobytes())
            _parse(folder, "short.conllu", words)  # compiles, and fills the caches
            begin = time.perf_counter()
            outputs[way] = _parse(folder, "short.conllu", words)
            short = time.perf_counter() - begin
            copies = 1 if options.small else int(min(SECONDS / short, MOST / len(treebank)))
            with (folder / "long.conllu").open("wb") as file:
                for _ in range(max(1, copies)):
                    file.write(treebank.data.tobytes())
            begin = time.perf_counter()
            _parse(folder, "long.conllu", words)
            seconds = time.perf_counter() - begin
            sentences = max(1, copies) * len(treebank)
            if outputs[way] != outputs["cpu"]:
                raise AssertionError(f"{features}, {decoder}: {way} writes other bytes than cpu")
            system, rate = f"{features}, {decoder}", sentences / seconds
            table.append([system, way, sentences, seconds, rate, "yes"])
    return table


def _parse(folder: Path, text: str, words: list[str]) -> bytes:
    out = folder / "out"
    options = ["--output", f"{out}/", "--force", "--quiet"]
    code = parse.main([str(folder / "model"), str(folder / text), *options, *words])
    if code != 0:
        raise AssertionError(f"parsing {text} ended with exit code {code}")
    return (out / text).read_bytes()

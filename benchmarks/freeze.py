"""Record, and compare, the SHA-256 of models and outputs over decoders, rules, options and doors.

    python -m benchmarks.freeze record freeze.json              # with the code of this checkout
    python -m benchmarks.freeze compare freeze.json             # exit code 1 if anything differs
    python -m benchmarks.freeze record freeze.json --code OLD   # with the code of another checkout

A change that must not change behaviour is compared with a record that the code before it made.
Models and parses come from the commands, and from what `import gpuparse` offers
(benchmarks/freeze_doors.py), so the scripts do not depend on what the package looks like inside.
What is hashed of a model: its tensors, not the texts that describe it. Where an output is an error,
its text is recorded.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import safe_open

from tests.synthetic import generate

# Options of parse.py that every model of trees with exact sums takes.
SUMS = (["--probabilities"], ["--mbr"], ["--kbest", "3"], ["--kbest", "3", "--probabilities"])
JOINT = ["labels.kind=joint", "labels.features=joint-labels"]
SMALL_PRUNING = ["pruning.max_heads=4"]
FEW_EPOCHS = [  # and what may get other defaults
    "word_vectors.epochs=2", "word_vectors.weight=0.5",
]  # fmt: skip
AUGMENTED = "learning.cost_augmented=true"

# Name -> overrides of BASE, and lists of options to parse with besides none at all.
CASES: dict[str, tuple[list[str], tuple[list[str], ...]]] = {
    "eisner": (["decoder=eisner"], (*SUMS, ["--single-root"], ["--keep", "heads"])),
    "eisner-8-bits": (["decoder=eisner", "weights.bits=8", AUGMENTED], ()),
    "eisner-extended": (["decoder=eisner", "features=extended", AUGMENTED], ()),
    "eisner-odd-rows": (["decoder=eisner", "feature_map.rows=50000"], ()),
    "eisner-batches": (["decoder=eisner", "learning.batch_size=8", AUGMENTED], ()),
    "eisner-k-best": (["decoder=eisner", "learning.k=5"], ()),
    "eisner-factored": (["decoder=eisner", "learning.rule=mira-factored"], ()),
    "eisner-conditional": (
        ["decoder=eisner", "learning.rule=conditional", "learning.max_step=0.1"],
        (),
    ),
    "cle": (
        ["decoder=chu_liu_edmonds", AUGMENTED],
        (*SUMS, ["--single-root"], ["--keep", "heads"]),
    ),
    "cle-single-root": (["decoder=chu_liu_edmonds", "data.single_root=true"], SUMS),
    "cle-perceptron": (["decoder=chu_liu_edmonds", "learning.rule=perceptron"], ()),
    "cle-joint": (["decoder=chu_liu_edmonds", *JOINT, AUGMENTED], (["--probabilities"],)),
    "cle-k-best-joint": (["decoder=chu_liu_edmonds", *JOINT, "learning.k=3"], (["--kbest", "2"],)),
    "cle-heads-alone": (["decoder=chu_liu_edmonds", "labels.kind=none"], ()),
    "cle-conditional": (
        ["decoder=chu_liu_edmonds", "learning.rule=conditional", "learning.max_step=0.1"],
        (),
    ),
    "sibling": (["decoder=eisner_sibling", "features=extended", AUGMENTED], SUMS),
    "sibling-joint": (["decoder=eisner_sibling", "features=mcdonald-pereira-2006", *JOINT], ()),
    "sibling-k-best": (
        ["decoder=eisner_sibling", "features=mcdonald-pereira-2006", "learning.k=3"],
        (),
    ),
    "hill-climb": (["decoder=hill_climb", "features=extended", AUGMENTED], (["--keep", "heads"],)),
    "multi-parent": (
        ["decoder=multi_parent", "features=extended", "labels.features=graph-labels"],
        (),
    ),
    "grandchild-joint": (
        ["decoder=eisner_grandchild", "features=grandchildren", *JOINT, *SMALL_PRUNING],
        (),
    ),
    "grand-sibling": (
        ["decoder=eisner_grand_sibling", "features=third-order", *SMALL_PRUNING, AUGMENTED],
        (),
    ),
    "tri-sibling-joint": (
        ["decoder=eisner_tri_sibling", "features=third-order", *JOINT, *SMALL_PRUNING],
        (),
    ),
    "dual-decomposition-joint": (
        ["decoder=dual_decomposition", "features=third-order", *JOINT, *SMALL_PRUNING],
        (["--at-most-one", "nsubj,obj"],),
    ),
    "dual-decomposition-sibling": (
        ["decoder=dual_decomposition", "features=extended", "pruning.max_heads=null"],
        (),
    ),
    "vectors": (
        ["decoder=chu_liu_edmonds", "features=vectors", "labels.features=vectors", *FEW_EPOCHS],
        (*SUMS, ["--keep", "heads"]),
    ),
    "vectors-conditional": (
        ["features=vectors", "labels.kind=none", "word_vectors.loss=conditional", *FEW_EPOCHS],
        (),
    ),
    "vectors-sibling-joint": (
        ["decoder=eisner_sibling", "features=extended-vectors", *JOINT, *FEW_EPOCHS],
        (["--probabilities"],),
    ),
    "vectors-grand-sibling": (
        [
            "decoder=eisner_grand_sibling",
            "features=grandparents.yaml",
            *SMALL_PRUNING,
            *FEW_EPOCHS,
        ],
        (),
    ),
}
# Stages before the parser; models with these parse raw text.
STAGES = [f"{stage}.learn=true" for stage in ("tokenizer", "tagger", "lemmatizer")]
# Name -> overrides of BASE of models whose parses go through every format and door.
PIPELINES = {
    "pipeline": ["decoder=chu_liu_edmonds", *STAGES, "tagger.folds=2"],
    "pipeline-vectors": [
        "decoder=chu_liu_edmonds", "features=vectors", "labels.features=vectors", *FEW_EPOCHS,
        *STAGES, "tagger.folds=1",
    ],
    "stages-alone": ["parser=false", *STAGES],
}  # fmt: skip
CONFIDENCE = (
    [], ["--probabilities"], ["--mbr"], ["--kbest", "3"], ["--kbest", "2", "--probabilities"],
    ["--single-root"], ["--deps", "tree"],
)  # fmt: skip
OF_TABLES = (
    [], ["--probabilities"], ["--mbr"], ["--single-root"], ["--deps", "tree"], ["--keep", "tags"],
    ["--keep", "heads"], ["--on-error", "skip"], ["--on-error", "keep"],
)  # fmt: skip
# Input of a pipeline -> lists of options.
RUNS: dict[str, tuple[list[str], ...]] = {
    "text.txt": (*CONFIDENCE, ["--ranges"], ["--on-error", "skip"], ["--threads", "2"]),
    "malformed.txt": ([], ["--on-error", "skip"], ["--on-error", "keep"]),
    "words.vert": tuple(["--input", "vertical", *options] for options in CONFIDENCE),
    "input.conllu": (
        *CONFIDENCE, ["--keep", "tags"], ["--keep", "tags", "--probabilities"],
        ["--decoder", "eisner"],
        ["--engine", "torch"], ["--guide", "misc:X"], ["--at-most-one", "nsubj,obj"],
        ["--ranges"],
    ),
    "known.conllu": (
        ["--keep", "heads"], ["--keep", "heads", "--probabilities"], ["--keep", "heads", "--mbr"],
    ),
    "malformed.conllu": (
        [], ["--on-error", "skip"], ["--on-error", "keep"],
        ["--on-error", "keep", "--keep", "heads"],
    ),
    "table.parquet": OF_TABLES,
    "table.arrow": OF_TABLES,
}  # fmt: skip
SHARDED = ("text.txt", "words.vert", "input.conllu", "table.parquet")
BASE = """\
output: model
features: mcdonald-2005
data: {train: treebank.conllu}
feature_map: {rows: 65536}
learning: {rule: mira, epochs: 2}
labels: {rows: 16384, epochs: 2}
weights: {bits: 16}
threads: 1
device: cpu
calibration: none
"""
GRANDPARENTS = """\
name: grandparents
arc: third-order
sibling: third-order
grandparent: third-order
word_vectors:
  hidden: 32
  arc: 32
  sibling: 16
  grandparent: 16
  label: 16
  templates: [w.form, w.pos, w-1.pos, w+1.pos]
"""


def prepare(folder: Path, code: Path) -> None:
    """Write the treebanks, a set of templates and the config that all cases start from."""
    (folder / "treebank.conllu").write_bytes(generate(150, 1))
    (folder / "input.conllu").write_bytes(generate(60, 2))
    (folder / "base.yaml").write_text(BASE)
    (folder / "grandparents.yaml").write_text(GRANDPARENTS)
    lines = (folder / "input.conllu").read_text().splitlines(keepends=True)
    known = "".join(_with_some_heads(line, number) for number, line in enumerate(lines))
    (folder / "known.conllu").write_text(known)
    rows = [line.split("\t") if "\t" in line else [] for line in lines if line[0] != "#"]
    words = [row[1] if row else "" for row in rows if not row or row[0].isdigit()]
    (folder / "words.vert").write_text("\n".join([*words, ""]))
    text = "\n".join(words).replace("\n\n", "\0").replace("\n", " ").replace("\0", "\n\n")
    (folder / "text.txt").write_text(text + "\n")
    (folder / "malformed.txt").write_bytes(text.encode().replace(b"\n\n", b"\xff\n\n", 3))
    (folder / "malformed.conllu").write_text(known.replace("\n3\t", "\n5\t", 4))
    _run(code, Path(__file__).with_name("freeze_doors.py"), ["--tables"], folder)


def _with_some_heads(line: str, number: int) -> str:
    """A line for --keep heads: three of four words lose their head and relation."""
    columns = line.split("\t")
    if len(columns) == 10 and columns[0].isdigit() and (number % 4 or columns[6] != "0"):
        columns[6] = columns[7] = "_"
    return "\t".join(columns)


def _environment(code: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(code), "PYTHONSAFEPATH": "1"}


def run_case(name: str, folder: Path, code: Path) -> dict[str, str]:
    """Train and parse one case; return the sums of its model and of each output."""
    if name in PIPELINES:
        return _run_pipeline(name, folder, code)
    overrides, parses = CASES[name]
    found = _trained(name, overrides, folder, code)
    for options in ([], *parses):
        file = "known.conllu" if "heads" in options else "input.conllu"
        arguments = [name, file, *options, "--threads", "1", "--device", "cpu", "--quiet"]
        output = _run(code, code / "parse.py", arguments, folder)
        found[" ".join(["parse", *options])] = hashlib.sha256(output).hexdigest()
    return found


def _trained(name: str, overrides: list[str], folder: Path, code: Path) -> dict[str, str]:
    """Train a model; return the sum of each of its files with tensors."""
    arguments = ["base.yaml", f"output={name}", *overrides, "--quiet"]
    _run(code, code / "train.py", arguments, folder)
    files = sorted((folder / name).glob("*.safetensors"))
    return {
        "model" if file.stem == "weights" else f"model {file.stem}": sum_of_tensors(file)
        for file in files
    }


def _run_pipeline(name: str, folder: Path, code: Path) -> dict[str, str]:
    """Train a model with stages; parse every format with it through all doors."""
    found = _trained(name, PIPELINES[name], folder, code)
    for file, runs in RUNS.items():
        for options in runs:
            found[" ".join(["parse", file, *options])] = _parsed(name, file, options, folder, code)
    for file in SHARDED:
        options = ["--shard", "all/3"]
        options += ["--input", "vertical"] if file.endswith(".vert") else []
        found[" ".join(["parse", file, *options])] = _parsed(name, file, options, folder, code)
    if "parser=false" in PIPELINES[name]:
        return found  # `gpuparse.load` takes models with a parser
    doors = _run(code, Path(__file__).with_name("freeze_doors.py"), [name], folder)
    return found | {f"python: {door}": what for door, what in json.loads(doors).items()}


def _parsed(model: str, file: str, options: list[str], folder: Path, code: Path) -> str:
    """The SHA-256 of a parsed file with its exit code, or the error of the command."""
    arguments = [model, file, "--device", "cpu", "--quiet", "--output", "out/", "--force"]
    arguments += options
    arguments += [] if "--threads" in options else ["--threads", "1"]
    command = [sys.executable, str(code / "parse.py"), *arguments]
    done = subprocess.run(command, cwd=folder, env=_environment(code), capture_output=True)
    written = [path for path in (folder / "out").glob("*") if path.is_file()]
    # Markers of shards have the sum of the model's texts, which the record leaves out.
    results = [path for path in sorted(written) if not re.search(r"shard|\.done$", path.name)]
    contents = b"".join(path.read_bytes() for path in results)
    for path in written:
        path.unlink()
    if done.returncode > 1:
        return f"exit {done.returncode}: {done.stderr.decode().strip()}"
    if not results:
        raise RuntimeError(f"{' '.join(command)}: no output was written")
    return f"exit {done.returncode}, {hashlib.sha256(contents).hexdigest()}"


def _run(code: Path, script: Path, arguments: list[str], folder: Path) -> bytes:
    command = [sys.executable, str(script), *arguments]
    done = subprocess.run(command, cwd=folder, env=_environment(code), capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.decode()[-2000:]}")
    return done.stdout


def sum_of_tensors(path: Path) -> str:
    """SHA-256 of the names, types, shapes and contents of a file's tensors."""
    digest = hashlib.sha256()
    with safe_open(path, framework="numpy") as file:
        for key in sorted(file.keys()):
            tensor = file.get_tensor(key)
            digest.update(f"{key} {tensor.dtype} {tensor.shape}\n".encode())
            digest.update(tensor.tobytes())
    return digest.hexdigest()


def differences(recorded: dict[str, Any], found: dict[str, Any]) -> Iterator[str]:
    """The differences, a line each."""
    for what, expected in recorded.items():
        if found.get(what) != expected:
            yield f"{what}: {found.get(what, 'missing')[:80]}, recorded {expected[:80]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("cases", nargs="*", help="names of cases; all, if none is given")
    parser.add_argument("--code", type=Path, default=Path(__file__).parents[1])
    options = parser.parse_args()
    recorded = json.loads(options.file.read_text()) if options.file.exists() else {}
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        prepare(folder, options.code.resolve())
        for name in options.cases or [*CASES, *PIPELINES]:
            start = time.monotonic()
            try:
                found = run_case(name, folder, options.code.resolve())
            except RuntimeError as error:
                found = {"error": str(error)}
            lines = [] if options.action == "record" else list(differences(recorded[name], found))
            failed |= bool(lines) or "error" in found
            verdict = "; ".join(lines) or found.get("error") or "ok"
            print(f"{name}: {verdict} ({time.monotonic() - start:.0f} s)", flush=True)
            if options.action == "record":
                recorded[name] = found
                options.file.write_text(json.dumps(recorded, indent=1) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

"""Every command and example of README and docs runs as printed, in the order printed.

A page starts in a folder of its own, which has the reader's treebanks (`YOURS`), `examples/` and
`configs/`. What it needs beyond them, such as a model, it makes itself. Languages of blocks:

- `sh`: each line runs in a shell and must succeed, unless an `output` block shows its error;
- `python`: runs in one namespace for the whole page;
- `output`: what the block before it must have printed; `...` stands for any lines;
- `conllu`: what the last redirected command must have written;
- any: saved as FILE after "as `FILE`:";
- `text`: neither run nor compared.
"""

import contextlib
import hashlib
import io
import multiprocessing
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from gpuparse.__main__ import main
from gpuparse.commands.console import run_and_exit
from tests.synthetic import generate
from tests.test_docs import DOCUMENTS, FENCE, ROOT, name

# Treebanks of the reader's: sentences and seed of a generated one.
YOURS = {
    "train.conllu": (30, 1),
    "dev.conllu": (20, 2),
    "test.conllu": (20, 3),
    "input.conllu": (5, 4),
    "corpus.conllu": (20, 5),
    "held-out.conllu": (20, 6),
    "gold.conllu": (20, 7),
    "new.conllu": (20, 8),
    "few.conllu": (20, 9),
    "one.conllu": (5, 10),
    "two.conllu": (5, 11),
    "tagged.conllu": (5, 12),
    "data/train.conllu": (30, 1),
    "data/test.conllu": (20, 3),
    "UD_French-Sequoia/fr_sequoia-ud-train.conllu": (30, 1),
    "UD_French-Sequoia/fr_sequoia-ud-dev.conllu": (20, 2),
    "UD_French-Sequoia/fr_sequoia-ud-test.conllu": (20, 3),
}
ERRORS = ("gpuparse: error", "error: ")  # how output begins of commands that may fail
# Lines that are not run, and why. The key is the line, or its beginning up to " ...".
INSTALLS = "needs the network; tests/test_installed.py installs the wheel"
CI = "a step of .ci/run, beside this test"
CUDA = "needs a CUDA device; tests marked gpu run there"
NOT_RUN = {
    "pip install ...": INSTALLS,
    ".ci/run": "runs this test",
    "python native/build.py": CI,
    "ruff ...": CI,
    "mypy": CI,
    "pytest ...": "runs this test",
    "python -m sphinx ...": CI,
    "docker build ...": "needs Docker; tests/test_docker.py checks the files",
    "gpuparse() { docker run ...": "needs Docker; the commands below it run without",
    "python examples/ray_parquet.py ...": "run by tests/interop/test_ray.py",
    "python examples/spark_parquet.py ...": "run by tests/interop/test_spark.py",
    "python examples/ray_files.py ...": "run by tests/interop",
    "python examples/spark_files.py ...": "run by tests/interop",
    "gpuparse train encoder ...": "needs a pretrained encoder; tests/encoder trains tiny ones",
    "unzip ...": "needs unzip; tests/test_packages.py looks into a wheel",
    "python -m benchmarks gpu --output ...": CUDA,
    "gpuparse parse runs/first-order-projective corpus.conllu --device cuda ...": CUDA,
    "gpuparse train first-order-projective data.train=train.conllu device=cuda ...": CUDA,
}
# Parts of commands that run with less work than printed.
SMALLER = {
    "--random 20": "--random 2",
    "--folds 5": "--folds 2",
    "learning.epochs=5,10,20": "learning.epochs=1,2",
    "--sizes 100,300,1000,all": "--sizes 10,all",
    "word_vectors.epochs=5,10,20": "word_vectors.epochs=1,2",
    "learning.epochs=5..40": "learning.epochs=1..3",
}
SAVED = re.compile(r"as\s+`([^`]+)`:\s*$")
TIMES = re.compile(r"[\d.,]+(?= s\b|/s\b)|\b\d+ MiB")


@dataclass
class Trained:
    """Files and output of `gpuparse train ...` on another page, so that a line is run once."""

    folder: Path
    printed: dict[str, str] = field(default_factory=dict)

    def of(self, line: str) -> Path:
        return self.folder / hashlib.sha256(line.encode()).hexdigest()


@dataclass
class Page:
    """A page that is being read: its folder, and what was printed and written last."""

    folder: Path
    processes: ForkServerContext
    trained: Trained
    names: dict = field(default_factory=dict)
    printed: str = ""
    written: Path | None = None

    def sh(self, text: str, may_fail: bool) -> None:
        self.printed = ""
        for line in text.replace("\\\n", "").splitlines():
            if line and not line.startswith("#") and not reason(line):
                if target := re.search(r"> (\S+)$", line):
                    self.written = self.folder / target[1]
                code = self.command(line)
                assert code == 0 or may_fail, f"exit code {code}: {line}\n{self.printed}"

    def command(self, line: str) -> int | None:
        """Run a line; a command of gpuparse alone in a process that has torch already."""
        for printed, smaller in SMALLER.items():
            line = line.replace(printed, smaller)
        runs = self.folder / "runs"
        if line in self.trained.printed:
            shutil.copytree(self.trained.of(line), runs, dirs_exist_ok=True)
            self.printed += self.trained.printed[line]
            return 0
        before = {file.name for file in runs.glob("*")}
        log = self.folder / ".printed"
        if re.fullmatch(r"gpuparse [^|&;<>$]*(> \S+)?", line):
            words, _, output = line.partition(" > ")
            streams = (output or log, log)
            process = self.processes.Process(
                target=run_command, args=(self.folder, shlex.split(words)[1:], *streams)
            )
            process.start()
            process.join()
            code = process.exitcode
        else:
            with log.open("w") as stream:
                code = subprocess.run(
                    ["bash", "-euo", "pipefail", "-c", line],
                    cwd=self.folder, stdout=stream, stderr=stream, stdin=subprocess.DEVNULL,
                ).returncode  # fmt: skip
        self.printed += log.read_text()
        if line.startswith("gpuparse train ") and code == 0:
            for run in runs.iterdir():
                if run.name not in before:
                    shutil.copytree(run, self.trained.of(line) / run.name)
            self.trained.printed[line] = log.read_text()
        log.unlink()
        return code

    def python(self, text: str) -> None:
        printed = io.StringIO()
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(printed):
            exec(compile(text, str(self.folder), "exec"), self.names)
        self.printed = printed.getvalue()

    def output(self, text: str) -> None:
        printed = TIMES.sub("N", self.printed)
        at = 0
        for part in re.split(r"^\.\.\.\n", TIMES.sub("N", text), flags=re.MULTILINE):
            assert part in printed[at:], f"not printed:\n{part}\nbut:\n{self.printed}"
            at = printed.index(part, at) + len(part)

    def file(self, text: str, before: str) -> None:
        if saved := SAVED.search(before):
            (self.folder / saved[1]).write_text(text, encoding="utf-8")
        elif self.written:
            assert self.written.read_text(encoding="utf-8") == text


def run_command(folder: Path, arguments: list[str], output: str, log: str) -> None:
    """`gpuparse ARGUMENTS > OUTPUT 2> LOG` in a folder, in a new process."""
    os.chdir(folder)
    for number, file, flags in ((0, os.devnull, 0), (1, output, os.O_TRUNC), (2, log, 0)):
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | flags, 0o644)
        os.dup2(descriptor, number)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", 1)
    sys.argv = ["gpuparse", *arguments]
    run_and_exit(main, arguments)


def reason(line: str) -> str | None:
    """Why a line is not run."""
    return next((why for skipped, why in NOT_RUN.items() if skips(skipped, line)), None)


def skips(skipped: str, line: str) -> bool:
    return line == skipped or (skipped.endswith(" ...") and line.startswith(skipped[:-3]))


@pytest.fixture(scope="session")
def processes() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["torch", "numpy", "gpuparse.commands.train", "gpuparse.commands.parse"]
    )
    return context


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Trained:
    return Trained(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def page(tmp_path, monkeypatch, processes, trained) -> Page:
    programs = tmp_path / "bin"
    programs.mkdir()
    for program, start in (("gpuparse", "-m gpuparse"), ("python", "")):
        (programs / program).write_text(f'#!/bin/sh\nexec {sys.executable} {start} "$@"\n')
        (programs / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    folder = tmp_path / "page"
    folder.mkdir()
    for file, (n_sentences, seed) in YOURS.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_bytes(generate(n_sentences, seed))
    half = re.sub(
        rb"^([24]\t(?:[^\t]*\t){5})[^\t]*\t[^\t]*", rb"\1_\t_", generate(5, 14), flags=re.M
    )
    (folder / "partly-annotated.conllu").write_bytes(half)
    for shipped in ("examples", "configs"):
        shutil.copytree(ROOT / shipped, folder / shipped)
    return Page(folder, processes, trained)


PAGES = [
    path
    for path in DOCUMENTS
    if re.search(r"^```(sh|python)$", path.read_text(encoding="utf-8"), re.MULTILINE)
]


@pytest.mark.parametrize("path", PAGES, ids=name)
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_the_page_runs_from_top_to_bottom(page, path):
    text = path.read_text(encoding="utf-8")
    found = list(FENCE.finditer(text))
    for block, following in zip(found, [*found[1:], None], strict=True):
        language, content = block.groups()
        if language == "sh":
            error = following is not None and following[1] == "output"
            page.sh(content, may_fail=error and following[2].startswith(ERRORS))
        elif language == "python":
            page.python(content)
        elif language == "output":
            page.output(content)
        elif language == "conllu" or SAVED.search(text[: block.start()]):
            page.file(content, text[: block.start()])


def test_lines_that_are_not_run_are_on_pages():
    lines = [
        line
        for path in PAGES
        for language, content in FENCE.findall(path.read_text(encoding="utf-8"))
        if language == "sh"
        for line in content.replace("\\\n", "").splitlines()
    ]
    for skipped in NOT_RUN:
        assert any(
            line == skipped or line.startswith(skipped.removesuffix("...")) for line in lines
        ), skipped
    for printed in SMALLER:
        assert any(printed in line for line in lines), printed


def test_pages_have_only_the_languages_of_this_test():
    known = {
        "sh",
        "python",
        "output",
        "conllu",
        "yaml",
        "text",
        "{eval-rst}",
        "{toctree}",
        "{include}",
    }
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        opened = re.findall(r"^ *```(\S*)", text, re.MULTILINE)[::2]
        assert set(opened) <= known, path
        assert not re.search(r"\n\n    \S", re.sub(FENCE, "", text)), f"{path}: an indented block"

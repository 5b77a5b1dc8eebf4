"""Commands in processes of their own, and what their ends say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gpuparse.commands.console import MEANINGS, run

ROOT = Path(__file__).parents[2]
SECONDS = 100  # a process that takes longer hangs
Main = Callable[[Sequence[str]], int]


class Failure(Exception):
    """A failure that a trial found; the text says what happened."""


class Ended(NamedTuple):
    """The end of a process: its exit code, negative for a signal, and what it wrote."""

    code: int
    out: bytes
    err: str


class Child:
    """A command in a forked process: the imports are done, so that a kill falls into its work.

    Args:
        main: the command.
        words: its arguments.
        folder: where its standard output and standard error are written.
        stdin: a file to read as standard input; none if empty.
        environment: variables to set.
        name: of the two files.
    """

    def __init__(
        self, main: Main, words: Sequence[object], folder: Path, stdin: str = os.devnull,
        environment: Mapping[str, str] | None = None, name: str = "child",
    ) -> None:  # fmt: skip
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        sys.stdout.flush()
        sys.stderr.flush()
        self.began = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            self._work(main, [str(word) for word in words], stdin, environment or {})

    def _work(
        self, main: Main, words: list[str], stdin: str, environment: Mapping[str, str]
    ) -> None:
        code = 1
        try:
            signal.alarm(SECONDS)
            for number, path in enumerate((stdin, self._out, self._err)):
                flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
                os.dup2(os.open(path, flags, 0o666), number)
            # Those of this process may be others, as under pytest.
            sys.stdin, sys.stdout, sys.stderr = (
                open(number, mode, closefd=False)  # noqa: SIM115 (to the end of the process)
                for number, mode in enumerate("rww")
            )
            os.environ.update(environment)
            code = run(main, words)
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def kill(self) -> bool:
        """Kill it at once; false if it had ended before."""
        os.kill(self.pid, signal.SIGKILL)
        return self.wait().code == -signal.SIGKILL

    def wait(self) -> Ended:
        """Wait for its end."""
        _, status = os.waitpid(self.pid, 0)
        self.seconds = time.monotonic() - self.began
        out = self._out.read_bytes() if self._out.exists() else b""
        err = self._err.read_text(errors="replace") if self._err.exists() else ""
        return Ended(os.waitstatus_to_exitcode(status), out, err)


def call(main: Main, words: Sequence[object], folder: Path, stdin: str = os.devnull) -> Ended:
    """Run a command in a forked process to its end."""
    return Child(main, words, folder, stdin).wait()


def shell(text: str, words: Sequence[object], folder: Path, **environment: str) -> Ended:
    """Run `python WORDS` in a new process by a line of sh, in which `"$@"` is that command."""
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(
        ["sh", "-c", text, "sh", *command], cwd=folder, capture_output=True, timeout=SECONDS,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
    )  # fmt: skip
    return Ended(done.returncode, done.stdout, done.stderr.decode(errors="replace"))


def check_end(ended: Ended, codes: Sequence[int]) -> None:
    """Failure unless a command ended with one of these documented codes, without a traceback."""
    if "Traceback" in ended.err or ended.code not in codes:
        name = MEANINGS.get(ended.code, "not documented")
        raise Failure(f"exit code {ended.code} ({name}), expected {codes}: {ended.err[-600:]}")


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*")) if path.is_file()
    }  # fmt: skip


def outputs(folder: Path) -> dict[str, bytes]:
    """All files below a folder but the marks of shards, which stay."""
    return {name: text for name, text in contents(folder).items() if not name.endswith(".done")}


def check_same(found: Mapping[str, bytes], expected: Mapping[str, bytes], what: str) -> None:
    """Failure unless two folders have the same files."""
    differ = [name for name in sorted({*found, *expected}) if found.get(name) != expected.get(name)]
    if differ:
        missing = [name for name in differ if name not in found]
        more = [name for name in differ if name not in expected]
        raise Failure(f"{what}: {differ} differ; missing: {missing}, more: {more}")

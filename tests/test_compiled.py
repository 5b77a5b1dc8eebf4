"""The cache of compiled functions goes by what the package's sources say."""

import shutil
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "gpuparse"

ASK = "from gpuparse.compiled import cache_folder; print(cache_folder())"


def folder_of(copy: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", ASK], cwd=copy, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_a_change_of_any_kernel_file_moves_the_cache_and_a_command_does_not(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "gpuparse", ignore=shutil.ignore_patterns("__pycache__"))
    first = folder_of(tmp_path)
    assert first == folder_of(tmp_path)
    with open(tmp_path / "gpuparse" / "commands" / "parse.py", "a") as file:
        file.write("# a word\n")
    assert folder_of(tmp_path) == first
    with open(tmp_path / "gpuparse" / "features" / "keys.py", "a") as file:
        file.write("# a word\n")
    assert folder_of(tmp_path) != first

"""Files of arrays that are read, and checked completely once."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gpuparse.data import array_file
from gpuparse.errors import ModelError
from gpuparse.files import replace_file

FORM = 3
ARRAYS = {
    "large": np.arange(1 << 19, dtype=np.int16).reshape(-1, 16),
    "odd": np.arange(7, dtype=np.int64),
    "small": np.arange(3, dtype=np.uint8),
}


@pytest.fixture
def memory(tmp_path, monkeypatch) -> Path:
    """The file that remembers; files are old enough to be known."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setattr(array_file, "_SETTLED", 0.0)
    return tmp_path / "caches" / "gpuparse" / "checked"


@pytest.fixture
def path(tmp_path) -> Path:
    path = tmp_path / "x.safetensors"
    write(path)
    return path


def write(path, arrays=ARRAYS):
    with replace_file(path, force=True) as file:
        file.write(array_file.pack({"fact": 1}, arrays, form=FORM))


def opened(path):
    with array_file.open_file(path, 1 << 30) as file:
        return array_file.opened(file, path, form=FORM, what="thing")


def test_arrays_begin_with_a_cache_line(path, memory):
    found = opened(path)
    assert found.facts == {"fact": 1}
    for name, array in ARRAYS.items():
        assert (found.arrays[name] == array).all()
        assert found.arrays[name].dtype == array.dtype
        assert found.arrays[name].ctypes.data % 64 == 0


def test_a_known_file_is_not_summed_again(path, memory, monkeypatch):
    found = opened(path)
    assert not found.is_known
    assert not opened(path).is_known, "its reader has not called remember"
    found.remember()
    assert memory.stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(array_file, "sum_of_array", pytest.fail)
    again = opened(path)
    assert again.is_known
    again.remember()
    assert len(memory.read_text().splitlines()) == 1
    with array_file.open_file(path, 1 << 30) as file, pytest.raises(ModelError, match="format 4"):
        array_file.opened(file, path, form=4, what="thing")


def test_a_file_is_checked_again_after_a_change_that_hides_itself(path, memory):
    opened(path).remember()
    status = path.stat()
    with open(path, "r+b") as file:
        file.seek(status.st_size - 100)
        file.write(b"!")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size
    assert path.stat().st_mtime_ns == status.st_mtime_ns
    with pytest.raises(ModelError, match="was changed or damaged"):
        opened(path)


def test_another_kind_of_file_is_not_known(path, memory):
    opened(path).remember()
    with array_file.open_file(path, 1 << 30) as file:
        assert not array_file.opened(file, path, form=FORM, what="other thing").is_known


def test_a_file_that_was_just_written_is_not_remembered(path, memory, monkeypatch):
    monkeypatch.setattr(array_file, "_SETTLED", 1000.0)
    opened(path).remember()
    assert not memory.exists()


def test_small_files_are_checked_each_time(path, memory):
    write(path, {"small": ARRAYS["small"]})
    opened(path).remember()
    assert not memory.exists()


@pytest.mark.parametrize("what", ["link", "writable", "folder", "noise", "relative", "other"])
def test_what_cannot_be_trusted_is_not_believed(path, memory, monkeypatch, what):
    opened(path).remember()
    assert opened(path).is_known
    if what == "link":
        memory.rename(memory.with_name("moved"))
        memory.symlink_to("moved")
    elif what == "writable":
        memory.chmod(0o666)
    elif what == "folder":
        memory.unlink()
        memory.mkdir()
    elif what == "noise":
        memory.write_bytes(b"\xff" * 100)
    elif what == "relative":
        monkeypatch.setenv("XDG_CACHE_HOME", "caches")
        monkeypatch.chdir(memory.parents[2])
    else:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    found = opened(path)
    assert not found.is_known
    found.remember()


def test_a_memory_that_cannot_be_written_is_no_error(path, memory, monkeypatch):
    memory.parents[1].write_text("a file in place of the folder")
    opened(path).remember()
    assert not opened(path).is_known


def test_a_large_memory_is_begun_anew(path, memory):
    memory.parent.mkdir(parents=True)
    memory.write_text(f"{'0' * 64}\n" * 1100)
    opened(path).remember()
    assert len(memory.read_text().splitlines()) == 1
    assert opened(path).is_known


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_file_that_changes_later_changes_nothing(path, memory, is_replaced):
    found, again = opened(path), ARRAYS | {"large": ARRAYS["large"] + 1}
    if is_replaced:
        write(path, again)
    else:
        path.write_bytes(array_file.pack({"fact": 1}, again, form=FORM))
    assert (found.arrays["large"] == ARRAYS["large"]).all()
    assert (opened(path).arrays["large"] == ARRAYS["large"] + 1).all()
    os.truncate(path, 0)
    assert (found.arrays["large"] == ARRAYS["large"]).all()


def test_a_file_that_changes_while_it_is_read_is_an_error(path, memory, monkeypatch):
    opened(path).remember()
    read = array_file._read_array

    def read_and_write(file, place):
        with open(path, "r+b") as other:
            other.seek(-1, os.SEEK_END)
            other.write(b"x")
        return read(file, place)

    monkeypatch.setattr(array_file, "_read_array", read_and_write)
    with pytest.raises(ModelError, match="was changed while it was read; load it again"):
        opened(path)


def test_processes_that_remember_at_once_do_not_mix_lines(path, memory):
    code = (
        "import sys; from gpuparse.data import array_file\n"
        "for i in range(100): array_file._remember(sys.argv[1] * 63 + 'x')"
    )
    children = [subprocess.Popen([sys.executable, "-c", code, str(i)]) for i in range(4)]
    assert not any(child.wait() for child in children)
    lines = memory.read_text().splitlines()
    assert len(lines) == 400
    assert set(lines) == {f"{str(i) * 63}x" for i in range(4)}

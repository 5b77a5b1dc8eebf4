"""Files that appear whole or not at all, and folders with one writer."""

import io
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from gpuparse.errors import ConfigError, DataError
from gpuparse.files import (
    is_temporary,
    lock_file,
    lock_folder,
    no_utf8,
    read_input,
    replace_file,
    unchanged,
)


def write(path, data: bytes = b"new", **options):
    with replace_file(path, **options) as file:
        file.write(data)


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_an_ordinary_file_appears_with_the_ordinary_mode(tmp_path, umask):
    before = os.umask(umask)
    try:
        write(tmp_path / "out")
    finally:
        os.umask(before)
    assert (tmp_path / "out").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o666 & ~umask
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_after_a_failure_the_old_file_stands_and_nothing_else(tmp_path, error):
    (tmp_path / "out").write_bytes(b"old")

    def fail_half_way():
        with replace_file(tmp_path / "out", force=True) as file:
            file.write(b"half")
            raise error

    with pytest.raises(type(error)):
        fail_half_way()
    assert (tmp_path / "out").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out"]


def test_the_name_is_free_until_the_file_is_complete(tmp_path):
    with replace_file(tmp_path / "out") as file:
        file.write(b"x")
        assert not (tmp_path / "out").exists()
    assert (tmp_path / "out").exists()


def test_a_link_is_followed(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("there/real")
    write(tmp_path / "link", force=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "real").read_bytes() == b"new"


def test_a_link_to_nothing_makes_its_target(tmp_path):
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link")
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_pipe_is_written_to_and_stays(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE)
    write(tmp_path / "pipe")
    assert reader.communicate(timeout=60)[0] == b"new"
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.parametrize("name", ["x" * 255, "語" * 85])
def test_a_name_of_the_longest_length_works(tmp_path, name):
    write(tmp_path / name)
    assert os.listdir(tmp_path) == [name]
    with lock_file(tmp_path / name), pytest.raises(ConfigError), lock_file(tmp_path / name):
        pass


def test_a_file_has_one_writer(tmp_path):
    code = "import sys; from gpuparse.files import replace_file\n"
    code += "with replace_file(sys.argv[1], force=True) as file: file.write(b'other')"
    command = [sys.executable, "-c", code, tmp_path / "out"]
    with replace_file(tmp_path / "out") as file:
        file.write(b"first")
        other = subprocess.run(command, capture_output=True, text=True)
        assert "another process is writing there" in other.stderr
    assert (tmp_path / "out").read_bytes() == b"first"
    assert subprocess.run(command).returncode == 0
    assert (tmp_path / "out").read_bytes() == b"other"


def test_what_a_killed_writer_left_is_removed(tmp_path):
    code = "import os, sys; from gpuparse.files import replace_file\n"
    code += "with replace_file(sys.argv[1]) as file: file.write(b'x'); os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", code, tmp_path / "out"]).returncode == -9
    assert os.listdir(tmp_path) == [".out.gpuparse.part"]
    assert is_temporary(".out.gpuparse.part")
    assert not is_temporary("out.gpuparse.part")  # a user's own
    write(tmp_path / "out")
    assert os.listdir(tmp_path) == ["out"]


def test_a_link_in_place_of_the_temporary_file_is_not_followed(tmp_path):
    (tmp_path / "other").write_bytes(b"other")
    (tmp_path / ".out.gpuparse.part").symlink_to("other")
    with pytest.raises(OSError, match=r"out\.gpuparse\.part"):
        write(tmp_path / "out")
    assert (tmp_path / "other").read_bytes() == b"other"


def test_of_many_writers_at_once_each_writes_or_is_refused(tmp_path):
    def attempt(k: int) -> int:
        try:
            with replace_file(tmp_path / "out") as file:
                file.write(b"%d" % k * 1000)
        except ConfigError:
            return 0
        return 1

    with ThreadPoolExecutor(16) as pool:
        for _ in range(20):
            assert sum(pool.map(attempt, range(16))) == 1
            assert len(set((tmp_path / "out").read_bytes())) <= 2
            assert os.listdir(tmp_path) == ["out"]
            (tmp_path / "out").unlink()


@pytest.mark.parametrize(
    ("path", "said", "options"),
    [
        ("old", "exists; give force=True", {}),
        ("link", "exists", {}),
        ("folder", "is a folder", {"force": True}),
        ("none/out", "^.*/none/out: the folder is missing; make it first$", {}),
    ],
)
def test_places_where_no_file_is_written_are_refused(tmp_path, path, said, options):
    (tmp_path / "folder").mkdir()
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "link").symlink_to("old")
    with pytest.raises(ConfigError, match=said):
        write(tmp_path / path, **options)
    assert sorted(os.listdir(tmp_path)) == ["folder", "link", "old"]
    assert (tmp_path / "old").read_bytes() == b"old"


def test_a_locked_folder_has_one_writer(tmp_path):
    folder = tmp_path / "model"
    code = f"from gpuparse.files import lock_folder\nwith lock_folder({str(folder)!r}): pass"
    with lock_folder(folder):
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert "ConfigError" in other.stderr
        assert "another process is writing there" in other.stderr
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    assert not folder.exists()  # it was made for the lock alone
    (tmp_path / "other").mkdir()
    with lock_folder(tmp_path / "other"), lock_folder(folder / "below"):
        (folder / "file").write_text("kept")
    assert [path.name for path in sorted(tmp_path.rglob("*"))] == ["model", "file", "other"]


@pytest.mark.parametrize("times", [1, 5, None])
def test_a_folder_that_others_take_away_is_made_again(tmp_path, monkeypatch, times):
    folder = tmp_path / "model"
    make, made = os.makedirs, []

    def taken_away(path, **options):
        make(path, **options)
        made.append(path)
        if times is None or len(made) <= times:
            os.rmdir(path)

    monkeypatch.setattr(os, "makedirs", taken_away)
    if times is None:
        with pytest.raises(FileNotFoundError, match="lock"), lock_folder(folder):
            pass
    else:
        with lock_folder(folder):
            assert os.listdir(folder) == [".lock"]
        assert len(made) == times + 1
    assert not folder.exists()


def test_a_killed_writer_leaves_no_lock(tmp_path):
    folder = tmp_path / "model"
    code = (
        "import os, signal\nfrom gpuparse.files import lock_folder\n"
        f"with lock_folder({str(folder)!r}): os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    assert os.listdir(folder) == [".lock"]
    with lock_folder(folder):
        assert os.listdir(folder) == [".lock"]
    assert os.listdir(folder) == []


def test_a_file_is_no_folder_to_lock(tmp_path):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConfigError, match="is not a folder"), lock_folder(path):
            pass


def append(path):
    with path.open("ab") as file:
        file.write(b"more")


def replace(path):
    path.with_name("new").write_bytes(b"new")
    path.with_name("new").replace(path)


@pytest.mark.parametrize("change", [append, lambda path: os.truncate(path, 1)])
@pytest.mark.parametrize("error", [None, DataError("in:1: malformed")])
def test_an_input_that_changes_meanwhile_is_an_error(tmp_path, change, error):
    (tmp_path / "in").write_bytes(b"old")

    def read():
        with open(tmp_path / "in", "rb") as file, unchanged(file, "in"):
            change(tmp_path / "in")
            if error:
                raise error

    with pytest.raises(DataError, match=r"^in: was changed while it was read; read it again$"):
        read()


def test_an_input_that_is_replaced_is_read_as_it_was_opened(tmp_path):
    (tmp_path / "in").write_bytes(b"old")
    with open(tmp_path / "in", "rb") as file, unchanged(file, "in"):
        replace(tmp_path / "in")
        assert file.read() == b"old"
    assert read_input(str(tmp_path / "in")) == b"new"


def test_streams_that_are_no_files_have_no_changes():
    with pytest.raises(DataError, match=r"^other$"), unchanged(io.BytesIO(b"x"), "in"):
        raise DataError("other")


@pytest.mark.parametrize(
    ("begin", "said"),
    [
        ("She".encode("utf-16"), "UTF-16"),
        ("She".encode("utf-16-le"), "UTF-16"),
        ("She".encode("utf-16-be"), "UTF-16"),
        (bytes(9), ""),
        (b"1\tShe", ""),
    ],
)
def test_utf_16_is_told_from_zeros(begin: bytes, said: str) -> None:
    message = no_utf8(begin)
    assert said in message
    assert bool(message) == bool(said)

"""`doctor` says what a bug report needs, and whether the self-tests pass."""

from gpuparse import native
from gpuparse.commands import doctor
from gpuparse.errors import NativeError
from gpuparse.model.self_test import TESTED_DECODERS


def test_all_is_well(capsys):
    assert doctor.main([]) == 0
    out, err = capsys.readouterr()
    names = {line[:12].strip() for line in out.splitlines()}
    wanted = {"gpuparse", "python", "numpy", "torch", "triton", "processor", "native", "device"}
    assert wanted <= names
    assert str(native.library().path) in out
    tests = [line for line in out.splitlines() if line.startswith("self-test ")]
    assert len(tests) >= len(TESTED_DECODERS) + len(doctor.SYSTEMS)
    assert all(": equal, " in line for line in tests)
    assert out.endswith("\nall is well\n")
    assert err == ""


def test_a_self_test_that_fails_is_the_exit_code(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "native_difference", lambda decoder: "heads [2], expected [0]")
    monkeypatch.setattr(doctor, "SYSTEMS", ())
    assert doctor.main([]) == 7
    out = capsys.readouterr().out
    assert "eisner: native, textbook: heads [2], expected [0]\n" in out
    assert out.endswith(f"\n{len(TESTED_DECODERS)} self-tests fail\n")


def missing():
    raise NativeError("the library is missing: build it")


def test_without_native_code(monkeypatch, capsys):
    monkeypatch.setattr(native, "library", missing)
    assert doctor.main([]) == 6
    out = capsys.readouterr().out
    assert "native       none: the library is missing: build it\n" in out
    assert "not run" in out


def test_places_that_cannot_be_written_to_are_said(monkeypatch, tmp_path, capsys):
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("TRITON_CACHE_DIR", str(file / "cache"))
    monkeypatch.setattr(native, "library", missing)
    doctor.main([])
    assert f"Triton's cache: {file / 'cache'}, not writable" in capsys.readouterr().out

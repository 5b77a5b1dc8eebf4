"""native/build.py and the build hook: which compiler, what is compiled again, what is installed."""

import os
import shutil
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from gpuparse.__main__ import COMMANDS
from gpuparse.data.plain_yaml import read_yaml
from tests.test_native import ROOT, compiler_for_tests, load_build

build = load_build()


class Interface:
    """The interface that hatchling gives a hook, as far as it is used."""

    target_name = "wheel"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A copy of the smallest library: the build module works on it; its output folder."""
    compiler_for_tests(build)
    sources = tmp_path / "native"
    (sources / "api").mkdir(parents=True)
    for name in ("build.cpp", "api/build.h", "api/types.h"):
        shutil.copyfile(ROOT / "native" / name, sources / name)
    monkeypatch.setattr(build, "SOURCES", sources)
    return tmp_path


def compile_tree(tree: Path, capfd: pytest.CaptureFixture[str]) -> list[str]:
    """The sources that a build compiles; it always links."""
    build.build(march="", folder=tree / "made", objects=tree / "objects")
    lines = capfd.readouterr().out.splitlines()
    return [Path(word).name for line in lines for word in line.split() if word.endswith(".cpp")]


def test_only_what_changed_is_compiled_again(tree, capfd):
    (tree / "native" / "other.cpp").write_text('#include "other.h"\nint unused;\n')
    (tree / "native" / "other.h").write_text("// nothing\n")
    assert sorted(compile_tree(tree, capfd)) == ["build.cpp", "other.cpp"]
    assert compile_tree(tree, capfd) == []
    (tree / "native" / "other.h").write_text("// something\n")
    assert compile_tree(tree, capfd) == ["other.cpp"]
    header = tree / "native" / "api" / "build.h"
    header.write_text(header.read_text() + "// more\n")
    assert compile_tree(tree, capfd) == ["build.cpp"]
    assert (tree / "made" / "api" / "build.h").read_text() == header.read_text()
    assert len(list((tree / "objects").rglob("*.o"))) == 2


def test_an_error_of_the_compiler_is_said(tree, capfd):
    (tree / "native" / "wrong.cpp").write_text("int wrong(\n")
    with pytest.raises(build.BuildError, match="the compiler failed"):
        compile_tree(tree, capfd)
    assert "wrong.cpp" in capfd.readouterr().err


def test_the_compiler_is_the_one_that_is_named_or_one_that_works(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "ccache some-compiler")
    assert build.find_compiler() == ["ccache", "some-compiler"]
    monkeypatch.delenv("CXX")
    broken = tmp_path / "g++"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(build, "find_spec", lambda name: True)
    assert build.find_compiler() == [sys.executable, "-m", "ziglang", "c++"]
    assert build.find_compiler("aarch64-macos")[-2:] == ["-target", "aarch64-macos.11.0"]
    monkeypatch.setattr(build, "find_spec", lambda name: None)
    with pytest.raises(build.BuildError, match=r"no C\+\+ compiler: install g\+\+"):
        build.find_compiler()


def test_code_may_not_depend_on_the_machine_s_arithmetic():
    flags = build.compile_flags(["g++"], "native", False)
    assert "-ffp-contract=off" in flags
    assert not any("fast-math" in flag for flag in flags)


def hook_of(monkeypatch) -> ModuleType:
    """hatch_build.py, without hatchling."""
    interface = ModuleType("hatchling.builders.hooks.plugin.interface")
    interface.BuildHookInterface = Interface
    monkeypatch.setitem(sys.modules, interface.__name__, interface)  # its parents are not imported
    for name in ("hatchling", "hatchling.builders", "hatchling.builders.hooks"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "hatchling.builders.hooks.plugin", ModuleType("plugin"))
    monkeypatch.syspath_prepend(str(ROOT))
    return import_module("hatch_build")


def test_the_hook_asks_for_zig_only_without_a_compiler(monkeypatch):
    hatch_build = hook_of(monkeypatch)
    hook = hatch_build.NativeBuildHook()
    monkeypatch.setattr(hatch_build, "load_build", lambda: build)
    monkeypatch.setattr(build, "find_compiler", lambda target: ["g++"])
    assert hook.dependencies() == []

    def no_compiler(target):
        raise build.BuildError("none")

    monkeypatch.setattr(build, "find_compiler", no_compiler)
    if sys.platform == "linux" and os.uname().machine == "x86_64":
        [needed] = hook.dependencies()
        assert needed.startswith("ziglang")


@pytest.mark.parametrize("version", ["standard", "editable"])
def test_without_a_compiler_nothing_is_installed(monkeypatch, version, tmp_path):
    hatch_build = hook_of(monkeypatch)
    monkeypatch.setattr(hatch_build, "load_build", lambda: build)
    monkeypatch.setattr(build, "OUTPUT", tmp_path)
    monkeypatch.setattr(build, "find_spec", lambda name: None)
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit, match=r"no C\+\+ compiler: install g\+\+ or clang\+\+, or `pip"):
        hatch_build.NativeBuildHook().initialize(version, {"force_include": {}})


def test_a_wheel_contains_library_configs_and_pages_and_an_editable_install_does_not(
    monkeypatch, tmp_path
):
    hatch_build = hook_of(monkeypatch)
    hook = hatch_build.NativeBuildHook()
    monkeypatch.setattr(hatch_build, "load_build", lambda: build)
    monkeypatch.setattr(build, "OUTPUT", tmp_path)
    monkeypatch.setattr(build, "build", lambda **how: None)
    monkeypatch.delenv("GPUPARSE_WHEEL", raising=False)
    made = {"standard": {"force_include": {}}, "editable": {"force_include": {}}}
    for version, build_data in made.items():
        hook.initialize(version, build_data)
    assert made["standard"]["tag"].startswith("py3-none-")
    assert made["standard"]["tag"] != "py3-none-any"
    assert made["standard"]["force_include"].pop(str(tmp_path / "wheel")) == "gpuparse/_native"
    pages = {str(page): f"gpuparse/docs/{page.name}" for page in ROOT.glob("docs/*.md")}
    assert len(pages) > 20
    folders = {str(ROOT / name): f"gpuparse/{name}" for name in ("configs", "examples")}
    assert made["standard"]["force_include"] == folders | pages
    assert made["editable"]["force_include"] == {}


def test_the_workflow_makes_every_wheel_and_tries_it():
    text = (ROOT / ".github" / "workflows" / "wheels.yml").read_text()
    jobs = read_yaml(ROOT / ".github" / "workflows" / "wheels.yml").value["jobs"]
    made = jobs["build"]["strategy"]["matrix"]["target"]
    assert set(made) == {"sdist", *build.TARGETS}
    assert "GPUPARSE_WHEEL: ${{ matrix.target }}" in text
    tried = jobs["install"]["strategy"]["matrix"]
    assert {each["from"] for each in tried["include"]} == set(made)
    assert set(tried["from"]) == set(build.TARGETS)
    for step in jobs["install"]["steps"]:
        program, *words = step.get("run", "").split() or [""]
        assert program != "gpuparse" or words[0] in COMMANDS


def test_a_source_distribution_contains_what_is_compiled():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert {"/gpuparse", "/native", "/hatch_build.py", "/configs"} <= set(
        settings["targets"]["sdist"]["include"]
    )
    assert "custom" in settings["targets"]["wheel"]["hooks"]

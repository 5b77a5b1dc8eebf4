"""The installed program: its names and configs, from any folder, and what it imports."""

import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from gpuparse.__main__ import main
from gpuparse.commands import config
from gpuparse.commands.console import run
from gpuparse.config import load_config
from gpuparse.config.shipped import config_file, shipped_configs
from gpuparse.errors import ConfigError
from gpuparse.features.templates import load_templates, shipped_sets
from gpuparse.jobs.progress import program

ROOT = Path(__file__).parents[1]
HEAVY = {"torch", "triton", "scipy", "matplotlib", "pandas", "pyarrow", "ray", "pyspark", "spacy"}


@pytest.fixture
def empty(tmp_path, monkeypatch) -> Path:
    """An empty working directory."""
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """A folder with what a wheel contains, but for the compiled library."""
    folder = tmp_path_factory.mktemp("site")
    ignored = shutil.ignore_patterns("__pycache__", "_native")
    shutil.copytree(ROOT / "gpuparse", folder / "gpuparse", ignore=ignored)
    shutil.copytree(ROOT / "configs", folder / "gpuparse" / "configs")
    shutil.copytree(ROOT / "docs", folder / "gpuparse" / "docs")
    return folder


def called(site: Path, *words: str) -> subprocess.CompletedProcess:
    """Call the program as the script that pip writes does, then print the imported modules."""
    code = (
        f"import sys; sys.path[0] = {str(site)!r}; sys.argv = ['bin/gpuparse', *{words!r}]\n"
        "import atexit; from gpuparse.__main__ import console\n"
        "atexit.register(lambda: print('MODULES', *sys.modules))\n"
        "console()"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_the_entry_point_exists():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, name = project["scripts"]["gpuparse"].partition(":")
    assert callable(getattr(import_module(module), name))


def test_types_are_shipped():
    assert (ROOT / "gpuparse" / "py.typed").is_file()


@pytest.mark.parametrize(
    ("words", "code", "shown"),
    [
        (["--help"], 0, "usage: gpuparse COMMAND"),
        (["config", "list"], 0, "  danish-ddt/joint-labels "),
        (["config", "first-order-projective", "data.train=t"], 0, "train: t\n"),
        (["train", "first-order-projektive"], 2, "did you mean first-order-projective"),
        (["jackknife", "typo", "--output", "x"], 2, "`gpuparse config list` lists all names"),
    ],
)
def test_an_installation_has_the_configs_and_imports_nothing_heavy(site, empty, words, code, shown):
    done = called(site, *words)
    output, _, modules = done.stdout.rpartition("MODULES")
    assert (done.returncode, shown in output + done.stderr) == (code, True), done
    assert not HEAVY & set(modules.split())
    assert list(empty.iterdir()) == []


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_what_needs_no_work_imports_no_numpy(site, empty, word):
    output, _, modules = called(site, word).stdout.rpartition("MODULES")
    assert "gpuparse" in output
    assert not (HEAVY | {"numpy"}) & set(modules.split())


def test_the_help_says_where_the_pages_are(site, empty, capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    installed = called(site, "--help").stdout.rpartition("MODULES")[0]
    for text, folder in ((shown, ROOT / "docs"), (installed, site / "gpuparse" / "docs")):
        assert text.splitlines()[-1] == f"docs/: {folder}"
        assert (folder / "commands.md").is_file()


def test_the_package_alone_imports_nothing_but_itself():
    code = (
        "import sys; before = set(sys.modules); import gpuparse; print(*set(sys.modules) - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    own = {name.partition(".")[0] for name in done.stdout.split()}
    assert not own & (HEAVY | {"numpy", "yaml", "safetensors"})


@pytest.mark.parametrize(
    ("argument", "usage"),
    [
        ("/bin/gpuparse", "gpuparse parse"),
        ("parse.py", "parse.py"),
        ("/x/gpuparse/__main__.py", "python -m gpuparse parse"),
        ("other.py", "gpuparse parse"),
    ],
)
def test_a_usage_line_names_the_program_as_it_was_called(argument, usage, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [argument])
    assert program("parse") == usage
    with pytest.raises(SystemExit):
        main(["parse", "--help"])
    assert capsys.readouterr().out.startswith(f"usage: {usage} ")


def test_every_config_is_found_by_its_name_in_any_folder(empty):
    for name, file in shipped_configs().items():
        assert file.samefile(ROOT / "configs" / f"{name}.yaml")
        assert config_file(name) == config_file(f"{name}.yaml") == str(file)
        given = [] if name == "quickstart" else ["data.train=t"]
        assert load_config(name, given) == load_config(file, given)
    assert load_config("default", ["data.train=t"]).output == "runs/default"


def test_a_file_of_that_path_is_taken_before_a_config_of_that_name(empty):
    (empty / "fast").mkdir()
    assert load_config("fast", ["data.train=t"]).features == "fast"  # a folder is no config
    (empty / "default").write_text("seed: 7\ndata: {train: t}\n")
    assert load_config("default").seed == 7
    assert load_config("default.yaml", ["data.train=t"]).seed == 1


def test_a_base_may_be_a_name_or_a_file_which_is_taken_first(empty):
    (empty / "sub").mkdir()
    mine = empty / "sub" / "mine.yaml"
    mine.write_text("base: best\nseed: 7\ndata: {train: t}\n")
    best = load_config("best", ["data.train=sub/t", "seed=7", "output=runs/mine"])
    assert load_config("sub/mine.yaml") == best
    (empty / "sub" / "best").write_text("threads: 3\n")
    assert load_config("sub/mine.yaml").threads == 3
    mine.write_text("base: besst\ndata: {train: t}\n")
    with pytest.raises(ConfigError, match=r"mine.yaml:1: base: sub/besst: .*; did you mean best?"):
        load_config("sub/mine.yaml")


@pytest.mark.parametrize(
    "name", ["joint-lables", "configs/joint-labels.yaml", "labels/joint-labels"]
)
def test_an_unknown_name_is_an_error_with_names_like_it(name, empty):
    with pytest.raises(ConfigError, match="no config of this name; did you mean joint-labels"):
        load_config(name)


def test_the_list_has_every_config_and_template_set_with_its_meaning(capsys):
    assert run(config.main, ["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = dict(line.split(maxsplit=1) for line in lines if line.startswith("  "))
    assert set(shown) == set(shipped_configs()) | {f"sets/{name}" for name in shipped_sets()}
    assert shown["second-order-projective"] == (
        "Projective trees by Eisner's algorithm with scores of adjacent siblings"
    )
    assert shown["third-order-non-projective"].endswith(
        "nearly always with a certificate of optimality"
    )
    assert shown["sets/vectors"].startswith("Word vectors alone: ")


def test_copies_are_complete_and_can_be_changed(empty, capsys):
    words = ["copy", "english-ewt/third-order-projective", "sets/extended", "--to", "mine"]
    assert run(config.main, words) == 0
    names = {file.relative_to("mine").as_posix() for file in Path("mine").rglob("*.yaml")}
    assert names == {
        "english-ewt/third-order-projective.yaml", "sets/extended.yaml",
        "third-order-projective.yaml", "joint-labels.yaml", "first-order-projective.yaml",
    }  # fmt: skip
    copy = "mine/english-ewt/third-order-projective.yaml"
    train = ["data.train=t"]
    assert load_config(copy, train) == load_config("english-ewt/third-order-projective", train)
    assert load_templates("mine/sets/extended.yaml") == load_templates("extended")
    with open("mine/first-order-projective.yaml", "a") as file:
        file.write("seed: 8\n")
    assert load_config(copy, train).seed == 8


def test_no_file_is_replaced_without_force(empty, capsys):
    Path("mine").mkdir()
    Path("mine/joint-labels.yaml").write_text("mine\n")
    for names in (["fast", "joint-labels"], ["joint-labels", "fast"]):
        assert run(config.main, ["copy", *names, "--to", "mine"]) == 2
        assert "mine/joint-labels.yaml: exists; give --force" in capsys.readouterr().err
        assert [file.name for file in Path("mine").iterdir()] == ["joint-labels.yaml"]
    assert run(config.main, ["copy", "default", "--to", "mine"]) == 0
    assert "mine/joint-labels.yaml: left as it is" in capsys.readouterr().err
    assert Path("mine/joint-labels.yaml").read_text() == "mine\n"
    assert run(config.main, ["copy", "joint-labels", "--to", "mine", "--force"]) == 0
    shipped = (ROOT / "configs" / "joint-labels.yaml").read_text()
    assert Path("mine/joint-labels.yaml").read_text() == shipped


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["copy", "besst", "--to", "x"], "besst: did you mean best?"),
        (["remove"], "remove: no file, config or key of this name"),
    ],
)
def test_a_wrong_command_line_says_what_is_expected(words, error, empty, capsys):
    assert run(config.main, words) == 2
    assert error in capsys.readouterr().err
    assert list(empty.iterdir()) == []

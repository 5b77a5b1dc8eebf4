"""Models as packages: the wheel, the name by which every door finds it, and its card."""

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

import gpuparse
from gpuparse.commands import models
from gpuparse.errors import ConfigError, ModelError
from gpuparse.jobs.card import read_card
from gpuparse.model import installed
from gpuparse.model.pipeline import files_of
from tests.synthetic import treebank_file

ROOT = Path(__file__).parents[1]
STAGES = ("tokenizer", "tagger", "lemmatizer")
TEXT = "The old men sang. She saw a harbour.\n"
ASKED = ["toy", "--version", "1.2", "--license", "CC BY-SA 4.0"]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A model of all stages."""
    folder = tmp_path_factory.mktemp("model") / "run"
    keys = {f"{stage}.learn": True for stage in STAGES}
    keys |= {"output": folder, "device": "cpu", "threads": 1, "data.test": treebank_file(40, 9)}
    gpuparse.train("quickstart", keys | {"tagger.bits": 8}, quiet=True)
    return folder


@pytest.fixture(scope="module")
def wheel(model, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    assert models.main(["package", str(model), *ASKED, "--output", str(folder)]) == 0
    [made] = folder.iterdir()
    return made


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory) -> Path:
    """The folder that pip makes of the wheel."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run(site: Path, *words: object, **options) -> subprocess.CompletedProcess:
    paths = os.pathsep.join([str(ROOT), str(site)])
    return subprocess.run(
        [sys.executable, "-m", "gpuparse", *map(str, words)], capture_output=True, timeout=300,
        env=os.environ | {"PYTHONPATH": paths}, **options,
    )  # fmt: skip


def test_the_same_model_gives_the_same_wheel(model, wheel, tmp_path):
    assert wheel.name == "gpuparse_model_toy-1.2-py3-none-any.whl"
    models.main(["package", str(model), *ASKED, "--output", str(tmp_path)])
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()


def test_its_record_has_the_sum_of_each_file(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [record] = [name for name in names if name.endswith("/RECORD")]
        lines = dict(line.split(",", 1) for line in archive.read(record).decode().splitlines())
        assert set(lines) == set(names)
        for name in set(names) - {record}:
            content = archive.read(name)
            digest = urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            assert lines[name] == f"sha256={digest},{len(content)}"


def test_its_files_are_smaller_and_read_as_the_same_model(model, site):
    folder = site / "gpuparse_model_toy"
    names = files_of(model)
    assert {path.name for path in folder.iterdir()} == {
        *names, "__init__.py", "card.json", "README.md", "LICENSE",
    }  # fmt: skip
    sizes = [sum((each / name).stat().st_size for name in names) for each in (model, folder)]
    assert sizes[1] < sizes[0] / 10
    one, two = (gpuparse.load(each, threads=1) for each in (model, folder))
    assert (
        one.parse_text(TEXT, probabilities=True).to_conllu()
        == two.parse_text(TEXT, probabilities=True).to_conllu()
    )
    card = read_card(folder)
    assert card is not None
    assert card["package"] == {"name": "toy", "version": "1.2", "licence": "CC BY-SA 4.0"}
    assert card["files"] == {name: (folder / name).stat().st_size for name in names}
    address = "https://creativecommons.org/licenses/by-sa/4.0/"
    assert f"has the licence CC BY-SA 4.0 ({address})." in (folder / "LICENSE").read_text()


def test_every_door_finds_it_by_its_name(model, site, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    by_folder = run(site, "parse", model, text)
    by_name = run(site, "parse", "toy", text, cwd=tmp_path)
    assert by_name.returncode == 0, by_name.stderr
    assert by_name.stdout == by_folder.stdout != b""
    listed = run(site, "models", "--json", cwd=tmp_path)
    assert json.loads(listed.stdout)["toy"]["package"]["version"] == "1.2"
    rows = run(site, "models", cwd=tmp_path).stdout.decode().splitlines()
    assert any(row.startswith("toy ") and "CC BY-SA 4.0" in row for row in rows)
    shown = run(site, "models", "show", "toy", cwd=tmp_path).stdout.decode()
    assert shown.startswith("# toy\n")
    assert "gpuparse parse toy text.txt" in shown
    code = f"import gpuparse; print(gpuparse.load('toy').parse_text({TEXT!r}).to_conllu(), end='')"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=300, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(site)])},
    )  # fmt: skip
    assert found.stdout.count(b"\n1\t") == 2, found.stderr
    explained = run(site, "explain", "toy", text, "--sentence", 1, "--word", 1, cwd=tmp_path)
    assert explained.returncode == 0, explained.stderr


def test_a_folder_of_the_same_name_is_taken_before_it(model, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(installed, "_OWN", tmp_path / "own")
    (tmp_path / "own" / "toy").mkdir(parents=True)
    (tmp_path / "toy").mkdir()  # without a model
    assert installed.find_model("toy") == tmp_path / "own" / "toy"
    (tmp_path / "toy" / "weights.safetensors").write_bytes(b"")
    assert installed.find_model("toy") == Path("toy")
    assert installed.find_model("./toy") == Path("toy")
    assert installed.find_model("other") == Path("other")


def test_a_broken_package_is_an_error_and_none_of_its_code_runs(tmp_path, monkeypatch):
    parent = tmp_path / "parent"
    parent.mkdir()
    (parent / "__init__.py").write_text("raise SystemExit('executed')")
    info_folder = tmp_path / "broken-1.0.dist-info"
    info_folder.mkdir()
    (info_folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    for value in ("parent.child", "nowhere", "parent:attribute", "../parent", ""):
        (info_folder / "entry_points.txt").write_text(f"[gpuparse.models]\nbroken = {value}\n")
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(ModelError, match=r"broken: its package .* cannot be found"):
            installed.find_model("broken")


@pytest.mark.parametrize(
    "content", [b"[gpuparse.models]\ntoy = \xff\n", b"[gpuparse.models]\ntoy\n"]
)
def test_damaged_entry_points_are_an_error_that_names_their_folder(content, tmp_path, monkeypatch):
    """Also entry points of other packages: importlib reads all of them."""
    folder = tmp_path / "other-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_bytes(content)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModelError) as caught:
        installed.installed_models()
    assert str(caught.value).startswith(f"{tmp_path}: the entry points of a package here are dam")
    with pytest.raises(ModelError, match="install that package again"):
        installed.find_model("toy")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["Toy", "--version", "1", "--license", "MIT"], "Toy: a name of a model has letters"),
        (["../x", "--version", "1", "--license", "MIT"], "a name of a model has letters"),
        (["toy", "--version", "one", "--license", "MIT"], "one: a version is expected"),
        (["toy", "--version", "1" * 65, "--license", "MIT"], "at most 64 characters long"),
        (["toy", "--version", "\uff11.0", "--license", "MIT"], "\uff11.0: a version is expected"),
        (["toy", "--version", "1.٣", "--license", "MIT"], "1.٣: a version is expected"),
        (["toy", "--version", "1", "--license", "MIT\x1b[31m"], "without control characters"),
        (["toy", "--version", "1", "--license", "M" * 1001], "at most 1000 characters"),
        (["toy", "--version", "1", "--license", " "], "a licence is needed"),
        (["toy", "--version", "1", "--license", "MIT\nName: x"], "a licence is needed"),
        ([*ASKED, "--output", "nowhere"], "nowhere: no such folder"),
        ([*ASKED, "--bits", "8"], "has no pretrained encoder"),
    ],
)
def test_what_a_package_cannot_have_is_refused(model, words, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=expected):
        models.main(["package", str(model), *words])
    assert list(tmp_path.iterdir()) == []


def test_existing_files_are_kept_without_force(model, wheel, tmp_path):
    with pytest.raises(ConfigError, match="exists"):
        models.main(["package", str(model), *ASKED, "--output", str(wheel.parent)])
    asked = [str(model), *ASKED, "--output", str(tmp_path), "--unpacked"]
    models.main(["package", *asked])
    with pytest.raises(ConfigError, match="exists"):
        models.main(["package", *asked])
    models.main(["package", *asked, "--force"])
    (tmp_path / "toy" / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"notes\.txt: no file of this model"):
        models.main(["package", *asked, "--force"])


def test_a_model_without_a_card_is_refused(model, tmp_path, capsys):
    for name in files_of(model):
        (tmp_path / name).write_bytes((model / name).read_bytes())
    with pytest.raises(ModelError, match=r"has no card\.json"):
        models.main(["package", str(tmp_path), *ASKED, "--output", str(tmp_path)])
    with pytest.raises(ModelError, match=r"has no card\.json"):
        models.main(["show", str(tmp_path)])
    with pytest.raises(ModelError, match="no such folder"):
        models.main(["show", "nothing-here"])


def test_models_lists_those_of_gpuparse(capsys):
    assert models.main([]) == 0
    assert capsys.readouterr().out.startswith("name ")


def test_a_near_name_is_suggested(tmp_path, monkeypatch):
    monkeypatch.setattr(installed, "_OWN", tmp_path)
    (tmp_path / "english").mkdir()
    with pytest.raises(ModelError, match=r"englich: no such folder; did you mean english\?"):
        gpuparse.load("englich")
    monkeypatch.undo()
    for name in ("fr", "français"):
        with pytest.raises(
            ModelError, match=f"{name}: no such folder; .* installed one: .*english"
        ):
            gpuparse.load(name)
    with pytest.raises(ModelError, match="fr: no such folder"):
        gpuparse.train("quickstart", {"tagger.model": "fr", "output": tmp_path / "x"})
    with pytest.raises(ModelError, match="for the installed model, give english without a folder"):
        gpuparse.load("./english")
    with pytest.raises(ModelError, match=r"nowhere/english: no such folder; a model is .* wrote$"):
        gpuparse.load("nowhere/english")


@pytest.mark.parametrize("name", ["english", "english-accurate"])
def test_models_that_come_with_gpuparse_are_small_and_have_their_licences(name):
    folder = installed.installed_models().get(name)
    if folder is None:
        pytest.skip(f"{name} is not in this checkout")
    card = read_card(folder)
    assert card["package"] == {"name": name, "version": "1.0", "licence": "CC BY-SA 4.0"}
    assert (card["treebank"], card["licence"]) == ("UD_English-EWT", "CC BY-SA 4.0")
    licence = (folder / "LICENSE").read_text()
    assert f"The treebank is by: {card['attribution']}." in licence
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 28_000_000
    if card["encoder"]:
        assert f"the pretrained encoder {card['encoder']}, licence apache-2.0." in licence
        text = (folder.parent / f"LICENSE-{card['encoder']}").read_text()
        assert "Apache License" in text

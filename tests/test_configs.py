"""The shipped configs: complete, valid, as their head comments say; the quickstart runs."""

import re
import shlex
from pathlib import Path

import pytest

from gpuparse.commands import train
from gpuparse.commands.config import known_keys, load_config
from gpuparse.commands.console import run
from gpuparse.features.templates import load_templates
from gpuparse.model import Model
from gpuparse.plain_yaml import read_yaml

ROOT = Path(__file__).parents[1]
CONFIGS = sorted((ROOT / "configs").rglob("*.y*ml"))
LANGUAGES = ("ancient-greek", "danish-ddt", "english-ewt", "spanish")
OF_A_LANGUAGE = [path for path in CONFIGS if path.parent.name in LANGUAGES]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def head_comment(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n\n")[0]


def test_all_are_there():
    names = {name(path) for path in CONFIGS}
    wanted = {
        f"configs/{language}/first-order-{kind}.yaml"
        for language in LANGUAGES
        for kind in ("projective", "non-projective")
    }
    assert wanted | {"configs/quickstart.yaml"} <= names


@pytest.mark.parametrize("path", CONFIGS, ids=name)
def test_every_key_is_written_out(path):
    content = read_yaml(path).value
    keys = {key for key, value in content.items() if not isinstance(value, dict)}
    for section, inner in content.items():
        if isinstance(inner, dict):
            keys |= {f"{section}.{key}" for key in inner}
    assert keys == set(known_keys())


@pytest.mark.parametrize("path", CONFIGS, ids=name)
def test_it_can_be_loaded_with_its_templates(path):
    config = load_config(path)
    assert load_templates(config.features).arc
    assert load_templates(config.labels.features).label


@pytest.mark.parametrize("path", CONFIGS, ids=name)
def test_the_head_comment_shows_a_command_that_is_right(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    lines = head_comment(path).splitlines()
    assert all(line.startswith("#") for line in lines)
    [command] = [line for line in lines if "python train.py" in line]
    words = shlex.split(command.removeprefix("#"))
    assert words[:3] == ["python", "train.py", name(path)]
    config = load_config(words[2], words[3:])
    [command] = [line for line in lines if "python parse.py" in line]
    assert shlex.split(command.removeprefix("#"))[2] == config.output


@pytest.mark.parametrize("path", OF_A_LANGUAGE, ids=name)
def test_the_name_says_what_is_searched(path):
    projective = path.stem.endswith("-projective") and "non-projective" not in path.stem
    assert load_config(path).decoder == ("eisner" if projective else "chu_liu_edmonds")
    assert load_config(path).features == "extended"


def test_no_two_write_into_the_same_folder():
    outputs = [load_config(path).output for path in CONFIGS]
    assert len(set(outputs)) == len(outputs)


def test_the_quickstart(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    words = ["configs/quickstart.yaml", f"output={tmp_path / 'model'}", "device=cpu"]
    assert run(train.main, words) == 0
    out = capsys.readouterr().out
    [score] = re.findall(r"^UAS +(\d+\.\d+) ", out, re.MULTILINE)
    assert float(score) > 90
    assert "►" in out.splitlines()[-1] or "►" in out.splitlines()[-2]
    assert Model.load(tmp_path / "model").decoder == "chu_liu_edmonds"

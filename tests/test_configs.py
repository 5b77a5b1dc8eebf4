"""The shipped configs: complete, valid, as their head comments say; the quickstart runs."""

import dataclasses
import re
import shlex
from pathlib import Path

import pytest

from gpuparse import inference
from gpuparse.commands import train
from gpuparse.commands.config import known_keys, load_config
from gpuparse.commands.console import run
from gpuparse.commands.paper_files import load_tables
from gpuparse.features.templates import TemplateSet, load_templates
from gpuparse.learning.trainer import check_rule
from gpuparse.model import Model
from gpuparse.plain_yaml import read_yaml

ROOT = Path(__file__).parents[1]
PAPERS = sorted((ROOT / "configs" / "papers").rglob("*.y*ml"))
CONFIGS = sorted(set((ROOT / "configs").rglob("*.y*ml")) - set(PAPERS))
LANGUAGES = ("ancient-greek", "danish-ddt", "english-ewt", "spanish")
WITH_GRAPHS = ("danish-ddt", "english-ewt")
DECODERS = {
    "first-order-projective": "eisner",
    "first-order-non-projective": "chu_liu_edmonds",
    "second-order-projective": "eisner_sibling",
    "second-order-non-projective": "hill_climb",
    "multi-parent": "multi_parent",
    "grandchildren": "eisner_grandchild",
    "tri-sibling": "eisner_tri_sibling",
    "third-order-projective": "eisner_grand_sibling",
    "third-order-non-projective": "dual_decomposition",
}
BEYOND = {  # the second order: templates and epochs
    "grandchildren": ("grandchildren", 10),
    "tri-sibling": ("third-order", 15),
    "third-order-projective": ("third-order", 15),
    "third-order-non-projective": ("third-order", 15),
}
JOINT = {  # the best decoder of each language
    "ancient-greek": "hill_climb",
    "danish-ddt": "hill_climb",
    "english-ewt": "eisner_sibling",
    "spanish": "eisner_sibling",
}
OF_A_LANGUAGE = [path for path in CONFIGS if path.parent.name in LANGUAGES]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def head_comment(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n\n")[0]


def has_what_it_needs(templates: TemplateSet, decoder: str) -> bool:
    needs = inference.DECODERS[decoder].needs
    return not needs or any(getattr(templates, part) for part in needs)


def test_all_are_there():
    names = {name(path) for path in CONFIGS}
    wanted = {
        f"configs/{language}/{kind}.yaml"
        for language in LANGUAGES
        for kind in DECODERS
        if kind != "multi-parent" or language in WITH_GRAPHS
    }
    wanted |= {f"configs/{language}/joint-labels.yaml" for language in LANGUAGES}
    assert wanted | {"configs/quickstart.yaml"} <= names
    papers = {"mcdonald-crammer-pereira-2005", "mcdonald-pereira-2006", "carreras-2007"}
    assert {f"configs/papers/{paper}.yaml" for paper in papers} <= set(map(name, PAPERS))


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
    templates = load_templates(config.features)
    assert templates.arc
    assert has_what_it_needs(templates, config.decoder)
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
    config = load_config(path)
    best = JOINT[path.parent.name]
    assert config.decoder == (best if path.stem == "joint-labels" else DECODERS[path.stem])
    is_joint = path.stem == "joint-labels" or path.stem in BEYOND
    assert config.features == BEYOND.get(path.stem, ("extended", 10))[0]
    labels = "graph-labels" if path.stem == "multi-parent" else "labels"
    assert config.labels.features == ("joint-labels" if is_joint else labels)
    assert config.labels.kind == ("joint" if is_joint else "second-stage")


@pytest.mark.parametrize("path", OF_A_LANGUAGE, ids=name)
def test_it_differs_from_the_first_order_in_what_is_searched_alone(path):
    first = load_config(path.with_name("first-order-projective.yaml"))
    config = load_config(path)
    labels = dataclasses.replace(
        first.labels, kind=config.labels.kind, features=config.labels.features
    )
    features, epochs = BEYOND.get(path.stem, ("extended", 10))
    is_large = (path.parent.name, path.stem[:11]) == ("english-ewt", "third-order")
    searched = dataclasses.replace(
        first,
        output=config.output,
        feature_map=dataclasses.replace(first.feature_map, rows=1 << (24 if is_large else 22)),
        features=features,
        learning=dataclasses.replace(first.learning, epochs=epochs),
        decoder=config.decoder,
        min_gain=config.min_gain,
        labels=labels,
    )
    assert config == searched


@pytest.mark.parametrize("path", PAPERS, ids=name)
def test_every_key_of_a_papers_runs_is_written_out_and_its_commands_are_right(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    content = read_yaml(path).value
    sections = {key: value for key, value in content.items() if isinstance(value, dict)}
    assert {"systems", "tables"} <= set(sections)
    keys = set(content) - set(sections)
    for section in set(sections) - {"systems", "tables"}:
        keys |= {f"{section}.{key}" for key in sections[section]}
    assert keys == set(known_keys())
    commands = [line for line in head_comment(path).splitlines() if "python -m" in line]
    assert commands
    for command in commands:
        words = shlex.split(command.removeprefix("#"))
        assert words[:5] == ["python", "-m", "gpuparse", "tables", name(path)]
        paper = load_tables(path, [word for word in words[5:] if "=" in word])
        for config in paper.systems.values():
            templates = load_templates(config.features)
            assert has_what_it_needs(templates, config.decoder)
            check_rule(train.trainer_options(config))


@pytest.mark.parametrize("path", PAPERS, ids=name)
def test_every_system_of_a_paper_stands_in_a_table_and_no_two_are_the_same(path):
    paper = load_tables(path)
    assert set(paper.systems) == set().union(*(table.systems for table in paper.tables.values()))
    configs = [dataclasses.replace(config, output="") for config in paper.systems.values()]
    assert all(config not in configs[:i] for i, config in enumerate(configs))


def test_no_two_write_into_the_same_folder():
    outputs = [load_config(path).output for path in CONFIGS]
    outputs += [config.output for path in PAPERS for config in load_tables(path).systems.values()]
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

"""The shipped configs: names say what they are, they are short, commands and quickstart run."""

import dataclasses
import re
import shlex
from pathlib import Path

import pytest

from gpuparse import inference
from gpuparse.commands import train
from gpuparse.commands.console import run
from gpuparse.config import RunConfig, load_config
from gpuparse.data.plain_yaml import read_yaml
from gpuparse.features.templates import TemplateSet, load_templates
from gpuparse.inference.decoders import DECODERS
from gpuparse.model.decoder_choice import AUTO, fitting_decoders
from gpuparse.model.folder import load_parser

ROOT = Path(__file__).parents[1]
CONFIGS = sorted((ROOT / "configs").rglob("*.y*ml"))
WITH_TEMPLATES = [path for path in CONFIGS if path.stem != "encoder"]
MAX_LINES = 15
TRAINING = ["data.train=train.conllu"]

ORDERS = {"first": 1, "second": 2, "third": 3, "fast": 2, "default": 2, "best": 3}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def named(path: Path) -> str:
    """The name by which commands find it."""
    return path.relative_to(ROOT / "configs").with_suffix("").as_posix()


def written(path: Path, *overrides: str) -> RunConfig:
    """A shipped config; those without a training treebank get one."""
    return load_config(path, [*([] if path.stem == "quickstart" else TRAINING), *overrides])


def loaded(path: Path, *overrides: str) -> RunConfig:
    """The same, with the decoder of projective trees in place of `auto`."""
    config = written(path, *overrides)
    if config.decoder != AUTO:
        return config
    templates = None if config.has_encoder else load_templates(config.features)
    decoder = fitting_decoders(templates)[0]
    return written(path, *overrides, f"decoder={decoder}")


def head_comment(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n\n")[0]


def flat(config: RunConfig) -> dict[str, object]:
    """The values by their dotted keys."""
    values = {}
    for key, value in dataclasses.asdict(config).items():
        if isinstance(value, dict):
            values |= {f"{key}.{inner}": inner_value for inner, inner_value in value.items()}
        else:
            values[key] = value
    return values


def has_what_it_needs(templates: TemplateSet, decoder: str) -> bool:
    needs = inference.DECODERS[decoder].needs
    return not needs or any(map(templates.scores, needs))


def test_every_decoder_has_a_config():
    assert {loaded(path).decoder for path in CONFIGS} == set(inference.DECODERS)


@pytest.mark.parametrize("path", WITH_TEMPLATES, ids=name)
def test_its_name_says_what_it_is(path):
    config, words = loaded(path), path.stem.split("-")
    decoder = inference.DECODERS[config.decoder]
    assert config.learning.cost_augmented
    assert decoder.order == ORDERS.get(words[0], decoder.order)
    if "projective" in words:
        assert decoder.trees == ("all" if "non" in words else "projective")
    assert decoder.gives_graphs == (path.stem == "multi-parent")
    is_joint = decoder.order == 3 or path.stem in ("joint-labels", "default", "accurate")
    assert config.labels.kind == ("joint" if is_joint else "second-stage")
    is_fast = path.stem in ("fast", "pipeline", "small")
    of_trees = "joint-labels" if is_joint else "fast-labels" if is_fast else "labels"
    assert config.labels.features == ("graph-labels" if decoder.gives_graphs else of_trees)


@pytest.mark.parametrize("path", CONFIGS, ids=name)
def test_it_is_short_and_states_only_what_differs(path, tmp_path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= MAX_LINES
    config, content = written(path), read_yaml(path).value
    bare = tmp_path / path.name
    if "base" in content:
        bare.write_text(f"base: {path.parent / content['base']}\n")
    else:
        bare.write_text("seed: 1\n")
    base = flat(load_config(bare, TRAINING))
    stated = {
        f"{key}.{inner}" if inner else key
        for key, value in content.items()
        for inner in (value if isinstance(value, dict) else [""])
    }
    same = {key for key in stated - {"base"} if base[key] == flat(config)[key]}
    assert same <= ({"decoder"} if path.stem == "first-order-projective" else set())


@pytest.mark.parametrize("path", WITH_TEMPLATES, ids=name)
def test_it_can_be_loaded_with_its_templates(path):
    config = loaded(path)
    templates = load_templates(config.features)
    assert templates.arc or templates.word_vectors
    assert has_what_it_needs(templates, config.decoder)
    assert load_templates(config.labels.features).label or config.labels.features == "vectors"


@pytest.mark.parametrize("path", CONFIGS, ids=name)
def test_the_head_comment_shows_commands_that_are_right(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    lines = head_comment(path).splitlines()
    assert all(line.startswith("#") for line in lines)
    [command] = [line for line in lines if "gpuparse train" in line]
    words = shlex.split(command.removeprefix("#"))
    assert words[:3] == ["gpuparse", "train", named(path)]
    config = load_config(words[2], words[3:])
    [command] = [line for line in lines if "gpuparse parse" in line]
    assert shlex.split(command.removeprefix("#"))[2] == config.output


def test_no_two_write_into_the_same_folder():
    outputs = [loaded(path).output for path in CONFIGS]
    assert len(set(outputs)) == len(outputs)


def test_the_quickstart(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    words = ["configs/quickstart.yaml", f"output={tmp_path / 'model'}", "device=cpu"]
    assert run(train.main, words) == 0
    out = capsys.readouterr().out
    [score] = re.findall(r"^UAS +(\d+\.\d+) ", out, re.MULTILINE)
    assert float(score) > 90
    assert load_parser(tmp_path / "model").decoder == "chu_liu_edmonds"


def test_the_configs_that_the_page_names_have_probabilities() -> None:
    """And k best trees, whatever decoder `auto` chooses, and no others but two that may."""
    page = (ROOT / "docs" / "parsing.md").read_text(encoding="utf-8")
    [row] = [line for line in page.splitlines() if line.startswith("| `--probabilities`, `--mbr`")]
    named = set(re.findall(r"`([\w-]+)`", row.split("|")[3]))
    of_order = {"first-order-projective", "first-order-non-projective"}
    have = set()
    for path in (ROOT / "configs").glob("*.yaml"):
        config = load_config(path, ["data.train=train.conllu"])
        templates = None if config.has_encoder else load_templates(config.features)
        is_auto = config.decoder == AUTO
        names = fitting_decoders(templates) if is_auto else (config.decoder,)
        if all(
            DECODERS[each].has(quantity, "native")
            for each in names
            for quantity in ("marginals", "k_best")
        ):
            have.add(path.stem)
    assert have == (named | of_order | {"quickstart"}) - {"default", "accurate"}

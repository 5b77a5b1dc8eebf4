"""The benchmark of all treebanks of a folder, on generated treebanks and small models."""

import argparse
import json
from importlib.util import find_spec

import pytest

from benchmarks import languages
from gpuparse.config import load_config
from gpuparse.data.conll import read_treebank
from gpuparse.errors import ConfigError
from tests.synthetic import generate

CONFIG = """
base: {root}/pipeline.yaml
calibration: none
tagger: {{folds: 2}}
feature_map: {{rows: 65536}}
labels: {{rows: 65536, epochs: 1}}
learning: {{epochs: 1}}
"""
FAST = "base: first-order-projective\nlearning: {epochs: 2}\nfeature_map: {rows: 65536}\n"
FAST_UDPIPE = (
    "epochs=1;dimension=16",
    "iterations=1",
    "iterations=1;hidden_layer=16;embedding_form=8;embedding_upostag=4;embedding_feats=4",
)


def as_conll_x(text: str) -> str:
    """Sentences without comments, lemmas and spaces, whose relations are `_` under the root."""
    lines = []
    for line in text.split("\n"):
        fields = line.split("\t")
        if len(fields) == 10:
            fields[2] = "_"
            fields[7] = "_" if fields[6] == "0" else fields[7]
            fields[8:] = ["_", "_"]
        if not line.startswith("#"):
            lines.append("\t".join(fields))
    return "\n".join(lines)


@pytest.fixture
def release(tmp_path):
    """A folder with two treebanks, one in CoNLL-X and without text, and one that is none."""
    folder = tmp_path / "release"
    for name in ("UD_English-Toy", "other", "none"):
        (folder / name).mkdir(parents=True)
    for part, size, seed in (("train", 60, 1), ("test", 20, 3)):
        text = generate(size, seed)
        (folder / "UD_English-Toy" / f"en_toy-ud-{part}.conllu").write_bytes(text)
        (folder / "other" / f"{part}.conll").write_text(as_conll_x(text.decode()))
    return folder


@pytest.fixture
def options(release, tmp_path, monkeypatch):
    """The options of a command line, and what is there from the beginning."""
    from gpuparse.config.shipped import shipped_configs

    config = tmp_path / "small.yaml"
    config.write_text(CONFIG.format(root=shipped_configs()["pipeline"].parent))

    def parsed(*words):
        parser = argparse.ArgumentParser()
        languages.add_arguments(parser)
        given = [str(release), "--config", str(config), "--output", str(tmp_path / "out"), *words]
        found = parser.parse_args(given)
        found.threads = 1
        return found

    return parsed


def test_treebanks_are_learned_and_scored_once(options, tmp_path, monkeypatch):
    """With UDPipe in rows of its own, if there is one."""
    systems = ["small", "UDPipe 1"] if find_spec("ufal") else ["small"]
    monkeypatch.setattr(languages, "_DEFAULTS", FAST_UDPIPE)
    monkeypatch.setattr(languages, "_TIMED", 300)
    figures = tmp_path / "figures.json"
    figures.write_text('{"other": {"Theirs": {"text: LAS": 70.5}}}')
    asked = options("--published", str(figures), *["--udpipe"] * (len(systems) - 1))
    languages.check(asked)
    report = languages.run(asked)
    columns = ["treebank", "system", "sentences", "words", "UPOS", "XPOS"]
    assert report.columns[:6] == columns
    every = [dict(zip(report.columns, row, strict=True)) for row in report.rows]
    assert [(row["treebank"], row["system"]) for row in every] == [
        (name, system)
        for name in ("UD_English-Toy", "other", "mean")
        for system in (*systems, *["Theirs"] * (name != "UD_English-Toy"))
    ]
    [theirs] = [row for row in every if (row["treebank"], row["system"]) == ("other", "Theirs")]
    assert (theirs["text: LAS"], theirs["LAS"]) == ("70.50", "-")
    of_peer = {row["treebank"]: row for row in every if row["system"] == "UDPipe 1"}
    if of_peer:
        assert float(of_peer["UD_English-Toy"]["UPOS"]) > 60
        assert float(of_peer["UD_English-Toy"]["text: words"]) > 60
        assert float(of_peer["other"]["UAS"]) > 5
        assert of_peer["other"]["text: UAS"] == "-"
    rows = {row["treebank"]: row for row in every if row["system"] == "small"}
    toy, other = rows["UD_English-Toy"], rows["other"]
    assert toy["sentences"] == other["sentences"] == 60
    assert float(toy["UPOS"]) > 90
    assert float(toy["LAS"]) > 40
    assert float(toy["text: words"]) > 95
    assert {other[name] for name in report.columns if name.startswith("text:")} == {"-"}
    costs = [float(toy[name]) for name in languages.COSTS]
    assert costs[0] > 0.1
    size = sum(
        f.stat().st_size for f in (tmp_path / "out" / "small" / "other").glob("*.safetensors")
    )
    assert size < 1e6 * float(other["MB"]) < size + 1e6
    assert costs[2] > 100
    assert other["lemmas"] == "-"
    assert float(other["UAS"]) > 40
    mean = (float(toy["UAS"]) + float(other["UAS"])) / 2
    assert float(rows["mean"]["UAS"]) == pytest.approx(mean, abs=0.011)
    assert rows["mean"]["text: UAS"] == toy["text: UAS"]
    notes = "\n".join(report.notes)
    assert "other: no text, so no tokeniser and no scores from text\n" in notes
    assert "none: has no part train" in notes
    recorded = json.loads(
        (tmp_path / "out" / "small" / "UD_English-Toy" / "scores.json").read_text()
    )
    assert toy["UAS"] == f"{recorded['test']['uas']['percent']:.2f}"
    assert toy["FEATS"] == f"{recorded['test']['UFeats']:.2f}"
    assert toy["text: LAS"] == f"{recorded['from_text']['test']['LAS']:.2f}"

    def fail(*words):
        raise AssertionError("learned again")

    monkeypatch.setattr(languages, "learn_ours", fail)
    assert languages.run(asked) == report
    test = asked.folder / "other" / "test.conll"
    before = test.read_text()
    test.write_text(before + as_conll_x(generate(1, 9).decode()))
    with pytest.raises(ConfigError, match=r"test\.conll: has other content"):
        languages.run(asked)
    monkeypatch.undo()
    test.write_text(before)
    for path in (tmp_path / "out").glob("*.json"):
        path.unlink()
    small = tmp_path / "small.yaml"
    small.write_text(small.read_text() + "seed: 2\n")
    with pytest.raises(ConfigError, match="a model of another config; name another --output"):
        languages.run(options())


def test_a_parser_of_gold_tags_gets_them(options, tmp_path):
    """A second config has keys of its own."""
    (tmp_path / "small.yaml").write_text(FAST)
    (tmp_path / "second.yaml").write_text(FAST)
    report = languages.run(options("--config", str(tmp_path / "second.yaml"), "seed=7"))
    every = [dict(zip(report.columns, row, strict=True)) for row in report.rows]
    assert [row["system"] for row in every] == ["small", "second"] * 3
    seeds = [load_config(str(tmp_path / "out" / name / "other" / "config.yaml")).seed
             for name in ("small", "second")]  # fmt: skip
    assert seeds == [1, 7]
    rows = {row["treebank"]: row for row in every}
    assert (rows["other"]["UPOS"], float(rows["other"]["UAS"]) > 60) == ("100.00", True)
    assert rows["other"]["text: UAS"] == "-"


def test_what_cannot_be_followed_is_refused_at_once(options, release, tmp_path):
    asked = options()
    asked.folder = release / "none"
    with pytest.raises(ConfigError, match="has no folder of a treebank: it has no sub-folders"):
        languages.check(asked)
    asked.folder = release / "missing"
    with pytest.raises(ConfigError, match="no such folder"):
        languages.check(asked)
    asked = options("--config", "encoder", "encoder.model=none", "encoder.epochs=0")
    with pytest.raises(ConfigError, match=r"encoder\.epochs"):
        languages.check(asked)
    with pytest.raises(ConfigError, match="two configs have the same name"):
        languages.check(options("--config", "pipeline", "--config", "pipeline", "seed=2"))
    figures = tmp_path / "figures.json"
    for text, said in (
        ("[1]", "cannot be read"), ('{"other": {"Theirs": {"Las": 1}}}', "no such column: Las")
    ):  # fmt: skip
        figures.write_text(text)
        with pytest.raises(ConfigError, match=rf"figures\.json: {said}"):
            languages.check(options("--published", str(figures)))
    asked = options("--config", "quickstart")
    with pytest.raises(ConfigError, match=r"data\.train: given with data\.treebank"):
        languages.check(asked)
    asked = options("--udpipe")
    asked.threads = 2
    if find_spec("ufal"):
        with pytest.raises(ConfigError, match="one thread"):
            languages.check(asked)


def test_text_is_in_comments_or_in_misc(release, tmp_path):
    toy = read_treebank(release / "UD_English-Toy" / "en_toy-ud-test.conllu")
    other = read_treebank(release / "other" / "test.conll")
    assert (languages.has_text(toy), languages.has_text(other)) == (True, False)
    spaced = tmp_path / "spaced.conllu"
    spaced.write_text("1\ta\ta\tX\tX\t_\t0\troot\t_\tSpaceAfter=No\n\n")
    assert languages.has_text(read_treebank(spaced))


def test_stages_are_left_out_where_the_treebank_has_nothing(release):
    def given(name):
        config = load_config("pipeline", [f"data.treebank={release / name}"])
        return config, read_treebank(config.data.train)

    found, notes = languages.with_possible_stages(*given("other"))
    assert (found.tokenizer.learn, found.tagger.learn) == (False, True)
    assert len(notes) == 1
    config, train = given("UD_English-Toy")
    assert languages.with_possible_stages(config, train) == (config, [])


def test_a_treebank_that_cannot_be_learned_has_an_empty_row(options, release, tmp_path):
    (release / "other" / "train.conll").write_text("1\ta\n\n")
    (tmp_path / "small.yaml").write_text(FAST)
    report = languages.run(options())
    [row] = [row for row in report.rows if row[0] == "other"]
    assert (row[1:3], set(row[3:])) == ([None, None], {"-"})
    assert any("other: small: " in note and "train.conll:1:" in note for note in report.notes)

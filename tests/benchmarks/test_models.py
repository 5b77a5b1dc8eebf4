"""Models of UDPipe 1 stand beside ours in the table of models and in its picture."""

import argparse
import random
from itertools import combinations

import pytest

import gpuparse
from benchmarks import models, plots
from gpuparse.data.conll import read_treebank, treebank_from_bytes
from gpuparse.errors import ConfigError, ModelError
from tests.synthetic import generate

needs_udpipe = pytest.mark.skipif(
    not models.can_run_udpipe(), reason="ufal.udpipe is not installed"
)
needs_matplotlib = pytest.mark.skipif(not plots.can_plot(), reason="matplotlib is not installed")


def options(*words):
    parser = argparse.ArgumentParser()
    models.add_arguments(parser)
    given = parser.parse_args([str(word) for word in words])
    return argparse.Namespace(threads=1, repeats=1, **vars(given))


@pytest.fixture(scope="module")
def treebank_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("treebank") / "text.conllu"
    path.write_bytes(generate(30, 5))
    return path


@pytest.fixture(scope="module")
def our_model(treebank_file):
    folder = treebank_file.parent / "ours"
    keys = {"features": "extended", "feature_map.rows": 1 << 14, "learning.epochs": 2}
    keys |= {"data.train": treebank_file, "output": folder, "calibration": "none"}
    gpuparse.train("first-order-projective", keys, quiet=True)
    return folder


@pytest.fixture(scope="module")
def udpipe_model(treebank_file):
    from ufal import udpipe

    sentences, error = udpipe.Sentences(), udpipe.ProcessingError()
    reader = udpipe.InputFormat.newConlluInputFormat()
    reader.setText(treebank_file.read_text())
    sentence = udpipe.Sentence()
    while reader.nextSentence(sentence, error):
        sentences.push_back(sentence)
        sentence = udpipe.Sentence()
    settings = "iterations=2;structured_interval=0;single_root=0;hidden_layer=10"
    found = udpipe.Trainer.train(
        "morphodita_parsito", sentences, udpipe.Sentences(), "none", "none", settings, error
    )
    assert not error.occurred(), error.message
    path = treebank_file.parent / "theirs.udpipe"
    path.write_bytes(found)
    return path


@needs_udpipe
@needs_matplotlib
def test_udpipe_stands_in_the_table_and_the_picture(treebank_file, our_model, udpipe_model):
    picture = treebank_file.parent / "picture.svg"
    words = ["--treebank", treebank_file, "--copies", 2, "--beams", 1, 5, "--plot", picture]
    report = models.run(options(our_model, udpipe_model, *words))
    names = ["ours", "theirs, beam 1", "theirs, beam 5"]
    assert [row[0] for row in report.rows] == names
    assert all(0 < float(row[2]) <= float(row[1]) <= 100 and row[3] > 0 for row in report.rows)
    text = picture.read_text()
    for word in (*names, "LAS", "words per second", "UDPipe 1"):
        assert word in text


@needs_udpipe
def test_udpipe_does_not_look_at_the_heads(treebank_file, udpipe_model, tmp_path):
    rows = [line.split("\t") for line in treebank_file.read_text().split("\n")]
    hidden = [[*row[:6], "0", "x", *row[8:]] if row[0].isdigit() else row for row in rows]
    other = tmp_path / treebank_file.name
    other.write_text("\n".join("\t".join(row) for row in hidden))
    models.parse_by_udpipe(udpipe_model, treebank_file, tmp_path / "a")
    models.parse_by_udpipe(udpipe_model, other, tmp_path / "b")
    parsed = (tmp_path / "a" / other.name).read_bytes()
    assert parsed == (tmp_path / "b" / other.name).read_bytes()
    heads = treebank_from_bytes(parsed, "parsed").heads
    assert (heads != read_treebank(treebank_file).heads).any()


@needs_udpipe
def test_another_file_is_no_model(treebank_file, tmp_path):
    with pytest.raises(ModelError, match="not a model of UDPipe 1"):
        models.parse_by_udpipe(treebank_file, treebank_file, tmp_path)


def test_udpipe_that_is_missing_is_named(treebank_file, monkeypatch):
    monkeypatch.setattr(models, "can_run_udpipe", lambda: False)
    with pytest.raises(ConfigError, match=r"needs ufal\.udpipe"):
        models.check(options(treebank_file, "--treebank", treebank_file))


def test_udpipe_has_one_thread(treebank_file, monkeypatch):
    monkeypatch.setattr(models, "can_run_udpipe", lambda: True)
    given = options(treebank_file, "--treebank", treebank_file)
    given.threads = 2
    with pytest.raises(ConfigError, match="--threads must be 1"):
        models.check(given)


def test_two_models_of_one_name_are_refused(treebank_file, our_model):
    with pytest.raises(ConfigError, match="the name ours"):
        models.run(options(our_model, our_model, "--treebank", treebank_file))


def overlap(one, other):
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@pytest.mark.parametrize("seed", range(20))
def test_labels_cover_nothing(seed):
    rng = random.Random(seed)
    # Pairs of marks nearly at one place, as models of equal accuracy and speed are.
    centres = []
    for _ in range(4):
        x, y = rng.uniform(100, 500), rng.uniform(60, 340)
        centres += [(x, y), (x + rng.uniform(-20, 20), y + rng.uniform(-20, 20))]
    sizes = [(rng.uniform(40, 110), 14) for _ in centres]
    legend, frame = (0, 0, 90, 40), (0, 0, 640, 400)
    boxes = plots.label_boxes(centres, sizes, frame, [legend])
    marks = [(x - 5, y - 5, x + 5, y + 5) for x, y in centres]
    assert not any(overlap(*pair) for pair in combinations(boxes, 2))
    for box, (x, y), (width, height) in zip(boxes, centres, sizes, strict=True):
        assert (box[2] - box[0], box[3] - box[1]) == pytest.approx((width, height))
        assert not any(overlap(box, other) for other in (legend, *marks))
        assert min(box[:2]) >= 0
        assert max(box[2] - 640, box[3] - 400) <= 0
        assert overlap(box, (x - 40, y - 40, x + 40, y + 40))

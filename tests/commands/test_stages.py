"""Training runs and parsing with a tagger and a lemmatiser, as users run them."""

import json
import re

import pytest

from gpuparse.commands import parse, train
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.formats.text import text_chunk
from gpuparse.errors import ConfigError, DataError, ModelError
from gpuparse.evaluation.words import score_words
from gpuparse.text.conllu import text_pieces
from gpuparse.text.training import learn_tokenizer
from tests.commands.conftest import words_of
from tests.samples import without
from tests.synthetic import generate, treebank_file

pytestmark = pytest.mark.usefixtures("small_stages")
KEYS = [
    "quickstart", f"data.train={treebank_file(120, 1)}", f"data.dev={treebank_file(30, 2)}",
    f"data.test={treebank_file(30, 3)}", "feature_map.rows=65536", "labels.rows=65536",
    "tagger.learn=true", "lemmatizer.learn=true",
    "tagger.folds=3",
]  # fmt: skip
FILES = ("tagger.safetensors", "lemmatizer.safetensors", "weights.safetensors")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stages") / "model"
    assert train.main([*KEYS, f"output={folder}", "--quiet"]) == 0
    return folder


@pytest.fixture
def run(capfdbinary):
    def run(*arguments):
        code = parse.main([*map(str, arguments), "--quiet"])
        return code, capfdbinary.readouterr().out

    return run


def test_a_run_repeats_to_the_byte_for_any_number_of_threads(model, tmp_path):
    train.main([*KEYS, f"output={tmp_path / 'again'}", "--quiet", "threads=1"])
    for name in FILES:
        assert (tmp_path / "again" / name).read_bytes() == (model / name).read_bytes(), name


def test_stages_alone_and_stages_of_another_model(model, run, tmp_path):
    folder = tmp_path / "tagger"
    keys = [key for key in KEYS if not key.startswith("lemmatizer")]
    train.main([*keys, f"lemmatizer.model={model}", "parser=false", f"output={folder}", "--quiet"])
    assert not (folder / "weights.safetensors").exists()
    for name in FILES[:2]:
        assert (folder / name).read_bytes() == (model / name).read_bytes()
    (tmp_path / "in.conllu").write_bytes(without(generate(10, 7), *range(2, 9)))
    code, found = run(folder, tmp_path / "in.conllu")
    assert code == 0
    parsed = treebank_from_bytes(run(model, tmp_path / "in.conllu")[1], "parsed")
    tagged = treebank_from_bytes(found, "tagged")
    assert [each.pos for each in tagged] == [each.pos for each in parsed]
    assert [each.lemmas for each in tagged] == [each.lemmas for each in parsed]
    assert (tagged.heads == -1).all()
    with pytest.raises(ConfigError, match="has no parser"):
        run(folder, tmp_path / "in.conllu", "--kbest", "2")
    with pytest.raises(ConfigError, match="holds a finished model"):
        train.main([*keys, "parser=false", f"output={folder}", "--quiet"])
    parser_alone = tmp_path / "parser"
    train.main([KEYS[0], *KEYS[1:6], f"output={parser_alone}", "--quiet"])
    train.main([KEYS[0], *KEYS[1:6], f"output={folder}", "--force", "--quiet"])
    assert not (folder / "tagger.safetensors").exists()


class Killed(Exception):
    """In place of a signal."""


def test_a_damaged_stage_of_an_unfinished_run_is_refused(tmp_path, monkeypatch):
    def killed(*_, **__):
        raise Killed

    keys = [*KEYS, f"data.train={treebank_file(60, 1)}", "parser=false", f"output={tmp_path}"]
    monkeypatch.setattr("gpuparse.jobs.train.write_stages", killed)
    with pytest.raises(Killed):
        train.main(keys)
    file = tmp_path / "last" / "stages" / "tagger.safetensors"
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    with pytest.raises(ModelError, match="give --force to start again"):
        train.main([*keys, "--resume"])


TEXT = "\ufeff\n The men sang.  \U0001f642 Ärzte\tsang.\r\n\r\nA e\u0301te sings .\n\n"


@pytest.mark.parametrize("is_parsed", [False, True])
def test_ranges_of_tokens_in_their_text(is_parsed, run, tmp_path, monkeypatch, capfdbinary):
    stages = ["tokenizer.learn=true", f"parser={str(is_parsed).lower()}"]
    keys = [*KEYS[:7], *stages, f"output={tmp_path / 'model'}", "--quiet"]
    assert train.main(keys[:-1]) == 0
    said = capfdbinary.readouterr().err.decode()
    # The parser reads lemmas, and `parse` refuses words without any.
    assert said.count("; trees are not scored: the parser reads columns that no") == 2 * is_parsed
    scores = json.loads((tmp_path / "model" / "scores.json").read_text())["from_text"]
    assert set(scores) == {"dev", "test"}
    gold = treebank_from_bytes(generate(30, 3), "gold")
    (tmp_path / "gold.txt").write_text("".join(text_pieces([gold])))
    _, found = run(tmp_path / "model", tmp_path / "gold.txt", "--allow-missing")
    hits = score_words(gold, treebank_from_bytes(found, "found"))
    names = ("Tokens", "Sentences", "Words", "UPOS", "XPOS", "UFeats", "AllTags")
    expected = {name: hits[name.lower()].counts.f for name in names}
    assert scores["test"] == expected
    assert expected["Words"] > 90
    monkeypatch.setattr("gpuparse.data.formats.sources.TEXT_CHUNK", 1000)
    text = TEXT * 100
    (tmp_path / "in.txt").write_bytes(text.encode())
    code, found = run(tmp_path / "model", tmp_path / "in.txt", "--ranges", "--allow-missing")
    assert code == 0
    words = 0
    for fields in words_of(found):
        items = dict(item.split("=") for item in fields[9].decode().split("|"))
        first, end = map(int, items["TokenRange"].split(":"))
        assert text[first:end] == fields[1].decode()
        words += 1
    assert words >= 9 * 100
    code, without = run(tmp_path / "model", tmp_path / "in.txt", "--allow-missing")
    plain = re.sub(rb"[|]TokenRange=\d+:\d+", b"", found)
    assert re.sub(rb"TokenRange=\d+:\d+", b"_", plain) == without


@pytest.mark.slow  # UDPipe learns for some seconds
def test_ranges_are_those_of_udpipe(tmp_path):
    udpipe = pytest.importorskip("ufal.udpipe")
    reader, sentence = udpipe.InputFormat.newConlluInputFormat(), udpipe.Sentence()
    reader.setText(generate(100, 1).decode())
    sentences = udpipe.Sentences()
    while reader.nextSentence(sentence, udpipe.ProcessingError()):
        sentences.push_back(sentence)
    learned = udpipe.Trainer.train(
        "morphodita_parsito", sentences, udpipe.Sentences(), "epochs=2", "none", "none",
        udpipe.ProcessingError(),
    )  # fmt: skip
    (tmp_path / "model.udpipe").write_bytes(learned)
    model = udpipe.Model.load(str(tmp_path / "model.udpipe"))  # kept: the tokeniser reads it
    theirs = model.newTokenizer("ranges")
    text = TEXT.removeprefix("\ufeff") * 3
    theirs.setText(text)
    found = b""
    writer = udpipe.OutputFormat.newOutputFormat("conllu")
    while theirs.nextSentence(sentence, udpipe.ProcessingError()):
        found += writer.writeSentence(sentence).encode()
    ours = learn_tokenizer(treebank_from_bytes(generate(100, 1), "t"), seed=1)
    split = ours.split(text_chunk(text.encode(), "t"), token_range=True).text

    def places(conllu):
        rows = [row.split("\t") for row in conllu.decode().split("\n") if row[:1].isdigit()]
        return {(row[1], row[9].rsplit("TokenRange=")[1]) for row in rows}

    assert len(places(found) & places(split)) >= 0.7 * len(places(split))
    for form, place in places(found):
        assert text[slice(*map(int, place.split(":")))] == form


def test_stages_without_annotation_are_left_out_and_said(run, tmp_path, capfdbinary):
    options = [*KEYS[4:], "learning.epochs=1"]
    for name, empty in {"lemmas": [2], "tags": [3, 4, 5], "anything": [2, 3, 4, 5]}.items():
        file, folder = tmp_path / f"{name}.conllu", tmp_path / name
        file.write_bytes(without(generate(60, 1), *empty))
        assert train.main(["quickstart", f"data.train={file}", *options, f"output={folder}"]) == 0
        said = capfdbinary.readouterr().err.decode()
        has_tagger, has_lemmatizer = name == "lemmas", name == "tags"
        assert ("UPOS and XPOS are _ in all words: no tagger is learned" in said) != has_tagger
        assert ("LEMMA is _ in all words: no lemmatiser is learned" in said) != has_lemmatizer
        assert [(folder / each).exists() for each in FILES] == [has_tagger, has_lemmatizer, True]
        code, parsed = run(folder, file)
        assert code == 0
        for row in words_of(parsed):
            assert (row[3] != b"_", row[2] != b"_") == (has_tagger, has_lemmatizer)
            assert row[6].isdigit()
    alone = [f"data.train={file}", *options, "parser=false", f"output={tmp_path / 'x'}", "--quiet"]
    with pytest.raises(DataError, match="nothing to learn"):
        train.main(["quickstart", *alone])
    file.write_bytes(generate(1, 1))
    with pytest.raises(DataError, match=r"two sentences or more, there are 1"):
        train.main(["quickstart", *alone[:-3], f"output={tmp_path / 'x'}", "--quiet"])

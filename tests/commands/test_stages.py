"""Training runs and parsing with a tagger and a lemmatiser, as users run them."""

import json
import pickle
import re

import pytest

import gpuparse
from gpuparse.commands import parse, train
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.formats.text import text_chunk
from gpuparse.errors import ConfigError, DataError, ModelError
from gpuparse.evaluation.words import score_words
from gpuparse.model.pipeline import BEFORE_PARSER
from gpuparse.text.conllu import text_pieces
from gpuparse.text.training import learn_tokenizer
from tests.synthetic import generate, treebank_file

pytestmark = pytest.mark.usefixtures("small_stages")
KEYS = [
    "quickstart", f"data.train={treebank_file(200, 1)}", f"data.dev={treebank_file(30, 2)}",
    f"data.test={treebank_file(30, 3)}", "feature_map.rows=65536", "labels.rows=65536",
    "tagger.learn=true", "lemmatizer.learn=true",
    "tagger.folds=3",
]  # fmt: skip
FILES = ("tagger.safetensors", "lemmatizer.safetensors", "weights.safetensors")


def bare(n: int, seed: int) -> bytes:
    """Generated sentences without tags and trees."""
    lines = []
    for line in generate(n, seed).decode().split("\n"):
        fields = line.split("\t")
        lines.append("\t".join([*fields[:2], *"_" * 7, fields[9]]) if len(fields) == 10 else line)
    return "\n".join(lines).encode()


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


def test_the_folder_has_all_stages_and_their_scores(model):
    assert all((model / name).exists() for name in FILES)
    scores = json.loads((model / "scores.json").read_text())
    for part in ("dev", "test"):
        assert scores[part]["UPOS"] > 95
        assert scores[part]["Lemmas"] > 90


def test_a_run_repeats_to_the_byte_for_any_number_of_threads(model, tmp_path):
    train.main([*KEYS, f"output={tmp_path / 'again'}", "--quiet", "threads=1"])
    for name in FILES:
        assert (tmp_path / "again" / name).read_bytes() == (model / name).read_bytes(), name


def test_words_without_tags_are_tagged_and_parsed(model, run, tmp_path):
    (tmp_path / "in.conllu").write_bytes(bare(40, 9))
    code, found = run(model, tmp_path / "in.conllu")
    assert code == 0
    system = treebank_from_bytes(found, "system")
    gold = treebank_from_bytes(generate(40, 9), "gold")
    words = [(a, b) for one, two in zip(gold, system, strict=True)
             for a, b in zip(one.cpos, two.cpos, strict=True)]  # fmt: skip
    assert sum(a == b for a, b in words) > 0.95 * len(words)
    assert (system.heads >= 0).all()
    for options in (["--threads", "1"], ["--threads", "3"]):
        assert run(model, tmp_path / "in.conllu", *options) == (0, found)
    for shards in ("1/3", "2/3", "3/3", "join/3"):
        out = tmp_path / "out"
        assert run(model, tmp_path / "in.conllu", "--shard", shards, "--output", f"{out}/")[0] == 0
    assert (tmp_path / "out" / "in.conllu").read_bytes() == found


def test_tags_of_the_input_are_kept_only_if_asked_for(model, run, tmp_path):
    rows = "1\tShe\tSHE\tX\tXX\t_\t_\t_\t_\t_\n2\tsings\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
    (tmp_path / "in.conllu").write_text(rows)
    kept = treebank_from_bytes(run(model, tmp_path / "in.conllu", "--keep", "tags")[1], "kept")[0]
    new = treebank_from_bytes(run(model, tmp_path / "in.conllu")[1], "new")[0]
    assert kept.cpos[0] == "X"
    assert kept.feats[0] == "_"
    assert kept.lemmas[0] == "SHE"
    assert new.cpos[0] != "X"
    assert kept.cpos[1] == new.cpos[1] != "_"
    assert kept.lemmas[1] == new.lemmas[1] != "_"


def test_vertical_input(model, run, tmp_path):
    (tmp_path / "in").write_text("The\nmen\nsang\n.\n\nShe\nsings\n")
    code, found = run(model, tmp_path / "in", "--input", "vertical")
    assert code == 0
    assert [each.forms for each in treebank_from_bytes(found, "found")] == [
        ["The", "men", "sang", "."], ["She", "sings"],
    ]  # fmt: skip


def test_python_fills_in_tags(model, run, tmp_path):
    (tmp_path / "in.conllu").write_bytes(bare(20, 8))
    expected = run(model, tmp_path / "in.conllu")[1]
    parser = gpuparse.load(model)
    treebank = treebank_from_bytes(bare(20, 8), "bare")
    found = parser.parse([sentence.forms for sentence in treebank])
    copy = pickle.loads(pickle.dumps(parser))  # noqa: S301 - its own bytes
    again = copy.parse([sentence.forms for sentence in treebank])
    heads = [sentence.heads for sentence in treebank_from_bytes(expected, "expected")]
    assert [list(each.heads) for each in found] == heads
    assert [list(each.heads) for each in again] == heads
    parser.parse_file(tmp_path / "in.conllu", tmp_path / "out.conllu")
    assert (tmp_path / "out.conllu").read_bytes() == expected
    pairs = [[("She", "X"), ("sings", "VERB")]]
    assert parser.parse(pairs)[0].heads


def test_stages_alone_and_stages_of_another_model(model, run, tmp_path):
    folder = tmp_path / "tagger"
    keys = [key for key in KEYS if not key.startswith("lemmatizer")]
    train.main([*keys, f"lemmatizer.model={model}", "parser=false", f"output={folder}", "--quiet"])
    assert not (folder / "weights.safetensors").exists()
    for name in FILES[:2]:
        assert (folder / name).read_bytes() == (model / name).read_bytes()
    (tmp_path / "in.conllu").write_bytes(bare(10, 7))
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


@pytest.mark.slow  # tests/test_kills.py kills all stages too
@pytest.mark.parametrize("parser", ["true", "false"])
def test_a_killed_run_goes_on_after_its_last_stage(tmp_path, monkeypatch, capsys, parser):
    keys = [*KEYS, f"data.train={treebank_file(60, 1)}", f"parser={parser}"]
    keys += ["tokenizer.learn=true"]
    keys += [f"output={tmp_path / 'model'}"]
    kept = tmp_path / "model" / "last" / "stages"
    names = ["lemmatizer", "tagger", "tokenizer"]
    folds = ["tags-1", "tags-2", "tags-3"]
    for place, name in enumerate(("tagger", "lemmatizer", "tokenizer")):
        with monkeypatch.context() as context:

            def killed(*_, **__):
                raise Killed

            if parser == "false" and place:
                context.setattr("gpuparse.jobs.train.write_stages", killed)
            elif place == 2:
                context.setattr("gpuparse.jobs.train.Run._trainer", killed)
            elif place == 0:
                context.setattr(BEFORE_PARSER["lemmatizer"].learner, killed)
            else:
                context.setattr("gpuparse.jobs.stages.jackknifed", killed)
            with pytest.raises(Killed):
                train.main([*keys, *(["--resume"] if place else [])])
        assert (kept / f"{name}.safetensors").exists()
    assert sorted(file.stem for file in kept.iterdir()) == (
        sorted([*names, *folds]) if parser == "true" else names
    )
    with pytest.raises(ConfigError, match="holds an unfinished run"):
        train.main(keys)
    with pytest.raises(ConfigError, match="seed was 1 and is now 2"):
        train.main([*keys, "seed=2", "--resume"])
    capsys.readouterr()
    assert train.main([*keys, "--resume"]) == 0
    said = capsys.readouterr().err
    assert re.search(r"gpuparse: tagger: \d+ pairs of UPOS and XPOS\n", said)  # and no seconds
    assert not re.search(r"gpuparse: (tokeniser|tagger|lemmatiser): [\d.]+ s", said)
    assert train.main([*keys, f"output={tmp_path / 'whole'}", "--quiet"]) == 0
    for file in (tmp_path / "whole").glob("*.safetensors"):
        assert (tmp_path / "model" / file.name).read_bytes() == file.read_bytes(), file.name
    assert not kept.exists()
    with pytest.raises(ConfigError, match="nothing to resume"):
        train.main([*keys, "--resume"])


def test_a_damaged_stage_of_an_unfinished_run_is_refused(tmp_path, monkeypatch):
    def killed(*_, **__):
        raise Killed

    keys = [*KEYS, "parser=false", f"output={tmp_path}", "--quiet"]
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
    for fields in (line.split("\t") for line in found.decode().split("\n") if line[:1].isdigit()):
        items = dict(item.split("=") for item in fields[9].split("|"))
        first, end = map(int, items["TokenRange"].split(":"))
        assert text[first:end] == fields[1]
        words += 1
    assert words >= 9 * 100
    code, without = run(tmp_path / "model", tmp_path / "in.txt", "--allow-missing")
    plain = re.sub(rb"[|]TokenRange=\d+:\d+", b"", found)
    assert re.sub(rb"TokenRange=\d+:\d+", b"_", plain) == without
    (tmp_path / "in.conllu").write_bytes(bare(2, 7))
    with pytest.raises(ConfigError, match="--ranges"):
        run(tmp_path / "model", tmp_path / "in.conllu", "--ranges")


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
    split = ours.split(text_chunk(text.encode(), "t"), token_range=True)

    def places(conllu):
        rows = [row.split("\t") for row in conllu.decode().split("\n") if row[:1].isdigit()]
        return {(row[1], row[9].rsplit("TokenRange=")[1]) for row in rows}

    assert len(places(found) & places(split)) >= 0.7 * len(places(split))
    for form, place in places(found):
        assert text[slice(*map(int, place.split(":")))] == form


def test_stages_without_annotation_are_left_out_and_said(run, tmp_path, capfdbinary):
    lines = generate(60, 1).decode().split("\n")
    fields = [line.split("\t") for line in lines]
    without = {"lemmas": [2], "tags": [3, 4, 5], "anything": [2, 3, 4, 5]}
    options = [*KEYS[4:], "learning.epochs=1"]
    for name, columns in without.items():
        file, folder = tmp_path / f"{name}.conllu", tmp_path / name
        file.write_text(
            "\n".join(
                "\t".join("_" if k in columns else text for k, text in enumerate(line))
                if len(line) == 10
                else line[0]
                for line in fields
            )
        )
        assert train.main(["quickstart", f"data.train={file}", *options, f"output={folder}"]) == 0
        said = capfdbinary.readouterr().err.decode()
        has_tagger, has_lemmatizer = name == "lemmas", name == "tags"
        assert ("UPOS and XPOS are _ in all words: no tagger is learned" in said) != has_tagger
        assert ("LEMMA is _ in all words: no lemmatiser is learned" in said) != has_lemmatizer
        assert [(folder / each).exists() for each in FILES] == [has_tagger, has_lemmatizer, True]
        code, parsed = run(folder, file)
        assert code == 0
        rows = [line.split("\t") for line in parsed.decode().split("\n") if line[:1].isdigit()]
        rows = [row for row in rows if row[0].isdigit()]
        assert all((row[3] != "_") == has_tagger for row in rows)
        assert all((row[2] != "_") == has_lemmatizer for row in rows)
        assert all(row[6].isdigit() for row in rows)
    alone = [f"data.train={file}", *options, "parser=false", f"output={tmp_path / 'x'}", "--quiet"]
    with pytest.raises(DataError, match="nothing to learn"):
        train.main(["quickstart", *alone])
    first = "\n".join(lines[: lines.index("") + 2])
    file.write_text(first)
    with pytest.raises(DataError, match=r"two sentences or more, there are 1"):
        train.main(["quickstart", *alone[:-3], f"output={tmp_path / 'x'}", "--quiet"])


def test_what_does_not_fit_is_said(model, run, tmp_path):
    (tmp_path / "in.txt").write_text("The men sang.")
    with pytest.raises(ConfigError, match="no tokeniser"):
        run(model, tmp_path / "in.txt")
    with pytest.raises(ConfigError, match=r"tagger\.model"):
        train.main([*KEYS, f"tagger.model={model}", f"output={tmp_path / 'x'}", "--quiet"])
    with pytest.raises(ConfigError, match="nothing is learned"):
        train.main([*KEYS[:4], "parser=false", f"output={tmp_path / 'x'}", "--quiet"])
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for file in model.iterdir():
        (damaged / file.name).write_bytes(file.read_bytes())
    content = bytearray((damaged / FILES[0]).read_bytes())
    content[-5] ^= 1
    (damaged / FILES[0]).write_bytes(content)
    (tmp_path / "in.conllu").write_bytes(bare(2, 7))
    with pytest.raises(ModelError, match="changed or damaged"):
        run(damaged, tmp_path / "in.conllu")

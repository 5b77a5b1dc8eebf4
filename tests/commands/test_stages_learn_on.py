"""`init_from` of the stages before the parser: what is kept, learned on, resumed and refused."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpuparse import array_file
from gpuparse.commands import train
from gpuparse.commands.console import run
from gpuparse.config.schema import LemmatizerConfig, TaggerConfig, TokenizerConfig
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.treebank import Treebank
from gpuparse.errors import DataError, ModelError
from gpuparse.jobs.stages import accuracies, hits_from_text, weights_of
from gpuparse.learning.start import FILE, FORMAT, read_learned
from gpuparse.pipeline import BEFORE_PARSER, FILES, Pipeline, load_stages, unpack_stages
from gpuparse.tagging import tagger_learner
from gpuparse.tagging.lemmatizer import learn_lemmatizer
from gpuparse.tagging.tagger_learner import learn_tagger
from gpuparse.text.training import learn_tokenizer
from tests.hostile_files import pack
from tests.hostile_models import HEADERS, PACKED, SHAPES, TYPES
from tests.runs import model_files
from tests.synthetic import generate

ROWS = [f"{name}.rows=65536" for name in FILES]
LEARNED = [*ROWS, *(f"{name}.learn=true" for name in FILES), *(f"{n}.epochs=2" for n in FILES)]
KEYS = ["quickstart", "draw=0", "data.dev=null", "data.test=null", "tagger.folds=2", *LEARNED]
ALONE = [*KEYS, "parser=false"]


def other(n: int, seed: int) -> bytes:
    """Another treebank: new words, tags, relations of a lemma and its word, and contractions."""
    text = generate(n, seed).decode()
    text = text.replace("\tNOUN\tN", "\tNOUN\tM").replace("Number=Plur", "Number=Dual")
    lines = []
    for line in text.split("\n"):
        fields = line.split("\t")
        if len(fields) == 10 and fields[1].endswith("s") and len(fields[1]) > 3:
            fields[1] = fields[1][:-1] + "ix"
        lines.append("\t".join(fields))
    return "\n".join(lines).encode()


OLD, NEW, HELD_OUT = (
    treebank_from_bytes(content, name)
    for name, content in (("old", generate(150, 1)), ("new", other(150, 2)), ("held", other(60, 3)))
)
TOKENS = TokenizerConfig(rows=1 << 16, epochs=2)
TAGS = TaggerConfig(rows=1 << 16, epochs=2, dictionary=20)
LEMMAS = LemmatizerConfig(rows=1 << 16, epochs=2)


def learned(
    treebank: Treebank, start: Pipeline | None = None, epochs: int | None = None
) -> Pipeline:
    """All stages, learned from a treebank, and on from others."""
    tags = TAGS if epochs is None else replace(TAGS, network_epochs=epochs)
    keys = [replace(each, epochs=each.epochs if epochs is None else epochs)
            for each in (TOKENS, tags, LEMMAS)]  # fmt: skip
    before = start or Pipeline(None, None, None)
    return Pipeline(
        learn_tokenizer(treebank, keys[0], seed=1, start=before.tokenizer),
        learn_tagger(treebank, keys[1], seed=1, start=before.tagger),
        learn_lemmatizer(treebank, keys[2], seed=1, start=before.lemmatizer),
    )


@pytest.fixture(scope="module")
def old() -> Pipeline:
    return learned(OLD)


def scores(stages: Pipeline, gold: Treebank) -> dict[str, float]:
    bare = Pipeline(stages.tokenizer, stages.tagger, stages.lemmatizer)
    hits = hits_from_text(gold, bare, None, threads=1, device="cpu")
    return accuracies(gold, stages.annotate(gold)) | {"tokens": hits["tokens"].counts.f or 0.0}


@pytest.mark.parametrize("many", [False, True])
def test_no_epoch_on_the_same_treebank_changes_no_weight(many, monkeypatch):
    monkeypatch.setattr(tagger_learner, "_MANY", 2 if many else 128)
    before = learned(OLD)
    after = learned(OLD, before, epochs=0)
    for name in FILES:
        one, two = getattr(before, name).models, getattr(after, name).models
        assert list(one) == list(two)
        for each in one:
            assert one[each].table == two[each].table
            assert np.array_equal(one[each].weights, two[each].weights)
            assert not (one[each].known & ~two[each].known).any()
    assert after.tagger.words.count("the") == 2 * before.tagger.words.count("the")
    assert scores(after, OLD) == pytest.approx(scores(before, OLD), abs=1.0)


@pytest.mark.parametrize("many", [False, True])
def test_learning_on_keeps_numbers_and_learns_what_is_new(old, many, monkeypatch):
    monkeypatch.setattr(tagger_learner, "_MANY", 2 if many else 128)
    old = learned(OLD) if many else old
    new = learned(NEW, old)
    grown = 0
    for name in FILES:
        for each, model in getattr(old, name).models.items():
            table = getattr(new, name).models[each].table
            assert table.tags[: len(model.table)] == model.table.tags
            n = int(model.table.tag_starts[-1])
            assert np.array_equal(table.tag_parts[:n], model.table.tag_parts)
            assert not (model.known & ~getattr(new, name).models[each].known).any()
            grown += len(table) > len(model.table)
    assert grown >= 3
    before, after = scores(old, HELD_OUT), scores(new, HELD_OUT)
    for measure in ("XPOS", "UFeats", "Lemmas"):
        assert after[measure] > before[measure] + 2, (measure, before, after)
    assert after["UPOS"] >= before["UPOS"]
    # Packed and read again, they are the same.
    again = unpack_stages(new.pack(), Path("model"))
    assert scores(again, HELD_OUT) == after
    third = learned(OLD, new)
    assert len(third.tagger.pairs.table.sizes) <= 2
    assert scores(third, OLD)["UPOS"] > 90


def test_a_column_that_is_missing_now_is_an_error(old):
    content = b"\n".join(
        b"\t".join([*fields[:5], b"_", *fields[6:]]) if len(fields) == 10 else fields[0]
        for fields in (line.split(b"\t") for line in generate(20, 1).split(b"\n"))
    )
    with pytest.raises(DataError, match="FEATS is _ in all words, but the tagger of init_from"):
        learn_tagger(treebank_from_bytes(content, "x"), TAGS, seed=1, start=old.tagger)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("treebanks")
    (folder / "old.conllu").write_bytes(generate(100, 1))
    (folder / "new.conllu").write_bytes(other(100, 2))
    kept = [f"data.train={folder / 'old.conllu'}", "learning.keep_state=true", "--quiet"]
    assert train.main([*ALONE, *kept, f"output={folder / 'alone'}"]) == 0
    return folder


def test_a_run_learns_on_and_repeats_to_the_byte(files, tmp_path, capsys):
    words = [*ALONE, f"data.train={files / 'new.conllu'}", f"init_from={files / 'alone'}",
             "learning.keep_state=true", "--quiet"]  # fmt: skip
    for name in ("one", "two"):
        assert run(train.main, [*words, f"output={tmp_path / name}"]) == 0, capsys.readouterr().err
    assert model_files(tmp_path / "one") == model_files(tmp_path / "two")
    before, after = load_stages(files / "alone"), load_stages(tmp_path / "one")
    size = len(before.tagger.pairs.table)
    assert after.tagger.pairs.table.tags[:size] == before.tagger.pairs.table.tags
    assert len(after.tagger.pairs.table) > size
    # A decoder that is chosen by a parser does not matter without one.
    again = [*words[:-2], "decoder=auto", "--quiet"]
    again += [f"init_from={tmp_path / 'one'}", f"output={tmp_path / 'three'}"]
    assert run(train.main, again) == 0
    assert not (tmp_path / "three" / FILE).exists()


def test_with_a_parser_all_is_learned_on(files, tmp_path, capsys):
    small = [*KEYS, "feature_map.rows=65536", "labels.rows=65536", "learning.epochs=1",
             "labels.epochs=1", "calibration=none", "learning.keep_state=true",
             "--quiet"]  # fmt: skip
    first = [f"data.train={files / 'old.conllu'}", f"output={tmp_path / 'first'}"]
    assert run(train.main, [*small, *first]) == 0
    second = [f"data.train={files / 'new.conllu'}", f"init_from={tmp_path / 'first'}"]
    assert run(train.main, [*small, *second, f"output={tmp_path / 'second'}"]) == 0
    names = array_file.read(tmp_path / "second" / FILE, form=FORMAT, what="x")[1]
    assert {name.partition(".")[0] for name in names} == {*FILES, "arcs", "labels"}
    stages = load_stages(tmp_path / "second")
    assert stages.tagger.pairs.table.sizes
    # A parser alone is learned on, whatever stages the model has.
    alone = [word for word in small if not word.endswith("learn=true")]
    assert run(train.main, [*alone, *second, f"output={tmp_path / 'third'}"]) == 0
    assert not any((tmp_path / "third" / name).exists() for name in FILES.values())
    capsys.readouterr()


class Killed(Exception):
    """In place of a signal."""


def test_a_killed_run_that_learns_on_is_resumed_to_the_same_bytes(files, tmp_path, monkeypatch):
    words = [*ALONE, f"data.train={files / 'new.conllu'}", f"init_from={files / 'alone'}",
             "learning.keep_state=true", "--quiet"]  # fmt: skip
    assert train.main([*words, f"output={tmp_path / 'whole'}"]) == 0
    for place, name in enumerate(("tagger", "lemmatizer")):
        with monkeypatch.context() as context:

            def killed(*_, **__):
                raise Killed

            context.setattr(BEFORE_PARSER[name].learner, killed)
            with pytest.raises(Killed):
                train.main(
                    [*words, f"output={tmp_path / 'killed'}", *(["--resume"] if place else [])]
                )
    assert train.main([*words, f"output={tmp_path / 'killed'}", "--resume"]) == 0
    assert model_files(tmp_path / "killed") == model_files(tmp_path / "whole")


def test_what_cannot_be_learned_on_is_said(files, tmp_path, capsys):
    def error_of(*words: str) -> tuple[int, str]:
        train_on = f"data.train={files / 'new.conllu'}"
        code = run(train.main, [*ALONE, train_on, f"output={tmp_path / 'x'}", *words, "--quiet"])
        assert not (tmp_path / "x").exists()
        return code, capsys.readouterr().err

    lacking = tmp_path / "lacking"
    shutil.copytree(files / "alone", lacking)
    (lacking / FILES["tagger"]).unlink()
    code, said = error_of(f"init_from={lacking}")
    assert (code, "of another model" in said) == (4, True), said
    (lacking / FILE).unlink()
    code, said = error_of(f"init_from={lacking}")
    assert (code, "learning.keep_state=true" in said) == (2, True), said
    code, said = error_of(f"init_from={files / 'alone'}", "tagger.rows=131072")
    assert (code, "give tagger.rows=65536" in said) == (2, True), said
    code, said = error_of(f"init_from={files / 'alone'}", "lemmatizer.features=tags")
    assert (code, "lemmatizer.features: other templates" in said) == (2, True), said
    taken = ["tagger.learn=false", f"tagger.model={files / 'alone'}", "learning.keep_state=true"]
    on_old = f"data.train={files / 'old.conllu'}"
    given = [*ALONE, on_old, f"output={tmp_path / 'taken'}", *taken, "--quiet"]
    assert run(train.main, given) == 0
    code, said = error_of(f"init_from={tmp_path / 'taken'}")
    assert (code, "no training state of its tagger" in said) == (2, True), said
    without = ["tagger.learn=false", f"output={tmp_path / 'without'}", "learning.keep_state=true"]
    assert run(train.main, [*ALONE, on_old, *without, "--quiet"]) == 0
    code, said = error_of(f"init_from={tmp_path / 'without'}")
    assert (code, "has no tagger" in said) == (2, True), said
    code, said = error_of(f"init_from={files / 'alone'}", "parser=true", "feature_map.rows=65536")
    assert (code, "has no parser: give parser=false" in said) == (2, True), said


def damages():
    """What may be wrong with a training state: its sums, and the catalogue of hostile files."""
    name = "tagger.pairs"
    yield "truncated", lambda facts, arrays: pack(facts, arrays)[:-9]
    for what, content in PACKED.items():
        yield what, lambda facts, arrays, content=content: content
    for each in (name, "tokenizer.ends", "lemmatizer.rules"):
        shapes = [what for what in SHAPES if what in (
            "no rows", "one row", "one row less", "one row more", "twice the rows", "no axes",
        )]  # fmt: skip
        changes = {what: SHAPES[what] for what in shapes} | HEADERS
        changes |= {what: TYPES[what] for what in ("f2", "f8", "i4", "not a number", "BF16")}
        changes["infinity"] = lambda a: np.full_like(a, np.inf)
        for what, change in changes.items():
            yield (
                f"{each}: {what}",
                lambda facts, arrays, each=each, change=change: arrays.update(
                    {each: change(arrays[each])}
                ),
            )
    yield "missing", lambda facts, arrays: arrays.__delitem__("lemmatizer.rules")
    yield "unknown", lambda facts, arrays: arrays.update({"tagger.x": np.zeros(3, np.float32)})
    yield "sums", lambda facts, arrays: facts["sums"].update({name: "0" * 64})
    yield "no sums", lambda facts, arrays: facts.update({"sums": None})
    yield "sums of a list", lambda facts, arrays: facts.update({"sums": [name]})
    yield "a sum more", lambda facts, arrays: facts["sums"].update({"tagger.x": "0" * 64})
    yield "a parser's", lambda facts, arrays: facts["sums"].update({"arcs": "0" * 64})


def test_a_wrong_training_state_is_refused(files, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(files / "alone", folder)
    stages = load_stages(folder)
    for what, damage in damages():
        facts, arrays = array_file.read(files / "alone" / FILE, form=FORMAT, what="x")
        arrays = {name: array.copy() for name, array in arrays.items()}
        content = damage(facts, arrays)
        facts["format"] = FORMAT
        (folder / FILE).write_bytes(content or pack(facts, arrays))
        with pytest.raises(ModelError) as refused:
            read_learned(folder, {}, {}, weights_of(stages))
        said = str(refused.value)
        assert said.isprintable(), what
        assert said.startswith(str(folder / FILE)), what
    words = [*ALONE, f"data.train={files / 'new.conllu'}", f"init_from={folder}", "--quiet"]
    assert run(train.main, [*words, f"output={tmp_path / 'x'}"]) == 4

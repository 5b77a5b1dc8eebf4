"""Models with stages before the parser: training, parsing and the commands that read them."""

import json
import re
import shutil
from collections import Counter
from itertools import pairwise

import pyarrow
import pytest
from pyarrow import parquet

import gpuparse
from gpuparse.commands import crossval, evaluate, explain, jackknife, parse, report, train
from gpuparse.data.conll import read_treebank, treebank_from_bytes
from gpuparse.data.formats.objects import FIELDS
from gpuparse.data.tag_columns import read_column
from gpuparse.evaluation.reports import WORD_MEASURES
from gpuparse.evaluation.words import score_words
from gpuparse.model.folder import WEIGHTS
from gpuparse.model.pipeline import FILES, load_stages, stages_of
from tests.commands.conftest import ROOT
from tests.samples import without
from tests.synthetic import generate

pytestmark = pytest.mark.usefixtures("small_stages")
_TAGS = (2, 3, 4, 5)  # LEMMA, UPOS, XPOS, FEATS


@pytest.fixture(autouse=True)
def at_root(monkeypatch):
    """Where the model was learned."""
    monkeypatch.chdir(ROOT)


def column(text: bytes, number: int) -> list[str]:
    return read_column(treebank_from_bytes(text, "-"), number).texts()


def scores_of(model) -> dict:
    return json.loads((model / "scores.json").read_text())


def test_words_alone_are_tagged_and_parsed(staged, parsed, tmp_path):
    assert stages_of(staged.model) == ["tokenizer", "tagger", "lemmatizer", "parser"]
    (tmp_path / "words.conllu").write_bytes(staged.words)
    out = parsed(tmp_path / "words.conllu")
    gold = staged.test.read_bytes()
    # Nothing but the columns of the stages is other than in the input.
    assert without(out, *_TAGS, 6, 7) == staged.words
    for number in _TAGS:
        mine, right = column(out, number), column(gold, number)
        assert sum(map(str.__eq__, mine, right)) > 0.9 * len(right), number
    heads = treebank_from_bytes(out, "-").heads
    assert (heads == treebank_from_bytes(gold, "-").heads).mean() > 0.8
    # The tags of the input have no influence, and so have none that are missing.
    assert without(parsed(staged.test), 8) == out


def test_the_scores_of_training_are_those_of_words_alone(staged, parsed, tmp_path):
    (tmp_path / "words.conllu").write_bytes(staged.words)
    (tmp_path / "out.conllu").write_bytes(parsed(tmp_path / "words.conllu"))
    gold, system = read_treebank(str(staged.test)), read_treebank(str(tmp_path / "out.conllu"))
    recorded = scores_of(staged.model)["test"]
    assert recorded["uas"]["correct"] == (gold.heads == system.heads).sum()
    for number, name in enumerate(("Lemmas", "UPOS", "XPOS", "UFeats"), 2):
        pairs = zip(*(read_column(each, number).texts() for each in (gold, system)), strict=True)
        right = [mine == theirs for mine, theirs in pairs]
        assert recorded[name] == pytest.approx(100 * sum(right) / len(right)), name


def test_the_scores_from_raw_text_are_those_of_evaluate(staged, parsed, call, tmp_path):
    gold = read_treebank(str(staged.test))
    (tmp_path / "out.conllu").write_bytes(parsed(staged.raw))
    hits = score_words(gold, read_treebank(str(tmp_path / "out.conllu")))
    recorded = scores_of(staged.model)["from_text"]
    assert set(recorded) == {"dev", "test"}
    expected = {title: hits[name].counts.f for title, name in WORD_MEASURES if name in hits}
    assert (recorded["test"], list(recorded["test"])) == (expected, list(expected))
    _, table, _ = call(evaluate.main, staged.test, tmp_path / "out.conllu")
    shown, written = table.decode(), staged.out.partition("from raw text\n")[2].splitlines()
    # Where all tokens are right, heads are scored as those of given words.
    rows = (shown.partition("tags and lemmas, all words\n")[2] or shown).splitlines()
    assert len(rows) >= 9
    assert [row for row in rows if row not in written] == []
    for name, scores in recorded.items():
        said = next(line for line in staged.err.splitlines() if f"{name}, from raw text" in line)
        assert f", LAS {scores['LAS']:.2f}, " in said


def test_the_log_of_a_run_has_a_line_for_each_stage(staged):
    lines = [line.removeprefix("gpuparse: ") for line in staged.err.splitlines()]
    assert len(lines) < 25
    stages = ["tokeniser", "tagger", "lemmatiser", "tags of data.train", "arcs", "labels"]
    begun = [line.split(":")[0].split(",")[0] for line in lines]
    assert [name for name in begun if name in stages] == stages


def test_multiword_tokens_that_cannot_be_learned_are_told(staged, call, tmp_path):
    words = "abcdefghijklmnopq"
    rows = [f"1-17\t{words}" + 8 * "\t_"]
    for m, word in enumerate(words, 1):
        rows.append(f"{m}\t{word}\t{word}\tX\tX\t_\t{m - 1}\tdep\t_\t_")
    train_file = tmp_path / "t.conllu"
    train_file.write_bytes(generate(30, 1) + ("\n".join(rows) + "\n\n").encode())
    short = [f"data.train={train_file}", "data.dev=null", "data.test=null", "parser=false"]
    off = ["tagger.learn=false", "lemmatizer.learn=false", f"output={tmp_path}/m"]
    code, _, err = call(train.main, staged.config, *short, *off)
    assert code == 0
    assert (
        f"warning: {train_file}: 1 multiword token is left out of the tokeniser, such as"
        f" '{words}' of 17 words: its rule has more than 16 words or 100 characters" in err
    )


def items(out, key):
    """The values of an item of MISC of every word, "" where there is none."""
    found = (re.search(rf"(?:^|\|){key}=([^|]*)", misc) for misc in column(out, 9))
    return [each[1] if each else "" for each in found]


def test_probabilities_of_tags(staged, parsed, tmp_path):
    out = parsed(staged.test, "--probabilities")
    tagger, treebank = load_stages(staged.model).tagger, read_treebank(staged.test)
    expected = tagger.tag_with_probabilities(treebank)[1]
    assert items(out, "TagProb") == [f"{p:.4f}" for p in expected]
    assert without(out, 9) == without(parsed(staged.test), 9)
    assert all(items(out, "HeadProb"))
    # Earlier values are replaced, also of words whose tags are kept.
    (tmp_path / "again.conllu").write_bytes(out)
    assert parsed(tmp_path / "again.conllu", "--probabilities") == out
    kept = parsed(tmp_path / "again.conllu", "--probabilities", "--keep", "tags")
    assert b"TagProb" not in kept
    assert items(kept, "HeadProb") == items(out, "HeadProb")
    some = parsed(staged.test, "--probabilities", "--kbest", "2")
    assert Counter(items(some, "TagProb")) > Counter(items(out, "TagProb"))
    heads = parsed(tmp_path / "again.conllu", "--probabilities", "--keep", "heads")
    assert items(heads, "TagProb") == items(out, "TagProb")
    words = [[treebank.column(w, 1) for w in range(*treebank.word_starts[:2])]]
    parser = gpuparse.load(staged.model)
    assert parser.parse(words)[0].tag_probabilities is None
    found = parser.parse(words, probabilities=True)
    assert found[0].tag_probabilities == expected[: len(words[0])].tolist()
    assert found.to_arrow().column("tag_prob").to_pylist() == [found[0].tag_probabilities]
    given = [{"form": word, "upos": "NOUN" if i == 0 else "_"} for i, word in enumerate(words[0])]
    [sentence] = parser.parse([given], probabilities=True, keep="tags")
    assert sentence.tag_probabilities == [None, *found[0].tag_probabilities[1:]]


def test_a_model_without_a_parser_has_probabilities_of_tags(staged, call, tmp_path):
    words = staged.config, "parser=false", "data.dev=null", "lemmatizer.learn=false"
    for calibration, said in (("held-out", False), ("none", True)):
        model = tmp_path / calibration
        code, _, err = call(
            train.main, *words, f"output={model}", "tokenizer.learn=false",
            f"calibration={calibration}",
        )  # fmt: skip
        assert code == 0, err
        assert ("calibration: log loss of tags" in err) != said
        code, out, err = call(parse.main, model, staged.test, "--probabilities")
        assert (code, "its probabilities of tags are not calibrated" in err) == (0, said)
        assert all(items(out, "TagProb"))
        assert column(out, 7) == column(staged.test.read_bytes(), 7)


def test_tags_that_are_annotated_are_kept_if_asked_for(staged, parsed, tmp_path):
    gold = staged.test.read_bytes()
    kept = parsed(staged.test, "--keep", "tags")
    for number in _TAGS:
        assert column(kept, number) == column(gold, number)
    # Without XPOS and lemmas, these alone are predicted.
    (tmp_path / "some.conllu").write_bytes(without(gold, 2, 4))
    some = parsed(tmp_path / "some.conllu", "--keep", "tags")
    assert column(some, 3) == column(gold, 3)
    assert column(some, 5) == column(gold, 5)
    assert "_" not in {*column(some, 2), *column(some, 4)}
    (tmp_path / "wrong.conllu").write_bytes(gold.replace(b"\tNOUN\t", b"\tPART\t"))
    assert "PART" in column(parsed(tmp_path / "wrong.conllu", "--keep", "tags"), 3)
    assert parsed(tmp_path / "wrong.conllu") == parsed(staged.test)


def test_multiword_tokens_comments_and_empty_nodes_come_back(parsed, tmp_path):
    text = (
        "# newdoc id = é\n# text = Vi ses.\n1-2\tVises\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n"
        "1\tVi\t_\t_\t_\t_\t_\t_\t_\t_\n2\tses\t_\t_\t_\t_\t_\t_\t_\tA=b\n"
        "2.1\tda\tda\tX\t_\t_\t_\t_\t_\t_\n3\t.\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
    )
    (tmp_path / "a.conllu").write_text(text)
    out = parsed(tmp_path / "a.conllu").decode().split("\n")
    for mine, given in zip(out, text.split("\n"), strict=True):
        row = mine.split("\t")
        if row[0] in ("1", "2", "3"):
            assert [row[i] for i in (0, 1, 8, 9)] == [given.split("\t")[i] for i in (0, 1, 8, 9)]
            assert "_" not in (row[2], row[3], row[6], row[7])
        else:
            assert mine == given


def test_malformed_sentences_are_skipped_or_kept(staged, call, parsed, tmp_path):
    bad = b"1\tonly three\tcolumns\n\n"
    (tmp_path / "a.conllu").write_bytes(bad + staged.words)
    code, out, err = call(parse.main, staged.model, tmp_path / "a.conllu", "--on-error", "skip")
    assert (code, bad in out, "1 sentence is malformed" in err) == (1, False, True)
    assert column(out, 6) == column(parsed(staged.test), 6)
    code, out, _ = call(parse.main, staged.model, tmp_path / "a.conllu", "--on-error", "keep")
    assert (code, out.startswith(bad)) == (1, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tagger.model=DIR"], "tagger.model: given with tagger.learn=true"),
        (["parser=false", *(f"{name}.learn=false" for name in FILES)],
         "parser: false, and no other stage"),
        (["tagger.learn=false", "tagger.model=/nowhere"], "/nowhere: no such folder"),
    ],
    ids=["twice", "nothing", "absent"],
)  # fmt: skip
def test_stages_that_do_not_fit_are_refused(staged, call, tmp_path, words, said):
    out = tmp_path / "model"
    code, _, err = call(train.main, staged.config, *words, f"output={out}")
    assert code in (2, 4)
    assert said in err
    assert not (out / WEIGHTS).exists()


def test_crossval_scores_with_predicted_tags(staged, call, tmp_path):
    gold = generate(80, 1)
    (tmp_path / "train.conllu").write_bytes(gold)
    code, _, err = call(
        crossval.main, staged.config, "--folds", "2", "--output", tmp_path / "cv", "--quiet",
        "data.dev=null", "data.test=null", f"data.train={tmp_path}/train.conllu",
    )  # fmt: skip
    assert code == 0, err
    [predicted] = (tmp_path / "cv").glob("predicted*")
    assert column(predicted.read_bytes(), 3) != column(gold, 3), "tags were not predicted"
    assert column(predicted.read_bytes(), 1) == column(gold, 1)


def test_explain_reads_the_formats_of_parse(staged, call, tmp_path):
    asked = ["--sentence", "3", "--word", "2", "--json"]
    sentence = gpuparse.load(staged.model).parse_text(staged.raw.read_text())[2]
    (tmp_path / "words.conllu").write_bytes(staged.words)
    (tmp_path / "words.txt").write_text("\n\n".join(["A", "B", "\n".join(sentence.words)]) + "\n")
    shutil.copy(staged.raw, tmp_path / "unnamed")
    text, found = staged.raw.read_bytes(), []
    for file, words in (
        (staged.raw, []), ("-", []), (tmp_path / "unnamed", ["--input", "text"]),
        (tmp_path / "words.txt", ["--input", "vertical"]), (tmp_path / "words.conllu", []),
        (staged.test, []),  # with the tags that parse predicts
    ):  # fmt: skip
        code, out, err = call(explain.main, staged.model, file, *words, *asked, stdin=text)
        assert (code, err) == (0, "")
        found.append(json.loads(out))
        assert found[-1]["forms"] == sentence.words
        assert found[-1]["head"] == sentence.heads[1]
    assert found == [found[0]] * 6


def test_what_explain_cannot_read_is_refused(staged, trained, call, tmp_path):
    asked = ["--sentence", "1", "--word", "1"]
    table = tmp_path / "table.parquet"
    for content, model, file, words, code, said in (
        (None, staged.model, table, [], 3, "table.parquet"),
        (b"PAR1", staged.model, table, [], 3, "table.parquet: cannot be read as a Parquet file"),
        (b"", trained.model, staged.raw, [], 2,
         f"{staged.raw}: text, but {trained.model} has no tokeniser"),
        (b"", staged.model, staged.raw, ["--keep", "tags"], 2,
         "text has no columns: --keep needs CoNLL-U"),
    ):  # fmt: skip
        if content is not None:
            table.write_bytes(content)
        found, _, err = call(explain.main, model, file, *asked, *words)
        assert (found, said in err) == (code, True), err


def test_report_has_the_scores_of_training(staged, call, tmp_path):
    code, _, err = call(report.main, staged.model, "--output", tmp_path / "report.html")
    assert code == 0, err
    uas = scores_of(staged.model)["test"]["uas"]["percent"]
    assert f"{uas:.2f}" in (tmp_path / "report.html").read_text()


def test_jackknife_of_guides_refuses_stages(staged, call, tmp_path):
    code, _, err = call(jackknife.main, staged.config, "--output", tmp_path / "a.conllu")
    assert (code, "guides are predicted from the tags of data.train" in err) == (2, True)


def table_of(text: bytes, *fields: str) -> pyarrow.Table:
    """A row per sentence with some columns of CoNLL-U, and a row without words."""
    numbers = {field: number for number, field in enumerate(FIELDS, 1)}
    treebank = treebank_from_bytes(text, "-")
    ends = treebank.word_starts[1:-1].tolist()
    columns = {}
    for field in fields:
        values = column(text, numbers[field])
        columns[field] = [
            [None if value == "_" else value for value in values[i:j]]
            for i, j in pairwise([0, *ends, treebank.n_words])
        ] + [[]]
    return pyarrow.table(columns | {"page": list(range(len(treebank) + 1))})


def tables_parsed(model, folder, table, *words) -> pyarrow.Table:
    folder.mkdir(exist_ok=True)
    parquet.write_table(table, folder / "in.parquet")
    options = [model, folder / "in.parquet", "--output", f"{folder}/out/", "--quiet", *words]
    assert parse.main([str(word) for word in options]) == 0
    return parquet.read_table(folder / "out" / "in.parquet")


NEW = ["lemma", "upos", "xpos", "feats", "head", "deprel"]


@pytest.mark.parametrize("options", [(), ("--probabilities",), ("--keep", "tags")], ids=" ".join)
@pytest.mark.parametrize("given", ["words", "tags"])
def test_tables_get_the_tags_and_trees_of_their_text(
    staged, parsed, tmp_path, short_runs, given, options
):
    # Some tags are given, some are not.
    text = staged.words if given == "words" else without(staged.test.read_bytes(), 2, 4, 8)
    fields = ["form"] if given == "words" else ["form", "upos", "feats"]
    table = table_of(text, *fields)
    found = tables_parsed(staged.model, tmp_path, table, *options)
    (tmp_path / "words.conllu").write_bytes(text)
    expected = parsed(tmp_path / "words.conllu", *options)
    more = ["prob", "deprel_prob", "tag_prob"] if "--probabilities" in options else []
    assert found.column_names == ["form", "page", *NEW, *more]
    assert found.select(["form", "page"]).equals(table.select(["form", "page"]))
    kinds = [pyarrow.string()] * 4 + [pyarrow.int32(), pyarrow.string()]
    assert found.select(NEW).schema.types == [pyarrow.list_(kind) for kind in kinds]
    for field in NEW:
        words = [word for row in found[field].to_pylist() for word in row]
        written = column(expected, FIELDS.index(field) + 1)
        assert ["_" if word is None else str(word) for word in words] == written
    assert found[NEW[0]].to_pylist()[-1] == []
    if options == ("--keep", "tags") and given == "tags":
        assert found["upos"].equals(table["upos"])
        assert found["feats"].equals(table["feats"])
    if more:
        of_tags = [word for row in found["tag_prob"].to_pylist() for word in row]
        assert [f"{word:.4f}" for word in of_tags] == items(expected, "TagProb")


def test_faulty_rows_of_tagged_tables_are_kept_or_skipped(staged, call, parsed, tmp_path):
    rows = table_of(staged.words, "form").to_pylist()
    words = [row["form"] for row in rows]
    rows[3]["form"] = ["a", None]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "in.parquet")
    (tmp_path / "in.conllu").write_bytes(staged.words)
    upos = column(parsed(tmp_path / "in.conllu"), 3)
    del upos[sum(map(len, words[:3])) : sum(map(len, words[:4]))]
    for on_error in ("keep", "skip"):
        options = "--output", f"{tmp_path}/{on_error}/", "--on-error", on_error
        code, _, err = call(parse.main, staged.model, tmp_path / "in.parquet", *options)
        assert (code, "in.parquet:row:3[1]: expected a word" in err) == (1, True)
        found = parquet.read_table(tmp_path / on_error / "in.parquet").to_pylist()
        if on_error == "keep":
            faulty = found.pop(3)
            assert [faulty[field] for field in NEW] == [None] * 6
        assert [row["form"] for row in found] == words[:3] + words[4:]
        assert [tag for row in found for tag in row["upos"]] == upos


def test_models_without_a_parser_take_tables_and_shards(staged, call, tmp_path, short_runs):
    tags = tmp_path / "tags"
    shutil.copytree(staged.model, tags)
    (tags / WEIGHTS).unlink()
    text = staged.test.read_bytes()
    table = table_of(text, "form", "upos", "deprel")
    both = []
    for model in (staged.model, tags):
        found = tables_parsed(model, tmp_path / f"of {model.name}", table, "--probabilities")
        both.append(found.select([*NEW[:4], "tag_prob"]))
    assert both[0].equals(both[1])
    assert found.column_names == ["form", "deprel", "page", *NEW[:4], "tag_prob"]
    assert found["deprel"].equals(table["deprel"])
    whole = tmp_path / "of tags" / "out" / "in.parquet"
    in_shards = tmp_path / "in shards"
    tables_parsed(tags, in_shards, table, "--probabilities", "--shard", "all/3")
    assert (in_shards / "out" / "in.parquet").read_bytes() == whole.read_bytes()
    code, expected, _ = call(parse.main, tags, staged.test)
    assert code == 0
    assert column(expected, 7) == column(text, 7)
    words = tags, staged.test, "--output", f"{in_shards}/", "--shard"
    for i in (2, 1, 3):
        assert call(parse.main, *words, f"{i}/3")[0] == 0
    code, _, err = call(parse.main, *words, "all/3", "--keep", "tags")
    assert (code, 'keep was null and is now "tags"' in err) == (2, True)
    assert call(parse.main, *words, "join/3")[0] == 0
    assert (in_shards / staged.test.name).read_bytes() == expected
    for option in ("--single-root", "--mbr", "--keep heads"):
        code, _, err = call(parse.main, tags, staged.test, *option.split())
        assert (code, f"{option}: {tags} has no parser" in err) == (2, True)
    (tags / FILES["tagger"]).unlink()
    code, _, err = call(parse.main, tags, staged.test, "--probabilities")
    assert (code, "has no parser and no tagger" in err) == (2, True)

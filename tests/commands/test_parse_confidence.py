"""parse.py with probabilities, k-best trees, minimum Bayes risk and kept heads."""

import re
from dataclasses import replace

import numpy as np
import pytest

from gpuparse.commands import train
from gpuparse.commands.console import run
from gpuparse.data.conll import read_treebank, treebank_from_bytes
from gpuparse.data.tag_columns import without_deps
from gpuparse.data.treebank import repeated
from gpuparse.evaluation.reliability import HEAD, LABEL, misc_probabilities
from gpuparse.learning.temperatures import fit_temperatures
from gpuparse.model.confidence import find_k_best_trees, parse_with_confidence
from gpuparse.model.engines.dense import Dense
from gpuparse.model.folder import load_parser, save_parser
from gpuparse.model.parser import Parser
from tests import test_model
from tests.commands.conftest import columns, program
from tests.hostile_files import facts_of
from tests.runs import model_files
from tests.synthetic import generate, treebank_file

MISC = 9


@pytest.fixture(scope="module")
def model(trained) -> Parser:
    return load_parser(trained.model)


def read(text: bytes):
    return treebank_from_bytes(text, "output")


def test_probabilities_stand_in_misc(trained, model, parse_run):
    text = trained.test.read_bytes()
    code, out, _ = parse_run("--probabilities", "--quiet", stdin=text)
    assert code == 0
    found = parse_with_confidence(model, read_treebank(trained.test), probabilities=True)
    assert np.abs(misc_probabilities(read(out), HEAD) - found.head_probabilities).max() < 0.000051
    assert np.abs(misc_probabilities(read(out), LABEL) - found.label_probabilities).max() < 0.000051
    plain = parse_run(stdin=text)[1]
    for ours, theirs in zip(columns(out), columns(plain), strict=True):
        assert ours[:MISC] == theirs[:MISC]
        if len(ours) > MISC and ours[0].isdigit():
            items = ours[MISC].split(b"|")
            assert [item.split(b"=")[0] for item in items[-2:]] == [b"HeadProb", b"LabelProb"]
            assert all(re.fullmatch(rb"\w+=[01]\.\d{4}", item) for item in items[-2:])
            assert b"|".join(items[:-2]) == theirs[MISC].replace(b"_", b"")
    # Parsed again, the old values go.
    assert parse_run("--probabilities", "--quiet", stdin=out)[1] == out


@pytest.mark.parametrize("asked", [[], ["--mbr"], ["--kbest", 2], ["--deps", "tree"]])
def test_probabilities_of_earlier_trees_are_removed(trained, parse_run, asked):
    """Items that another parser wrote, also for gold trees, go, and no other item."""
    text = trained.test.read_bytes()
    texts = []
    for items in (b"HeadProb=0.5|GoldArc=0.5|", b"GoldHeadProb=0.5|", b""):
        rows = columns(text)
        next(row for row in rows if row[0] == b"1")[MISC] = b"A=b|" + items + b"TagProb=0.1"
        texts.append(b"\n".join(map(b"\t".join, rows)))  # tags stay without a tagger
    *old, new = texts
    expected = parse_run(*asked, "--quiet", stdin=new)[1]
    assert (
        [parse_run(*asked, "--quiet", stdin=each)[1] for each in old] == [expected] * 2 != [b""] * 2
    )


def test_least_risk(trained, model, parse_run):
    code, out, _ = parse_run(trained.test, "--mbr", "--probabilities")
    assert code == 0
    found = parse_with_confidence(model, read_treebank(trained.test), least_risk=True)
    assert np.array_equal(read(out).heads, found.heads)
    best = parse_run(trained.test, "--probabilities")[1]
    ours, theirs = (misc_probabilities(read(text), HEAD).sum() for text in (out, best))
    assert ours > theirs
    code, out, lines = parse_run(trained.test, "--mbr", "--kbest", 2)
    assert (code, out) == (2, b"")
    assert "cannot be combined" in lines[-1]


def test_several_trees_of_each_sentence(trained, model, parse_run):
    treebank = read_treebank(trained.test)
    code, out, _ = parse_run(trained.test, "--kbest", 4, "--probabilities")
    assert code == 0
    found = find_k_best_trees(model, treebank, 4, probabilities=True)
    several, number = read(out), 0
    best = parse_run(trained.test, "--probabilities")[1]
    for s, sentence in enumerate(treebank):
        words = slice(treebank.word_starts[s], treebank.word_starts[s + 1])
        count = int((found.scores[:, s] > -np.inf).sum())
        assert count == 4 or len(sentence.forms) < 4
        for k in range(count):
            block = several[number]
            assert block.forms == sentence.forms
            assert block.heads == found.heads[k, words].tolist()
            assert block.labels == [model.labels[label] for label in found.labels[k, words]]
            assert several.comments(number) == [
                *treebank.comments(s),
                f"# rank = {k + 1}",
                f"# score = {found.scores[k, s]:.6f}",
                f"# probability = {found.probabilities[k, s]:.4f}",
            ]
            if k == 0:
                assert block.misc == read(best)[s].misc
            number += 1
    assert number == len(several)
    # What there is but for the trees and their marks is the input.
    code, out, _ = parse_run(trained.test, "--kbest", 1)
    lines = [line for line in out.split(b"\n") if not line.startswith((b"# rank", b"# score"))]
    assert b"\n".join(lines) == parse_run(trained.test)[1]
    assert out.count(b"# rank = 1\n# score = ") == len(treebank)
    assert b"probability" not in out


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("last", [0, 1, 2, 3])
def test_several_trees_of_odd_files(parse_run, line_end, last):
    text = (
        b"# first\n1-2\tvamonos\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n"
        b"1\tvamos\tir\tVERB\tV\t_\t_\t_\t_\tA=b\n1.1\tx\t_\t_\t_\t_\t_\t_\t0:y\t_\n"
        b"2\tnos\tnos\tPRON\tP\t_\t_\t_\t_\t_\n\n\n"
        b"1\tx\t_\tNOUN\tN\t_\t_\t_\t_\t_\n2\ty\t_\tNOUN\tN\t_\t_\t_\t_\t_"
    )
    text = (text + b"\n" * last).replace(b"\n", line_end)
    code, out, _ = parse_run("--kbest", 9, "--quiet", stdin=text)
    assert code == 0
    head, tail = out.split(line_end * 3, 1)
    assert head.count(b"# first") == head.count(b"# rank") == head.count(b"1-2\tvamonos") == 2
    assert head.startswith(b"# first" + line_end + b"# rank = 1" + line_end + b"# score = ")
    assert tail.startswith(b"# rank = 1" + line_end)
    assert tail.endswith(line_end * max(2, last))
    assert not tail.endswith(line_end * (max(2, last) + 1))
    assert (b"\n" in out.replace(b"\r\n", b"")) == (line_end == b"\n")
    assert len(read(out)) == 4


def test_several_trees_beside_faulty_sentences(trained, parse_run):
    bad = b"# bad\n1\tonly\tfour\tcolumns\n\n"
    good = b"".join(part + b"\n\n" for part in trained.test.read_bytes().split(b"\n\n")[:3])
    expected = parse_run("--kbest", 2, stdin=good)[1]
    code, out, _ = parse_run("--kbest", 2, "--on-error", "skip", stdin=bad + good + bad)
    assert (code, out) == (1, expected)
    code, out, _ = parse_run("--kbest", 2, "--on-error", "keep", stdin=bad + good + bad)
    assert (code, out) == (1, bad + expected + bad)


def test_repeating_needs_copies(trained):
    treebank = read_treebank(trained.test)
    for comments in ([], [[]] * len(treebank)):
        with pytest.raises(ValueError, match="do not fit"):
            repeated(treebank, comments)
    once = repeated(treebank, [[[]]] * len(treebank))
    assert once.data.tobytes() == treebank.data.tobytes()
    assert np.array_equal(once.columns, treebank.columns)
    assert np.array_equal(once.spans, treebank.spans)


def partly(text: bytes, seed: int = 1) -> tuple[bytes, np.ndarray]:
    """The text with half of its heads missing; (W,) which are kept."""
    draw, kept = np.random.default_rng(seed), []
    lines = columns(text)
    for row in lines:
        if len(row) > MISC and row[0].isdigit():
            kept.append(draw.random() < 0.5)
            if not kept[-1]:
                row[6] = b"_"
            if draw.random() < 0.3:
                row[7] = b"_"
            elif draw.random() < 0.3:
                row[7] = b"rare:relation"
    return b"\n".join(b"\t".join(row) for row in lines), np.array(kept)


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_heads_and_relations_are_kept(trained, model, parse_run, engine):
    text, kept = partly(trained.test.read_bytes())
    code, out, _ = parse_run("--keep", "heads", "--engine", engine, "--threads", 1, stdin=text)
    assert code == 0
    given, found = read(text), read(out)
    expected = model.parse(given, known=given.heads)
    assert np.array_equal(found.heads, expected.heads)
    assert np.array_equal(found.heads[kept], given.heads[kept])
    for w in range(given.n_words):
        before = given.column(w, 7)
        stays = kept[w] and before != "_"
        assert found.column(w, 7) == (before if stays else model.labels[expected.labels[w]])
    assert not np.array_equal(found.heads, read(parse_run(stdin=text)[1]).heads)
    code, out, _ = parse_run("--keep", "heads", "--engine", engine, stdin=trained.test.read_bytes())
    assert (code, out) == (0, no_deps(trained.test.read_bytes()))


def test_what_is_kept_is_certain(trained, parse_run):
    text, kept = partly(trained.test.read_bytes())
    for words in ([], ["--mbr"], ["--kbest", 2]):
        out = read(parse_run("--keep", "heads", "--probabilities", *words, stdin=text)[1])
        heads, labels = misc_probabilities(out, HEAD), misc_probabilities(out, LABEL)
        if "--kbest" in words:
            first = np.concatenate([
                np.full(len(s.forms), "# rank = 1" in out.comments(number))
                for number, s in enumerate(out)
            ])  # fmt: skip
            heads, labels, out = heads[first], labels[first], None
        assert (heads[kept] == 1).all()
        assert (heads[~kept] < 1).any()
        given = read(text)
        stays = kept & np.array([given.column(w, 7) != "_" for w in range(given.n_words)])
        assert (labels[stays] == 1).all()
        assert (labels[~stays] < 1).any()


def no_deps(text: bytes) -> bytes:
    """CoNLL-U as a parser of trees leaves it, with the same trees."""
    return without_deps(treebank_from_bytes(text, "text")).data.tobytes()


WRONG = {
    "cycle": ([2, 1, 0, 3], "words 1 (a) and 2 (b) form a cycle"),
    "out of range": (["_", 9, "_", "_"], "HEAD of word 2 (b) is 9; the sentence has 4 words"),
    "itself": (["_", "_", 3, "_"], "word 3 (c) is its own head"),
    "no number": (["_", "x", "_", "_"], "HEAD of word 2 (b) is 'x'"),
}
CROSSING = {
    "crossing": ([3, 4, "_", "_"], "the heads of the words 1 (a), 2 (b) cannot all be kept"),
    "no room": ([2, "_", 1, "_"], "the heads of the words 1 (a), 3 (c) cannot all be kept"),
}


def sentence(heads) -> bytes:
    lines = [
        f"{m}\t{form}\t{form}\tNOUN\tN\t_\t{head}\t_\t_\t_\n"
        for m, (form, head) in enumerate(zip("abcd", heads, strict=True), 1)
    ]
    return b"# sent_id = odd\n" + "".join(lines).encode() + b"\n"


@pytest.mark.parametrize("name", [*WRONG, *CROSSING])
def test_case_29_heads_that_cannot_be_kept(trained, parse_run, name):
    heads, message = (WRONG | CROSSING)[name]
    good = no_deps(trained.test.read_bytes())
    good = good[: good.index(b"\n\n") + 2]
    text, words = sentence(heads), ["--keep", "heads", "--quiet"]
    if name in CROSSING:
        assert parse_run(*words, stdin=text)[0] == 0  # crossing arcs are no fault of this decoder
        words += ["--decoder", "eisner"]
    code, out, lines = parse_run(*words, stdin=good + text)
    assert (code, out) == (3, b"")
    assert re.match(r"gpuparse: error: <stdin>:\d+: sent_id odd: ", lines[-1])
    assert message in lines[-1]
    assert "--on-error skip or keep passes over them" in lines[-1]
    code, out, lines = parse_run(*words, "--on-error", "skip", stdin=text + good + text)
    assert (code, out) == (1, good)
    said = "gpuparse: 2 sentences are malformed, or their heads cannot be kept, and were skipped"
    assert lines[-1] == said
    code, out, _ = parse_run(*words, "--on-error", "keep", stdin=text + good + text)
    assert (code, out) == (1, text + good + text)


def test_several_roots_where_one_is_allowed(parse_run, tmp_path):
    save_parser(test_model.trained(single_root=True), tmp_path)
    words = ["--keep", "heads", "--allow-missing", "--quiet"]
    code, _, lines = parse_run(*words, stdin=sentence([0, "_", 0, "_"]), model=tmp_path)
    assert code == 3
    assert "2 roots: words 1 (a) and 3 (c)" in lines[-1]
    code, out, _ = parse_run(*words, stdin=sentence([0, "_", "_", "_"]), model=tmp_path)
    assert code == 0
    assert [row[6] for row in columns(out) if len(row) > 6].count(b"0") == 1


def test_what_decoders_cannot(trained, parse_run, tmp_path):
    for name in ("hill_climb", "multi_parent"):
        (tmp_path / name).mkdir()
        save_parser(test_model.trained(decoder=name), tmp_path / name)
        for words in (["--probabilities"], ["--mbr"], ["--kbest", 2]):
            code, out, lines = parse_run(*words, trained.test, model=tmp_path / name)
            assert (code, out) == (2, b"")
            assert f"gpuparse: error: {words[0]}: " in lines[-1]
            assert "train a model with decoder=eisner" in lines[-1]
    code, _, lines = parse_run("--keep", "heads", trained.test, model=tmp_path / "multi_parent")
    assert code == 2
    assert "--keep heads: decoder multi_parent finds graphs" in lines[-1]
    code, out, _ = parse_run(
        "--keep", "heads", "--allow-missing", "--quiet", model=tmp_path / "hill_climb",
        stdin=sentence([2, "_", "_", "_"]),
    )  # fmt: skip
    assert code == 0
    assert columns(out)[1][6] == b"2"


ASKED = [["--probabilities"], ["--mbr"], ["--kbest", 3], ["--kbest", 2, "--probabilities"]]


@pytest.mark.parametrize("words", ASKED, ids=str)
def test_devices_write_the_same_bytes(trained, parse_run, monkeypatch, words):
    """Main memory takes the place of a GPU's, for which everything is done but Triton's kernels."""
    expected = parse_run(*words, trained.test)
    monkeypatch.setattr("gpuparse.jobs.resources.cuda_trouble", lambda: "")
    monkeypatch.setattr("gpuparse.jobs.options.device_difference", lambda *_, **__: "")
    made = []

    def searcher(parser: Parser, device: str, engine: str) -> Dense:
        made.append((device, engine))
        return Dense(parser.scorers, parser.task, "cpu", "torch")

    monkeypatch.setattr(Parser, "_dense_searcher", searcher)
    for device in ("cuda", "auto"):
        assert parse_run(*words, "--device", device, trained.test)[:2] == expected[:2]
        assert {given for given, _ in made} == {"cuda"}
        made.clear()


def test_workers_and_one_device_between_them(trained, tmp_path):
    """The trees come from the batches that workers make, without the sentences."""
    large = tmp_path / "large.conllu"
    large.write_bytes(trained.test.read_bytes() * 2)
    words = "-m", "gpuparse", "parse", trained.model, large, "--quiet"
    for more in (["--probabilities"], ["--kbest", 2]):
        expected, found = (
            program(*words, *more, "--engine", engine, "--threads", 2)
            for engine in ("native", "torch")
        )
        assert (found.stderr, found.returncode) == (b"", 0)
        assert found.stdout == expected.stdout != b""


def test_training_calibrates_on_dev(trained, model):
    assert model.scales.is_calibrated
    said = re.search(
        r"dev: probabilities calibrated, log loss of heads ([\d.]+) -> ([\d.]+) nats", trained.err
    )
    assert float(said[2]) <= float(said[1])
    assert facts_of(trained.model)[0]["calibrated"] is True


def test_training_without_dev_calibrates_on_held_out_sentences(tmp_path):
    words = [
        "quickstart", f"data.train={treebank_file(200, 5)}", "feature_map.rows=65536",
        "data.dev=null", "data.test=null",
        "learning.epochs=2", "labels.epochs=1", "threads=1", "device=cpu",
    ]  # fmt: skip
    folders = {name: tmp_path / name for name in ("first", "second", "none")}

    def learn(name, *more):
        given = [*words, f"output={folders[name]}", *more]
        code = run(train.main, given)
        assert code == 0
        return load_parser(folders[name])

    first, second, raw = learn("first"), learn("second"), learn("none", "calibration=none")
    files = model_files(folders["first"])
    assert model_files(folders["second"]) == files
    assert (first.scales.arc, first.scales.label) == (second.scales.arc, second.scales.label)
    assert first.scales.is_calibrated
    assert not raw.scales.is_calibrated
    assert np.array_equal(first.linear.arcs.array, raw.linear.arcs.array)
    # Sentences that neither model has seen.
    (tmp_path / "unseen.conllu").write_bytes(generate(200, 6))
    unseen = read_treebank(tmp_path / "unseen.conllu")
    _, before, best = fit_temperatures(raw, unseen)
    _, ours, _ = fit_temperatures(first, unseen)
    assert ours.heads - best.heads < 0.25 * (before.heads - best.heads)
    assert ours.labels - best.labels < 0.25 * (before.labels - best.labels)


def test_calibration_says_what_it_costs_and_why_it_is_left_out(tmp_path, capfd):
    words = ["quickstart", "data.dev=null", "data.test=null", "learning.epochs=1"]
    words += ["labels.epochs=1", f"output={tmp_path / 'model'}", "--force"]
    assert run(train.main, [*words, f"data.train={treebank_file(40, 5)}"]) == 0
    said = capfd.readouterr().err
    assert "learns from 12 sentences" in said
    assert "fitted to 4 others; calibration=none leaves this out" in said
    assert re.search(r"calibration: [\d.]+ s, log loss of heads [\d.]+ -> [\d.]+ nats", said)
    assert run(train.main, [*words, f"data.train={treebank_file(19, 5)}"]) == 0
    assert "not calibrated: there are fewer than 20 sentences" in capfd.readouterr().err
    assert not load_parser(tmp_path / "model").scales.is_calibrated
    for more in ("calibration=none", "decoder=hill_climb"):  # which has no probabilities
        given = [*words, f"data.train={treebank_file(40, 5)}", "features=extended", more]
        assert run(train.main, given) == 0
        assert "calibration:" not in capfd.readouterr().err


def test_models_that_are_not_calibrated_warn(trained, model, parse_run, tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    save_parser(
        model.with_scales(3 * model.scales.arc, model.scales.label / 3, is_calibrated=False), raw
    )
    for words in (["--probabilities"], ["--mbr"]):
        warnings = [
            line for line in parse_run(trained.test, *words, model=raw)[2] if "calib" in line
        ]
        assert len(warnings) == 1
        assert f"{raw}: its probabilities are not calibrated" in warnings[0]
        assert parse_run(trained.test, *words, "--quiet", model=raw)[2] == []
    assert not any("calib" in line for line in parse_run(trained.test, "--probabilities")[2])
    assert not any("calib" in line for line in parse_run(trained.test, "--kbest", 2, model=raw)[2])


def test_a_model_without_relations_has_probabilities_of_heads(parse_run, heads_alone, trained):
    assert facts_of(heads_alone)[0]["calibrated"] is False
    text, _ = partly(trained.test.read_bytes())
    words = "--probabilities", "--keep", "heads", "--kbest", 2
    code, out, _ = parse_run(*words, stdin=text, model=heads_alone)
    assert code == 0
    assert b"HeadProb=" in out
    assert b"LabelProb=" not in out
    assert out.count(b"rare:relation") >= text.count(b"rare:relation")


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_a_single_root_can_be_asked_for(engine, trained, model, parse_run, tmp_path):
    blank = re.sub(rb"(?m)^((?:[^\t\n]+\t){6})[^\t\n]+", rb"\g<1>_", trained.test.read_bytes())
    save_parser(replace(model, single_root=False), tmp_path)
    # Words under the root that are asked for are kept where several are allowed.
    first = re.sub(rb"(?m)^((?:[12]\t)(?:[^\t\n]+\t){5})_", rb"\g<1>0", blank)
    options = "--quiet", "--engine", engine, "--keep", "heads"
    code, out, _ = parse_run(*options, stdin=first, model=tmp_path)
    assert code == 0
    assert (read(out).heads == 0).sum() > len(read(out))
    code, out, _ = parse_run(*options, "--single-root", stdin=first, model=tmp_path)
    assert code == 3
    code, out, _ = parse_run(*options, "--single-root", stdin=blank, model=tmp_path)
    assert code == 0
    parsed = read(out)
    counts = np.add.reduceat(parsed.heads == 0, parsed.word_starts[:-1], dtype=np.int64)
    assert (counts == 1).all()
    assert out == parse_run(*options, stdin=blank)[1]

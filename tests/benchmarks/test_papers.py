"""The tables of a paper: systems trained once, figures that `evaluate` confirms, errors in time."""

import dataclasses
import io
import itertools
import json
import re
import shlex
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.papers import __main__ as tables
from benchmarks.papers.tables import FOLDER, load_tables
from gpuparse.commands import compare, evaluate, parse
from gpuparse.commands.console import run
from gpuparse.errors import ConfigError
from gpuparse.features.templates import load_templates
from gpuparse.inference.decoders import DECODERS
from gpuparse.jobs import checkpoint
from gpuparse.jobs import train as train_job
from gpuparse.learning.config_checks import check_learning
from gpuparse.model.folder import WEIGHTS
from tests.commands.conftest import program
from tests.synthetic import generate

PAPER = FOLDER / "mcdonald-pereira-2006.yaml"
PAPER_2005 = FOLDER / "mcdonald-crammer-pereira-2005.yaml"
PAPERS = sorted(FOLDER.glob("*.yaml"))
DATA = ["data.train=train.conllu", "data.test=test.conllu"]
SMALL = ["threads=1", "device=cpu", "feature_map.rows=32771", "learning.epochs=2"]
SYSTEMS = ["first-order-projective", "second-order-projective", "first-order-non-projective",
           "second-order-non-projective", "multi-parent"]  # fmt: skip


def call(*words: object) -> SimpleNamespace:
    """The command in this process: exit code, stdout, lines of stderr."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(tables.main, [str(word) for word in words])
    return SimpleNamespace(code=code, out=out.getvalue(), err=err.getvalue().splitlines())


def figures(text: str) -> dict[str, list[float]]:
    """The numbers of each row of a table as text, ours and the paper's in turn."""
    rows = re.findall(r"^(\S.*?)((?: +[\d.]+){4,})$", text, re.MULTILINE)
    return {title: [float(figure) for figure in numbers.split()] for title, numbers in rows}


@pytest.fixture(scope="module")
def printed(tmp_path_factory) -> SimpleNamespace:
    """The shipped file run on a tiny treebank with graphs: data, output folder, what it said."""
    folder = tmp_path_factory.mktemp("tables")
    (folder / "train.conllu").write_bytes(generate(60, 1))
    (folder / "test.conllu").write_bytes(generate(40, 3))
    words = [PAPER, f"data.train={folder}/train.conllu", f"data.test={folder}/test.conllu", *SMALL]
    words.append(f"output={folder}/runs")
    done = call(*words)
    assert done.code == 0, done.err
    return SimpleNamespace(
        folder=folder, words=words, test=folder / "test.conllu", runs=folder / "runs",
        out=done.out, err=done.err,
    )  # fmt: skip


def parsed(printed, system: str) -> Path:
    """The test treebank as a system's model parses it."""
    output = printed.folder / "parsed" / system
    words = [printed.runs / system, printed.test, "--output", f"{output}/", "--force", "--quiet"]
    assert run(parse.main, [str(word) for word in words]) == 0
    return output / "test.conllu"


def told(command, *words: object) -> dict:
    """The JSON that a command prints."""
    out = io.StringIO()
    with redirect_stdout(out):
        assert run(command.main, [*map(str, words), "--json"]) == 0
    return json.loads(out.getvalue())


def evaluated(printed, system: str, *options: str) -> dict:
    """The scores of `parse` and `evaluate` for a system's model."""
    return told(evaluate, printed.test, parsed(printed, system), *options)


def test_every_table_has_the_papers_shape_and_figures(printed):
    first, second, third = printed.out.split("\n\nTable ")
    paper = [{title: row[1::2] for title, row in figures(text).items()}
             for text in (first, second, third)]  # fmt: skip
    assert paper == [
        {"1st-order-projective": [90.7, 36.7], "2nd-order-projective": [91.5, 42.1]},
        {
            "1st-order-projective": [83.0, 30.6],
            "2nd-order-projective": [84.2, 33.1],
            "1st-order-non-projective": [84.1, 32.2],
            "2nd-order-non-projective": [85.2, 35.9],
        },
        {
            "2nd-order-projective": [86.4, 81.7, 83.9],
            "2nd-order-non-projective": [86.9, 82.2, 84.4],
            "2nd-order-non-projective w/ multiple parents": [86.2, 84.9, 85.6],
        },
    ]
    assert "Words that are punctuation are not counted." in first
    assert "Words that are punctuation" not in second + third
    for text in (first, second, third):
        assert "of the paper's data, not of these files" in text


def test_the_figures_are_those_of_evaluate(printed):
    first, second, third = (figures(text) for text in printed.out.split("\n\nTable "))
    systems = load_tables(PAPER, DATA).tables
    for name, rows, options in [
        ("1", first, ["--ignore-punct"]), ("2", second, []), ("3", third, None)
    ]:  # fmt: skip
        for row in systems[name].rows:
            ours = rows[row.title][::2]
            if options is None:
                graphs = "deps" if row.system == "multi-parent" else "heads"
                arcs = evaluated(printed, row.system, "--graphs", graphs)["unlabelled"]
                expected = [arcs["precision"], arcs["recall"], arcs["f"]]
            else:
                scores = evaluated(printed, row.system, *options)
                expected = [scores["uas"]["percent"], scores["complete"]["percent"]]
            assert ours == pytest.approx(expected, abs=0.00501)
    assert first != {title: second[title] for title in first}
    assert len({tuple(row) for row in third.values()}) == 3


def trained_by(monkeypatch) -> list[str]:
    """The systems that are trained from now on."""
    names, original = [], train_job.train

    def counted(plan, **options):
        names.append(plan.output.name)
        return original(plan, **options)

    monkeypatch.setattr(train_job, "train", counted)
    return names


def test_what_is_trained_is_not_trained_again(printed, tmp_path, monkeypatch):
    names = trained_by(monkeypatch)
    again = call(*printed.words, "--quiet")
    assert (again.code, again.out, again.err) == (0, printed.out, [])
    (tmp_path / "other.conllu").write_bytes(generate(30, 4))
    other = call(*printed.words, f"data.test={tmp_path}/other.conllu", "--only", "2")
    assert other.code == 0
    assert other.out not in printed.out
    found = json.loads(call(*printed.words, "--only", "3", "--json").out)
    assert (list(found["tables"]), found["left_out"]) == (["3"], {})
    [*_, last] = found["tables"]["3"]["rows"]
    arcs = evaluated(printed, "multi-parent", "--graphs", "deps")["unlabelled"]
    assert last["F"] == {"here": arcs["f"], "paper": 85.6}
    assert last["system"] == "multi-parent"
    assert names == []


def copy_of(printed, folder: Path) -> list:
    """The words of a run into another folder."""
    return [*printed.words[:-1], f"output={folder}"]


def test_only_the_systems_of_the_tables_asked_for_are_trained(printed, tmp_path, monkeypatch):
    names = trained_by(monkeypatch)
    words = copy_of(printed, tmp_path)
    assert call(*words, "--only", "1").code == 0
    assert names == ["first-order-projective", "second-order-projective"]
    for name in names:
        ours, theirs = (folder / name / WEIGHTS for folder in (tmp_path, printed.runs))
        assert ours.read_bytes() == theirs.read_bytes()
    assert call(*words, "--only", "1", "--only", "2").code == 0
    assert names[2:] == ["first-order-non-projective", "second-order-non-projective"]
    assert call(*words, "--only", "1", "--force").code == 0
    assert names[4:] == names[:2]


@pytest.mark.parametrize(
    ("paper", "words", "code", "said"),
    [
        (PAPER, ["seed=2", "--only", "1"], 2,
         [f"/{name}: cannot continue: seed was 1 and is now 2" for name in SYSTEMS[:2]]),
        (PAPER, ["data.train=other/train.conllu", "--only", "1"], 2,
         [f"/{name}: .*data.train: has other content" for name in SYSTEMS[:2]]),
        (PAPER, ["features=mcdonald-2005", "output=new"], 2,
         [f"system {name}: " for name in (SYSTEMS[1], *SYSTEMS[3:])]),
        (PAPER_2005, ["learning.batch_size=2", "--only", "rules", "output=new"], 2,
         [f"system {name}: .*batch_size must be 1" for name in ("mira-factored", "conditional")]),
        (PAPER, ["data.train=no", "data.test=none"], 3, ["data.train: ", "data.test: "]),
        (PAPER, ["--only", "4"], 2, ["--only 4: expected one of 1, 2, 3"]),
    ],
    ids=["another config", "another treebank", "features", "rules", "no treebanks", "no table"],
)  # fmt: skip
def test_all_systems_are_checked_before_any_is_trained(
    printed, tmp_path, monkeypatch, paper, words, code, said
):
    names = trained_by(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "train.conllu").write_bytes(generate(120, 2))
    done = call(paper, *printed.words[1:], *words)
    assert (done.code, done.out, names) == (code, "", [])
    errors = [line for line in done.err if "error: " in line and ": give what" not in line]
    for error, what in zip(errors, said, strict=True):
        assert re.search(what, error)
    assert not (tmp_path / "new").exists()


def test_a_model_of_somebody_else_is_not_used(printed, tmp_path):
    words = copy_of(printed, tmp_path)
    name = "first-order-projective"
    (tmp_path / name).mkdir()
    (tmp_path / name / WEIGHTS).write_bytes((printed.runs / name / WEIGHTS).read_bytes())
    done = call(*words, "--only", "1")
    assert (done.code, done.out) == (2, "")
    assert "holds a model that this command did not train; give --force" in done.err[-1]
    (tmp_path / f"{name}.json").write_text("{}")
    assert call(*words, "--only", "1").code == 2


class Cut(BaseException):
    pass


def ticking(monkeypatch) -> None:
    """Let every look at the clock of learning find it a second later."""
    ticks = itertools.count()
    clock = SimpleNamespace(process_time=lambda: float(next(ticks)), monotonic=time.monotonic)
    monkeypatch.setattr(train_job, "time", clock)


def test_systems_with_a_tagger_are_trained_once(printed, tmp_path):
    keys = ["tagger.learn=true", "tagger.folds=2"]
    words = [*printed.words[:3], *SMALL, *keys, f"output={tmp_path}", "--only", "1"]
    first = call(*words)
    assert first.code == 0, first.err
    assert any("by jackknifing in 2 folds" in line for line in first.err)
    again = call(*words)
    assert (again.code, again.out) == (0, first.out)
    assert not any("jackknifing" in line for line in again.err)
    assert call(*words, "tagger.bits=8").code == 2


def test_an_interrupted_run_goes_on_and_so_does_its_time(printed, tmp_path, monkeypatch):
    words = copy_of(printed, tmp_path)
    timed = tmp_path / "timed.yaml"
    text = PAPER.read_text().replace("columns: [accuracy, complete]", "columns: [training_time]")
    timed.write_text(re.sub(r"paper: \[[\d.]+, [\d.]+\]", "paper: [1h 5m]", text))
    words[0], original, calls = timed, checkpoint.write_checkpoint, []

    def cut(*arguments):
        original(*arguments)
        calls.append(1)
        if len(calls) == 3:  # in the middle of the second system
            raise Cut

    monkeypatch.setattr(checkpoint, "write_checkpoint", cut)
    ticking(monkeypatch)
    with pytest.raises(Cut):
        call(*words, "--only", "1")
    other = call(*words, "--only", "1", "seed=7")
    assert other.code == 2
    assert any("cannot continue: seed was 1 and is now 7" in line for line in other.err)
    done = call(*words, "--only", "1", "--json")
    assert done.code == 0
    assert len(calls) == 4
    rows = json.loads(done.out)["tables"]["1"]["rows"]
    # Learning is waited for in every epoch and once at the end.
    assert [row["training_time"] for row in rows] == [{"here": 3.0, "paper": "1h 5m"}] * 2
    again = call(*words, "--only", "1")
    assert re.search(r"^2nd-order-projective +3\.00 +1h 5m$", again.out, re.MULTILINE)
    name = "second-order-projective"
    weights = [(folder / name / WEIGHTS).read_bytes() for folder in (tmp_path, printed.runs)]
    assert weights[0] == weights[1]


@pytest.mark.parametrize(
    ("which", "old", "new", "what"),
    [
        ("train", r"\t[^\t]*\t([^\t]*)$", r"\t_\t\1", "DEPS (column 9) is _ in every word"),
        ("test", r"\t[^\t]*\t([^\t]*)$", r"\t_\t\1", "DEPS (column 9) is _ in every word"),
        ("test", r"\t0:root\t", r"\t3\t", "has the item '3', without a ':'"),
    ],
    ids=["train", "test", "not to be read"],
)
def test_without_graphs_the_table_of_graphs_is_left_out(
    printed, tmp_path, monkeypatch, which, old, new, what
):
    names = trained_by(monkeypatch)
    bare = tmp_path / f"{which}.conllu"
    bare.write_text(re.sub(old, new, (printed.folder / bare.name).read_text(), flags=re.MULTILINE))
    words = [*copy_of(printed, tmp_path / "runs"), f"data.{which}={bare}"]
    done = call(*words, "--only", "3")
    assert (done.code, done.out, names) == (3, "", [])
    assert what in done.err[-1]
    assert "table 3 is about graphs" in done.err[-1]
    if which == "test":  # where the models are
        words[-2] = printed.words[-1]
    done = call(*words)
    assert done.code == 0
    assert "Table 2" in done.out
    assert "Table 3" not in done.out
    assert any(line.startswith("gpuparse: table 3 is skipped: ") for line in done.err)
    systems = [name for name in load_tables(PAPER, DATA).systems if name != "multi-parent"]
    assert names == (systems if which == "train" else [])


WRONG = """\
output: runs/x
data: {train: train.conllu, test: test.conllu, tset: no}
learning:
  epochs: 0
systems:
  good: {decoder: eisner}
  bad/name: {decoder: eisner}
  bad: {decoder: best, output: elsewhere, data.test: other}
  worse:
    learning.epoch: 3
    features: none-such
  none: 5
tables:
  a:
    title: A
    columns: [accuracy, beauty]
    rows: {one: {system: good, paper: [1]}}
  b:
    columns: [accuracy]
    rwos: {}
    ignore_punctuation: perhaps
    note: 5
    rows:
      one: {system: nobody}
      two: {system: good, paper: [1, 2]}
      three: {system: good, papers: [1]}
      four: good
      five: {paper: {here: [1], there: [1, 2], everywhere: 1}}
      six: {}
    transposed: 1
    compare: [[two, five]]
  c: 3
  d:
    columns: [accuracy]
    rows: {one: {paper: [1]}}
"""


def errors_of(path: Path, *overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_tables(path, overrides)
    return [line.removeprefix(f"{path}:") for line in str(caught.value).splitlines()]


def test_all_that_is_wrong_is_told_at_once_with_its_line(tmp_path):
    path = tmp_path / "wrong.yaml"
    path.write_text(WRONG)
    errors = errors_of(path, "learning.epochs=5", "seed=x", "decoder=eisner")
    told = [": ".join(error.split(": ")[:2]) for error in errors]
    assert told == [
        "2: data.tset", "4: learning.epochs", "command line: seed",
        "7: systems.bad/name", "8: systems.bad.output", "8: systems.bad.data.test",
        "10: learning.epoch", "11: features", "12: systems.none", "command line: decoder",
        "16: tables.a.columns", "17: tables.a.rows.one.paper",
        "20: tables.b.rwos",
        "24: tables.b.rows.one.system", "25: tables.b.rows.two.paper",
        "26: tables.b.rows.three.papers", "27: tables.b.rows.four",
        "28: tables.b.rows.five.paper.there", "28: tables.b.rows.five.paper.everywhere",
        "29: tables.b.rows.six.system",
        "22: tables.b.note", "30: tables.b.transposed", "21: tables.b.ignore_punctuation",
        "31: tables.b.compare", "32: tables.c",
        "35: tables.d.rows",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "[1]", "output: x\n", "systems: {}\ntables: 5\n"])
def test_a_file_without_systems_and_tables(tmp_path, text):
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    expected = ["systems", "tables"]
    if text.startswith(("output", "systems")):
        expected += [f"data.{part} is missing: give data.{part}=FILE" for part in ("train", "test")]
    errors = errors_of(path)
    assert [any(each in error for error in errors) for each in expected] == [True] * len(expected)


def test_what_systems_differ_in_cannot_be_overridden():
    errors = errors_of(PAPER, *DATA, "decoder=eisner", "labels.features=labels")
    start = "cannot be overridden; it differs between systems: "
    assert errors[0].startswith(f"command line: decoder: {start}first-order-projective, ")
    assert errors[1:] == [f"command line: labels.features: {start}multi-parent"]


def test_overrides_are_for_all_systems():
    systems = load_tables(PAPER, [*DATA, "features=extended", "seed=5", "output=there"]).systems
    assert sorted(systems) == sorted(SYSTEMS)
    for name, config in systems.items():
        assert (config.features, config.seed) == ("extended", 5)
        assert config.output == f"there/{name}"
        assert config.data.test is None


@pytest.mark.parametrize("pairs", ["5", "[one, two]", "[[one]]", "[[one, 3]]", "[[one, paper]]"])
def test_only_rows_with_systems_can_be_compared(tmp_path, pairs):
    rows = "{one: {system: perceptron}, two: {system: mira-1}, paper: {paper: [1]}}"
    text = PAPER_2005.read_text().partition("tables:\n")[0]
    table = f"tables:\n  1: {{columns: [accuracy], rows: {rows}, compare: {pairs}}}\n"
    path = tmp_path / "file.yaml"
    path.write_text(text + table)
    [error] = errors_of(path, *DATA)
    assert error.endswith("expected a list of pairs of rows with a system: one, two")
    path.write_text(text + table.replace(pairs, "[[two, one]]"))
    [[first, second]] = load_tables(path, DATA).tables["1"].compare
    assert (first.title, second.title) == ("two", "one")


def test_paths_count_from_the_file(tmp_path, monkeypatch):
    (tmp_path / "papers").mkdir()
    data = "data: {train: train.conllu, test: test.conllu}\n"
    (tmp_path / "papers" / "file.yaml").write_text(data + PAPER.read_text())
    monkeypatch.chdir(tmp_path)
    paper = load_tables("papers/file.yaml")
    assert paper.test == "papers/test.conllu"
    assert {config.data.train for config in paper.systems.values()} == {"papers/train.conllu"}


def test_it_can_be_called_as_a_command(printed):
    done = program("-m", "benchmarks.papers", *printed.words, "--only", "2", "--quiet")
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() in printed.out + "\n"


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.stem)
def test_the_commands_in_a_paper_s_file_are_right(path):
    comment = path.read_text(encoding="utf-8").partition("\n\n")[0]
    start = "python -m benchmarks.papers "
    commands = [line.partition(start)[2] for line in comment.splitlines() if start in line]
    assert commands
    for command in commands:
        named, *words = shlex.split(command)
        assert named == path.stem
        paper = load_tables(named, [word for word in words if "=" in word])
        for config in paper.systems.values():
            templates, needs = load_templates(config.features), DECODERS[config.decoder].needs
            assert not needs or any(getattr(templates, part) for part in needs)
            check_learning(config)


def test_every_system_of_a_paper_is_in_a_table_and_no_two_are_the_same():
    outputs = []
    for path in PAPERS:
        paper = load_tables(path, DATA)
        assert set(paper.systems) == set().union(*(t.systems for t in paper.tables.values()))
        configs = [dataclasses.replace(config, output="") for config in paper.systems.values()]
        assert all(config not in configs[:i] for i, config in enumerate(configs))
        outputs += [config.output for config in paper.systems.values()]
    assert len(set(outputs)) == len(outputs)


KS = (1, 2, 5, 10, 20)


def test_a_system_is_what_its_name_says():
    systems = load_tables(PAPER, DATA).systems
    decoders = ["eisner", "eisner_sibling", "chu_liu_edmonds", "hill_climb", "multi_parent"]
    assert [systems[name].decoder for name in SYSTEMS] == decoders
    learned = load_tables(PAPER_2005, DATA).systems
    for name in ("perceptron", *(f"mira-{k}" for k in KS), "mira-5-nearest"):
        rule, _, rest = name.partition("-")
        k, _, trees = rest.partition("-")
        config = learned[name]
        assert (config.learning.rule, config.learning.k) == (rule, int(k or 1))
        unreachable = {"": "none", "nearest": "projectivise"}[trees]
        assert config.learning.unreachable == unreachable
        assert (config.features, config.decoder) == ("mcdonald-2005", "eisner")
        assert (config.labels.kind, config.learning.max_step) == ("none", None)


@pytest.fixture(scope="module")
def k_best(printed) -> SimpleNamespace:
    """Tables of the paper of 2005 on the same data, as text and as JSON."""
    runs = printed.folder / "runs-2005"
    words = [PAPER_2005, *copy_of(printed, runs)[1:]]
    words += ["--only", "2", "--only", "4", "--only", "crossing"]
    done = call(*words)
    assert done.code == 0, done.err
    as_json = json.loads(call(*words, "--json", "--quiet").out)["tables"]
    return SimpleNamespace(
        folder=printed.folder, test=printed.test, runs=runs, out=done.out, json=as_json, words=words
    )


def test_figures_of_several_data_stand_beside_ours(k_best):
    second, _, crossing = k_best.out.split("\n\nTable 4")[0], *k_best.out.split("\n\nBeyond")
    lines = second.splitlines()
    assert lines[2].split() == ["accuracy", "root", "complete"]
    assert lines[3].split() == ["here", "English", "Czech"] * 3
    cells = [re.split(r" {2,}", line) for line in lines[4:8]]
    assert [row[0] for row in cells] == ["Y&M2003", "N&S2004", "Avg. Perceptron", "MIRA"]
    assert cells[0][1:] == ["-", "90.3", "-", "-", "91.6", "-", "-", "38.4", "-"]
    assert cells[2][2::3] + cells[2][3::3] == ["90.6", "94.0", "36.5", "82.9", "88.0", "30.3"]
    assert cells[3][2::3] + cells[3][3::3] == ["90.9", "94.2", "37.5", "83.3", "88.6", "31.3"]
    for row, system in ((cells[2], "perceptron"), (cells[3], "mira-5")):
        scores = evaluated(k_best, system)
        expected = [scores["uas"]["percent"], scores["root"]["f"], scores["complete"]["percent"]]
        assert [float(cell) for cell in row[1::3]] == pytest.approx(expected, abs=0.00501)
    assert re.search(r"^as they are +[\d.]+ +83\.3 +[\d.]+ +88\.6 ", crossing, re.MULTILINE)


def test_the_test_under_a_table_is_that_of_compare(k_best):
    [found] = k_best.json["2"]["compare"]
    files = [parsed(k_best, system) for system in ("mira-5", "perceptron")]
    [expected] = told(compare, k_best.test, *files)["comparisons"]
    assert found == {
        "first": "MIRA", "second": "Avg. Perceptron", **expected["mcnemar"]["uas"],
    }  # fmt: skip
    assert found["only_first"] != found["only_second"]
    only = f"{found['only_first']} right heads that the other has wrong, {found['only_second']}"
    assert f"MIRA against Avg. Perceptron: {only} the other way round, McNemar's p" in k_best.out
    assert len(k_best.json["crossing"]["compare"]) == 1


def test_systems_can_stand_side_by_side(k_best):
    fourth = k_best.out.split("\n\nTable 4")[1].split("\n\nBeyond")[0]
    lines = [re.split(r" {2,}", line.strip()) for line in fourth.splitlines()[2:7]]
    assert lines[0] == [f"k={k}" for k in KS]
    assert lines[2] == ["paper", "90.73", "90.82", "90.88", "90.92", "90.91"]
    assert lines[4] == ["paper", "183m", "235m", "627m", "1372m", "2491m"]
    rows = k_best.json["4"]["rows"]
    for i, column, title in ((1, "accuracy", "accuracy"), (3, "training_time", "training, CPU s")):
        values = [row[column]["here"] for row in rows]
        assert lines[i] == [title, *(f"{value:.2f}" for value in values)]
        assert all(0 < value <= 100 for value in values)
    expected = [evaluated(k_best, f"mira-{k}")["uas"]["percent"] for k in KS]
    assert [row["accuracy"]["here"] for row in rows] == expected
    assert rows[0]["training_time"]["paper"] == "183m"

"""The page of `report`: its numbers, what it refuses, and how a browser shows it."""

import html
import re
import shutil
from html.parser import HTMLParser

import pytest

from gpuparse.commands import compare, evaluate, report
from gpuparse.commands.console import run
from gpuparse.jobs import records
from gpuparse.jobs.progress import visible
from tests.browser import needs_chromium, show
from tests.commands.conftest import program
from tests.samples import without
from tests.synthetic import generate


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def parsed(trained, tmp_path_factory):
    """The test file as the model parses it, with probabilities."""
    path = tmp_path_factory.mktemp("parsed") / "system.conllu"
    words = [trained.model, trained.test, "--probabilities", "--quiet"]
    path.write_bytes(program("parse.py", *words).stdout)
    return path


@pytest.fixture(scope="module")
def other(parsed):
    """Another system: all objects have another relation, the last modifiers other heads."""
    path = parsed.with_name("other.conllu")
    sentences = []
    for text in parsed.read_text().split("\n\n"):
        rows = [line.split("\t") for line in text.split("\n")]
        words = [row for row in rows if len(row) == 10]
        for row in words:
            row[7] = "<obj>&'\"\u202e" if row[7] == "obj" else row[7]
        heads = {row[6] for row in words}
        leaves = [row for row in words if row[0] not in heads and row[6] != "0"]
        if leaves:
            leaves[-1][6] = next(row[0] for row in words if row[0] != leaves[-1][0])
        sentences.append("\n".join("\t".join(row) for row in rows))
    path.write_text("\n\n".join(sentences))
    return path


class Page(HTMLParser):
    """The tables and the preformatted text of a page by the heading before each."""

    def __init__(self, path):
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.texts: dict[str, str] = {}
        self._heading, self._cell, self._where = "", None, None
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)

    def handle_starttag(self, tag, attrs):
        if tag in ("h2", "h3"):
            self._heading = ""
        elif tag == "tr":
            self.tables.setdefault(self._heading, []).append([])
        elif tag in ("td", "th"):
            self.tables[self._heading][-1].append("")
        self._where = tag

    def handle_data(self, data):
        if self._where in ("h2", "h3"):
            self._heading += data
        elif self._where == "pre":
            self.texts[self._heading] = self.texts.get(self._heading, "") + data
        elif self._where in ("td", "th"):
            self.tables[self._heading][-1][-1] += data

    def handle_endtag(self, tag):
        self._where = None

    def row(self, heading, name):
        return next(row[1:] for row in self.tables[heading] if row[0] == name)


def test_an_output_is_checked_before_the_gold_file_is_parsed(trained, here, capsys, monkeypatch):
    monkeypatch.setattr(report, "gold_of", None)
    assert call(trained.model, "--output", "missing/page.html") == 2
    said = "gpuparse: error: missing/page.html: the folder is missing; make it first\n"
    assert capsys.readouterr().err == said


def call(*words) -> int:
    return run(report.main, [str(word) for word in words])


def test_a_run_is_scored_on_its_test_file(trained, here, capsys):
    before = sorted(path.name for path in trained.model.iterdir())
    assert call(trained.model, "--output", "page.html") == 0
    assert capsys.readouterr() == ("", "gpuparse: page.html: written\n")
    assert sorted(path.name for path in trained.model.iterdir()) == before
    page = Page(here / "page.html")
    found = records.read_scores(trained.model)["test"]
    for name, counts in found["relations"].items():
        row = page.row("By relation", name)
        scores = [f"{counts[key]:.2f}" if counts[key] is not None else "-"
                  for key in ("recall", "precision", "f")]  # fmt: skip
        assert row[0] == f"{counts['gold']:,}"
        assert row[2:5] == scores
    assert {
        "By part of speech", "By arc length", "By distance to the root", "By sentence length",
        "By projectivity", "Confusion of relations",
    } < set(page.tables)  # fmt: skip
    wrong = found["uas"]["total"] - found["uas"]["correct"]
    for heading in ("By part of speech", "By arc length", "By sentence length"):
        column = page.tables[heading][0].index("wrong heads")
        assert sum(int(row[column].replace(",", "")) for row in page.tables[heading][1:]) == wrong
    assert "are not calibrated" not in page.source


def test_a_parsed_file_gives_the_numbers_of_the_model_and_of_the_commands(
    trained, parsed, here, capsys
):
    assert call(trained.model, "--output", "model.html") == 0
    assert call(parsed, "--gold", trained.test, "--output", "file.html") == 0
    of_model, of_file = Page(here / "model.html"), Page(here / "file.html")
    del of_model.tables["The run"], of_file.tables["The run"]
    assert of_model.tables == of_file.tables
    assert of_model.texts == of_file.texts
    capsys.readouterr()
    for words, heading in (([], "Scores"), (["--probabilities"], "Reliability of probabilities")):
        assert evaluate.main([str(trained.test), str(parsed), *words]) == 0
        assert of_file.texts[heading] == capsys.readouterr().out


def test_the_model_that_knows_the_test_file_may_come_second(trained, parsed, here):
    assert call(parsed, trained.model, "--sentences", 0) == 0
    text = Page(here / "report.html").texts["Scores"]
    assert re.search(r"right for UAS +0 +0 +1\.0000\n", text)


def test_the_same_report_is_the_same_page(trained, parsed, here):
    for name in ("one.html", "two.html"):
        assert call(parsed, "--gold", trained.test, "--output", name, "--sentences", 3) == 0
    assert (here / "one.html").read_bytes() == (here / "two.html").read_bytes()
    assert Page(here / "one.html").source.count("<article>") == 3


def test_two_runs_are_compared(trained, parsed, other, here, capsys):
    assert call(parsed, other, "--gold", trained.test, "--output", "page.html") == 0
    page = Page(here / "page.html")
    capsys.readouterr()
    assert compare.main([str(path) for path in (trained.test, parsed, other)]) == 0
    assert page.texts["Scores"] == visible(capsys.readouterr().out)
    names = html.unescape(page.source)
    assert "<obj>&'\"\N{REPLACEMENT CHARACTER}" in names
    assert "<obj>" not in page.source


def test_punctuation_can_be_left_out(trained, parsed, here, capsys):
    words = ["--gold", trained.test, "--ignore-punct"]
    assert call(parsed, *words) == 0
    capsys.readouterr()
    assert evaluate.main([str(trained.test), str(parsed), "--ignore-punct"]) == 0
    out = capsys.readouterr().out
    assert Page(here / "report.html").texts["Scores"] == out


def test_a_perfect_parse_has_no_sentences(trained, here):
    assert call(trained.test, "--gold", trained.test) == 0
    page = Page(here / "report.html")
    assert re.search(r"LAS +100\.00 ", page.texts["Scores"])
    assert "No relation is wrong." in page.source
    assert "<article>" not in page.source


def test_heads_alone(trained, parsed, here):
    (here / "heads.conllu").write_bytes(without(parsed.read_bytes(), 7, 9))
    assert call("heads.conllu", "--gold", trained.test) == 0
    page = Page(here / "report.html")
    shares = re.findall(r"^(\w+) +[0-9.]+  ", page.texts["Scores"], re.MULTILINE)
    assert shares[:2] == ["UAS", "complete"]
    assert "By relation" not in page.tables
    assert "Confusion of relations" not in page.tables
    assert "Reliability of probabilities" not in page.texts
    assert "LAS" not in page.source


def test_what_is_refused(trained, parsed, here, capsys):
    def error(*words) -> tuple[int, str]:
        code = call(*words)
        return code, capsys.readouterr().err

    code, said = error(parsed)
    assert (code, "give a file with --gold" in said) == (2, True)
    (here / "report.html").write_text("mine")
    code, said = error(parsed, "--gold", trained.test)
    assert (code, "report.html: exists; give --force" in said) == (2, True)
    assert (here / "report.html").read_text() == "mine"
    assert error(parsed, "--gold", trained.test, "--force")[0] == 0
    assert error(here, "--gold", trained.test, "--force")[0] == 4
    for words in (["nothing"], ["nothing", "--gold", trained.test], [parsed, "nothing"]):
        code, said = error(*words, "--force")
        assert code == 3
        assert said.startswith("gpuparse: error: nothing: no such model, and no such file; a model")
    assert error(parsed, "--gold", trained.folder / "train.conllu", "--force")[0] == 3


def test_an_installed_model_is_found_by_its_name(here, capsys):
    (here / "gold.conllu").write_bytes(generate(3, 1))
    assert run(report.main, ["english"]) == 2
    assert "english: its test file is unknown: give a file with --gold" in capsys.readouterr().err
    assert run(report.main, ["english", "--gold", "gold.conllu"]) == 0
    assert Page(here / "report.html").source.count("<h1>Parsing report: english</h1>") == 1
    assert run(report.main, ["englich", "--force"]) == 3
    assert "no such file; did you mean english?" in capsys.readouterr().err


def test_a_model_without_records_needs_a_gold_file(trained, here):
    shutil.copytree(trained.model, "model")
    (here / "model" / records.SCORES).unlink()
    assert call("model") == 2
    assert call("model", "--gold", trained.test) == 0
    assert len(Page(here / "model" / "report.html").tables["The run"]) == 3


def test_odd_records_are_shown_as_far_as_they_go(trained, here):
    shutil.copytree(trained.model, "model")
    (here / "model" / records.SCORES).write_text('{"seed": ["<b>"], "files": 3}')
    assert call("model", "--gold", trained.test) == 0
    assert "<b>" not in Page(here / "model" / "report.html").source


def test_no_request_is_in_the_page(trained, parsed, here):
    assert call(parsed, "--gold", trained.test) == 0
    source = Page(here / "report.html").source.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "http:" not in source
    assert "https:" not in source
    assert not re.search(r"<script|<link|<img|<iframe|src=|url\(|@import", source)
    assert set(re.findall(r'href="(.)', source)) == {"#"}


@needs_chromium
@pytest.mark.parametrize("dark", [True, False])
def test_a_browser_shows_it_on_narrow_and_wide_screens(trained, other, here, dark):
    assert call(trained.model, other, "--output", "page.html", "--sentences", 4) == 0
    shown = show(here / "page.html", dark=dark)
    assert shown.console == []
    assert set(shown.measured) == {400, 1400}
    for width, measured in shown.measured.items():
        assert measured["scroll"] <= width
        assert measured["out"] == []
        assert measured["requests"] == []
        assert measured["tables"] > 8
        assert measured["pictures"] == 4 * 2
        assert (measured["background"] == "rgb(255, 255, 255)") is not dark


@needs_chromium
def test_the_browser_would_find_what_is_wrong(here):
    """A page that is too wide, asks for a file and has a script with an error."""
    (here / "page.html").write_text(
        "<!DOCTYPE html><head></head><p style='width: 900px'>a</p>"
        "<img src='http://example.org/a.png'><script>missing()</script>"
    )
    shown = show(here / "page.html", widths=(400,))
    measured = shown.measured[400]
    assert measured["scroll"] > 400
    assert len(measured["out"]) == 1
    assert len(measured["requests"]) == 1
    assert any("missing is not defined" in line for line in shown.console)

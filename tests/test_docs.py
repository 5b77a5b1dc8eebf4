"""The documents are true: links, commands, code, the table of keys, the exit codes."""

import importlib
import re
import runpy
import shlex
import subprocess
from pathlib import Path

import pytest

from benchmarks import __main__ as benchmarks
from gpuparse import errors
from gpuparse.__main__ import COMMANDS
from gpuparse.commands.console import INTERRUPTED, MEANINGS
from gpuparse.features.templates import parse_set

ROOT = Path(__file__).parents[1]
BOOK = ROOT / "benchmarks" / "book.md"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), BOOK])
INCLUDED = {"CHANGELOG.md", "CONTRIBUTING.md"}  # pages whose text is elsewhere
MACHINE_PATH = re.compile(r"(?:^|[^\w.$}:/])/(?:home|root|tmp|work|mnt|opt|usr|var|Users)/")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HOSTS = {"universaldependencies.org"}  # of links to elsewhere
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def name(path) -> str:
    return str(path.relative_to(ROOT)) if isinstance(path, Path) else str(path)


def blocks(language: str) -> list[tuple[Path, str]]:
    return [
        (path, text)
        for path in DOCUMENTS
        for found, text in FENCE.findall(path.read_text(encoding="utf-8"))
        if found == language
    ]


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def test_the_documents_are_there():
    names = {name(path) for path in DOCUMENTS}
    assert {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/architecture.md"} <= names


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_lead_somewhere(path):
    for link in LINK.findall(path.read_text(encoding="utf-8")):
        if link.startswith(("http://", "https://")):
            host = re.fullmatch(r"https://([a-z0-9.-]+)(/[\w./~%#?=&+-]*)?", link)
            assert host, link
            assert host[1] in HOSTS, f"{link}: another host"
            continue
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_no_paths_of_a_machine(path):
    assert MACHINE_PATH.findall(path.read_text(encoding="utf-8")) == []


def test_a_path_of_a_machine_would_be_found():
    assert MACHINE_PATH.search("see `{}`".format("/".join(["", "home", "someone", "file"])))
    assert not MACHINE_PATH.search("https://example.org/home/ and runs/tmp/x")


NOT_RUN = [
    (path, line)
    for path, text in blocks("text")
    for line in text.replace("\\\n", "").splitlines()
    if re.match(r"gpuparse [a-z]+ |python -m benchmarks [a-z]", line)
]


@pytest.mark.parametrize(("path", "line"), NOT_RUN, ids=lambda part: name(part)[:60])
def test_commands_that_are_only_shown_exist(path, line, capsys):
    """Commands of `sh` blocks are run by tests/test_pages.py."""
    program, *words = shlex.split(re.split(" [<>|] ", line)[0])
    if program == "python":
        with pytest.raises(SystemExit) as done:
            benchmarks.main(["--help"])
        shown = capsys.readouterr().out
        name_of = next(word for word in words[2:] if re.fullmatch("[a-z]+", word))
        with pytest.raises(SystemExit) as done:
            benchmarks.main([name_of, "--help"])
        assert done.value.code == 0
        shown += capsys.readouterr().out
        assert [word for word in words if word.startswith("--") and word not in shown] == []
    else:
        assert_options_known(words[0], words[1:], capsys)


def assert_options_known(command: str, words: list[str], capsys) -> None:
    """Every --option among the words is in the command's help."""
    module = importlib.import_module(COMMANDS[command][0])
    with pytest.raises(SystemExit) as done:
        module.main(["--help"])
    assert done.value.code == 0
    text = capsys.readouterr().out
    assert all(word in text for word in words if word.startswith("--"))


def test_the_page_of_the_api_lists_all_errors():
    page = (ROOT / "docs" / "api.md").read_text()
    named = {name for name, each in vars(errors).items() if isinstance(each, type)}
    listed = set(re.findall(r"^\| `gpuparse\.errors\.(\w+)` \| \w", page, re.MULTILINE))
    assert listed == {name for name in named if issubclass(getattr(errors, name), Exception)}


def test_the_generated_tables_are_up_to_date():
    run = runpy.run_path(str(ROOT / "docs" / "update.py"))
    for path, text in run["updated"]().items():
        assert path.read_text(encoding="utf-8") == text, "run python -m docs.update"


def test_the_exit_codes_are_those_of_the_errors():
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", text, re.MULTILINE)
    said = {int(code) for code, _ in rows}
    things = vars(errors).values()
    kinds = [kind for kind in things if hasattr(kind, "exit_code")]
    assert said == {0, INTERRUPTED, *(kind.exit_code for kind in kinds)} == set(MEANINGS)


def test_the_example_of_a_template_set_is_one():
    [text] = [text for path, text in blocks("yaml") if path.name == "features.md"]
    templates = parse_set(text, "features.md")
    assert templates.name == "small"
    assert len(templates.arc) == 12


def test_all_options_of_parse_are_described(capsys):
    """On some page; its own page names no others."""
    pages = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}
    with pytest.raises(SystemExit):
        importlib.import_module(COMMANDS["parse"][0]).main(["--help"])
    option = re.compile(r"--[a-z][a-z-]+")
    known = set(option.findall(capsys.readouterr().out))
    assert set(option.findall(pages["parsing.md"])) <= known
    assert known <= set(option.findall(" ".join(pages.values())))


def test_figures_of_the_readme_are_those_of_the_results():
    results = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    figures = re.findall(r"\d\d\.\d\d / \d\d\.\d\d|\b\d{1,3},\d{3}(?= \|)", text)
    assert len(figures) >= 6
    assert [figure for figure in figures if figure not in results] == []


def test_figures_of_the_pages_are_those_of_the_book():
    """The laboratory book has every scored figure with its command."""
    book = set(re.findall(r"\d\d\.\d\d|\d{1,3},\d{3}", BOOK.read_text(encoding="utf-8")))
    of_results = 0
    for path in (ROOT / "docs").glob("*.md"):
        rows = re.sub(FENCE, "", path.read_text(encoding="utf-8"))
        figures = re.findall(r"\b\d\d\.\d\d\b(?!\.)", rows)
        if path.name == "results.md":
            figures += re.findall(r"\b\d{1,3},\d{3}(?= \|)", rows)
            of_results = len(figures)
        assert [figure for figure in figures if figure not in book] == [], path
    assert of_results >= 100


def test_the_pages_are_few():
    pages = [path for path in (ROOT / "docs").glob("*.md") if path.name not in INCLUDED]
    assert len(pages) <= 25
    assert sum(len(path.read_text(encoding="utf-8").split()) for path in pages) <= 25_000


def test_pages_that_messages_name_exist():
    named = {
        page
        for path in (ROOT / "gpuparse").rglob("*.py")
        for page in re.findall(r"(?:docs|benchmarks)/[\w-]+\.md", path.read_text(encoding="utf-8"))
    }
    assert len(named) >= 10
    assert [page for page in sorted(named) if not (ROOT / page).is_file()] == []


def test_ci_runs_what_the_readme_says():
    script = (ROOT / ".ci" / "run").read_text()
    for command in ("pip install", "gpuparse train quickstart", "sphinx", "pytest", "ruff", "mypy"):
        assert command in script
    assert subprocess.run(["bash", "-n", ROOT / ".ci" / "run"]).returncode == 0

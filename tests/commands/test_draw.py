"""`draw`: pictures of sentences, without texts over each other, in Chromium too."""

import contextlib
import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from html import escape
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gpuparse.__main__ import main
from gpuparse.data.arc_layout import FONT, SMALL, text_width
from gpuparse.data.conll import read_treebank, treebank_from_bytes
from gpuparse.data.draw import display_width, draw_tree
from gpuparse.data.svg import FACES
from gpuparse.data.tikz import escaped
from gpuparse.errors import ConfigError, DataError
from gpuparse.jobs.drawing import chosen_sentences, drawn_sentences
from tests.browser import measured_texts, needs_chromium
from tests.drawings import crossed, overlaps

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
PARTS = {
    "danish": SHARED / "danish-ddt" / "test.conllu",
    "english": SHARED / "english-ewt" / "en_ewt-ud-test.conllu",
    "greek": SHARED / "ancient-greek-iliad" / "test.conll",
}
SYSTEM = """# sent_id = one
1	She	_	PRON	_	_	2	nsubj	2:nsubj|4:nsubj:xsubj	HeadProb=0.9900|LabelProb=0.9800
2	wants	_	VERB	_	_	0	root	0:root	HeadProb=1.0000|LabelProb=1.0000
3	to	_	PART	_	_	4	mark	4:mark	HeadProb=0.9000|LabelProb=0.9700
4	see	_	VERB	_	_	2	xcomp	2:xcomp	HeadProb=0.5000|LabelProb=0.6000
5	cats	_	NOUN	_	_	4	nsubj	4:nsubj	HeadProb=0.7000|LabelProb=0.1000
6	nearby	_	ADV	_	_	5	advmod	5:advmod	HeadProb=0.4100|LabelProb=0.5000

# sent_id = two
1	הילדה	_	NOUN	_	_	2	nsubj	2:nsubj	_
2	קראה	_	VERB	_	_	0	root	0:root	_

# sent_id = three
1	我	_	PRON	_	_	2	nsubj	2:nsubj	_
2	喜欢	_	VERB	_	_	0	root	0:root	_
3	a_b	_	X	_	_	2	obj	2:obj	_

"""
GOLD = SYSTEM.replace("4	nsubj	4:nsubj\tH", "4	obj	4:obj\tH").replace(
    "5	advmod	5:advmod", "4	advmod	4:advmod"
)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "system.conllu").write_text(SYSTEM, encoding="utf-8")
    (tmp_path / "gold.conllu").write_text(GOLD, encoding="utf-8")
    return tmp_path / "system.conllu", tmp_path / "gold.conllu"


def test_differences_have_classes_and_probabilities_shades(files, tmp_path):
    system, gold = files
    out = tmp_path / "x.svg"
    words = ["draw", str(system), "--against", str(gold), "--sentences", "1", "--output", str(out)]
    assert main(words) == 0
    root = ElementTree.fromstring(out.read_text(encoding="utf-8"))
    svg = "{http://www.w3.org/2000/svg}"
    found = {
        (group.get("class"), group.find(f"{svg}text").text)
        for group in root.iter(f"{svg}g")
        if group.get("class")
    }
    assert found == {
        ("wrong-label", "nsubj ≠ obj"), ("wrong-head", "advmod"), ("missing", "advmod")
    }  # fmt: skip
    paths = [path for path in root.iter(f"{svg}path") if path.get("stroke")]
    assert len(paths) == 8  # six heads, one more of DEPS, one that is missing
    opacities = {float(path.get("stroke-opacity", 1)) for path in paths}
    assert len(opacities) > 5
    notes = [title.text for title in root.iter(f"{svg}title")]
    assert "HeadProb 0.5000, LabelProb 0.6000" in notes
    with pytest.raises(ConfigError, match="--force"):
        main(words)
    assert main([*words, "--force"]) == 0


def test_a_page_has_all_sentences_and_needs_no_network(files, capsysbinary):
    system, gold = files
    assert main(["draw", str(system), "--against", str(gold)]) == 0
    page = capsysbinary.readouterr().out.decode()
    assert re.findall(r'<h2 id="s(\d)">', page) == ["1", "2", "3"]
    assert page.count("<svg") == 3
    assert page.count('dir="rtl"') == 1
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    assert "prefers-color-scheme: dark" in page
    assert main(["draw", str(system), "--format", "svg"]) == 0
    ElementTree.fromstring(capsysbinary.readouterr().out)
    assert (
        main(["draw", str(system), "--graphs", "heads", "--sentences", "1", "--tags", "none"]) == 0
    )
    page = capsysbinary.readouterr().out.decode()
    assert "xsubj" not in page
    assert "PRON" not in page


def test_tikz_has_pictures_with_balanced_braces(files, tmp_path):
    system, gold = files
    out = tmp_path / "x.tex"
    assert main(["draw", str(system), "--against", str(gold), "--output", str(out)]) == 0
    text = out.read_text(encoding="utf-8")
    assert text.count(r"\begin{tikzpicture}") == text.count(r"\end{tikzpicture}") == 3
    assert r"{a\_b}" in text
    assert r"\definecolor{gpuparsewronghead}{HTML}" in text
    assert "gpuparse missing" in text
    for line in text.splitlines():
        if line.startswith((r"\node", r"\draw")):
            assert line.endswith(";")
            bare = re.sub(r"\\[{}\\]", "", line)
            assert bare.count("{") == bare.count("}")
    assert escaped(r"50% & $x_1^2 {~#\<|>") == (
        r"50\% \& \$x\_1\textasciicircum{}2 \{\textasciitilde{}\#\textbackslash{}\textless{}"
        r"\textbar{}\textgreater{}"
    )


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles_tikz(files, tmp_path):
    """All that LaTeX or its fonts give a meaning, too."""
    odd = [r"\a{b}$x&y#", "50%_^~", '<<a>>|"b`', "--''it's,,", "?`!`", "«é»", "a≠b", "Łódź", "…—“”"]
    rows = [f"{m}\t{text}\t_\tX\t_\t_\t{m - 1}\t{text}\t_\t_\n" for m, text in enumerate(odd, 1)]
    system, gold = files
    for path, heads in ((system, "".join(rows)), (gold, "".join(rows).replace("\t2\t", "\t0\t"))):
        latin = path.read_text(encoding="utf-8").split("\n\n")[0]
        path.write_text(f"{latin}\n\n{heads}\n", encoding="utf-8")
    out = tmp_path / "x.tex"
    assert main(["draw", str(system), "--against", str(gold), "--output", str(out)]) == 0
    assert "gpuparse missing" in out.read_text(encoding="utf-8")
    (tmp_path / "all.tex").write_text(
        r"\documentclass{article}\usepackage[T1]{fontenc}\usepackage{tikz}\tracinglostchars=2"
        r"\begin{document}\input{x}\end{document}"
    )
    words = ["pdflatex", "-draftmode", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    said = subprocess.run(words, cwd=tmp_path, capture_output=True, timeout=120)
    text = said.stdout.decode(errors="replace")
    assert said.returncode == 0, text
    assert "Missing character" not in text


def test_lists_of_sentences():
    row = "1\ta\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
    names = ("2", "news-1,a", "7-9", "7-9")
    text = "".join(f"# sent_id = {name}\n{row}" for name in names) + row
    treebank = treebank_from_bytes(text.encode(), "f")
    for asked, expected in (
        (None, [0, 1, 2, 3, 4]), ("3,1-2", [2, 0, 1]), ("4-", [3, 4]), ("2", [1]),
        ("news-1,a", [1]), ("7-9", [2, 3]), ("1, 7-9,2-3", [0, 2, 3, 1, 2]),
    ):  # fmt: skip
        assert chosen_sentences(asked, treebank) == expected
    for asked in ("0", "6", "2-1", "2-6", "x", "", "1,,2", "-2", "news-1", "1,news-1,a"):
        with pytest.raises(ConfigError, match=r"--sentences: .*: f has the sentences 1 to 5, and"):
            chosen_sentences(asked, treebank)


def text_of(*words, capsysbinary) -> str:
    assert main(["draw", *map(str, words)]) == 0
    return capsysbinary.readouterr().out.decode()


def test_text_is_the_tree_of_the_quickstart(files, capsysbinary):
    system, _ = files
    found = text_of(system, "--format", "text", "--sentences", "1", capsysbinary=capsysbinary)
    sentence = next(iter(read_treebank(system)))
    assert found == draw_tree(sentence.forms, sentence.heads, sentence.labels) + "\n"


def test_text_of_several_sentences_has_their_numbers(files, tmp_path, capsysbinary):
    system, _ = files
    found = text_of(system, "--format", "text", capsysbinary=capsysbinary)
    first, second, third = found.split("\n\n")
    assert [part.split("\n")[0] for part in (first, second, third)] == [
        "1 · one", "2 · two", "3 · three"
    ]  # fmt: skip
    assert main(["draw", str(system), "--output", str(tmp_path / "trees.txt")]) == 0
    assert (tmp_path / "trees.txt").read_text() == found


def test_text_has_the_gold_relation_and_head_where_they_are_others(files, capsysbinary):
    words = *files[:1], "--against", files[1], "--format", "text", "--sentences", "1"
    lines = text_of(*words, capsysbinary=capsysbinary).splitlines()
    assert [line.split("► ")[-1].split("─ ")[-1].split(maxsplit=1) for line in lines] == [
        ["She", "nsubj"], ["wants", "root"], ["to", "mark"], ["see", "xcomp"],
        ["cats", "nsubj ≠ obj"], ["nearby", "advmod, gold head: 4 see"],
    ]  # fmt: skip


def test_text_of_heads_that_are_no_tree(files, capsysbinary):
    system, _ = files
    system.write_text("1\ta\t_\t_\t_\t_\t2\tx\t_\t_\n2\tb\t_\t_\t_\t_\t1\t_\t_\t_\n\n")
    assert text_of(system, "--format", "text", capsysbinary=capsysbinary) == "1 a ← 2 x\n2 b ← 1\n"
    system.write_text("1\ta\t_\t_\t_\t_\t_\t_\t_\t_\n\n")
    assert text_of(system, "--format", "text", capsysbinary=capsysbinary).strip() == "a"


def test_text_has_no_graphs(files):
    with pytest.raises(ConfigError, match="--graphs deps: text has trees alone"):
        main(["draw", str(files[0]), "--format", "text", "--graphs", "deps"])


def test_a_terminal_gets_text_that_fits_and_a_pipe_html(files):
    system, _ = files
    command = [sys.executable, "-m", "gpuparse", "draw", str(system)]
    # Not the environment of this process, where readline sets COLUMNS.
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    piped = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    assert piped.startswith(b"<!DOCTYPE html>")
    system.write_text(SYSTEM.replace("nearby", "n" + 60 * "e" + "arby"), encoding="utf-8")
    main_end, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    quiet = {"stderr": subprocess.DEVNULL, "env": env}
    with subprocess.Popen(command, stdin=end, stdout=end, **quiet) as process:
        os.close(end)
        shown = b""
        with contextlib.suppress(OSError):  # the end, on Linux
            while block := os.read(main_end, 1 << 16):
                shown += block
    os.close(main_end)
    assert process.returncode == 0
    lines = shown.decode().splitlines()
    assert lines[0] == "1 · one"
    assert "wants" in lines[2]
    assert max(map(display_width, lines)) <= 40


def test_what_cannot_be_drawn_is_refused(files, tmp_path, capsysbinary):
    system, gold = files
    with pytest.raises(ConfigError, match="suffix"):
        main(["draw", str(system), "--output", str(tmp_path / "x.png")])
    with pytest.raises(ConfigError, match="standard input"):
        main(["draw", "-", "--against", "-"])
    gold.write_text(GOLD.replace("wants", "needs"), encoding="utf-8")
    with pytest.raises(DataError, match="needs"):
        main(["draw", str(system), "--against", str(gold)])
    system.write_text(
        SYSTEM.replace("2	nsubj	2:nsubj|", "9	nsubj	2:nsubj|"), encoding="utf-8"
    )
    with pytest.raises(DataError, match=r":2: .*head of word 1 is '9'.*0 to 6"):
        main(["draw", str(system)])
    system.write_text(SYSTEM.replace("|4:nsubj:xsubj", "|99:x"), encoding="utf-8")
    with pytest.raises(DataError, match="99:x"):
        main(["draw", str(system), "--graphs", "deps"])
    assert main(["draw", str(system)]) == 0


@pytest.mark.parametrize("name", PARTS)
def test_no_texts_of_real_treebanks_lie_over_each_other_or_on_lines(name):
    if not PARTS[name].exists():
        pytest.skip("the treebank is not beside the repository")
    treebank = read_treebank(str(PARTS[name]))
    with_graphs = name == "english"
    n_below = 0
    drawn = drawn_sentences(treebank, None, range(len(treebank)), with_graphs=with_graphs, tags=3)
    for picture in drawn:
        assert overlaps(picture.layout) == crossed(picture.layout) == [], picture.name
        n_below += sum(line.arc.is_below for line in picture.layout.lines)
    assert (n_below > 0) == with_graphs


@needs_chromium
def test_texts_take_at_most_the_computed_width_in_a_browser(tmp_path):
    """All words, tags and relations, each once, without `textLength`."""
    parts = [read_treebank(str(path)) for path in PARTS.values() if path.exists()]
    if not parts:
        pytest.skip("the treebanks are not beside the repository")
    columns = {1: FONT, 3: SMALL, 7: SMALL}
    texts = sorted(
        {
            (size, part.column(w, column))
            for part in parts
            for w in range(part.n_words)
            for column, size in columns.items()
        }
    )
    shapes = "".join(f'<text font-size="{size}">{escape(text)}</text>' for size, text in texts)
    page = tmp_path / "page.html"
    page.write_text(
        f'<meta charset="utf-8"></head><svg font-family="{FACES}">{shapes}</svg>', "utf-8"
    )
    [picture] = measured_texts(page)
    assert len(picture["texts"]) == len(texts)
    for (size, text), (*_, width) in zip(texts, picture["texts"], strict=True):
        assert width <= text_width(text, size) + 0.01, text


@needs_chromium
def test_no_texts_lie_over_each_other_in_a_browser(files, tmp_path):
    page = tmp_path / "page.html"
    assert main(["draw", str(files[0]), "--output", str(page)]) == 0
    pictures = measured_texts(page)
    assert len(pictures) == 3
    for picture in pictures:
        boxes = sorted(picture["texts"])
        assert boxes
        for left, top, right, bottom, text, _ in boxes:
            assert left >= 0, text
            assert top >= 0, text
            assert right <= picture["width"], text
            assert bottom <= picture["height"], text
        for k, one in enumerate(boxes):
            for two in boxes[k + 1 :]:
                is_apart = one[2] <= two[0] or one[3] <= two[1] or two[3] <= one[1]
                assert is_apart, (one, two)

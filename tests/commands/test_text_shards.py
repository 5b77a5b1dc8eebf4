"""Shards of raw text and of vertical text: joined they are the bytes of one run."""

import io

import pytest

from gpuparse.commands import parse
from gpuparse.data.formats.text import TextPlace, paragraph_cuts, pass_text
from gpuparse.errors import ConfigError, DataError
from gpuparse.jobs.shards import cuts_of

LONG = "The old men sang. She saw a harbour. " * 1500  # more than a piece of a paragraph
TEXTS = {
    "paragraphs": "\n\n".join(f"She sings {k}. The men sang." for k in range(40)) + "\n",
    "long": f"One.\n\n{LONG}\n\nTwo.\n\n{LONG}Three.\n\n\n\nFour.",
    "lines": "She sings.\r\n\r\nThe men sang.\r\n\r\n\r\nNo.\r\n" * 9,
    "spaces": " \n\n\t She sings.\n\n\u3000\u00a0\n Men.\n\n\u2029No.\u2029Yes.\n\n\ufeffShe.\n \n",
    "one": "She sings to the old men.",
    "nothing but spaces": "\n\n \n\n\u3000\n\n",
    "empty": "",
    "byte-order mark": "\ufeff\n\n\n" + "The men sang.\n\n\n" * 9,
    "no empty line": "The men sang.\n" * 30,
    "only in one place": "She sings.\n" * 20 + "\n" + "The men.\n" * 3,
}


@pytest.fixture
def run(staged, tmp_path):
    def run(content: bytes, *options: str, kind: str = "text") -> tuple[int, bytes]:
        (tmp_path / "in").write_bytes(content)
        words = [str(staged.model), str(tmp_path / "in"), "--input", kind, *options]
        code = parse.main([*words, "--output", f"{tmp_path}/out/", "--force"])
        output = tmp_path / "out" / "in.conllu"
        return code, output.read_bytes() if output.exists() else b""

    return run


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_joined_shards_of_text_are_one_run(run, text):
    content = text.encode()
    whole = run(content)
    for n in (3,) if len(text) > 10_000 else (1, 2, 7, 50) if len(text) > 1000 else (2, 7):
        assert run(content, "--shard", f"all/{n}") == whole, n


def test_shards_of_several_machines(run, tmp_path):
    n = 3
    content = TEXTS["long"].encode()
    whole = run(content, "--ranges")
    (tmp_path / "out" / "in.conllu").unlink()
    for shard in reversed(range(1, n + 1)):
        assert run(content, "--ranges", "--shard", f"{shard}/{n}")[0] == 0
    assert run(content, "--ranges", "--shard", f"join/{n}") == whole


@pytest.mark.parametrize("n", [2, 3, 11])
def test_joined_shards_of_vertical_text_are_one_run(run, n):
    content = "\ufeffShe\nsings\n\n\n\nThe\nmen\n\r\nsang\n \nNo\n".encode() * 8
    whole = run(content, kind="vertical")
    assert run(content, "--shard", f"all/{n}", kind="vertical") == whole
    wrong = content + b"a\tb\n"
    with pytest.raises(DataError, match=rf"in:{wrong.count(10)}: the line has a tab"):
        run(wrong, "--shard", f"all/{n}", kind="vertical")


@pytest.mark.parametrize("n", [2, 4, 9])
def test_faults_are_passed_over_as_in_one_run(run, n, capsys):
    fault = b"She \xff sings.\nOn.\n\n\n\xe3\x80\x80\n\n"
    content = b"The men sang.\n\n" * 5 + fault + b"No.\n\n\n" * 5 + fault + b"She \0.\n\nYes."
    with pytest.raises(DataError, match="in:11: byte 79 of the text is not UTF-8"):
        run(content, "--shard", f"all/{n}")
    capsys.readouterr()
    whole = run(content, "--on-error", "skip")
    expected = [line for line in capsys.readouterr().err.splitlines() if "of the text is" in line]
    assert len(expected) == 3
    assert run(content, "--on-error", "skip", "--shard", f"all/{n}")[1] == whole[1]
    found = [line for line in capsys.readouterr().err.splitlines() if "of the text is" in line]
    assert found == expected


def test_a_shard_is_of_one_format(staged, tmp_path):
    (tmp_path / "in").write_bytes(b"She\nsings\n\nThe\nmen\n\n")
    words = [
        str(staged.model),
        str(tmp_path / "in"),
        "--shard",
        "1/2",
        "--output",
        f"{tmp_path}/out/",
    ]
    assert parse.main([*words, "--input", "vertical", "--quiet"]) == 0
    with pytest.raises(ConfigError, match='input was "vertical" and is now "text"'):
        parse.main([*words, "--input", "text", "--quiet"])


def test_the_place_of_a_cut_is_that_of_one_run(tmp_path):
    for text in TEXTS.values():
        path = tmp_path / "in"
        path.write_bytes(text.encode())
        cuts = paragraph_cuts(str(path), cuts_of(str(path), 8)[:-1])
        assert cuts == sorted(cuts)
        for cut in cuts:
            after = text.encode()[cut:].decode()
            assert not cut or not after[:1].isspace()
            before = io.BytesIO(text.encode()[:cut])
            place = pass_text(before, "in", start=TextPlace())
            assert place.byte == cut
            assert place.character == len(text.encode()[:cut].decode())
            assert place.line == 1 + text.encode()[:cut].count(b"\n")

"""Parsing in shards: the bytes of one run, whatever is killed, changed or missing in between."""

import io
import itertools
import json
import os
import random
from pathlib import Path

import numpy as np
import pytest

from gpuparse.data.conll import stream_treebanks, write_predictions
from gpuparse.files import lock_file
from gpuparse.jobs import parse as parse_job
from gpuparse.jobs import shards
from gpuparse.jobs.shards import cuts_of
from tests.samples import without

NUMBERS = (1, 2, 7, 60)  # the last leaves most shards empty
FAULTY = b"1\ta\ta\tX\n\n"


@pytest.fixture
def text(trained, tmp_path) -> Path:
    """A file of 30 sentences, and a folder for its output."""
    path = tmp_path / "text.conllu"
    path.write_bytes(b"\n\n".join(trained.test.read_bytes().split(b"\n\n")[:30]) + b"\n\n")
    return path


def in_folder(folder: Path) -> dict[str, bytes]:
    """The files of a folder without the marks of joined outputs, each of which has its output."""
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    return {
        name: content
        for name, content in files.items()
        if ".shard-" in name or name.removesuffix(".done") not in files or name[-5:] != ".done"
    }


def errors_of(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("gpuparse: error: ")]


def sentence_starts(text: bytes) -> list[int]:
    """Offset 0, those behind a blank line, and the end: by the definition."""
    return [
        at
        for at in range(len(text) + 1)
        if at in (0, len(text)) or text[:at].endswith((b"\n\n", b"\n\r\n"))
    ]


PIECES = [b"a\n", b"bc\r\n", b"\n", b"\r\n", b"\n\n", b"# x\n", b"\xef\xbb\xbf", b"d"]


@pytest.mark.parametrize("block", [3, 1 << 16])
def test_cuts_are_where_they_are_defined_to_be(tmp_path, monkeypatch, block):
    class Slow(io.FileIO):
        def read(self, size=-1):
            return super().read(min(size, block))

    monkeypatch.setattr(shards, "open", lambda path, mode: Slow(path, mode), raising=False)
    path = tmp_path / "text"
    seen = 0
    for pieces in itertools.product(PIECES, repeat=3):
        content = b"".join(pieces)
        path.write_bytes(content)
        starts = sentence_starts(content)
        for n in (1, 2, 5):
            wanted = [min(s for s in starts if s >= len(content) * k // n) for k in range(n + 1)]
            assert cuts_of(str(path), n) == wanted, (content, n)
        seen += len(starts) > 2
    assert seen > 150


ROW = b"\t".join([b"a", b"a", b"X", b"X", b"_", b"0", b"x", b"_", b"_"])
BLOCKS = [
    b"1\t%s\n" % ROW, b"# c\n1\t%s\n2\t%s\n" % (ROW, ROW), b"# only a comment\n", b"1\ta\n",
    b"2\t%s\n" % ROW, b"1\t%s\n# in between\n2\t%s\n" % (ROW, ROW), b"", b"\n", b" \n",
    b"1\t%s\n" % (b"long" * 30 + ROW), b"1\xff\t%s\n" % ROW, b"1\t%s\r\r\n" % ROW,
]  # fmt: skip


def copied(file, on_error: str, chunk: int, place: shards.Place) -> tuple[bytes, list[str]]:
    """A run of sentences as it is read and written, with the messages."""
    out, said = b"", []
    for treebank in stream_treebanks(
        file, "f", chunk_bytes=chunk, on_error=on_error, max_line=100,
        first_line=place.line, first_byte=place.byte,
    ):  # fmt: skip
        out += write_predictions(treebank, np.full(treebank.n_words, -2))
        said += map(str, treebank.faults)
    return out, said


@pytest.mark.parametrize("on_error", ["skip", "keep"])
def test_any_file_is_the_same_in_runs(on_error, tmp_path):
    rng, cut = random.Random(1), 0
    for _ in range(1000):
        text = b"".join(
            rng.choice(BLOCKS).replace(b"\n", end) + rng.choice([end, end, b"\n", b""])
            for end in rng.choices([b"\n", b"\r\n"], k=rng.randrange(9))
        )
        chunk, n = rng.choice([7, 200, 1 << 20]), rng.randrange(1, 9)
        (tmp_path / "f").write_bytes(text)
        cuts = cuts_of(str(tmp_path / "f"), n)
        runs = [
            copied(
                io.BytesIO(text[a:b]), on_error, chunk, shards.Place(text[:a].count(b"\n") + 1, a)
            )
            for a, b in itertools.pairwise(cuts)
        ]
        whole = copied(io.BytesIO(text), on_error, chunk, shards.Place(1, 0))
        assert b"".join(out for out, _ in runs) == whole[0], (text, cuts)
        assert [line for _, said in runs for line in said] == whole[1]
        cut += len(set(cuts)) > 2
    assert cut > 200


@pytest.mark.parametrize("n", NUMBERS)
@pytest.mark.parametrize(
    ("line_end", "mark", "last"),
    [
        (b"\n", b"", 2),
        (b"\n", b"\xef\xbb\xbf", 1),
        (b"\r\n", b"", 0),
        (b"\r\n", b"\xef\xbb\xbf", 2),
    ],
)
def test_the_bytes_are_those_of_one_run(parse_run, text, tmp_path, n, line_end, mark, last):
    content = text.read_bytes().rstrip(b"\n") + last * b"\n"
    text.write_bytes(mark + content.replace(b"\n", line_end))
    whole = parse_run(text, "--quiet")
    code, out, lines = parse_run(text, "--output", f"{tmp_path}/out/", "--shard", f"all/{n}")
    assert (code, out) == (0, b"")
    assert in_folder(tmp_path / "out") == {text.name: whole[1]}
    assert sum("byte order mark" in line for line in lines) == bool(mark)
    assert any("parsing: 30 sentences" in line for line in lines)


@pytest.mark.parametrize("how", ["skip", "keep"])
@pytest.mark.parametrize("n", NUMBERS)
def test_faults_are_counted_and_have_the_lines_of_the_whole_file(parse_run, text, tmp_path, how, n):
    sentences = text.read_bytes().split(b"\n\n")
    for place in (0, 7, 8, 20, 31):
        sentences.insert(place, FAULTY[:-2])
    text.write_bytes(b"\n\n".join(sentences))
    whole = parse_run(text, "--on-error", how)
    options = [text, "--on-error", how, "--output", f"{tmp_path}/out/"]
    told = []
    for i in range(1, min(n, 6)):  # so that some are passed over
        told += parse_run(*options, "--shard", f"{i}/{n}")[2]
    code, _, lines = parse_run(*options, "--shard", f"all/{n}")
    assert code == whole[0] == 1
    assert in_folder(tmp_path / "out") == {text.name: whole[1]}
    assert lines[-1] == whole[2][-1]  # their number
    faults = [line for line in told + lines if "columns instead of 10" in line]
    assert faults == [line for line in whole[2] if "columns instead of 10" in line]


def test_a_fault_ends_the_run_with_its_line_and_keeps_what_is_done(parse_run, text, tmp_path):
    content = text.read_bytes()
    text.write_bytes(content + FAULTY)
    whole = errors_of(parse_run(text, "--on-error", "fail")[2])
    code, _, lines = parse_run(text, "--output", f"{tmp_path}/out/", "--shard", "all/6")
    assert (code, errors_of(lines)) == (3, whole)
    there = in_folder(tmp_path / "out")
    assert sorted(there) == sorted(
        f"{text.name}.shard-{i}-of-6{end}" for i in range(1, 6) for end in ("", ".done")
    )


def test_shards_of_several_processes_can_be_joined(parse_run, text, tmp_path):
    whole, out = parse_run(text, "--quiet")[1], tmp_path / "out"
    for i in (11, 2, 1, 5):
        assert parse_run(text, "--output", f"{out}/", "--shard", f"{i}/11")[0] == 0
    code, _, lines = parse_run(text, "--output", f"{out}/", "--shard", "join/11")
    assert code == 3
    assert errors_of(lines)[0].endswith("missing shards of 11: 3, 4, 6, 7, 8, 9, 10")
    for i in (3, 4, 6, 7, 8, 9, 10):
        assert parse_run(text, "--output", f"{out}/", "--shard", f"{i}/11")[0] == 0
    names = sorted(name for name in in_folder(out) if not name.endswith(".done"))
    assert b"".join((out / name).read_bytes() for name in names) == whole  # as cat does
    markers = [json.loads(path.read_bytes()) for path in out.glob("*.done")]
    assert sum(marker["result"]["sentences"] for marker in markers) == 30
    assert parse_run(text, "--output", f"{out}/", "--shard", "join/11")[0] == 0
    assert in_folder(out) == {text.name: whole}
    code, _, lines = parse_run(text, "--output", f"{out}/", "--shard", "join/11")
    assert (code, lines[-2:-1]) == (0, [f"gpuparse: {out / text.name}: already done"])


def test_finished_shards_are_passed_over(parse_run, text, tmp_path):
    out = tmp_path / "out"
    whole = parse_run(text, "--quiet")[1]
    for i in (1, 3):
        parse_run(text, "--output", f"{out}/", "--shard", f"{i}/3")
    before = (out / f"{text.name}.shard-1-of-3").stat()
    code, _, lines = parse_run(text, "--output", f"{out}/", "--shard", "1/3")
    assert code == 0
    assert any(line.endswith("shard-1-of-3: already done") for line in lines)
    assert (out / f"{text.name}.shard-1-of-3").stat().st_mtime_ns == before.st_mtime_ns
    lines = parse_run(text, "--output", f"{out}/", "--shard", "all/3")[2]
    assert sum("already done" in line for line in lines) == 2
    assert in_folder(out) == {text.name: whole}


def test_a_shard_without_its_marker_is_parsed_again(parse_run, text, tmp_path):
    out = tmp_path / "out"
    whole = parse_run(text, "--quiet")[1]
    parse_run(text, "--output", f"{out}/", "--shard", "2/3")
    (out / f"{text.name}.shard-2-of-3.done").unlink()
    (out / f"{text.name}.shard-2-of-3").write_bytes(b"half")
    (out / f"{text.name}.shard-3-of-3").write_bytes(b"")
    (out / f".{text.name}.shard-1-of-3.gpuparse.part").write_bytes(b"what a kill left")
    lines = parse_run(text, "--output", f"{out}/", "--shard", "all/3")[2]
    assert not any("already done" in line for line in lines)
    assert in_folder(out) == {text.name: whole}


CHANGES = {  # of the input or of the first shard, and options; what is said
    "other input": (lambda text, shard: text.write_bytes(b"# x\n" + text.read_bytes()), [],
                    "cannot continue: the input: has other content"),
    "longer input": (lambda text, shard: text.write_bytes(2 * text.read_bytes()),
                     [], "cannot continue: the input: has other content"),
    "other options": (lambda text, shard: None, ["--probabilities"],
                      "probabilities was false and is now true"),
    "a shard that is cut off": (lambda text, shard: os.truncate(shard, 10), [],
                                "was changed since it was parsed"),
    "no receipt": (lambda text, shard: shard.with_name(f"{shard.name}.done").write_bytes(b"{"), [],
                   "is damaged, or of another version"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("which", ["1", "all"])
def test_what_does_not_fit_is_refused_and_replaced_by_force(parse_run, text, tmp_path, name, which):
    change, more, said = CHANGES[name]
    out = tmp_path / "out"
    parse_run(text, "--output", f"{out}/", "--shard", "1/3")
    change(text, out / f"{text.name}.shard-1-of-3")
    options = [text, *more, "--output", f"{out}/", "--shard", f"{which}/3"]
    before = in_folder(out)
    code, _, lines = parse_run(*options)
    assert code == 2
    error = "\n".join(errors_of(lines))
    for words in (said, f"{text.name}.shard-1-of-3", "give --force to replace such shards"):
        assert words in error
    assert in_folder(out) == before
    assert parse_run(*options, "--force")[0] == 0
    if which == "1":
        assert parse_run(*options[:-1], "all/3")[0] == 0
    assert in_folder(out) == {text.name: parse_run(*options[:-4], "--quiet")[1]}


def test_another_model_is_noticed(parse_run, heads_alone, text, tmp_path):
    words = [text, "--output", f"{tmp_path}/out/", "--shard", "1/2"]
    parse_run(*words)
    code, _, lines = parse_run(*words, model=heads_alone)
    assert (code, "the model: has other content" in errors_of(lines)[0]) == (2, True)


@pytest.mark.parametrize("which", ["all/3", "join/3"])
def test_a_finished_run_again_does_nothing(parse_run, text, tmp_path, which):
    out = tmp_path / "out"
    text.write_bytes(text.read_bytes() + FAULTY)
    options = [text, "--on-error", "keep", "--output", f"{out}/"]
    assert parse_run(*options, "--shard", "all/3")[0] == 1
    before = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    code, _, lines = parse_run(*options, "--shard", which)
    assert (code, lines[0]) == (1, f"gpuparse: {out / text.name}: already done")
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == before
    for other in ([*options, "--probabilities"], [text, "--on-error", "skip", "-o", f"{out}/"]):
        code, _, lines = parse_run(*other, "--shard", which)
        assert (code, errors_of(lines)) == (
            2,
            [f"gpuparse: error: {out / text.name}: exists; give --force to replace it"],
        )


def test_an_output_that_appears_meanwhile_is_not_replaced(parse_run, text, tmp_path, monkeypatch):
    out, begin = tmp_path / "out", parse_job.Job._check_beginning

    def write_output(self, *beginning):
        (out / text.name).write_bytes(b"by another process")
        begin(self, *beginning)

    monkeypatch.setattr(parse_job.Job, "_check_beginning", write_output)
    code, _, lines = parse_run(text, "--output", f"{out}/", "--shard", "all/2")
    assert (code, len(errors_of(lines))) == (2, 1)
    assert (out / text.name).read_bytes() == b"by another process"


@pytest.mark.parametrize("end", [".shard-1-of-2", ".shard-1-of-2.done", ".done"])
def test_links_in_place_of_shards_and_marks_lead_nowhere(parse_run, text, tmp_path, end):
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "other").write_bytes(b"other")
    (out / f"{text.name}{end}").symlink_to("../other")
    code, _, lines = parse_run(text, "--output", f"{out}/", "--shard", "all/2", "--force")
    assert (code, len(errors_of(lines))) == (2, 1)
    assert "is a link" in errors_of(lines)[0]
    assert (tmp_path / "other").read_bytes() == b"other"


DAMAGES = [
    b"", b"{", b"[]", b"null", b"1", b"\xff", b'{"format": 1}', 100_000 * b"[", b" " * (1 << 21),
    {"sha256": None}, {"sha256": "0" * 64}, {"origin": None}, {"origin": {}}, {"result": []},
    {"result": {"size": 1, "sha256": "", "sentences": 1, "faults": 0}}, {"more": 1},
]  # fmt: skip


@pytest.mark.parametrize("joined", [False, True])
def test_damaged_markers_match_nothing(parse_run, text, tmp_path, joined):
    out = tmp_path / "out"
    which = "all/2" if joined else "1/2"
    parse_run(text, "--output", f"{out}/", "--shard", which)
    (marker,) = out.glob("*.done")
    sound = json.loads(marker.read_bytes())
    for damage in DAMAGES:
        content = damage if isinstance(damage, bytes) else json.dumps(sound | damage).encode()
        marker.write_bytes(content)
        before = in_folder(out)
        code, _, lines = parse_run(text, "--output", f"{out}/", "--shard", which)
        assert (code, len(errors_of(lines))) == (2, 1), damage
        said = "exists" if joined else "is damaged, or of another version"
        assert said in errors_of(lines)[0]
        assert in_folder(out) == before
    marker.unlink()
    marker.mkdir()
    assert parse_run(text, "--output", f"{out}/", "--shard", which)[0] == 2


def test_a_changed_shard_is_not_joined(parse_run, text, tmp_path):
    out = tmp_path / "out"
    for i in (1, 2):
        parse_run(text, "--output", f"{out}/", "--shard", f"{i}/2")
    shard = out / f"{text.name}.shard-2-of-2"
    shard.write_bytes(shard.read_bytes()[:-3] + b"X\n\n")  # as long as it was
    for which in ("join", "all"):
        code, _, lines = parse_run(text, "--output", f"{out}/", "--shard", f"{which}/2")
        assert code == 3
        assert "was changed after it was parsed" in errors_of(lines)[0]
        assert not (out / text.name).exists()


def test_an_input_that_changes_meanwhile(parse_run, text, tmp_path, monkeypatch):
    def append(self, *beginning):
        with open(text, "ab") as file:
            file.write(b"# more\n")

    monkeypatch.setattr(parse_job.Job, "_check_beginning", append)
    code, _, lines = parse_run(text, "--output", f"{tmp_path}/out/", "--shard", "1/2")
    assert code == 3
    assert "was changed while it was parsed" in errors_of(lines)[0]
    assert in_folder(tmp_path / "out") == {}


def test_one_process_a_shard(parse_run, text, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    with lock_file(out / f"{text.name}.shard-2-of-3"):
        for which in ("2", "all"):
            code, _, lines = parse_run(text, "--output", f"{out}/", "--shard", f"{which}/3")
            assert code == 2
            assert "another process is writing there" in errors_of(lines)[0]
        assert parse_run(text, "--output", f"{out}/", "--shard", "3/3")[0] == 0
    assert parse_run(text, "--output", f"{out}/", "--shard", "all/3")[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--shard 1/2", "needs --output"),
        ("--shard 1/2 --output {out} --guide {text}", "--shard cannot be combined"),
        ("--shard 1/2 --output {out} /dev/null", "only regular files are cut"),
        *[(f"--output {{out}} --shard {word}", "expected I/N with I from 1 to N")
          for word in ("0/3", "4/3", "3", "all", "all/0", "x/3", "1/-2", "1/²", "join/")],
    ],
)  # fmt: skip
def test_what_is_refused(parse_run, text, tmp_path, words, said):
    code, _, lines = parse_run(text, *words.format(out=tmp_path / "out", text=text).split())
    assert (code, said in lines[-1]) == (2, True)


def test_an_output_that_is_there_is_refused_before_anything_is_parsed(parse_run, text, tmp_path):
    out, other = tmp_path / "out", tmp_path / "other.conllu"
    out.mkdir()
    (out / other.name).write_bytes(b"old")
    other.write_bytes(text.read_bytes())
    code, _, lines = parse_run(text, other, "--output", f"{out}/", "--shard", "all/2")
    assert (code, in_folder(out)) == (2, {other.name: b"old"})
    assert f"{out / other.name}: exists" in errors_of(lines)[0]
    assert parse_run(text, other, "--output", f"{out}/", "--shard", "all/2", "--force")[0] == 0
    whole = parse_run(text, "--quiet")[1]
    assert in_folder(out) == {text.name: whole, other.name: whole}


def test_columns_are_looked_at_where_the_file_begins(parse_run, trained, text, tmp_path):
    # A later run of sentences may lack tags without being refused, as in a run over the whole.
    content = text.read_bytes()
    bare = without(content, 3, 4)
    text.write_bytes(content + bare)
    assert parse_run(text, "--output", f"{tmp_path}/out/", "--shard", "2/2")[0] == 0
    text.write_bytes(bare)
    for which in ("1/2", "2/2"):
        code, _, lines = parse_run(text, "--output", f"{tmp_path}/bare/", "--shard", which)
        assert code == 3
        assert "is _ in all of the first" in errors_of(lines)[0]


class Killed(Exception):
    pass


def test_case_36_wherever_it_is_killed_the_same_command_ends_with_the_same_bytes(
    parse_run, text, tmp_path, monkeypatch
):
    """Cut off after every single change to the folder, as no real kill could be made to."""
    whole, other = parse_run(text, "--quiet")[1], tmp_path / "other.conllu"
    other.write_bytes(text.read_bytes())
    calls, last = itertools.count(), 0

    def cut(step):
        def call(*arguments, **named):
            if next(calls) >= last:
                raise Killed
            return step(*arguments, **named)

        return call

    replace, unlink = os.replace, Path.unlink
    for last in itertools.count():
        calls, out = itertools.count(), tmp_path / str(last)
        monkeypatch.setattr(os, "replace", cut(replace))
        monkeypatch.setattr(Path, "unlink", cut(unlink))
        words = [text, other, "--output", f"{out}/", "--shard", "all/2"]
        try:
            parse_run(*words)
            break
        except Killed:
            monkeypatch.undo()
        code, found = parse_run(*words)[0], in_folder(out)
        assert (code, found) == (0, {text.name: whole, other.name: whole})
    assert last > 20

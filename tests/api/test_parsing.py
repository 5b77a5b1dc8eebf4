"""Parsing from Python: the bytes of the command, whatever the sentences come as and wherever."""

import itertools
import multiprocessing
import pickle
import subprocess
import sys
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import gpuparse
from gpuparse.api import parsing
from gpuparse.commands import parse
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.formats import sources
from gpuparse.errors import ConfigError, DataError, ModelError
from tests.api.conftest import COMMENTED, KINDS
from tests.commands.test_start import run_python
from tests.synthetic import generate

pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
NAMES = {"form": "forms", "lemma": "lemmas", "upos": "cpos", "xpos": "pos", "feats": "feats"}


def command(capfdbinary, *words: object) -> bytes:
    capfdbinary.readouterr()
    assert parse.main([*map(str, words), "--quiet", "--threads", "1"]) == 0
    return capfdbinary.readouterr().out


def in_columns(text: bytes) -> list[dict[str, list[str]]]:
    """Sentences as dicts of lists."""
    return [
        {name: getattr(s, attribute) for name, attribute in NAMES.items()}
        for s in treebank_from_bytes(text, "text")
    ]


def in_dicts(text: bytes) -> list[list[dict[str, str]]]:
    return [
        [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        for columns in in_columns(text)
    ]


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_gives_the_bytes_of_the_command(
    kinds, kind, single_root, tmp_path, capfdbinary
):
    """Other options and doors, of one kind of model, are in tests/test_doors.py."""
    text, folder = kinds.text(kind), kinds.run(kind).folder
    (tmp_path / "in.conllu").write_bytes(text)
    words = ["--single-root"] * single_root
    expected = command(capfdbinary, folder, tmp_path / "in.conllu", *words)
    parser = gpuparse.load(folder, single_root=single_root)
    parsed = parser.parse(text.decode())
    assert parsed.to_conllu().encode() == expected
    for sentences in (parsed, parser.stream(tmp_path / "in.conllu")):
        assert "".join(sentence.to_conllu() for sentence in sentences).encode() == expected


@pytest.mark.parametrize("kind", ["fast", "third order"])
def test_all_kinds_of_sentences_give_the_same_trees(kinds, kind):
    text, parser = kinds.text(kind), gpuparse.load(kinds.run(kind).folder)
    columns = in_columns(text)
    expected = [(s.heads, s.deprels) for s in parser.parse(text)]
    table = pyarrow.table({name: [each[name] for each in columns] for name in NAMES})
    ways = {
        "bytes": text,
        "dicts": in_dicts(text),
        "dicts of lists": columns,
        "a dict of columns": table.to_pydict(),
        "a table": table,
        "a batch": table.to_batches()[0],
        "a frame": table.to_pandas(),
        "a frame of arrays": table.to_pandas().map(list),
        "tuples": tuple(map(tuple, in_dicts(text))),
        "generators": (iter(sentence) for sentence in in_dicts(text)),
    }
    for name, sentences in ways.items():
        assert [(s.heads, s.deprels) for s in parser.parse(sentences)] == expected, name
    assert [(s.heads, s.deprels) for s in parser.stream(iter(in_dicts(text)))] == expected
    assert [(s.heads, s.deprels) for s in parser.stream(table)] == expected


def test_words_alone_and_pairs_are_parsed_as_their_text_would_be(parser, kinds):
    text = kinds.text("default")
    words = [columns["form"] for columns in in_columns(text)]
    loose = gpuparse.load(kinds.run("default").folder, allow_missing=True)
    blanks = "".join(
        "".join(f"{m}\t{word}" + 8 * "\t_" + "\n" for m, word in enumerate(each, 1)) + "\n"
        for each in words
    )
    assert loose.parse(words).to_conllu() == loose.parse(blanks).to_conllu()
    for name, column in (("upos", 3), ("xpos", 4)):
        pairs = [
            list(zip(columns["form"], columns[name], strict=True)) for columns in in_columns(text)
        ]
        rows = [line.split("\t") for line in loose.parse(pairs).to_conllu().splitlines() if line]
        tags = [tag for columns in in_columns(text) for tag in columns[name]]
        assert [row[column] for row in rows] == tags
    with pytest.raises(DataError, match="knows none of the tags QQ: it was trained with"):
        parser.parse([[("a", "QQ")]])


def test_sentences_without_words_stay_in_their_places(parser):
    with_gaps = parser.parse([[], *in_dicts(generate(3, 4)), [], []])
    without = parser.parse(in_dicts(generate(3, 4)))
    assert [len(s) for s in with_gaps] == [0, *map(len, without), 0, 0]
    assert [s.heads for s in with_gaps][1:4] == [s.heads for s in without]
    assert with_gaps.to_conllu() == without.to_conllu()
    assert with_gaps[0].to_conllu() == with_gaps[-1].sent_id == str(with_gaps[4]) == ""
    assert with_gaps[4].trees[0].heads == []
    assert with_gaps[3].to_conllu() == without[2].to_conllu()
    for nothing in ([], [[]], "", b"", "\n", {"form": []}, {"form": [None]}):
        assert parser.parse(nothing).to_conllu() in ("", "\n")
    assert list(parser.stream([])) == []


def test_kept_heads_stay_with_their_relations(parser):
    [sentence] = in_dicts(generate(1, 9))
    free = parser.parse([sentence])[0]
    m = next(i for i, h in enumerate(free.heads) if h > 0)
    h = next(h for h in range(1, len(sentence) + 1) if h != m + 1 and h != free.heads[m])
    sentence[m] |= {"head": h, "deprel": "my:own"}
    kept = parser.parse([sentence], keep_heads=True)[0]
    assert (kept.heads[m], kept.deprels[m]) == (h, "my:own")
    assert parser.parse([sentence])[0].heads == free.heads
    with pytest.raises(DataError, match=r"HEAD of word 16 .* is 99"):
        parser.parse([[*sentence[:-1], sentence[-1] | {"head": 99}]], keep_heads=True)


@pytest.mark.parametrize(
    ("sentences", "said"),
    [
        ("She sings", "Plain text is for parse_text"),
        ("runs/in.conllu", r"for a file there is stream\(path\)"),
        (Path("in.conllu"), r"stream\(path\)"),
        (None, "expected a list of sentences"),
        (7, "expected a list of sentences"),
        (["She", "sings"], r"sentences\[0\]: .* a single sentence is a list of one"),
        ([["a"], 7], r"sentences\[1\]: expected a list of words"),
        ([["a", 7]], r"sentences\[0\]\[1\]: expected a word, not int 7"),
        ([["a", ""]], r"sentences\[0\]\[1\]: expected a word, not str ''"),
        ([["a"], [{}, {}], ["b"]], r"sentences\[1\]\[0\]: expected a word, not None"),
        ([["a"], {}, ["b"]], r"sentences\[1\]: no key form"),
        ([{"upos": ["X"]}], r"sentences\[0\]: no key form"),
        ([[7]], r"sentences\[0\]\[0\]: expected a list of words"),
        ([["a\tb"]], r"sentences\[0\]\[0\]: form str 'a\\tb' has a tab, a line end or NUL"),
        ([["a"], ["b", "c\n"]], r"sentences\[1\]\[1\]: form str 'c\\n' has a tab"),
        ([["a\r"]], "has a tab, a line end or NUL"),
        ([["a\0"]], r"form str 'a\\x00' has a tab, a line end or NUL"),
        ("1\t\ud800" + 8 * "\t_" + "\n\n", "an unpaired surrogate at 2"),
        ([{"She"}], r"sentences\[0\]: expected a list of words.*, which has no order"),
        ([{"form": ["a"], "upso": ["X"]}], "unknown key str 'upso'; .*did you mean upos"),
        (pyarrow.table([[["a"]], [["b"]]], names=["form", "form"]), "'form' is there more than"),
        (pandas.DataFrame([[["a"], ["b"]]], columns=["form", "form"]), "'form' is there more than"),
        ([["\ud800"]], "an unpaired surrogate"),
        ([[("a", "X", "Y")]], r"expected a \(word, tag\) pair"),
        ([[("a", "X"), "b"]], r"sentences\[0\]\[1\]: expected a \(word, tag\) pair as before"),
        ([[("a", 3)]], r"sentences\[0\]\[0\]: tag: expected text, not int 3"),
        ([[{"from": "a"}]], "unknown key str 'from'; the keys are form, lemma"),
        ([[{"form": "a"}, "b"]], "expected a dict as before"),
        ([[{"form": "a", "id": (1, "-", 2)}]], "multiword tokens"),
        ([[{"upos": "X"}]], r"sentences\[0\]\[0\]: expected a word, not None"),
        ([[{"form": "a", "upos": 3}]], r"upos: expected text, not int 3"),
        ([{"form": ["a", "b"], "upos": ["X"]}], "2 words in form, but 1 in upos"),
        ([{"form": "ab"}], "form: expected a list with a value per word"),
        ({"words": [["a"]]}, "a column 'form' with the list of its words, .* columns 'words'"),
        ({"form": [["a"]], "upos": []}, "columns of different lengths"),
        (pyarrow.table({"text": ["a b"]}), "this one has the columns 'text'"),
        (pandas.DataFrame({"form": ["a"]}), r"sentences\[0\]: form: expected a list"),
        ("1\ta\tb\n\n", "text:1: 3 columns instead of 10"),
        (b"1\ta\xff" + 8 * b"\t_" + b"\n\n", "text:1: byte 3 of the file is not UTF-8"),
    ],
    ids=repr,
)
def test_wrong_sentences_are_told_what_is_expected(kinds, sentences, said):
    parser = gpuparse.load(kinds.run("default").folder, allow_missing=True)
    with pytest.raises(DataError, match=said):
        parser.parse(sentences)


def test_missing_columns_are_an_error_as_in_the_command(parser, kinds):
    sentence = [{"form": "a", "upos": "X", "xpos": "X"}] * 40
    with pytest.raises(DataError, match="lemma is missing or _ in all of the first 40 words"):
        parser.parse([sentence])
    with pytest.raises(DataError, match=r"upos is missing .* allow_missing=True"):
        parser.parse([["a"]])
    with pytest.raises(DataError, match="upos is missing"):
        list(parser.stream([[], ["a"]]))
    assert len(gpuparse.load(kinds.run("default").folder, allow_missing=True).parse([["a"]])) == 1


def test_a_file_is_never_lost_or_half_written(parser, kinds, tmp_path):
    source, target = tmp_path / "in.conllu", tmp_path / "out.conllu"
    source.write_bytes(kinds.text("default") + b"1\ta\n\n")
    target.write_bytes(b"old")
    with pytest.raises(ConfigError, match="exists"):
        parser.parse_file(source, target)
    with pytest.raises(ConfigError, match="replaced by its own output"):
        parser.parse_file(source, source, force=True)
    with pytest.raises(DataError, match="columns"):
        parser.parse_file(source, target, force=True)
    assert target.read_bytes() == b"old"
    counts = parser.parse_file(source, target, force=True, on_error="keep")
    assert counts.faults == 1
    assert target.read_bytes().endswith(b"1\ta\n\n")
    with pytest.raises(ConfigError, match="on_error: expected 'fail' or 'skip' or 'keep'"):
        parser.parse_file(source, target, on_error="null")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.conllu", "out.conllu"]


@pytest.mark.filterwarnings("ignore:.*not calibrated")
def test_options_that_do_not_fit_are_refused(parser, kinds, tmp_path):
    higher = gpuparse.load(kinds.run("third order").folder)
    text = kinds.text("default")
    for used, options, said in (
        (parser, {"mbr": True, "kbest": 2}, "mbr and kbest cannot be combined"),
        (parser, {"kbest": 0}, "kbest: expected a whole number"),
        (parser, {"kbest": 2**64}, "kbest: expected a whole number from 1 to 1,000,000, not 1844"),
        (parser, {"guide": "file"}, "guide: expected misc:KEY"),
        (parser, {"guide": "misc:Guide"}, "the model has no guide features"),
        (higher, {"probabilities": True}, "decoder dual_decomposition has no exact sums"),
        (higher, {"kbest": 2}, "decoder dual_decomposition finds one tree only"),
    ):
        with pytest.raises((ConfigError, DataError), match=said):
            used.parse(text, **options)
    with pytest.raises(ModelError, match="no such file: give the folder"):
        gpuparse.load(tmp_path)
    for nothing in (None, b"model", "", 7):
        with pytest.raises(ConfigError, match=r"load\(\) takes a folder that training wrote"):
            gpuparse.load(nothing)
    for options in ({"device": "gpu"}, {"engine": "no"}, {"threads": -1}, {"threads": "a"}):
        with pytest.raises(ConfigError):
            gpuparse.load(kinds.run("default").folder, **options)
    with pytest.raises(ConfigError, match="native code on the CPU"):
        gpuparse.load(kinds.run("third order").folder, device="cuda")
    with pytest.raises(DataError, match=r"none\.conllu: cannot be read: No such file"):
        next(parser.stream(tmp_path / "none.conllu"))
    (tmp_path / "in.conllu").write_bytes(text)
    with pytest.raises(ConfigError, match=r"nodir/x: the folder is missing; make it first"):
        parser.parse_file(tmp_path / "in.conllu", tmp_path / "nodir" / "x")


@pytest.mark.filterwarnings("ignore:.*not calibrated")
def test_torch_finds_the_same_probabilities_and_trees(kinds):
    folder, text = kinds.run("fast").folder, kinds.text("default")
    for options in ({"probabilities": True}, {"mbr": True}, {"kbest": 3}):
        found, expected = (
            gpuparse.load(folder, engine=engine).parse(text, **options)
            for engine in ("torch", "auto")
        )
        assert found.to_conllu() == expected.to_conllu()


def test_the_home_folder_is_found(kinds, monkeypatch):
    folder = Path(kinds.run("default").folder)
    monkeypatch.setenv("HOME", str(folder.parent))
    assert len(gpuparse.load(f"~/{folder.name}").parse(kinds.text("default")))


LYING = {
    "a text past the end": lambda: [texts(0, 2**31 - 1, 4), offsets(0, 2)],
    "a text before the beginning": lambda: [texts(0, -1, 4), offsets(0, 2)],
    "texts in disorder": lambda: [texts(0, 4, 2), offsets(0, 2)],
    "a list past the end": lambda: [texts(0, 4), offsets(0, 1_000_000, 1)],
    "a list before the beginning": lambda: [texts(0, 4), offsets(0, -1, 1)],
    "a list of no text, and a text past the end": lambda: [
        texts(0, 2, 2**31 - 1, 4, data=b"\xff\xffab"), offsets(0, 3)
    ],
}  # fmt: skip


def offsets(*values):
    return pyarrow.py_buffer(b"".join(v.to_bytes(4, "little", signed=True) for v in values))


def texts(*values, data=b"abcd"):
    buffers = [None, offsets(*values), pyarrow.py_buffer(data)]
    return pyarrow.Array.from_buffers(pyarrow.string(), len(values) - 1, buffers)


def test_tables_with_lying_offsets_are_refused(kinds, tmp_path):
    kind, files = pyarrow.list_(pyarrow.string()), []
    for number, made_of in enumerate(LYING.values()):
        values, lists = made_of()
        n_rows = lists.size // 4 - 1
        form = pyarrow.Array.from_buffers(kind, n_rows, [None, lists], children=[values])
        for ending, made in (("arrow", pyarrow.ipc.new_file), ("arrows", pyarrow.ipc.new_stream)):
            files.append(f"{tmp_path}/{number}.{ending}")
            with made(files[-1], pyarrow.schema({"form": kind})) as writer:
                writer.write_table(pyarrow.table({"form": form}))
    script = """
import sys, pyarrow, gpuparse.errors
parser = gpuparse.load(sys.argv[1], allow_missing=True)
for name in sys.argv[2:]:
    opened = pyarrow.ipc.open_file if name.endswith(".arrow") else pyarrow.ipc.open_stream
    works = (
        lambda: parser.parse(opened(pyarrow.OSFile(name)).read_all()),
        lambda: list(parser.stream(opened(pyarrow.OSFile(name)).read_all())),
        lambda: list(parser.stream(name)),
        lambda: parser.parse_file(name, name + ".out.arrow"),
    )
    for work in works:
        try:
            work()
            print(name, "parsed", flush=True)
        except gpuparse.errors.DataError as error:
            print(name, error, flush=True)
"""
    # In a process of its own, which may crash.
    arguments = [sys.executable, "-c", script, kinds.run("default").folder, *files]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert len(lines) == 4 * len(files), (lines[-1:], done.returncode, done.stderr)
    assert all(": column form: damaged: " in line for line in lines), lines


def test_probabilities_without_calibration_are_warned_of_once(kinds):
    parser = gpuparse.load(kinds.run("default").folder)
    with pytest.warns(UserWarning, match="not calibrated"):
        parser.parse(kinds.text("default"), probabilities=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parser.parse(kinds.text("default"), probabilities=True)


def test_streams_read_only_what_is_asked_for(parser):
    def sentences():
        for s in itertools.count():
            taken.append(s)
            yield sentence

    taken: list[int] = []
    [sentence] = in_dicts(generate(1, 9))
    stream = parser.stream(sentences())
    assert taken == []
    first = next(stream)
    assert first.heads == parser.parse([sentence])[0].heads
    assert len(taken) == 1000
    assert len(list(itertools.islice(stream, 1500))) == 1500
    assert len(taken) == 2000


def test_streams_of_texts_have_the_sentences_of_lists(parser, monkeypatch):
    reader = gpuparse.load("english", threads=1)
    texts = ["She sings. He listens.", "", "Stop.", "A man sings.\n\nWe go."] * 3
    names = [f"n{k}" for k in range(len(texts))]
    expected = reader.parse_text(texts, ids=names)
    monkeypatch.setattr(sources, "TEXT_CHUNK", 40)
    taken: list[str] = []
    pairs = ((name, taken.append(name) or text) for name, text in zip(names, texts, strict=True))
    stream = reader.stream(pairs)
    assert taken == []
    first = next(stream)
    assert taken == names[:4]
    found = [first, *stream]
    assert [s.document for s in found] == [s.document for s in expected]
    assert [s.to_conllu() for s in found] == [s.to_conllu() for s in expected]
    assert [(t.start, t.end) for s in found for t in s] == [
        (t.start, t.end) for s in expected for t in s
    ]
    of_texts = reader.parse_text(texts)
    for way in (reader.stream(iter(texts)), reader.stream(texts, input="text")):
        assert [(s.document, s.to_conllu()) for s in way] == [
            (s.document, s.to_conllu()) for s in of_texts
        ]
    assert list(reader.stream([], input="text")) == []
    assert list(reader.stream([("a", "")])) == []
    assert len(list(reader.stream(("She", "sings") for _ in range(2)))) == 2  # names and texts
    assert len(next(reader.stream([["She", "sings"]]))) == 2  # words


def test_streams_of_texts_refuse_other_items(parser):
    reader = gpuparse.load("english", threads=1)
    with pytest.raises(DataError, match=r"texts\[1\]: expected a str, or a tuple of an identifier"):
        list(reader.stream(["a", ["b"]]))
    with pytest.raises(DataError, match=r"ids\[2\]: .*expected an identifier"):
        list(reader.stream([("a", "b"), ("a", "b"), (None, "c")]))
    with pytest.raises(DataError, match=r"texts\[0\]: byte 1 of the text is NUL"):
        next(reader.stream(["a\0"]))
    with pytest.raises(ConfigError, match=r"texts: text, but .* has no tokeniser"):
        next(parser.stream(["She sings."]))
    with pytest.raises(ConfigError, match="keep_heads"):
        next(reader.stream(["She sings."], keep_heads=True))
    with pytest.raises(ConfigError, match="'lines' is a format of files"):
        reader.stream(["She sings."], input="lines")


def require_even_memory(stream):
    """Make sure that four times the input takes no more memory; `stream` takes its size."""

    def most(times: int) -> int:
        tracemalloc.start()
        for _ in stream(times):
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    most(1)
    assert most(12) < 1.5 * most(3)


def test_the_memory_of_a_stream_of_texts_does_not_grow(monkeypatch):
    reader = gpuparse.load("english", threads=1)
    monkeypatch.setattr(sources, "TEXT_CHUNK", 2000)
    text = "She sings. He listens to her."
    require_even_memory(lambda times: reader.stream(text for _ in range(100 * times)))


def test_the_memory_of_a_stream_does_not_grow(parser, monkeypatch):
    monkeypatch.setattr(parsing, "BATCH", 40)
    block = in_dicts(generate(40, 9))
    require_even_memory(lambda times: parser.stream(s for _ in range(times) for s in block))


@pytest.mark.usefixtures("frequent_switches")
def test_many_threads_use_one_parser(kinds):
    texts = [generate(12, seed) for seed in range(24)]
    shared = gpuparse.load(kinds.run("default").folder, threads=2)
    expected = [gpuparse.load(kinds.run("default").folder).parse(t).to_conllu() for t in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda t: shared.parse(t).to_conllu(), texts)) == expected
        lists = pool.map(lambda t: [s.heads for s in shared.parse(in_dicts(t))], texts)
        assert list(lists) == [[s.heads for s in shared.parse(t)] for t in texts]


def parsed_by(parser: gpuparse.SentenceParser, text: bytes) -> str:
    return parser.parse(text).to_conllu()


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_get_the_parser_and_parse_the_same(kinds, method):
    parser, texts = gpuparse.load(kinds.run("fast").folder), [kinds.text("fast"), generate(9, 3)]
    expected = [parsed_by(parser, text) for text in texts]  # used before the processes are made
    with multiprocessing.get_context(method).Pool(2 if method == "fork" else 1) as pool:
        assert pool.starmap(parsed_by, [(parser, text) for text in texts]) == expected


INHERITED: list[gpuparse.SentenceParser] = []


def parsed_by_inherited(text: bytes) -> str:
    return INHERITED[0].parse(text).to_conllu()


def test_a_parser_works_on_after_a_fork(kinds):
    INHERITED[:] = [gpuparse.load(kinds.run("default").folder, threads=2)]
    text = kinds.text("default")
    expected = parsed_by_inherited(text)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(parsed_by_inherited, [text] * 4) == [expected] * 4
    assert parsed_by_inherited(text) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_pickles_need_no_folder_and_parse_the_same(kinds, kind, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    for file in kinds.run(kind).folder.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    parser = gpuparse.load(folder, single_root=True, threads=1, allow_missing=True)
    expected = parser.parse(kinds.text(kind)).to_conllu()
    for file in folder.iterdir():
        file.unlink()
    of_files = gpuparse.SentenceParser.of_files(
        parser.files(), "files", parsing.LoadOptions(threads=1)
    )
    assert of_files.files() == parser.files()
    assert of_files.parse(kinds.text(kind)).to_conllu() == expected
    again = pickle.loads(pickle.dumps(parser))  # noqa: S301 (our own)
    assert again.parse(kinds.text(kind)).to_conllu() == expected
    assert repr(again) == repr(parser)
    assert len(again.parse([["a"]])) == 1
    assert pickle.dumps(again) == pickle.dumps(parser)


def test_parsing_loads_no_torch_pandas_or_arrow(kinds):
    folder, file = kinds.run("fast").folder, kinds.folder / "test.conllu"
    code = """
import gpuparse
assert "numpy" not in sys.modules
parser = gpuparse.load(sys.argv[1])
parsed = parser.parse(open(sys.argv[2], "rb").read())
assert [s.heads for s in parser.stream(sys.argv[2])] == [s.heads for s in parsed]
parsed.to_conllu(), str(parsed), parsed._repr_html_()
assert not {"pandas", "pyarrow"} & set(sys.modules)
"""
    assert run_python(code, folder, file) == []


def test_comments_and_ranges_of_text_stay(kinds):
    parsed = gpuparse.load(kinds.run("graphs").folder, allow_missing=True).parse(COMMENTED)
    assert [s.sent_id for s in parsed] == ["first", "second"]
    assert [s.words for s in parsed] == [["a", "b", "c"], ["d"]]
    assert parsed[0].to_conllu().startswith("# sent_id = first\n# text = a b\n1\ta\ta\tX")
    assert "\n2-3\tbc\t" in parsed[0].to_conllu()
    crlf = gpuparse.load(kinds.run("graphs").folder).parse(COMMENTED.replace("\n", "\r\n"))
    assert "".join(s.to_conllu() for s in crlf) == crlf.to_conllu()

"""Scores of files with other tokens, against the shared task's script; files that differ."""

import random
import sys
import time
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from gpuparse.data.conll import read_treebank, treebank_from_bytes
from gpuparse.data.graphs import enhanced_arcs
from gpuparse.data.treebank import Treebank
from gpuparse.errors import DataError
from gpuparse.evaluation.metrics import ArcCounts
from gpuparse.evaluation.words import SPACES, compare_words, has_graphs, score_words
from tests.oracles.attachment import random_tree

TREEBANKS = Path(__file__).parents[2] / ".." / "shared" / "data"
MEASURES = [
    "Tokens", "Sentences", "Words", "UPOS", "XPOS", "UFeats", "AllTags", "Lemmas", "UAS", "LAS",
    "CLAS", "MLAS", "BLEX",
]  # fmt: skip
FORMS = [
    "du", "de", "le", "Le", "La", "la", "an", "A", "a", "b", "c.", "d'e", "\u00e9", "e\u0301",
    "\u0130", "\u00df", "ab", "ba", "\u4eba\u5de5", "1\u00a0000", "x\u3000y", "a b",
]  # fmt: skip
RELATIONS = [
    "nsubj", "nsubj:pass", "aux", "aux:pass", "case", "det", "punct", "mark", "cc", "cop",
    "obl:agent", "dep", "x",
]  # fmt: skip
TAGS = ["NOUN", "VERB", "ADP", "X"]
FEATS = ["_", "Case=Nom|Number=Sing", "Number=Sing|Case=Nom", "Typo=Yes|Case=Nom", "Number=Plur"]
LEMMAS = ["_", "de", "le", "La"]


def theirs(gold: Path, system: Path):
    udeval = pytest.importorskip("udtools.udeval", reason="the udtools package is not installed")
    both = [collapsed(path) for path in (gold, system)]
    return udeval.evaluate(*(udeval.load_conllu_file(str(path)) for path in both))


def collapsed(path: Path) -> Path:
    """A file with the arcs of `enhanced_arcs` in DEPS, which the script needs."""
    treebank = read_treebank(path)
    arcs, deps = enhanced_arcs(treebank), [[] for _ in range(treebank.n_words)]
    firsts = np.repeat(treebank.word_starts[:-1], np.diff(treebank.word_starts))
    for w, h, r in zip(arcs.modifiers.tolist(), arcs.heads, arcs.relations, strict=True):
        deps[w].append(f"{h - firsts[w] + 1 if h >= 0 else 0}:{arcs.names[r]}")
    lines, of_words = [], iter(deps)
    for line in path.read_text(encoding="utf-8").split("\n"):
        fields = line.split("\t")
        if fields[0].isdigit():
            fields[8] = "|".join(next(of_words)) or "_"
        if "." not in fields[0] or line.startswith("#"):
            lines.append("\t".join(fields))
    found = path.with_suffix(".collapsed")
    found.write_text("\n".join(lines), encoding="utf-8")
    return found


def assert_equal_to_the_script(gold: Path, system: Path):
    expected = theirs(gold, system)
    both = read_treebank(gold), read_treebank(system)
    found = score_words(*both)
    names = MEASURES + ["ELAS", "EULAS"] * all(map(has_graphs, both))
    assert [name.lower() for name in names] == list(found)
    for name in names:
        score, hits = expected[name], found[name.lower()]
        counts = hits.counts
        assert (name, score.gold_total, score.system_total, score.correct, score.aligned_total) == (
            name,
            counts.gold,
            counts.system,
            counts.right,
            hits.aligned,
        )
        for ours, value in (
            (counts.precision, score.precision),
            (counts.recall, score.recall),
            (counts.f, score.f1),
            (hits.aligned_accuracy, score.aligned_accuracy),
        ):
            assert 100 * (value or 0) == pytest.approx(ours or 0, abs=1e-9)
    return expected


class Word:
    """A word with its tags, and the place of its head's word in the text, if it has one."""

    def __init__(self, draw, form):
        self.form = form
        self.lemma, self.upos = draw.choice(LEMMAS), draw.choice(TAGS)
        self.xpos, self.feats = draw.choice(["_", "N"]), draw.choice(FEATS)
        self.relation = draw.choice(RELATIONS)

    def changed(self, draw, rate):
        word = Word(draw, self.form)
        for name in ("lemma", "upos", "xpos", "feats", "relation"):
            if draw.random() > rate:
                setattr(word, name, getattr(self, name))
        if draw.random() < rate and word.feats != "_":
            word.feats = "|".join(reversed(word.feats.split("|")))
        return word


def random_words(draw, text: str) -> list[str]:
    """One to four forms: pieces of the text, other words, or other cases of it."""
    choices = [text, text.upper(), text[:1] + "z", *draw.sample(FORMS, 2)]
    return [draw.choice(choices) for _ in range(draw.randint(1, 4))]


def random_gold(draw, n_tokens: int):
    """Sentences of tokens: (text, words), one word and no range if `words` is a Word."""
    sentences, tokens = [], []
    for _ in range(n_tokens):
        text = draw.choice(FORMS)
        if draw.random() < 0.2:
            tokens.append((text, [Word(draw, form) for form in random_words(draw, text)]))
        else:
            tokens.append((text, Word(draw, text)))
        if draw.random() < 0.2:
            sentences.append(tokens)
            tokens = []
    return [*sentences, tokens] if tokens else sentences


def corrupted(draw, sentences, rate: float):
    """The same text with other tokens, words, sentence breaks and tags."""
    result, current = [], []
    for sentence in sentences:
        k = 0
        while k < len(sentence):
            text, words = sentence[k]
            k += 1
            if draw.random() < rate and k < len(sentence):  # merge with the next token
                text += draw.choice(["", " "]) + sentence[k][0]
                words = Word(draw, text)
                k += 1
            pieces = [(text, words)]
            if draw.random() < rate and len(text) > 1:  # split
                at = draw.randint(1, len(text) - 1)
                if text[:at].strip() and text[at:].strip():
                    pieces = [(part, Word(draw, part)) for part in (text[:at], text[at:])]
            for piece, inside in pieces:
                if draw.random() < rate:
                    inside = (
                        [Word(draw, form) for form in random_words(draw, piece)]
                        if isinstance(inside, Word) or draw.random() < 0.5
                        else Word(draw, piece)
                    )
                elif isinstance(inside, Word):
                    inside = inside.changed(draw, rate)
                else:
                    inside = [word.changed(draw, rate) for word in inside]
                current.append((piece, inside))
                if draw.random() < rate / 2:
                    result.append(current)
                    current = []
        if current and draw.random() > rate:
            result.append(current)
            current = []
    return [*result, current] if current else result


def as_text(draw, sentences) -> str:
    lines = []
    for k, sentence in enumerate(sentences):
        lines.append(f"# sent_id = {k}")
        n = sum(1 if isinstance(words, Word) else len(words) for _, words in sentence)
        # Mostly chains, so that heads agree where words do; else random trees.
        heads = random_tree(draw, n) if draw.random() < 0.3 else list(range(n))
        m = 0
        for text, words in sentence:
            if isinstance(words, Word):
                words = [words]
            else:
                lines.append(f"{m + 1}-{m + len(words)}\t{text}" + "\t_" * 8)
            for word in words:
                m += 1
                if draw.random() < 0.05:
                    deps = f"{draw.randint(0, m - 1)}:parataxis"
                    lines.append(f"{m - 1}.1\tnothing" + "\t_" * 6 + f"\t{deps}\t_")
                head, tags = heads[m - 1], [word.lemma, word.upos, word.xpos, word.feats]
                deps = f"{head}:{word.relation}"
                if m > 2 and head != m - 2 and draw.random() < 0.2:
                    deps += f"|{m - 2}:conj:{draw.choice(['and', 'or'])}"
                if draw.random() < 0.1:
                    deps = draw.choice(["_", f"{m - 1}.1:orphan|{deps}"])
                row = [str(m), word.form, *tags, str(head), word.relation, deps, "_"]
                lines.append("\t".join(row))
        lines.append("")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.4])
@pytest.mark.parametrize("seed", range(20))
def test_equals_the_shared_task_script(tmp_path, seed, rate):
    draw = random.Random(seed)
    gold, system = tmp_path / "gold.conllu", tmp_path / "system.conllu"
    sentences = random_gold(draw, 300)
    gold.write_text(as_text(draw, sentences), encoding="utf-8")
    system.write_text(as_text(draw, corrupted(draw, sentences, rate)), encoding="utf-8")
    expected = assert_equal_to_the_script(gold, system)
    assert 0 < expected["Words"].correct < expected["Words"].gold_total
    assert 0 < expected["ELAS"].correct <= expected["EULAS"].correct
    if rate < 0.4:
        assert 0 < expected["MLAS"].correct < expected["CLAS"].correct


@pytest.mark.parametrize("seed", range(150))
def test_equals_the_script_where_multiword_tokens_overlap(tmp_path, monkeypatch, seed):
    """Texts of few letters, in which words of other tokens have equal forms."""
    monkeypatch.setattr(sys.modules[__name__], "FORMS", ["a", "b", "ab", "Ab", "aab", "bba"])
    draw = random.Random(seed)
    gold, system = tmp_path / "gold.conllu", tmp_path / "system.conllu"
    sentences = random_gold(draw, 40)
    gold.write_text(as_text(draw, corrupted(draw, sentences, 0.3)), encoding="utf-8")
    system.write_text(as_text(draw, corrupted(draw, sentences, 0.5)), encoding="utf-8")
    assert_equal_to_the_script(gold, system)


@pytest.mark.parametrize("seed", range(5))
def test_without_tokens_the_measures_of_the_same_words_are_the_same(tmp_path, seed):
    draw = random.Random(seed)
    sentences = random_gold(draw, 100)
    other = [
        [
            (
                text,
                w.changed(draw, 0.3) if isinstance(w, Word) else [v.changed(draw, 0.3) for v in w],
            )
            for text, w in sentence
        ]
        for sentence in sentences
    ]
    gold, system = (bank(as_text(draw, found)) for found in (sentences, other))
    full, words = score_words(gold, system), score_words(gold, system, same_words=True)
    assert list(full)[:3] == ["tokens", "sentences", "words"]
    assert list(full)[3:] == list(words)
    for name, hits in words.items():
        assert (hits.counts, hits.aligned) == (full[name].counts, full[name].aligned)
        assert np.array_equal(hits.right, full[name].right)
    # Without the rows of ranges, the text is another one, but the words are the same.
    bare = bank("\n".join(x for x in as_text(draw, other).split("\n") if "-" not in x[:5]))
    assert score_words(gold, bare, same_words=True)["upos"].counts == words["upos"].counts


TEXTS = [
    "english-ewt/en_ewt-ud-dev.conllu",
    "french-sequoia/dev.conllu",
    "chinese-small/train.conllu",
]


@pytest.mark.parametrize("name", TEXTS)
def test_equals_the_shared_task_script_on_a_treebank(tmp_path, name):
    path = TREEBANKS / name
    if not path.is_file():
        pytest.skip("the treebanks are not beside the repository")
    draw = random.Random(5)
    gold, system = tmp_path / "gold.conllu", tmp_path / "system.conllu"
    gold.write_bytes(path.read_bytes())
    blocks = path.read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    system.write_text(
        "\n\n".join(changed_block(draw, block) for block in blocks) + "\n\n", encoding="utf-8"
    )
    expected = assert_equal_to_the_script(gold, system)
    assert 0.5 < expected["MLAS"].f1 < expected["Words"].f1 < 1


def changed_block(draw: random.Random, block: str) -> str:
    """A sentence with some other tags, lemmas and relations, and perhaps words merged or split."""
    table = [line.split("\t") for line in block.split("\n") if not line.startswith("#")]
    for columns in table:
        if columns[0].isdigit() and draw.random() < 0.1:
            columns[2], columns[3] = draw.choice(["_", "x"]), draw.choice(TAGS)
            columns[5] = "|".join(reversed(columns[5].split("|")))
            columns[7] = draw.choice([columns[7], columns[7] + ":x", "case"])
    last = table[-1]
    if last[0].isdigit() and len(last[1]) > 1 and draw.random() < 0.5:
        end, number = last[1][1:], int(last[0]) + 1
        last[1] = last[1][0]
        row = [str(number), end, *last[2:6], last[0], "punct", "_", "_"]
        table.append(row)
    return "\n".join("\t".join(columns) for columns in table)


def bank(text: str, name: str = "f"):
    return treebank_from_bytes(text.encode(), name)


def rows(*forms: str, heads: str = "", tag: str = "X") -> str:
    """A sentence of words; `1-2 du` is a row of a range. Heads are a chain, or as given."""
    lines, m = [], 0
    for form in forms:
        if " " in form and form[0].isdigit():
            lines.append("\t".join(form.split(" ", 1)) + "\t_" * 8)
            continue
        head = heads.split()[m] if heads else str(m)
        m += 1
        lines.append(f"{m}\t{form}\t_\t{tag}\t_\t_\t{head}\tdep\t_\t_")
    return "\n".join(lines) + "\n\n"


def with_deps(*deps: str, nodes: str = "") -> Treebank:
    """A sentence of words a, b, c, ... with these DEPS, and rows of empty nodes after it."""
    letters = "abcdef"[: len(deps)]
    table = [
        f"{m}\t{form}\t_\tX\t_\t_\t{m - 1}\tdep\t{own}\t_"
        for m, (form, own) in enumerate(zip(letters, deps, strict=True), 1)
    ]
    return bank("\n".join([*table, *nodes.splitlines()]) + "\n\n")


EMPTY = (
    "4.1\te"
    + "\t_" * 6
    + "\t1:conj:and|4.2:x|9:far|no\t_\n4.2\tf"
    + "\t_" * 6
    + "\t0:root|4.1:y\t_\n"
)


@pytest.mark.parametrize(
    ("gold", "system", "elas", "eulas"),
    [
        # One of three arcs of the system is right; without "of" and "in" two are.
        (["0:root", "1:nmod:of|1:x", "_"], ["0:root", "1:nmod:in", "2:x"], (3, 3, 1), (3, 3, 2)),
        # Of two equal arcs without subtypes, one is right.
        (["0:root", "1:x:y|1:x:z", "_"], ["0:root", "1:x", "_"], (3, 2, 1), (3, 2, 2)),
        # The empty node has two paths: 1:conj:and>obj and 0:root>x>obj.
        (["0:root", "_", "_", "4.1:obj"], ["0:root", "1:conj:or>obj", "_", "1:conj:and>obj"],
         (3, 3, 2), (3, 3, 2)),
        (["0:root", "_", "_", "4.1:obj"], ["0:root", "_", "_", "1:conj:or>obj|0:root>x>obj:y"],
         (3, 3, 1), (3, 3, 3)),
        (["0:root", "_", "_", "4.1:obj|4.2:z"], ["4:root", "_", "_", "0:root>z|1:conj>y>z"],
         (5, 3, 1), (5, 3, 2)),
        (["0:root", "_", "_", "4.9:obj"], ["0:root", "_", "_", "_"], (1, 1, 1), (1, 1, 1)),
    ],
)  # fmt: skip
def test_enhanced_arcs_by_hand(gold, system, elas, eulas):
    """The arcs of gold, of the system, and those that are right."""
    hits = score_words(with_deps(*gold, nodes=EMPTY), with_deps(*system))
    for name, (n_gold, n_system, right) in {"elas": elas, "eulas": eulas}.items():
        assert hits[name].counts == ArcCounts(n_gold, n_system, right, right), name


def test_enhanced_arcs_of_words_that_are_not_aligned_are_wrong():
    gold, system = with_deps("0:root", "1:x", "2:x", "2:y"), rows("a", "bc", "d")
    for deps in ("0:root", "1:x", "2:y"):
        system = system.replace("_\t_\n", f"{deps}\tM\n", 1)
    hits = score_words(gold, bank(system))
    assert hits["elas"].counts == ArcCounts(4, 3, 1, 1)


def test_files_without_graphs_have_no_enhanced_arcs():
    with_graphs = with_deps("0:root", "1:x")
    for other in (with_deps("_", "_"), with_deps("0:root", "1")):
        for pair in ((with_graphs, other), (other, with_graphs)):
            assert "elas" not in score_words(*pair)


def test_paths_are_limited():
    nodes = "".join(
        f"2.{k}\te" + "\t_" * 6 + f"\t2.{k + 1}:x|2.{k + 1}:y\t_\n" for k in range(1, 30)
    )
    treebank = with_deps("0:root", "2.1:x", nodes=nodes)
    with pytest.raises(DataError, match="too many paths lead through empty nodes"):
        enhanced_arcs(treebank)


def test_the_spaces_are_those_of_unicode():
    for code in range(sys.maxunicode + 1):
        if 0xD800 <= code < 0xE000:
            continue
        is_space = unicodedata.category(chr(code)) == "Zs"
        assert (SPACES.fullmatch(chr(code).encode()) is not None) == is_space, hex(code)


@pytest.mark.parametrize(
    ("gold", "system", "message"),
    [
        (["ab", "c"], ["a", "d"], r"s:2: the text here is 'ad', but at g:1 it is 'abc'; both"),
        (["ab", "c"], ["a", "b"], r"g:2: s ends before 'c'; both files need the same text"),
        (["a"], ["a", "2-3 bc", "b", "c"], "s:2: g ends before 'bc'"),
        (["\u00e9"], ["e\u0301"], "s:1: the text here is 'e\u0301', but at g:1 it is '\u00e9'"),
        (["a", "\u00a0"], ["a"], "g:2: FORM .column 2. has only spaces"),
    ],
)
def test_other_text_is_refused_with_both_places(gold, system, message):
    with pytest.raises(DataError, match=message):
        score_words(bank(rows(*gold), "g"), bank(rows(*system), "s"))


def test_heads_must_be_trees():
    good = rows("a", "b", "c")
    for bad, what in (
        (rows("a", "bc", heads="2 1"), "cycle"),
        (rows("a", "bc", heads="0 3"), "2 w"),
    ):
        for gold, system in ((good, bad), (bad, good)):
            with pytest.raises(DataError, match=what):
                score_words(bank(gold), bank(system))
    with pytest.raises(DataError, match="no HEAD"):
        score_words(bank(good), bank(rows("a", "bc", heads="_ 0")))


def test_without_heads_tokens_and_tags_are_scored():
    gold, system = rows("a", "b", "c", heads="_ _ _"), rows("a", "bc", heads="_ _")
    hits = score_words(bank(gold), bank(system))
    assert list(hits) == [name.lower() for name in MEASURES[:8]]
    parsed = bank(rows("a", "b", "c"))
    assert list(score_words(parsed, bank(system))) == list(hits)  # a model without a parser
    assert hits["tokens"].counts.f == pytest.approx(40)
    assert (hits["words"].counts.gold, hits["words"].counts.system) == (3, 2)


def test_files_of_no_words_have_nothing_to_count():
    hits = score_words(bank(""), bank("# a comment\n"))
    assert {h.counts.f for h in hits.values()} == {None}
    with pytest.raises(DataError, match="no word to compare"):
        compare_words(bank(""), hits, hits)


def test_long_multiword_tokens_are_aligned_or_refused(monkeypatch):
    forms = [chr(0x4E00 + k) for k in range(300)]
    text = "".join(forms)
    gold = bank(rows(f"1-300 {text}", *forms), "g")
    system = bank(rows(f"1-299 {text}", *forms[1:]), "s")
    assert score_words(gold, system)["words"].counts.right == 299
    monkeypatch.setattr("gpuparse.evaluation.words._MOST_CELLS", 1000)
    with pytest.raises(DataError, match=r"^g:1: 300 words of multiword tokens here cannot"):
        score_words(gold, system)


def test_it_is_fast():
    draw = random.Random(1)

    def seconds(n_tokens: int) -> float:
        sentences = random_gold(draw, n_tokens)
        gold = bank(as_text(draw, sentences))
        system = bank(as_text(draw, corrupted(draw, sentences, 0.1)))
        start = time.process_time()
        score_words(gold, system)
        return time.process_time() - start

    assert seconds(19_000) < 2  # some 25,000 words; 0.2 s on an idle machine

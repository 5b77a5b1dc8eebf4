"""Scores of files, against an oracle and the shared task's script; files that differ."""

import random
from pathlib import Path

import pytest

from gpuparse.data.conll import read_treebank
from gpuparse.errors import DataError
from gpuparse.evaluation.metrics import punctuation_by_category, punctuation_by_tag, score_treebanks
from gpuparse.evaluation.treebanks import check_same_words
from tests.oracles.attachment import attachment, is_punctuation, random_tree, sentences

TREEBANKS = Path(__file__).parents[2] / ".." / "shared" / "data"
RELATIONS = ["nsubj", "nsubj:pass", "obl", "obl:agent", "punct", "<subj:pobj>", "[dobj]"]
FORMS = ["Hund", "Æble", "bog", ",", "...", "«", "$", "-", "x.", "_", "犬", "a b"]
TAGS = ["NOUN", "VERB", "PUNCT", "."]


def random_text(seed: int, n_sentences: int, single_root: bool) -> tuple[str, str]:
    """A gold and a system file of the same words with random trees that share most arcs."""
    draw = random.Random(seed)
    gold, system = [], []
    for s in range(n_sentences):
        n = draw.randint(1, 12)
        first, second = (random_tree(draw, n, single_root=single_root) for _ in range(2))
        comment = f"# sent_id = s{s}\n"
        gold.append(comment)
        system.append(comment)
        same = draw.random() < 0.5
        for m in range(1, n + 1):
            form, tag = draw.choice(FORMS), draw.choice(TAGS)
            label = draw.choice(RELATIONS)
            other = draw.choice(RELATIONS) if draw.random() < 0.4 else label
            columns = [str(m), form, "_", tag, "_", "_"]
            gold.append("\t".join([*columns, str(first[m - 1]), label, "_", "_"]) + "\n")
            head = first[m - 1] if same else second[m - 1]
            system.append("\t".join([*columns, str(head), other, "_", "_"]) + "\n")
        gold.append("\n")
        system.append("\n")
    return "".join(gold), "".join(system)


def read(tmp_path: Path, name: str, text: str):
    path = tmp_path / name
    path.write_bytes(text.encode())
    return read_treebank(path)


def scores_of(tmp_path, gold: str, system: str, ignored=None):
    gold_bank = read(tmp_path, "gold.conllu", gold)
    system_bank = read(tmp_path, "system.conllu", system)
    return score_treebanks(gold_bank, system_bank, ignored=ignored and ignored(gold_bank))


def assert_equal_to_oracle(result, expected):
    count, roots, crossing = expected["count"], expected["roots"], expected["crossing"]
    assert (result.uas.correct, result.uas.total) == (count["uas"], count["words"])
    assert result.las.correct == count["las"]
    assert result.las_full.correct == count["las_full"]
    assert result.label_accuracy.correct == count["label"]
    assert (result.complete.correct, result.complete.total) == (
        count["complete"],
        count["sentences"],
    )
    assert result.complete_labelled.correct == count["complete_labelled"]
    assert (result.root.gold, result.root.system) == (roots["gold"], roots["system"])
    assert result.root.found == result.root.right == roots["both"]
    assert vars(result.nonprojective) == crossing
    found = {name: [a.gold, a.system, a.right] for name, a in result.relations.items()}
    assert found == expected["relations"]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("single_root", [True, False])
def test_equals_the_oracle_on_random_trees(tmp_path, seed, single_root):
    gold, system = random_text(seed, 60, single_root)
    assert_equal_to_oracle(scores_of(tmp_path, gold, system), attachment(gold, system))
    assert_equal_to_oracle(
        scores_of(tmp_path, gold, system, punctuation_by_category),
        attachment(gold, system, lambda row: not is_punctuation(row[1])),
    )
    assert_equal_to_oracle(
        scores_of(tmp_path, gold, system, lambda bank: punctuation_by_tag(bank, ["PUNCT", "."])),
        attachment(gold, system, lambda row: row[3] not in ("PUNCT", ".")),
    )


def printed(value: float) -> str:
    return f"{value:.2f}"


@pytest.mark.parametrize("seed", range(5))
def test_equals_the_shared_task_script_to_the_digit(tmp_path, seed):
    udeval = pytest.importorskip("udtools.udeval", reason="the udtools package is not installed")
    gold, system = random_text(seed, 80, single_root=True)
    result = scores_of(tmp_path, gold, system)
    theirs = udeval.evaluate(
        udeval.load_conllu_file(str(tmp_path / "gold.conllu")),
        udeval.load_conllu_file(str(tmp_path / "system.conllu")),
    )
    assert printed(100 * theirs["UAS"].f1) == printed(result.uas.percent)
    assert printed(100 * theirs["LAS"].f1) == printed(result.las.percent)
    assert theirs["LAS"].correct == result.las.correct
    assert result.las.correct > result.las_full.correct  # or subtypes would not have been tried


@pytest.mark.skipif(not TREEBANKS.is_dir(), reason="the treebanks are not beside the repository")
def test_equals_the_shared_task_script_on_a_treebank(tmp_path):
    udeval = pytest.importorskip("udtools.udeval", reason="the udtools package is not installed")
    path = TREEBANKS / "english-ewt" / "en_ewt-ud-test.conllu"
    gold = path.read_text(encoding="utf-8")
    draw, lines = random.Random(7), gold.split("\n")
    for i, line in enumerate(lines):
        columns = line.split("\t")
        if columns[0].isdigit() and columns[6] != "0" and draw.random() < 0.1:
            columns[7] = draw.choice(["obj", "obl:agent", "nsubj:pass"])
            lines[i] = "\t".join(columns)
    system = tmp_path / "system.conllu"
    system.write_text("\n".join(lines), encoding="utf-8")
    result = score_treebanks(read_treebank(path), read_treebank(system))
    theirs = udeval.evaluate(
        udeval.load_conllu_file(str(path)), udeval.load_conllu_file(str(system))
    )
    assert theirs["UAS"].correct == result.uas.correct == result.uas.total
    assert theirs["LAS"].correct == result.las.correct < result.las.total
    assert printed(100 * theirs["LAS"].f1) == printed(result.las.percent)
    assert result.uas.total == sum(len(sentence) for sentence in sentences(gold))


WORD = "{}\t{}\t_\tX\t_\t_\t{}\tdep\t_\t_\n"


def text_of(*forms_by_sentence: str) -> str:
    """Sentences of the given words, each word attached to the one before."""
    return "".join(
        "".join(WORD.format(i, form, i - 1) for i, form in enumerate(forms.split(), 1)) + "\n"
        for forms in forms_by_sentence
    )


@pytest.mark.parametrize(
    ("gold", "system", "message"),
    [
        (
            ["a b c"],
            ["a x c"],
            r"system.conllu:2: the word is 'x', but at .*gold.conllu:2 it is 'b'",
        ),
        (["a bb c"], ["a b c"], r"system.conllu:2: the word is 'b', but at .*gold.conllu:2"),
        (["ab c"], ["a bc"], r"system.conllu:1: the word is 'a'"),
        (
            ["a b", "c"],
            ["a b c"],
            r"gold.conllu:4: a sentence begins here, but at .*system.conllu:3",
        ),
        (
            ["a b c"],
            ["a b", "c"],
            r"system.conllu:4: a sentence begins here, but at .*gold.conllu:3",
        ),
        (["a", "b"], ["a", "b", "c"], r"system.conllu:5: .*gold.conllu ends before this word"),
        (["a b"], ["a"], r"gold.conllu:2: .*system.conllu ends before this word"),
        (["a b", "c d"], ["a b", "c", "e"], r"system.conllu:6: a sentence begins here"),
        (["a"], [], r"gold.conllu:1: .*system.conllu ends before this word; it has 0 words"),
    ],
)
def test_files_that_part_name_the_first_line(tmp_path, gold, system, message):
    banks = (
        read(tmp_path, "gold.conllu", text_of(*gold)),
        read(tmp_path, "system.conllu", text_of(*system)),
    )
    with pytest.raises(DataError, match=message):
        check_same_words(*banks)


def test_comments_lemmas_and_ranges_may_differ(tmp_path):
    gold = "# a comment\n1-2\tab\t_\t_\t_\t_\t_\t_\t_\t_\n" + text_of("a b")
    system = text_of("a b").replace("\tX\t", "\tY\t") + "\n"
    assert scores_of(tmp_path, gold, system).uas.percent == 100.0


@pytest.mark.parametrize("heads", [(2, 1), (0, "_")])
def test_a_system_file_whose_heads_are_no_tree_is_refused(tmp_path, heads):
    system = "".join(
        WORD.format(m, form, h) for m, form, h in zip((1, 2), "ab", heads, strict=True)
    )
    with pytest.raises(DataError, match=r"system\.conllu:"):
        scores_of(tmp_path, text_of("a b"), system + "\n")


def test_unicode_punctuation(tmp_path):
    bank = read(tmp_path, "gold.conllu", text_of(", « 。 ... $ + a. %"))
    assert punctuation_by_category(bank).tolist() == [True] * 4 + [False] * 3 + [True]


def test_punctuation_by_tag_looks_at_both_columns(tmp_path):
    rows = [(1, "PUNCT", "x"), (2, "X", "``"), (3, "X", "x")]
    text = "".join(f"{i}\ta\t_\t{c}\t{f}\t_\t{i - 1}\t_\t_\t_\n" for i, c, f in rows) + "\n"
    bank = read(tmp_path, "gold.conllu", text)
    assert punctuation_by_tag(bank, ["PUNCT", "``"]).tolist() == [True, True, False]

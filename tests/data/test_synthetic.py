"""The generated treebank: repeatable, well-formed, and about as hard as it claims to be."""

import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from gpuparse.data.conll import check_trees, treebank_from_bytes
from gpuparse.data.folders import TOY
from gpuparse.data.trees import nonprojective_arcs
from tests.synthetic import LONGEST, SENTENCES, SHORTEST, generate

N = 3000


@pytest.fixture(scope="module")
def treebank():
    return treebank_from_bytes(generate(N, 1), "synthetic")


def second_heads(sentence):
    """(word, head, label) of every head in DEPS that is not the basic one."""
    for m, (deps, head) in enumerate(zip(sentence.deps, sentence.heads, strict=True), 1):
        for arc in deps.split("|"):
            h, label = arc.split(":", 1)
            if int(h) != head:
                yield m, int(h), label


def test_it_is_the_same_on_every_machine():
    digest = hashlib.sha256(generate(200, 7)).hexdigest()
    assert digest == "eaa8847b53fa6030b301618b6f25ed4182c46604ce8852c74796bf02cb81d046"


@pytest.mark.parametrize(
    ("name", "sentences", "seed"), [("toy-train", 300, 8), ("toy-dev", 40, 2), ("toy-test", 100, 3)]
)
def test_the_files_of_quickstart_are_generated(name, sentences, seed):
    assert Path(TOY[name]).read_bytes() == generate(sentences, seed)


def test_the_first_sentences_do_not_depend_on_how_many_are_made():
    assert generate(50, 3).startswith(generate(20, 3))
    assert generate(0, 3) == b""
    assert generate(20, 3) != generate(20, 4)


def test_every_sentence_is_a_tree_with_one_root(treebank):
    assert len(treebank) == N
    assert treebank.faults == treebank.warnings == []
    assert check_trees(treebank, single_root=True) == []


def test_lengths(treebank):
    lengths = np.diff(treebank.word_starts)
    assert lengths.min() >= SHORTEST
    assert lengths.max() <= LONGEST
    assert 11 < lengths.mean() < 14


def test_some_trees_are_not_projective(treebank):
    arcs = nonprojective_arcs(treebank.heads, treebank.word_starts)
    sentences = np.add.reduceat(arcs, treebank.word_starts[:-1]) > 0
    assert 0.05 < sentences.mean() < 0.12
    labels = {treebank.column(w, 7) for w in np.flatnonzero(arcs)}
    assert labels >= {"acl:relcl", "obj"}


def test_basic_heads_are_in_deps_and_graphs_have_no_cycles(treebank):
    for sentence in treebank:
        for head, label, deps in zip(sentence.heads, sentence.labels, sentence.deps, strict=True):
            arcs = [arc.split(":", 1) for arc in deps.split("|")]
            assert [str(head), label] in arcs
            assert arcs == sorted(arcs, key=lambda arc: int(arc[0]))
        parents = [[int(arc.split(":")[0]) for arc in deps.split("|")] for deps in sentence.deps]
        placed = {0}
        while len(placed) <= len(parents):
            more = {m for m, hs in enumerate(parents, 1) if m not in placed and placed >= set(hs)}
            assert more, f"a cycle in {sentence.forms}"
            placed |= more


def test_words_have_second_heads_from_coordination_and_control(treebank):
    found = Counter(label for sentence in treebank for _, _, label in second_heads(sentence))
    assert found["nsubj"] > 100
    assert found["obj"] > 100
    share = sum("|" in deps for sentence in treebank for deps in sentence.deps) / treebank.n_words
    assert 0.02 < share < 0.05
    for sentence in treebank:
        for m, h, label in second_heads(sentence):
            basic = sentence.heads[m - 1]
            if sentence.labels[m - 1] == "conj":  # a second conjunct: the verb of the first
                assert (sentence.heads[basic - 1], sentence.labels[basic - 1]) == (h, label)
            else:  # a shared argument: the second verb hangs from the first
                assert sentence.heads[h - 1] == basic
                assert sentence.labels[h - 1] in ("conj", "xcomp")


def test_comments_ranges_and_spaces_spell_the_text(treebank):
    n_ranges = 0
    for s, sentence in enumerate(treebank):
        assert sentence.sent_id == f"synthetic-1-{s + 1}"
        start, end = treebank.spans[s]
        rows = [
            line.split("\t")
            for line in treebank.data[start:end].tobytes().decode().split("\n")
            if line and line[0] != "#"
        ]
        text, covered = "", 0
        for row in rows:
            if "-" in row[0]:
                n_ranges += 1
                covered = int(row[0].split("-")[1])
            elif int(row[0]) <= covered:
                continue
            text += row[1] + ("" if row[9] == "SpaceAfter=No" else " ")
        assert sentence.comments[1] == f"# text = {text.rstrip()}"
    assert n_ranges > 100


def test_subjects_agree_with_their_verbs(treebank):
    checked = 0
    for sentence in treebank:
        for m, (head, label) in enumerate(zip(sentence.heads, sentence.labels, strict=True), 1):
            if label not in ("nsubj", "nsubj:pass") or sentence.lemmas[m - 1] in ("who", "that"):
                continue
            finite = [
                v
                for v in range(1, len(sentence) + 1)
                if (v == head or (sentence.heads[v - 1] == head and sentence.cpos[v - 1] == "AUX"))
                and "Person=" in sentence.feats[v - 1]
            ]
            joined = any(
                sentence.heads[v - 1] == m and sentence.labels[v - 1] == "conj"
                for v in range(1, len(sentence) + 1)
            )
            if not finite or joined or "Number=" not in sentence.feats[m - 1]:
                continue
            number = next(f for f in sentence.feats[m - 1].split("|") if f.startswith("Number="))
            assert number in sentence.feats[finite[0] - 1], sentence.forms
            checked += 1
    assert checked > 500


def test_the_vocabulary_is_a_few_hundred_words(treebank):
    lemmas = {lemma for sentence in treebank for lemma in sentence.lemmas}
    assert 250 < len(lemmas) < 500
    assert not any(" " in lemma or not lemma for lemma in lemmas)
    relations = {label for sentence in treebank for label in sentence.labels}
    assert len(relations) > 20


def test_with_hangs_from_what_likes_it(treebank):
    heads = Counter()
    for sentence in treebank:
        for m, (head, label) in enumerate(zip(sentence.heads, sentence.labels, strict=True), 1):
            if label == "case" and sentence.forms[m - 1] == "with":
                noun, above = sentence.lemmas[head - 1], sentence.labels[head - 1]
                heads[noun, above] += 1
    assert heads["beard", "nmod"] > 3
    assert heads["beard", "obl"] == 0
    assert heads["brush", "obl"] > 3
    assert heads["brush", "nmod"] == 0
    assert heads["telescope", "nmod"] > 0  # who has it is to be guessed from the verb
    assert heads["telescope", "obl"] > 0


def test_shares_add_up():
    assert sum(share for share, *_ in SENTENCES) == pytest.approx(1)

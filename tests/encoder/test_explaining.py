"""Explanations of models with an encoder: what leaving out words changes."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import gpuparse
from gpuparse.commands import explain as command
from gpuparse.commands.console import run
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.errors import ConfigError, NoTreeError, ResourceError
from gpuparse.jobs.reasons import SHOWN, as_dict, as_text
from gpuparse.model.engines import admission
from gpuparse.model.explain import LeftOutWord, explain
from gpuparse.model.folder import load_parser
from gpuparse.model.parser import Parser
from tests.tiny_encoders import write_encoder

SENTENCE = "the tall officer must want to smile and old farmers knew that clerk"
N = len(SENTENCE.split())
MASK = 4  # the piece in the tokenisers of tests/tiny_encoders.py


def conllu(*sentences: str, tags: list[str] | None = None) -> bytes:
    """Sentences of forms; tags: UPOS of each word of the only one."""
    lines = []
    for text in sentences:
        for i, form in enumerate(text.split(), 1):
            upos = tags[i - 1] if tags else "_"
            lines.append(f"{i}\t{form}\t_\t{upos}" + "\t_" * 6 + "\n")
        lines.append("\n")
    return "".join(lines).encode()


TEXT = conllu("dogs sleep", SENTENCE)
TREEBANK = treebank_from_bytes(TEXT, "text")


@pytest.fixture(scope="module", params=[("bert", 8), ("bert", 16)], ids=["native", "torch"])
def folder(models, request) -> Path:
    """A model whose states native code computes, and one of torch."""
    family, bits = request.param
    encoder = write_encoder(models.folder / f"spread-{family}-{bits}", family, spread=0.5)
    keys = {"encoder__model": str(encoder), "weights__bits": bits}
    return models.model(family, f"explained-{bits}", **keys)


@pytest.fixture(scope="module")
def model(folder) -> Parser:
    return load_parser(folder)


def by_hand(
    model: Parser, left_out: int = 0, tags: dict[str, list[int]] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(N, N) scores of arcs in nats, and (N,) heads, of SENTENCE with masks for the pieces of a
    word.
    """
    import torch

    from gpuparse.scorers.encoder.pieces import EncodedPieces, EncodedTreebank, Ragged, casing_of

    [scorer] = model.scorers
    found = scorer.splitter.split(SENTENCE.split())
    pieces = [row.tolist() for row in np.split(found.values, found.starts[1:-1])]
    if left_out:
        pieces[left_out - 1] = [MASK] * len(pieces[left_out - 1])
    casings = np.array([casing_of(form) for form in SENTENCE.split()], np.int32)
    if left_out:
        casings[left_out - 1] = 0
    given = {name: np.array(numbers) for name, numbers in (tags or {}).items()}
    whole = EncodedTreebank(
        Ragged.of(pieces), casings, np.arange(N), np.array([0, N]), scorer.splitter, given
    )
    batch = EncodedPieces(whole, np.array([0]), np.array([N]))
    dense = scorer.in_torch()
    part = dense.part(dense.send(batch, torch.device("cpu")), batch)
    arcs = dense.score(part).arc[0].double().numpy() * model.scales.arc
    return arcs, model.search(batch).heads[: N + 1]


def near(model: Parser, nats: object, points: int) -> object:
    """About equal: floats of torch differ between batches, so that each score may be rounded to the
    next point.
    """
    return pytest.approx(nats, abs=1.001 * points * model.scales.arc)


def by_word(left_out: tuple[LeftOutWord, ...]) -> list[LeftOutWord]:
    return sorted(left_out, key=lambda each: each.word)


def test_the_other_head_is_that_of_the_best_other_arc(model):
    arcs, heads = by_hand(model)
    labels = model.parse(TREEBANK).labels[2:]
    for word in range(1, N + 1):
        found = explain(model, TREEBANK, 2, word)
        assert found.forms == tuple(SENTENCE.split())
        assert found.heads == tuple(heads[1:])
        assert found.head == heads[word]
        assert found.labels == tuple(model.labels[k] for k in labels)
        assert (found.tree, found.other_heads) == (None, None)
        others = [h for h in range(N + 1) if h not in (word, found.head)]
        assert found.other_head in others
        assert arcs[found.other_head, word] == near(model, arcs[others, word].max(), 1)


def test_effects_are_those_of_sentences_with_masks(model):
    arcs, _ = by_hand(model)
    masked = [by_hand(model, word) for word in range(1, N + 1)]
    sizes, n_changed = [], 0
    for word in range(1, N + 1):
        found = explain(model, TREEBANK, 2, word)
        pair = [found.head, found.other_head], word
        whole = -np.diff(arcs[pair]).item()
        effects = [abs(each.effect) for each in found.left_out]
        assert effects == sorted(effects, reverse=True)
        assert [each.word for each in by_word(found.left_out)] == [
            w for w in range(1, N + 1) if w != word
        ]
        for each in found.left_out:
            then, heads = masked[each.word - 1]
            difference = -np.diff(then[pair]).item()
            assert each.difference == near(model, difference, 2)
            assert each.effect == near(model, whole - difference, 4)
            assert each.head == heads[word]
            n_changed += each.head != found.head
        sizes += effects
    assert np.median(sizes) > 4 * model.scales.arc  # else the comparisons say little
    assert n_changed


def test_a_head_that_is_asked_for_is_compared(model):
    free = explain(model, TREEBANK, 2, 3)
    assert not free.is_asked
    for other in [h for h in range(N + 1) if h not in (3, free.head)]:
        found = explain(model, TREEBANK, 2, 3, instead=other)
        assert (found.is_asked, found.head, found.other_head) == (True, free.head, other)
        assert found.left_out == free.left_out or other != free.other_head
        arcs, _ = by_hand(model, 5)
        difference = arcs[found.head, 3] - arcs[other, 3]
        assert by_word(found.left_out)[3].word == 5
        assert by_word(found.left_out)[3].difference == near(model, difference, 2)


def test_few_pieces_are_read_at_once(model, monkeypatch):
    from gpuparse.scorers.encoder import dense, scorer
    from gpuparse.scorers.encoder.pieces import EncodedTreebank

    words = " ".join(["ab cd ef"] * 20)
    treebank = treebank_from_bytes(conllu(SENTENCE, words), "text")
    expected = {s: explain(model, treebank, s, 3) for s in (1, 2)}
    windows, read = EncodedTreebank.windows, []

    def recorded(self, sentences):
        read.append((len(sentences), int(self.pieces[sentences].sum())))
        return windows(self, sentences)

    monkeypatch.setattr(EncodedTreebank, "windows", recorded)
    for most in (1, 400):
        monkeypatch.setattr(scorer, "BATCH", most)
        monkeypatch.setattr(dense, "BATCH", most)
        for s, n in ((1, N), (2, 60)):
            read.clear()
            done = []
            found = explain(model, treebank, s, 3, progress=done.append)
            pairs = zip(by_word(found.left_out), by_word(expected[s].left_out), strict=True)
            for mine, its in pairs:
                assert (mine.word, mine.head) == (its.word, its.head)
                assert mine.effect == near(model, its.effect, 4)
            assert sum(count for count, _ in read) - 1 == n == sum(done)  # 1: for probabilities
            assert all(count == 1 or pieces <= most for count, pieces in read)
            assert len(read) == n + 1 or most > 1


def test_tags_of_a_word_that_is_left_out_are_not_read(models):
    encoder = write_encoder(models.folder / "spread-tags", spread=0.5)
    keys = {"encoder__model": str(encoder), "encoder__read_tags": True}
    model = load_parser(models.model("bert", "explained-tags", **keys))
    [scorer] = model.scorers
    names = (["NOUN", "VERB", "DET"] * N)[:N]
    treebank = treebank_from_bytes(conllu(SENTENCE, tags=names), "text")
    given = {name: names if name == "upos" else ["_"] * N for name in scorer.tags}
    numbers = {
        name: [scorer.tags[name].index(tag) if tag in scorer.tags[name] else 0 for tag in tags]
        for name, tags in given.items()
    }
    found = explain(model, treebank, 1, 3)
    n_differ = 0
    for each in found.left_out:
        without = {
            name: [0 if w == each.word else tag for w, tag in enumerate(tags, 1)]
            for name, tags in numbers.items()
        }
        then, heads = by_hand(model, each.word, without)
        with_tag, _ = by_hand(model, each.word, numbers)
        difference, other = (
            arcs[found.head, 3] - arcs[found.other_head, 3] for arcs in (then, with_tag)
        )
        assert each.difference == near(model, difference, 2)
        assert each.head == heads[3]
        n_differ += abs(difference - other) > 2 * model.scales.arc
    assert n_differ


def command_line(folder: Path, file: Path, *words: object) -> list[str]:
    return [str(word) for word in (folder, file, "--sentence", 2, "--word", 3, *words)]


def test_text_json_and_python_say_the_same(folder, model, tmp_path, capsys):
    file = tmp_path / "in.conllu"
    file.write_bytes(TEXT)
    found = explain(model, TREEBANK, 2, 3)
    assert command.main(command_line(folder, file)) == 0
    out, err = capsys.readouterr()
    assert out == as_text(found) + "\n"
    assert f"leaving out words: {N} sentences" in err
    assert command.main(command_line(folder, file, "--json")) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(as_dict(found)))
    reasons = gpuparse.load(folder).explain(conllu(SENTENCE), 3)
    assert reasons.explanation == found
    assert (reasons.head, reasons.other_head) == (found.head, found.other_head)
    assert str(reasons) == as_text(found)
    assert found.probabilities is not None
    assert 0.0 < found.probabilities.head < 1.0
    assert f"{found.probabilities.head:.4f}, of " in as_text(found)
    with pytest.raises(ConfigError, match=r"--templates: .* has no templates"):
        command.main(command_line(folder, file, "--templates"))
    assert reasons.to_dict() == as_dict(found)


def test_no_other_sentence_of_a_file_is_read(folder, tmp_path, monkeypatch, capsys):
    from gpuparse.scorers.encoder.pieces import EncodedTreebank

    windows, read = EncodedTreebank.windows, []

    def recorded(self, sentences):
        read.append(len(sentences))
        return windows(self, sentences)

    monkeypatch.setattr(EncodedTreebank, "windows", recorded)
    file = tmp_path / "in.conllu"
    file.write_bytes(TEXT * 5)
    assert command.main(command_line(folder, file)) == 0
    assert sum(read) == N + 1  # without each of the other words; the sentence, for both kinds
    assert "officer" in capsys.readouterr().out


def test_the_table_shows_the_largest_effects(model):
    found = explain(model, TREEBANK, 2, 3)
    name = {0: "the root (0)"} | {i: f"{w} ({i})" for i, w in enumerate(SENTENCE.split(), 1)}
    words = [
        [f"{each.effect:+.3f}", name[each.word], f"{each.difference:+.3f}", name[each.head]]
        for each in found.left_out
    ]
    assert len(words) > SHOWN
    text = as_text(found)
    rows = [re.split(" {2,}", row) for row in text.rpartition("\n\n")[2].split("\n")]
    assert rows == [["effect", "without", "difference then", "head then"], *words[:SHOWN]]
    assert "Effects do not add up." in " ".join(text.split())
    assert f"The head of officer (3) is {name[found.head]}, relation {found.labels[2]}." in text


def test_there_must_be_another_head(model):
    head = explain(model, TREEBANK, 2, 3).head
    with pytest.raises(ConfigError, match=f"word 3 has the head {head} already"):
        explain(model, TREEBANK, 2, 3, instead=head)
    with pytest.raises(NoTreeError, match="word 1 has the same head in every tree"):
        explain(model, treebank_from_bytes(conllu("dogs"), "text"), 1, 1)


def test_guides_are_refused(folder, model, tmp_path, capsys):
    with pytest.raises(ConfigError, match="no guide templates"):
        explain(model, TREEBANK, 2, 3, guides=np.zeros(TREEBANK.n_words, np.int64))
    file = tmp_path / "in.conllu"
    file.write_bytes(TEXT.replace(b"\t_\n", b"\tGuide=0\n"))
    assert run(command.main, command_line(folder, file, "--guide", "misc:Guide")) == 2
    assert "guide" in capsys.readouterr().err


def test_a_sentence_that_is_too_long_is_refused(model, monkeypatch):
    monkeypatch.setattr(Parser, "orders", lambda self, batch: np.array([admission.CHAIN]))
    with pytest.raises(ResourceError, match="too long for any search"):
        explain(model, TREEBANK, 2, 3)

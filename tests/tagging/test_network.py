"""The network of the tagger: native code against the definition, and against torch."""

import io
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gpuparse import native
from gpuparse.config.schema import TaggerConfig
from gpuparse.data import array_file
from gpuparse.data.columns import FEATS, UPOS, XPOS
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.errors import ModelError
from gpuparse.learning.tag_folds import jackknifed
from gpuparse.text.sequences.tags import starts_of
from gpuparse.text.sequences.templates import parse_sequence_templates
from gpuparse.text.tagging import network_learner, tagger_learner
from gpuparse.text.tagging.fields import (
    FormTexts,
    SeenTags,
    WordBatch,
    WordForms,
    WordReader,
    Words,
    as_bytes,
    value_of,
)
from gpuparse.text.tagging.network import (
    NetworkArrays,
    TagNetwork,
    bases_of,
    keys_of,
    mixed,
    runs_of,
)
from gpuparse.text.tagging.tagger import FORMAT, Tagger, Tags
from gpuparse.text.tagging.tagger_learner import learn_tagger
from tests.synthetic import generate

TRAIN = treebank_from_bytes(generate(300, 1), "train")
TEST = treebank_from_bytes(generate(60, 2), "test")
BIAS = parse_sequence_templates("name: x\ntemplates: [bias]", "x", bool)
pytestmark = pytest.mark.usefixtures("small_taggers")


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    return learn_tagger(TRAIN, seed=1)


def whole(number, shift, low, high):
    return np.clip((number + (1 << shift >> 1)) >> shift, low, high)


def drawn(seed, *, rows=40, size=64, hidden=128, reach=2, extreme=False):
    """A random network; extreme: of the largest numbers."""
    random = np.random.default_rng(seed)
    low = 127 if extreme else -127
    window = random.integers(low, 128, (2 * reach + 1, size // 4, hidden, 4), dtype=np.int8)
    if seed % 2:  # as of two networks in one, and a third that is 0
        window[:, : size // 8, 64:] = window[:, -1:, :64] = 0
        if seed == 5:
            window[:, :, 64:] = 0
    arrays = NetworkArrays(
        random.integers(low, 128, (rows, size), dtype=np.int8),
        random.integers(255 if extreme else 0, 256, rows, dtype=np.uint8), 0 if extreme else 9,
        window, bases_of(window), runs_of(window), 0 if extreme else 6,
        random.integers(-2000, 2000, hidden, dtype=np.int32),
        random.integers(0, 6, hidden, dtype=np.int32),
    )  # fmt: skip
    keys = np.sort(random.choice(1 << 32, rows - 2, replace=False)).astype(np.uint32)
    units = np.ones(hidden, np.float32)
    return TagNetwork(keys, arrays, {}, 1.0, units, ("form", "lower", "seen"), (3,)), random


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("extreme", [False, True])
def test_hidden_numbers_are_those_of_the_definition(seed, extreme):
    network, random = drawn(seed, reach=seed % 4, extreme=extreme)
    arrays = network.arrays
    lists = [random.integers(0, len(arrays.table), n) for n in (0, 1, 3, 4, 9, 77, 2)]
    starts, rows = starts_of(map(len, lists)), np.concatenate(lists).astype(np.int32)
    vectors = network._vectors_of(starts, rows)
    scaled = arrays.table.astype(np.int64) * arrays.scales[:, None]
    sums = np.array([scaled[each].sum(0) for each in lists])
    expected = whole(sums, arrays.vector_shift, -63, 63)
    assert (vectors == expected + 64).all()

    reach, n = seed % 4, 23
    forms = random.integers(0, len(lists), n)
    wanted = random.random(n) < 0.7
    found = hidden_of(network, vectors, forms, wanted)
    window = arrays.window.astype(np.int64).transpose(0, 1, 3, 2).reshape(2 * reach + 1, -1, 128)
    around = np.pad(forms, reach)  # the first two forms are of the edges
    around[reach + n :] = 1
    for i in np.flatnonzero(wanted):
        total = arrays.bias.astype(np.int64)
        for o in range(2 * reach + 1):
            share = expected[around[i + o]] @ window[o]
            total = total + whole(share, arrays.window_shift, -4095, 4095)
        hidden = [
            whole(t, s, 0, 127) for t, s in zip(total, arrays.hidden_shifts.tolist(), strict=True)
        ]
        assert found[i].tolist() == hidden
    every = hidden_of(network, vectors, forms, np.ones(n, np.bool_))
    more = hidden_of(network, vectors, forms, np.ones(n, np.bool_), found.copy(), ~wanted)
    assert (more == every).all()


def hidden_of(network, vectors, forms, wanted, found=None, had=None, starts=None):
    """Hidden numbers of forms, numbers of vectors, of the words that are wanted.

    had: those of `found` that are not there yet. starts: of sentences; None: one.
    """
    n, n_forms = len(forms), len(vectors)
    if found is None:
        found = np.zeros((n, len(network.arrays.bias)), np.uint8)
    reader = WordReader(BIAS.arrays, np.empty(0, np.int64), network.arrays)
    of_forms = WordForms(np.empty((0, 0), np.uint32), np.zeros((n_forms, 3), np.int64), vectors)
    words = WordBatch(
        np.array([0, n]) if starts is None else starts,
        forms.astype(np.int32),
        np.arange(n_forms),
        np.empty((0, 0), np.uint32),
    )
    lists = np.where(wanted, 1, 0).astype(np.int32)  # of one candidate, and of two
    items = np.zeros(3, np.int32)
    before = None if had is None else starts_of((2 - had).tolist())
    native.call(
        "read_words", reader, of_forms, words, lists, np.array([0, 1, 3]), items, before,
        np.empty((n, 1), np.uint32), np.empty(n + 1, np.int64),
        np.empty(int(n + wanted.sum()), np.int32), found, None, np.empty(0, np.int32),
    )  # fmt: skip
    return found


def test_forms_out_of_range_are_refused():
    network, _ = drawn(0)
    vectors, wanted = network.edges(), np.ones(1, np.bool_)
    for form in (-1, 2):
        with pytest.raises(ValueError):
            hidden_of(network, vectors, np.array([form]), wanted)
    with pytest.raises(ValueError):
        hidden_of(network, vectors[:, :-1].copy(), np.array([0]), wanted)
    with pytest.raises(ValueError):
        network._vectors_of(np.array([0, 1]), np.array([40], np.int32))


FORMS = ["aaaa", "a", "", "éaé中é", "abcdefghij" * 20, "ab" * 30, "-"]


def test_keys_of_forms_are_those_of_fields_and_ngrams():
    fields, sizes = ["form", "lower", "seen"], (3, 4)
    values = np.random.default_rng(1).integers(0, 3, (len(FORMS), len(fields)), np.uint32)
    owners, keys = keys_of(values, "\n".join(FORMS), fields, sizes)
    for i, form in enumerate(FORMS):
        text = f"<{form}>"
        ngrams = [text[k : k + n] for n in sizes for k in range(len(text) - n + 1)]
        pairs = zip(values[i], fields, strict=True)
        expected = [(value, field) for value, field in pairs if value]
        expected += [(np.uint32(value_of(each)), "ngram") for each in dict.fromkeys(ngrams)][:60]
        found = [mixed(np.array([value]), np.uint32(value_of(name)))[0] for value, name in expected]
        assert keys[owners == i].tolist() == found


def test_texts_of_other_sizes_are_refused():
    values, texts = np.zeros((2, 1), np.uint32), [as_bytes(text) for text in ("a\nb", "a", "")]
    for lowers in texts[1:]:
        with pytest.raises(ValueError):
            keys_of(values, lowers.tobytes().decode(), ["form"], (3,))
    seen = SeenTags.of_classes({"a": "X"})
    for fields in ([[12, 0]], [[3, 10]], [[-1, 0]], [[1]], [[1, 0]] * 2):
        of_fields = np.array(fields, np.int64)
        with pytest.raises(ValueError):
            native.call(
                "read_forms", FormTexts(*texts[:1] * 3), of_fields, seen.table, seen.values, values
            )
    for k in range(3):
        given = [texts[1] if i == k else texts[0] for i in range(3)]
        with pytest.raises(ValueError):
            native.call(
                "read_forms", FormTexts(*given), np.array([[1, 0]]), seen.table, seen.values, values
            )


@pytest.mark.parametrize("n_tasks", [1, 2])
def test_steps_are_those_of_torch(n_tasks):
    """Gradients of both likelihoods over candidates, and two steps of Adam."""
    random = np.random.default_rng(4)
    reach, size, hidden, n_rows, n = 1, 5, 7, 9, 12
    starts = np.array([0, 4, 7, n])
    places = np.concatenate(
        [
            np.arange(a, b) + reach * (2 * s + 1)
            for s, (a, b) in enumerate(itertools.pairwise(starts))
        ]
    )
    forms = random.integers(0, 6, n + 2 * reach * 3)
    lists = [[0], [1], [2, 3], [4, 4, 5], [], [6, 7, 8, 2]]
    lesson = network_learner._Lesson(
        starts, forms, places, starts_of(map(len, lists)),
        np.array([row for each in lists for row in each], np.int32), np.zeros(n_rows, np.float32),
    )  # fmt: skip
    tasks, parts = [], []
    for n_tags in (5, 4)[:n_tasks]:
        of_tags = [sorted({k % 3, 3 + k}) for k in range(n_tags)]
        parts.append(max(map(max, of_tags)) + 1)
        candidates = [random.permutation(n_tags)[: random.choice([0, 1, 2, 3])] for _ in range(n)]
        gold = [int(random.choice(each if len(each) else n_tags)) for each in candidates]
        tasks.append(network_learner._Task(
            starts_of(map(len, of_tags)), np.concatenate(of_tags).astype(np.int32),
            starts_of(map(len, candidates)), np.concatenate(candidates).astype(np.int32),
            np.array(gold, np.int32),
        ))  # fmt: skip
    weights = network_learner._Weights(n_rows, parts, (reach, size, hidden))
    weights.draw(np.random.Generator(np.random.PCG64(3)))
    table = torch.tensor(weights.table, requires_grad=True)
    dense = torch.tensor(weights.dense, requires_grad=True)
    rate, decays = 0.01, (0.9, 0.99)
    optimizer = torch.optim.Adam([table, dense], lr=rate, betas=decays, eps=1e-8)

    def loss():
        vectors = torch.stack([table[each].sum(0) for each in lists])
        cut = [(2 * reach + 1) * size * hidden, hidden]
        for count in parts:
            cut += [count * hidden, count]
        window, bias, *rest = torch.split(dense, cut)
        total, learned = 0.0, 0
        for i in range(n):
            sizes = [int(t.candidate_starts[i + 1] - t.candidate_starts[i]) for t in tasks]
            if all(size == 1 for size in sizes):
                continue
            learned += 1
            around = vectors[forms[places[i] - reach : places[i] + reach + 1]].reshape(-1)
            relu = torch.relu(around @ window.reshape(-1, hidden) + bias)
            for k, (task, size_of) in enumerate(zip(tasks, sizes, strict=True)):
                if size_of == 1:
                    continue
                scores = rest[2 * k].reshape(-1, hidden) @ relu + rest[2 * k + 1]
                first = task.candidate_starts[i]
                tags = (
                    task.candidates[first : first + size_of].tolist()
                    if size_of
                    else range(len(task.tag_starts) - 1)
                )
                of_tags = torch.stack(
                    [
                        scores[
                            task.tag_parts[task.tag_starts[t] : task.tag_starts[t + 1]].tolist()
                        ].sum()
                        for t in tags
                    ]
                )
                total = (
                    total + torch.logsumexp(of_tags, 0) - of_tags[list(tags).index(task.gold[i])]
                )
        return total / learned

    moments = [np.zeros((2, *each.shape), np.float32) for each in (weights.table, weights.dense)]
    counts, losses = np.zeros(3), 0.0
    learning = network_learner._Learning(reach, hidden, 3, 0.0, 1, 1 << 40)
    both = [*tasks, network_learner._NO_TASK][:2]
    for step in range(2):
        optimizer.zero_grad()
        of_step = loss()
        of_step.backward()
        optimizer.step()
        losses += of_step.item()
        native.call(
            "learn_tag_network", lesson, *both, learning,
            network_learner._Steps(rate, *decays, step), np.arange(3), weights.table,
            weights.dense, *moments, counts,
        )  # fmt: skip
    # Rows that never occur stay; of others even a first step has the length of the rate.
    assert np.allclose(weights.dense, dense.detach().numpy(), atol=2e-4)
    assert np.allclose(weights.table, table.detach().numpy(), atol=2e-4)
    assert counts[1] > 0
    assert np.isfinite(counts).all()
    if n_tasks == 1:
        assert counts[0] == pytest.approx(losses * counts[1] / 2, rel=1e-3)


def test_whole_numbers_say_what_was_learned(monkeypatch):
    """Scores of the frozen network are near those of the learned one."""
    kept = {}
    freeze = network_learner._frozen

    def spy(weights, keys, lesson, *more):
        kept.update(weights=weights, lesson=lesson)
        return freeze(weights, keys, lesson, *more)

    monkeypatch.setattr(network_learner, "_frozen", spy)
    network = learn_tagger(TRAIN, seed=1).network
    weights, lesson = kept["weights"], kept["lesson"]
    lists = [
        lesson.rows[a:b] for a, b in zip(lesson.row_starts, lesson.row_starts[1:], strict=False)
    ]
    vectors = np.array([weights.table[each].sum(0) for each in lists])
    around = vectors[lesson.forms[lesson.places[:, None] + np.arange(-3, 4)]]
    hidden = np.maximum(np.einsum("nod,odh->nh", around, weights.window) + weights.bias, 0)
    expected = hidden @ weights.rows[0].T + weights.constants[0]
    stored = network._vectors_of(lesson.row_starts, lesson.rows)
    forms = lesson.forms[lesson.places]
    found = hidden_of(network, stored, forms, np.ones(len(forms), np.bool_), starts=lesson.starts)
    output = network.outputs["pairs"]
    scores = (
        found.astype(np.int64) @ output.rows.T.astype(np.int64) + output.constants
    ) * output.unit
    scores = scores[:, : expected.shape[1]]
    scale = np.abs(expected).mean()
    assert np.abs(scores - expected).mean() < 0.03 * scale
    assert (scores.argmax(1) == expected.argmax(1)).mean() > 0.98


@pytest.mark.parametrize(
    ("words", "passes", "of_fold"), [(0, 60, 15), (50_000, 40, 10), (200_000, 10, 5)]
)
def test_small_treebanks_get_more_passes_and_folds_fewer(words, passes, of_fold):
    epochs_of = network_learner.epochs_of
    assert epochs_of(words) == passes
    assert epochs_of(words, of_fold=True) == of_fold


def test_tags_come_with_the_sequences_or_after_them(tagger):
    words = Words.of(TEST)
    pairs = tagger.pairs.find(tagger._pairs_of(words))
    feats = tagger.feats.find(tagger._feats_reader.read(words, pairs))
    found = tagger._tag(TEST, with_probabilities=False)
    assert (found[0] == pairs).all()
    assert (found[1] == feats).all()


def test_networks_change_tags(tagger):
    sequences = tagger._pairs_of(Words.of(TEST))
    alone = replace(tagger.pairs, output=None)
    assert not np.allclose(*(model.sums(sequences, 2)[1] for model in (alone, tagger.pairs)))


def changed(tagger, facts=(), arrays=()):
    opened = array_file.opened(io.BytesIO(tagger.pack()), Path("x"), form=FORMAT, what="tagger")
    all_facts, all_arrays = dict(opened.facts), dict(opened.arrays)
    all_facts["network"] = {**all_facts["network"], **dict(facts)}
    all_arrays |= {f"network_{name}": array for name, array in dict(arrays).items()}
    return array_file.pack(all_facts, all_arrays, form=FORMAT)


def test_damaged_networks_are_refused(tagger):
    network = tagger.network
    facts, arrays = network.packed()
    assert Tagger.unpack(io.BytesIO(changed(tagger)), Path("x")).pack() == tagger.pack()
    damaged_facts = {
        "fields": ["form", "lower"], "ngrams": [0], "vector_shift": 31, "window_shift": -1,
        "vector_unit": 0.0, "outputs": {"pairs": facts["outputs"]["pairs"]},
    }  # fmt: skip
    for name, value in damaged_facts.items():
        with pytest.raises(ModelError):
            Tagger.unpack(io.BytesIO(changed(tagger, {name: value})), Path("x"))
    for unit in ([1, 2], [1, 63, 1.0], [-1, 2, 1.0], [1, 2, -1.0], [1.0, 2, 1.0]):
        outputs = {**facts["outputs"], "pairs": unit}
        with pytest.raises(ModelError):
            Tagger.unpack(io.BytesIO(changed(tagger, {"outputs": outputs})), Path("x"))
    for name, array in arrays.items():
        for wrong in (array[:-1], array.astype(np.int64)):
            with pytest.raises(ModelError):
                Tagger.unpack(io.BytesIO(changed(tagger, {}, {name: wrong})), Path("x"))
    largest = np.full_like(arrays["bias"], 1 << 30)
    shifted = np.full_like(arrays["hidden_shifts"], 31)
    for name, wrong in (
        ("keys", arrays["keys"][::-1]), ("bias", largest), ("hidden_shifts", shifted),
        ("hidden_units", np.full_like(arrays["hidden_units"], np.nan)),
        ("pairs_constants", np.full_like(arrays["pairs_constants"], 1 << 30)),
        ("other", arrays["bias"]),
    ):  # fmt: skip
        with pytest.raises(ModelError):
            Tagger.unpack(io.BytesIO(changed(tagger, {}, {name: wrong})), Path("x"))


def test_scores_of_merged_networks_are_the_mean():
    random = np.random.Generator(np.random.PCG64(1))
    networks = [network_learner._Weights(20, [5, 3], (1, 64, 128)) for _ in range(3)]
    for network in networks:
        network.draw(random)
        network.bias[:], network.constants[0][:] = random.normal(size=128), random.normal(size=5)

    def scores(weights):
        sums = [weights.table[[2 + o, 7, 11]].sum(0) @ weights.window[o] for o in range(3)]
        hidden = np.maximum(sum(sums) + weights.bias, 0)
        both = zip(weights.rows, weights.constants, strict=True)
        return np.concatenate([rows @ hidden + constants for rows, constants in both])

    together = network_learner._merged(networks)
    assert together.sizes == (1, 192, 384)
    assert np.allclose(scores(together), np.mean([scores(each) for each in networks], 0), atol=1e-5)


def test_several_networks_are_one_of_more_numbers(tagger):
    notes = []
    several = learn_tagger(TRAIN, networks=2, seed=1, watch=lambda _, note: notes.append(note))
    assert several.network.sizes == (3, 128, 512)
    assert notes[-1].startswith("network 2 of 2, epoch 3 of 3")
    read = Tagger.unpack(io.BytesIO(several.pack()), Path("x"))
    assert [c.texts() for c in read.tag(TEST)] == [c.texts() for c in several.tag(TEST)]
    gold = np.array([column.texts() for column in Tags.of(TEST)])
    one, two = (
        np.array([column.texts() for column in each.tag(TEST)]) for each in (tagger, several)
    )
    assert (two == gold).mean() > (one == gold).mean() - 0.01


def test_each_fold_is_tagged_by_a_tagger_of_all_others():
    some, config = TRAIN.only(np.arange(len(TRAIN)) < 41), TaggerConfig(folds=3)
    found = jackknifed(some, config, None, seed=1, threads=2)
    texts = {number: np.array(column.texts()) for number, column in found.items()}
    bounds = [k * len(some) // config.folds for k in range(1, config.folds)]
    fold_of = np.searchsorted(bounds, np.arange(len(some)), side="right")
    for fold in range(config.folds):
        learned = learn_tagger(some.only(fold_of != fold), seed=1)
        of_fold = fold_of.repeat(np.diff(some.word_starts)) == fold
        tags = learned.tag(some.only(fold_of == fold))
        for number, column in zip((UPOS, XPOS, FEATS), tags, strict=True):
            assert texts[number][of_fold].tolist() == column.texts()


def test_taggers_of_folds_have_fewer_passes(monkeypatch):
    monkeypatch.setattr(tagger_learner, "epochs_of", network_learner.epochs_of)
    some, notes = TRAIN.only(np.arange(len(TRAIN)) < 40), []
    config = TaggerConfig(folds=2)
    jackknifed(some, config, None, seed=1, threads=1, watch=lambda _, note: notes.append(note))
    last = max(note for note in notes if "network, epoch" in note)
    assert "of 15," in last  # 60 without folds
    assert network_learner.epochs_of(some.n_words) == 60

"""Linear models of sequences: native code against the definition, and that against enumeration."""

from dataclasses import replace

import numpy as np
import pytest

from gpuparse import native
from gpuparse.errors import ConfigError
from gpuparse.text.sequences.learner import Learning, known_features, learn_sequences
from gpuparse.text.sequences.model import Output, SequenceModel, Sequences, unpacked
from gpuparse.text.sequences.tags import TagTable
from gpuparse.text.sequences.templates import (
    MARGIN,
    SETS,
    load_sequence_templates,
    parse_sequence_templates,
)
from tests.oracles import sequences as oracle

TAGS = {
    ("N", "Number=Sing"): 9, ("N", "Number=Plur"): 3, ("N", "Case=Gen|Number=Sing"): 2,
    ("V", "Mood=Ind|Number=Sing"): 4, ("V", "_"): 4, ("D", "_"): 5,
}  # fmt: skip
CONTEXTS = {
    0: [],
    1: ["t-1.tag", "t-1.coarse w.b"],
    2: ["t-1.tag", "t-2.coarse", "t-1.coarse t-2.coarse", "t-1.coarse t-2.tag w.a w+1.b"],
    "2, of classes": ["t-1.tag", "t-1.tag t-2.tag", "t-2.tag", "t-1.coarse t-2.coarse w.b"],
}
FIELDS = ("a", "b")


def templates(order: int):
    text = f"name: t\ntemplates: [bias, w.a, w.b, w.a w+1.b]\ncontexts: {CONTEXTS[order]}\n"
    return parse_sequence_templates(text.replace("'", ""), "t", lambda name: name in FIELDS)


def drawn(order, seed, *, dtype=np.int16, lengths=(4, 1, 0, 5, 3), beam=(2, 4), high=20):
    """A random model, and sequences with given candidates, single ones, and none."""
    generator = np.random.default_rng(seed)
    table = TagTable.of_counts(TAGS, attributes=True)
    n = sum(lengths)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    sequence = np.repeat(np.arange(len(lengths)), lengths)
    places = np.arange(n) + MARGIN * (2 * sequence + 1)
    size = n + 2 * MARGIN * len(lengths)
    values = generator.integers(0, 3, (len(FIELDS), size), dtype=np.uint32) * 4
    read = templates(order)
    features = read.features(values, places)
    weights = generator.integers(-high, high, 1 << 12).astype(dtype)
    known = known_features(features, 1)
    model = SequenceModel(read, table, weights, known, 0.25, np.array(beam, np.int64))
    lists = [
        np.sort(generator.choice(len(table), generator.choice([0, 1, 3, 6]), replace=False))
        for _ in range(n)
    ]
    bounds = np.cumsum([0, *map(len, lists)])
    flat = np.concatenate([*lists, []]).astype(np.int32)
    return model, Sequences(features, starts, bounds, flat), generator


def by_definition(model, sequences):
    found = np.empty(len(sequences.features), np.int32)
    oracle.find_sequences(model.arrays, sequences, found)
    return found


def check_found(model, sequences, expected):
    """Native code finds what is expected, in all sequences at once and in each alone."""
    assert model.find(sequences).tolist() == expected.tolist()
    parts = [model.find(sequences.part(s, s + 1)) for s in range(len(sequences.starts) - 1)]
    assert np.concatenate(parts).tolist() == expected.tolist()


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("seed", range(8))
def test_the_definition_finds_the_best_of_all_sequences(order, seed):
    model, sequences, _ = drawn(order, seed, high=3 if seed < 4 else 50)
    found, read = by_definition(model, sequences), oracle.Model(model.arrays)
    for s, (start, end) in enumerate(zip(sequences.starts, sequences.starts[1:], strict=False)):
        paths = oracle.Lattice(read, sequences, s).paths()
        _, best, _ = min(paths, key=lambda path: (-path[2], path[0][::-1]))
        assert found[start:end].tolist() == best


@pytest.mark.parametrize("order", CONTEXTS)
@pytest.mark.parametrize("dtype", [np.int16, np.float32])
@pytest.mark.parametrize("seed", range(6))
def test_native_code_finds_what_the_definition_finds(order, dtype, seed):
    model, sequences, _ = drawn(order, seed, dtype=dtype, high=2 if seed < 3 else 90)
    check_found(model, sequences, by_definition(model, sequences))


def with_network(model, sequences, generator, size=128, factor=(3 << 20, 25)):
    """The model with random outputs, and the sequences with hidden numbers."""
    n_parts = 8 * len(model.table.blocks)
    rows = generator.integers(-127, 128, (n_parts, size), dtype=np.int8)
    constants = generator.integers(-5000, 5000, n_parts, dtype=np.int32)
    hidden = generator.integers(0, 128, (len(sequences.features), size), dtype=np.uint8)
    output = Output(rows, constants, *factor, 1.0)
    return replace(model, output=output), sequences._replace(hidden=hidden)


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("dtype", [np.int16, np.float32])
@pytest.mark.parametrize("factor", [(3 << 20, 25), (1, 0), ((1 << 31) - 1, 3), (0, 0)])
def test_native_code_adds_what_a_network_says(order, dtype, factor):
    model, sequences, generator = drawn(order, 3, dtype=dtype, high=90)
    model, sequences = with_network(model, sequences, generator, factor=factor)
    check_found(model, sequences, by_definition(model, sequences))


def test_outputs_and_hidden_numbers_that_do_not_fit_are_refused():
    model, sequences, generator = drawn(1, 3)
    model, sequences = with_network(model, sequences, generator)
    output = model.output
    for wrong in (
        output._replace(rows=output.rows[:-1]), output._replace(constants=output.constants[1:]),
        output._replace(shift=63), output._replace(multiplier=-1),
        output._replace(rows=np.ascontiguousarray(output.rows[:, :65])),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            replace(model, output=wrong).find(sequences)
    with pytest.raises(ValueError):
        model.find(sequences._replace(hidden=sequences.hidden[1:]))


@pytest.mark.parametrize("seed", range(20))
def test_two_tags_are_found_as_more_are(seed):
    lengths = (30, 1, 0, 12)
    model, sequences, generator = drawn(1, seed, lengths=lengths)
    weights = generator.integers(-3, 4, 1 << 12).astype(np.int16)  # with equal sums
    table = TagTable.of_counts({("no",): 2, ("yes",): 1}, attributes=False)
    two = replace(model, table=table, weights=weights)
    assert two.arrays_of_search.pair_weights is not None
    every = Sequences.open(sequences.features, sequences.starts)
    expected = by_definition(two, every)
    check_found(two, every, expected)
    wrong = two.arrays_of_search._replace(pair_weights=two.arrays_of_search.pair_weights[1:])
    with pytest.raises(ValueError):
        native.call("find_sequences", wrong, every, expected)


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("beam", [(2, 4), (2, 4, 1)])
@pytest.mark.parametrize("seed", range(4))
def test_probabilities_are_sums_over_all_sequences(order, beam, seed):
    model, sequences, _ = drawn(order, seed, beam=beam)
    k = 3
    tags, probabilities = model.sums(sequences, k)
    others = np.empty_like(tags), np.empty_like(probabilities)
    oracle.sum_sequences(model.arrays, sequences, model.scale, *others)
    assert np.allclose(probabilities, others[1], atol=1e-9)
    read = oracle.Model(model.arrays)
    for s, start in enumerate(sequences.starts[:-1].tolist()):
        lattice = oracle.Lattice(read, sequences, s)
        shares = [dict.fromkeys(each, 0.0) for each in lattice.tags]
        for _, path, total in lattice.paths():
            for t, tag in enumerate(path):
                shares[t][tag] += np.exp(model.scale * total)
        for t, share in enumerate(shares):
            whole = sum(share.values())
            for tag, probability in zip(tags[start + t], probabilities[start + t], strict=True):
                assert probability == pytest.approx(share.get(int(tag), 0) / whole, abs=1e-9)


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("max_step", [0.0, 0.05])
def test_native_code_learns_what_the_definition_learns(order, max_step):
    model, sequences, generator = drawn(order, 5, dtype=np.float32, lengths=[3] * 12, high=1)
    gold = generator.integers(0, len(TAGS), len(sequences.features), dtype=np.int32)
    results = []
    for learn in (oracle.learn_sequences, lambda *a: native.call("learn_sequences", *a)):
        weights, sums, wrong = (
            np.zeros(1 << 12, np.float32),
            np.zeros(1 << 12),
            np.zeros(1, np.int64),
        )
        changed = np.zeros_like(model.known)
        struct = model.arrays._replace(weights=weights)
        for epoch in range(3):
            order_ = np.random.default_rng(epoch).permutation(12)
            learn(
                struct, sequences, gold, order_, 12 * epoch, 1.0, max_step, weights, sums, wrong,
                changed,
            )  # fmt: skip
        results.append((weights, sums, wrong, changed))
    assert results[0][0].any()
    assert results[0][3].any()
    for one, two in zip(*results, strict=True):
        assert (one == two).all()


def test_what_separates_is_learned_and_a_rare_feature_is_none():
    generator = np.random.default_rng(1)
    read = templates(1)
    table = TagTable.of_counts({("x",): 1, ("y",): 1}, attributes=False)
    values = generator.integers(1, 4, (len(FIELDS), 500), dtype=np.uint32) * 4
    places = np.arange(100, 400)
    sequences = Sequences.open(read.features(values, places), np.arange(0, 301, 10))
    gold = (values[0, places] == 8).astype(np.int32)
    model = learn_sequences(
        sequences, gold, read, table, Learning(epochs=5, rows=1 << 12, min_count=1), seed=1
    )
    assert model.weights.dtype == np.int16
    assert (model.find(sequences) == gold).all()
    filtered = learn_sequences(
        sequences, gold, read, table, Learning(epochs=5, rows=1 << 12, min_count=301), seed=1
    )
    assert not filtered.known.any()
    eight = learn_sequences(
        sequences, gold, read, table, Learning(epochs=5, rows=1 << 12, min_count=1), seed=1, bits=8
    )
    assert np.abs(eight.weights).max() == 127
    assert (eight.find(sequences) == gold).all()


def test_features_that_never_got_a_weight_are_left_out_and_change_no_tag():
    generator = np.random.default_rng(3)
    read = templates(2)
    table = TagTable.of_counts({("x",): 1, ("y",): 1}, attributes=False)
    values = generator.integers(1, 400, (len(FIELDS), 500), dtype=np.uint32) * 4
    values[0] = generator.integers(1, 3, 500) * 4
    places = np.arange(100, 400)
    sequences = Sequences.open(read.features(values, places), np.arange(0, 301, 10))
    gold = (values[0, places] == 8).astype(np.int32)
    model = learn_sequences(
        sequences, gold, read, table, Learning(epochs=5, rows=1 << 24, min_count=1), seed=1
    )
    all_known = known_features(sequences.features, 1)
    bits = [np.bitwise_count(known).sum() for known in (model.known, all_known)]
    assert 0 < bits[0] < bits[1]
    assert not (model.known & ~all_known).any()
    whole = replace(model, known=all_known)
    assert (model.find(sequences) == whole.find(sequences)).all()
    for one, two in zip(model.sums(sequences, 2), whole.sums(sequences, 2), strict=True):
        assert (one == two).all()


def test_known_features_are_counted():
    features = np.array([[0, 1 << 8], [3 << 8, 1 << 8], [0, 3 << 8], [0, 7]], np.uint32)
    for least, expected in ((1, {0, 1, 3}), (2, {1, 3}), (3, set())):
        bits = np.unpackbits(known_features(features, least).view(np.uint8), bitorder="little")
        assert set(np.flatnonzero(bits).tolist()) == expected
    assert not known_features(np.zeros((0, 2), np.uint32), 1).any()


@pytest.mark.parametrize("name", sorted(path.stem for path in SETS.glob("*.yaml")))
@pytest.mark.parametrize("n", [0, 1, 16, 37])
def test_native_code_computes_the_features_of_the_definition(name, n):
    generator = np.random.default_rng(n)
    read = load_sequence_templates(name, lambda _: True)
    size = 60 + 2 * MARGIN
    values = generator.integers(0, 6, (len(read.fields), size), dtype=np.uint32) << np.uint32(20)
    places = np.sort(generator.choice(60, n, replace=False)) + MARGIN
    found = read.features(values, places)
    assert (found == oracle.features(read, values, places)).all()
    assert not n or 0 < (found == 0).sum() < found.size


def test_features_of_places_at_the_edge_are_refused():
    read = templates(0)
    for places in ([0, 20], [-1]):
        with pytest.raises(ValueError):
            read.features(np.zeros((2, 21), np.uint32), np.array(places))
    with pytest.raises(ValueError):
        read.features(np.zeros((1, 21), np.uint32), np.array([5]))


def test_a_model_is_packed_and_a_damaged_one_refused():
    model, sequences, _ = drawn(2, 3)
    facts, arrays = model.packed()
    again = unpacked(facts, arrays, lambda name: name in FIELDS)
    assert (again.find(sequences) == model.find(sequences)).all()
    for damage in (
        {"tags": facts["tags"][::2] + facts["tags"][1::2]}, {"tags": []}, {"beam": [1, 0]},
        {"beam": [1, 1, 0]}, {"beam": [1, 1, 1 << 31]}, {"beam": [1, 1, 1, 1]},
        {"scale": 0.0}, {"attributes": 1}, {"tags": [["a"], ["b", "c"]]},
    ):  # fmt: skip
        with pytest.raises(ValueError):
            unpacked(facts | damage, arrays, lambda name: name in FIELDS)
    for name, array in (
        ("weights", arrays["weights"][:-1]), ("weights", arrays["weights"].astype(np.float32)),
        ("known", arrays["known"][1:]),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            unpacked(facts, arrays | {name: array}, lambda name: name in FIELDS)


@pytest.mark.parametrize(
    "text",
    [
        "templates: [w.a]", "name: t\ntemplates: []", "name: t\ntemplates: [w.c]",
        "name: t\ntemplates: [w-9.a]", "name: t\ntemplates: [w.a, w.a]",
        "name: t\ntemplates: [w.a]\ncontexts: [w.a]",
        "name: t\ntemplates: [w.a]\ncontexts: [t-3.tag]",
        "name: t\ntemplates: [w.a]\ncontexts: [t-1.tag w.b]", "name: t\nother: 1",
    ],
)  # fmt: skip
def test_wrong_templates_are_said(text):
    with pytest.raises(ConfigError, match=r"set\.yaml"):
        parse_sequence_templates(text, "set.yaml", lambda name: name in FIELDS)


def test_wrong_arguments_never_reach_native_code():
    model, sequences, _ = drawn(2, 3)
    tags = np.empty(len(sequences.features), np.int32)
    for change in (
        {"weights": np.zeros(3, np.int16)}, {"known": np.zeros(1, np.uint32)},
        {"tag_parts": model.table.tag_parts + 100}, {"beam": np.zeros(2, np.int64)},
        {"coarse_starts": model.table.coarse_starts[:-1]},
        {"contexts": np.full((1, 4), 7, np.int32)},
        {"folded": np.zeros(1, np.uint32)},
    ):  # fmt: skip
        with pytest.raises(ValueError):
            native.call("find_sequences", model.arrays._replace(**change), sequences, tags)
    for change in (
        {"starts": sequences.starts + 1}, {"candidates": sequences.candidates + 99},
        {"candidate_starts": sequences.candidate_starts[1:]},
    ):  # fmt: skip
        with pytest.raises(ValueError):
            native.call("find_sequences", model.struct, sequences._replace(**change), tags)

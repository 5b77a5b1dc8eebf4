"""Native transformers: the same bits as NumPy, in all batches and with all instructions."""

import itertools
import subprocess
from typing import Any

import numpy as np
import pytest

from gpuparse import native
from gpuparse.data import array_file
from gpuparse.errors import ModelError, ScoreError
from gpuparse.scorers.encoder import quantised
from gpuparse.scorers.encoder.quantised import FAMILIES, ByteLinear, QuantisedEncoder
from gpuparse.scorers.encoder.quantised_heads import QuantisedLabels
from tests.encoders import (
    arcs_of_bytes,
    arrays_of,
    config_of,
    encoder_of,
    labels_of,
    multiplied,
    sequences_of,
    textbook_arcs,
    textbook_hidden,
    textbook_labels,
)
from tests.test_native import ROOT, compiler_for_tests, load_build
from tests.test_native_numbers import found, value

LENGTHS = [5, 0, 1, 23, 17, 2, 40, 3, 16, 33, 8]
build = load_build()


def mix_of(encoder: QuantisedEncoder, layer: int | None = None) -> np.ndarray:
    """The weights of one layer, or of all."""
    if layer is None:
        return np.linspace(0.3, -0.2, encoder.layers + 1, dtype=np.float32)
    return np.eye(encoder.layers + 1, dtype=np.float32)[layer]


@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64},
        {"hidden_size": 5, "num_attention_heads": 5, "intermediate_size": 1},
        {"hidden_size": 128, "num_attention_heads": 2, "intermediate_size": 300},
        {"hidden_size": 34, "num_attention_heads": 1, "num_hidden_layers": 1},
    ],
)
@pytest.mark.parametrize("family", FAMILIES)
def test_states_are_those_of_numpy(family, sizes):
    encoder = encoder_of(family=family, **sizes)
    lengths = [min(length, len(encoder.positions)) for length in LENGTHS]
    ids, types, starts = sequences_of(encoder, lengths)
    for mix in (mix_of(encoder), mix_of(encoder, -1), mix_of(encoder, 0)):
        expected = textbook_hidden(encoder, ids, types, starts, mix)
        assert np.abs(expected).max() > 0.05
        assert (encoder.hidden(ids, types, starts, mix) == expected).all()


def test_the_largest_sums_are_exact():
    """Weights of 32 and equal inputs give the largest sums that are promised to fit."""
    width = quantised.MOST_INPUTS
    config = config_of(
        vocab_size=2, hidden_size=16, num_attention_heads=1, intermediate_size=width,
        num_hidden_layers=1, max_position_embeddings=2,
    )  # fmt: skip
    arrays = arrays_of(config, np.random.default_rng(0))
    arrays["encoder.layer.0.intermediate.dense.weight"][:] = 0
    arrays["encoder.layer.0.intermediate.dense.bias"][:] = 1
    arrays["encoder.layer.0.output.dense.weight"][:] = -1
    arrays["encoder.layer.0.output.dense.weight"][3:] = 1
    encoder = QuantisedEncoder.of(config, arrays)
    largest = np.where(encoder.output < 0, -32, 32).astype(np.int8)
    encoder = QuantisedEncoder.read(encoder.facts, encoder.arrays | {"output": largest})
    ids, types, starts = sequences_of(encoder, [2])
    expected = textbook_hidden(encoder, ids, types, starts, mix_of(encoder, 1))
    assert (encoder.hidden(ids, types, starts, mix_of(encoder, 1)) == expected).all()
    assert 255 * 4 * 32 < 2**15


@pytest.mark.parametrize("threads", [1, 2, 3, 50])
def test_states_do_not_depend_on_the_batch(threads):
    encoder = encoder_of()
    mix = mix_of(encoder)
    lengths = LENGTHS * 4
    ids, types, starts = sequences_of(encoder, lengths)
    states = encoder.hidden(ids, types, starts, mix, threads)
    order = np.random.default_rng(1).permutation(len(lengths))
    slices = [slice(starts[b], starts[b + 1]) for b in order]
    reordered = [np.concatenate([numbers[each] for each in slices]) for numbers in (ids, types)]
    ends = np.cumsum([0, *(lengths[b] for b in order)])
    among = encoder.hidden(*reordered, ends, mix, threads)
    for b, each in enumerate(slices):
        alone = encoder.hidden(ids[each], types[each], np.array([0, lengths[order[b]]]), mix)
        assert alone.tobytes() == states[each].tobytes()
        assert alone.tobytes() == among[ends[b] : ends[b + 1]].tobytes()


@pytest.mark.parametrize("level", [*build.LEVELS, "avx-vnni"])
def test_states_do_not_depend_on_instructions(level, tmp_path):
    """All levels compile; those that this processor has give the same bits."""
    compiler = compiler_for_tests(build)
    if not build._is_x86(compiler):
        pytest.skip("levels are those of x86-64")
    march = build.LEVELS.get(level, "x86-64-v3+avxvnni")
    library = tmp_path / "encoder.so"
    sources = [
        str(ROOT / "native" / name) for name in ("encoder.cpp", "interrupts.cpp", "build.cpp")
    ]
    flags = build.compile_flags(compiler, march, sanitize=False)
    ends = build.link_flags(compiler, sanitize=False)
    subprocess.run([*compiler, *flags, *sources, *ends, "-o", str(library)], check=True)
    other = native.Library(library, native.library().declarations)
    if not other.processor_fits():
        pytest.skip(f"this processor lacks {march}")
    for sizes in ({}, {"hidden_size": 128, "num_attention_heads": 2, "intermediate_size": 300}):
        encoder = encoder_of(**sizes)
        ids, types, starts = sequences_of(encoder, LENGTHS)
        states = np.empty((len(ids), encoder.width), np.float32)
        other.encode_pieces(encoder, ids, types, starts, mix_of(encoder), states)
        assert states.tobytes() == encoder.hidden(ids, types, starts, mix_of(encoder)).tobytes()
    labels, modifiers = labels_of(128, 20, 50), np.linspace(-1, 2, 384, dtype=np.float32)
    given = modifiers.reshape(3, 128)[:2], np.array([0, 1, 3]), modifiers.reshape(3, 128)
    scores = np.empty((3, 50), np.float32)
    other.score_byte_labels(labels, *given, scores)
    assert scores.tobytes() == labels.scores(50, *given).tobytes()


@pytest.mark.parametrize("family", FAMILIES)
def test_states_are_near_those_of_torch(family):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    name = {"bert": "Bert", "roberta": "Roberta", "xlm-roberta": "XLMRoberta"}[family]
    given = config_of(family, hidden_size=96, intermediate_size=256)
    config = getattr(transformers, f"{name}Config")(**given)
    torch.manual_seed(1)
    model = getattr(transformers, f"{name}Model")(config, add_pooling_layer=False).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    arrays = {key: tensor.numpy() for key, tensor in model.state_dict().items()}
    encoder = QuantisedEncoder.of(config.to_dict(), arrays)
    ids, types, starts = sequences_of(encoder, [7, 30, 1])
    ids[ids == config.pad_token_id] = 2
    for layer in range(encoder.layers + 1):
        states = encoder.hidden(ids, types, starts, mix_of(encoder, layer))
        for first, end in itertools.pairwise(starts):
            pieces = {
                name: torch.tensor(numbers[first:end])[None].long()
                for name, numbers in (("input_ids", ids), ("token_type_ids", types))
            }
            with torch.no_grad():
                of_torch = model(**pieces, output_hidden_states=True).hidden_states[layer]
            expected = of_torch[0].numpy()
            error = np.linalg.norm(states[first:end] - expected) / np.linalg.norm(expected)
            assert 0 < error < 0.04


def test_numbers_of_half_precision_are_taken():
    config = config_of()
    half = {
        name: array.astype(np.float16)
        for name, array in arrays_of(config, np.random.default_rng(0)).items()
    }
    whole = {name: array.astype(np.float32) for name, array in half.items()}
    made, same = QuantisedEncoder.of(config, half), QuantisedEncoder.of(config, whole)
    assert all((made.arrays[name] == array).all() for name, array in same.arrays.items())


def test_a_stored_encoder_is_read_and_the_same(tmp_path):
    encoder = encoder_of()
    path = tmp_path / "encoder.safetensors"
    path.write_bytes(array_file.pack(encoder.facts, encoder.arrays, form=1))
    with array_file.open_file(path, 1 << 30) as file:
        opened = array_file.opened(file, path, form=1, what="encoder")
        again = QuantisedEncoder.read(opened.facts, opened.arrays)
    assert again.output is opened.arrays["output"]
    ids, types, starts = sequences_of(encoder, LENGTHS)
    mix = mix_of(encoder)
    assert (
        again.hidden(ids, types, starts, mix).tobytes()
        == encoder.hidden(ids, types, starts, mix).tobytes()
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "t5"}, "model_type 't5'"),
        ({"hidden_act": "relu"}, "hidden_act 'relu'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"is_decoder": True}, "is_decoder"),
        ({"num_attention_heads": 5}, "not a multiple"),
        ({"num_attention_heads": 0}, "num_attention_heads"),
        ({"hidden_size": "36"}, "hidden_size"),
        ({"vocab_size": 49}, r"word_embeddings.*\(49, 36\) is expected"),
        ({"num_hidden_layers": 3}, r"layer\.2\.\S+ is missing"),
        ({"num_hidden_layers": -1}, "num_hidden_layers"),
        ({"layer_norm_eps": 0.0}, "layer_norm_eps"),
        ({"intermediate_size": 9000}, "wider than"),
    ],
)
def test_models_of_other_forms_are_refused(changes, message):
    arrays = arrays_of(config_of(), np.random.default_rng(0))
    with pytest.raises(ModelError, match=message):
        QuantisedEncoder.of(config_of(**changes), arrays)


def test_weights_that_are_not_finite_are_refused():
    arrays = arrays_of(config_of(), np.random.default_rng(0))
    for number in (np.nan, np.inf):
        arrays["encoder.layer.1.output.dense.weight"][3, 3] = number
        with pytest.raises(ModelError, match="not finite"):
            QuantisedEncoder.of(config_of(), arrays)


@pytest.mark.parametrize("name", [*encoder_of().arrays])
def test_stored_arrays_are_checked(name):
    encoder = encoder_of()
    array = encoder.arrays[name]
    wrong: list[Any] = [array[..., :-1], array[None], array.astype(np.float64), None]
    if array.dtype == np.float32:
        damaged = array.copy()
        damaged.reshape(-1)[-1] = np.nan
        wrong.append(damaged)
    for each in wrong:
        with pytest.raises(ModelError, match="the encoder"):
            QuantisedEncoder.read(encoder.facts, encoder.arrays | {name: each})
    with pytest.raises(ModelError, match=name):
        QuantisedEncoder.read(encoder.facts, {k: v for k, v in encoder.arrays.items() if k != name})


def fours_of(panels: np.ndarray) -> np.ndarray:
    """(F, 4) the weights whose products with two steps of inputs are added in 16 bits."""
    steps = panels.astype(int).reshape(-1, 2, quantised.PANEL, 2, 2)  # output, place, neighbours
    return steps.transpose(0, 2, 3, 1, 4).reshape(-1, 4)


@pytest.mark.parametrize(
    "four", [(127, 2, 0, 0), (-128, -1, 0, 0), (-65, 64, -64, 0), (32, 32, 32, 33), (1, -1, 127, 1)]
)
def test_fours_of_weights_fit_in_16_bits(four):
    """For all weights; greater ones would give other sums with other instructions."""
    encoder = encoder_of()
    for weights in (encoder.query_key_value, encoder.output):
        fours = fours_of(weights)
        sums = np.maximum(fours.clip(min=0).sum(axis=1), -fours.clip(max=0).sum(axis=1))
        assert 120 <= sums.max() <= 128
    damaged = encoder.output.copy()
    damaged[-1, -1, -1, -2:] = four[:2]
    damaged[-1, -1, -2, -2:] = four[2:]
    with pytest.raises(ModelError, match="output have fours above 128"):
        QuantisedEncoder.read(encoder.facts, encoder.arrays | {"output": damaged})


def test_an_outlier_takes_the_room_of_those_of_its_sign_alone():
    config = config_of()
    arrays = arrays_of(config, np.random.default_rng(0))
    weights = arrays["encoder.layer.0.output.dense.weight"]
    weights[0] = 0.25
    weights[0, [0, 1, 4, 5]] = -0.25, -0.25, 1.0, 0.0
    encoder = QuantisedEncoder.of(config, arrays)
    assert {round(0.25 * 126), -round(0.25 * 126), 126} <= set(np.unique(encoder.output[0, 0]))


@pytest.mark.parametrize(
    "changes",
    [{"width": 0}, {"width": 64}, {"width": 36.0}, {"heads": 5}, {"heads": 0}, {"epsilon": np.nan},
     {"epsilon": -1.0}, {"width": True}],
)  # fmt: skip
def test_stored_facts_are_checked(changes):
    encoder = encoder_of()
    with pytest.raises(ModelError, match="the encoder"):
        QuantisedEncoder.read(encoder.facts | changes, encoder.arrays)


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("ids", np.full(9, 50, np.int32), "from 0 to 49"),
        ("ids", np.full(9, -1, np.int32), "from 0 to 49"),
        ("ids", np.zeros(9, np.int64), "int32"),
        ("ids", np.zeros((9, 1), np.int32), "int32"),
        ("types", np.full(9, 2, np.int32), "types: numbers from 0 to 1"),
        ("types", np.zeros(8, np.int32), "types: 9 are expected"),
        ("ids", np.zeros(18, np.int32)[::2], "contiguous"),
        ("starts", np.array([0, 4]), "ascend from 0 to 9"),
        ("starts", np.array([0, 7, 4, 9]), "ascend"),
        ("starts", np.array([1, 9]), "ascend"),
        ("starts", np.zeros(0, np.int64), "ascend"),
        ("mix", np.ones(2, np.float32), "3 finite numbers"),
        ("mix", np.array([1, np.nan, 1], np.float32), "3 finite numbers"),
        ("mix", np.ones(3), "float32"),
    ],
)
def test_pieces_are_checked(name, wrong, message):
    encoder = encoder_of()
    nothing = np.zeros(9, np.int32)
    pieces = {
        "ids": nothing, "types": nothing, "starts": np.array([0, 4, 9]), "mix": mix_of(encoder)
    }  # fmt: skip
    assert encoder.hidden(**pieces).shape == (9, 36)
    with pytest.raises(ScoreError, match=message):
        encoder.hidden(**pieces | {name: wrong})


def test_a_sequence_that_is_too_long_is_said():
    encoder = encoder_of(family="roberta")  # positions begin behind that of padding
    with pytest.raises(ScoreError, match="39 pieces, and the encoder reads at most 38"):
        encoder.hidden(*np.zeros((2, 39), np.int32), np.array([0, 39]), mix_of(encoder))


def test_states_that_are_not_finite_are_said():
    encoder = encoder_of()
    for name in ("norms", "output_scales", "intermediate_biases", "query_key_value_scales"):
        large = encoder._replace(**{name: np.full_like(getattr(encoder, name), 3e38)})
        with pytest.raises(ScoreError, match="not finite"):
            large.hidden(*np.ones((2, 4), np.int32), np.array([0, 4]), mix_of(encoder))


def test_nothing_gives_nothing():
    encoder = encoder_of()
    for starts in (np.zeros(1, np.int64), np.zeros(4, np.int64)):
        for threads in (1, 3):
            states = encoder.hidden(*np.zeros((2, 0), np.int32), starts, mix_of(encoder), threads)
            assert states.shape == (0, 36)


@pytest.mark.parametrize(("size", "n_labels"), [(1, 1), (16, 50), (20, 7), (33, 32), (5, 200)])
@pytest.mark.parametrize("width", [48, 36])
def test_labels_are_those_of_numpy(width, size, n_labels):
    labels = labels_of(width, size, n_labels)
    random = np.random.default_rng(1)
    counts = random.integers(0, 4, 70)
    counts[5] = 40  # more than are computed at once
    starts = np.concatenate([[0], np.cumsum(counts)])
    heads, modifiers = (random.normal(size=(n, width)).astype(np.float32) for n in (70, starts[-1]))
    scores = labels.scores(n_labels, heads, starts, modifiers)
    columns = [(0, 0), (0, -width % quantised.PANEL)]
    wide = [np.pad(each, columns) for each in (heads, modifiers)]
    assert scores.tobytes() == textbook_labels(labels, n_labels, wide[0], starts, wide[1]).tobytes()
    assert scores.std() > 0.05
    for threads in (2, 7):
        again = labels.scores(n_labels, heads, starts, modifiers, threads)
        assert again.tobytes() == scores.tobytes()
    for head in (0, 5, 69):
        arcs = slice(starts[head], starts[head + 1])
        of_head = np.array([0, counts[head]])
        alone = labels.scores(n_labels, heads[head : head + 1], of_head, modifiers[arcs])
        assert alone.tobytes() == scores[arcs].tobytes()


def test_labels_are_near_those_of_torch():
    torch = pytest.importorskip("torch")
    from gpuparse.scorers.encoder.network import Heads
    from gpuparse.scorers.encoder.sizes import Sizes

    torch.manual_seed(1)
    heads = Heads(40, Sizes(8, 24, 12, {}, {})).eval()
    torch.nn.init.normal_(heads.labels.weight, std=0.2)
    labels = QuantisedLabels.of({n: p.detach().numpy() for n, p in heads.named_parameters()})
    states = torch.randn(2, 30, 40)
    with torch.inference_mode():
        expected = heads.label_scores(*states).numpy()
    found = labels.scores(12, states[0].numpy(), np.arange(31), states[1].numpy())
    assert 0 < np.linalg.norm(found - expected) / np.linalg.norm(expected) < 0.04


@pytest.mark.parametrize("size", [1, 16, 33])
@pytest.mark.parametrize("width", [48, 36])
def test_arcs_are_those_of_numpy(width, size):
    arcs = arcs_of_bytes(width, size)
    lengths = np.array([7, 0, 40, 1, 16, 15, 23])
    starts = np.cumsum([0, *lengths[:-1] + 2])  # between sentences is a token that is no word
    states = np.random.default_rng(1).normal(size=(lengths.sum() + 14, width)).astype(np.float32)
    scores = arcs.scores(states, starts, lengths)
    assert scores.shape == (7, 41, 41)
    wide = np.pad(states, [(0, 0), (0, -width % quantised.PANEL)])
    for b, (start, n) in enumerate(zip(starts, lengths + 1, strict=True)):
        expected = textbook_arcs(arcs, wide[start : start + n])
        assert (scores[b, :n, :n] == expected).all()
        alone = arcs.scores(states, starts[b : b + 1], lengths[b : b + 1])
        assert (alone[0] == expected).all()
    assert scores.std() > 0.005
    assert arcs.scores(states, starts, lengths, 3).tobytes() == scores.tobytes()
    assert arcs.scores(states, starts[:0], lengths[:0]).shape == (0, 1, 1)


@pytest.mark.parametrize(("inputs", "outputs"), [(16, 1), (20, 33), (64, 50)])
def test_rows_of_a_layer_are_those_of_numpy(inputs, outputs):
    random = np.random.default_rng(2)
    weights, biases, rows = (
        random.normal(size=shape).astype(np.float32)
        for shape in ((outputs, inputs), (outputs,), (37, inputs))
    )
    layer = ByteLinear.of(weights, biases)
    found = layer.of_rows(rows, outputs)
    wide = np.pad(rows, [(0, 0), (0, -inputs % quantised.PANEL)])
    assert (found == multiplied(layer, wide)[:, :outputs]).all()
    expected = rows @ weights.T + biases
    assert np.linalg.norm(found - expected) < 0.03 * np.linalg.norm(expected)
    assert layer.of_rows(rows, outputs, 3).tobytes() == found.tobytes()
    assert layer.of_rows(rows[:0], outputs).shape == (0, outputs)


def test_labels_of_no_arcs():
    scores = labels_of(16, 4, 3).scores(3, np.zeros((0, 16), np.float32), np.zeros(1, np.int64),
                                        np.zeros((0, 16), np.float32))  # fmt: skip
    assert scores.shape == (0, 3)


def test_numbers_are_those_of_native_code():
    for name, number in (
        ("PANEL", quantised.PANEL), ("PANEL_INPUTS", quantised.PANEL_INPUTS),
        ("MOST_INPUTS", quantised.MOST_INPUTS),
    ):  # fmt: skip
        text = found("byte_layers.h", rf"constexpr [^;]*?\b{name} = ([^;,]+)[;,]")
        assert value(text, {}) == number

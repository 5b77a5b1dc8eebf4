"""Scores that the check accepts and refuses, and its messages."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from gpuparse.errors import ConfigError, NoTreeError, ScoreError
from gpuparse.inference import DECODERS, Parse, Scores, decode, eisner, engines
from tests.inference.decoders import ENGINES, ROWS, draw_parts, engines_of, search_with
from tests.inference.test_laws import searched as found
from tests.oracles.tree_parts import is_read

every_decoder = pytest.mark.parametrize("name", ROWS)
every_engine = pytest.mark.parametrize("engine", [*ENGINES, "auto"])
every_pair = pytest.mark.parametrize(("name", "engine"), engines_of())


def search(name, arcs, lengths, engine="auto", **options):
    return search_with(ROWS[name].search, arcs, lengths, engine=engine, **options)


def zeros_of(name, n_batch, n):
    """Scores of all parts of a decoder, all 0."""
    parts = draw_parts(name, np.random.default_rng(0), n_batch, n)
    return {field: torch.zeros(part.shape) for field, part in parts.items()}


@every_pair
def test_values_that_break_sums_are_turned_away_wherever_they_are_read(name, engine):
    """Any cell that is read, and none of padding or beside the parts."""
    read = zeros_of(name, 3, 4)
    for field, part in read.items():
        where = torch.tensor(is_read(field, 5, not DECODERS[name].is_projective))
        part[:, ~where] = torch.nan
        for axis in range(part.dim() - 1):
            part[1].select(axis, 4).fill_(torch.nan)  # in a sentence of three words
    found(name, read, [4, 3, 4], engine)
    for field, part in read.items():
        of_field = "" if field == "arc" else f"{field}_scores: "
        places = np.argwhere(is_read(field, 4, not DECODERS[name].is_projective))
        for k, place in enumerate(places.tolist()):
            changed = part.clone()
            changed[(1, *place)] = (torch.nan, torch.inf, 3e38, -3e38)[k % 4]
            at = f"head {place[0]} -> modifier {place[1]}"
            said = rf"(at \[{', '.join(map(str, place))}\]|of {at}) is"
            with pytest.raises(ScoreError, match=f"{of_field}sentence 1: the score {said}"):
                found(name, read | {field: changed}, [4, 3, 4], engine)


@every_pair
def test_shapes_types_and_devices_of_all_scores_are_checked(name, engine):
    parts = zeros_of(name, 3, 4)
    for field, part in parts.items():
        for wrong, said in [
            (part[:, 1:], f"{field}_scores has shape .*, expected"),
            (part[0], f"{field}_scores has shape"),
            (part.bool(), f"{field}_scores.*type torch.bool, expected floats or integers"),
            (part.cfloat(), f"{field}_scores.*complex64, expected floats or integers"),
        ]:
            with pytest.raises(ScoreError, match=said):
                found(name, parts | {field: wrong}, [4, 4, 4], engine)
        with pytest.raises(ScoreError, match="on meta"):
            found(name, parts | {field: part.to("meta")}, [4, 4, 4], engine)


@pytest.mark.parametrize("name", DECODERS)
def test_engines_that_a_decoder_does_not_have_are_refused(name):
    parts = zeros_of(name, 1, 2)
    for engine in ("torch", "triton", "numpy"):
        if not DECODERS[name].has("best", engine):
            said = f"unknown engine '{engine}'" if engine == "numpy" else f"{name} exists in native"
            with pytest.raises(ScoreError, match=said):
                found(name, parts, [2], engine)


@every_decoder
@every_engine
def test_scores_are_turned_away_before_trees_are_missed(name, engine):
    arcs = torch.zeros(2, 5, 5)
    arcs[0, :, 2], arcs[1, 2, 3] = -torch.inf, torch.nan
    with pytest.raises(ScoreError, match="sentence 1: the score of head 2 -> modifier 3 is"):
        search(name, arcs, torch.tensor([4, 4]), engine)


@every_decoder
@every_engine
@pytest.mark.parametrize("length", [-1, 5])
def test_lengths_out_of_range(name, engine, length):
    with pytest.raises(ScoreError, match=f"sentence 2: length {length} is not between 0 and 4"):
        search(name, torch.zeros(3, 5, 5), torch.tensor([4, 4, length]), engine)


@every_decoder
@pytest.mark.parametrize(
    ("lengths", "message"),
    [([4, 4], r"lengths has shape \(2,\), expected \(1,\)"), ([4.0], "expected integers")],
)
def test_wrong_lengths(name, lengths, message):
    with pytest.raises(ScoreError, match=message):
        search(name, torch.zeros(1, 5, 5), torch.tensor(lengths))


@every_decoder
def test_the_gpu_engine_says_what_it_needs(name, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    arcs, length = torch.zeros(1, 3, 3), torch.tensor([2])
    monkeypatch.setattr(engines, "has_triton", lambda: True)
    with pytest.raises(ScoreError, match="reads tensors on a CUDA device, these are on cpu; use"):
        ROWS[name].search(arcs, length, engine="triton")
    monkeypatch.setattr(engines, "has_triton", lambda: False)
    with pytest.raises(ScoreError, match="needs Triton, which is not installed; use 'torch'"):
        ROWS[name].search(arcs, length, engine="triton")


@pytest.mark.parametrize("engine", ["auto", "triton"])
def test_without_a_c_compiler_kernels_are_refused(monkeypatch, engine):
    """No tensor is needed to choose: a device's name is enough, and no GPU."""
    cuda = torch.device("cuda")
    monkeypatch.setattr(engines, "has_triton", lambda: True)
    monkeypatch.setenv("CC", "gcc")
    assert engines.choose_engine(engine, cuda, has_kernels=True) == "triton"
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ScoreError, match=r"needs a C compiler .* install gcc"):
        engines.choose_engine(engine, cuda, has_kernels=True)
    assert engines.choose_engine("torch", cuda, has_kernels=True) == "torch"
    assert engines.choose_engine("auto", cuda) == "torch"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
def test_the_compiled_engine_says_that_it_reads_main_memory_only():
    with pytest.raises(ScoreError, match="main memory"):
        eisner(torch.zeros(1, 3, 3, device="cuda"), torch.tensor([2]), engine="native")


@every_decoder
@every_engine
def test_no_tree_names_the_sentence(name, engine):
    arcs = torch.zeros(4, 5, 5)
    arcs[2, :, 3] = -torch.inf
    with pytest.raises(NoTreeError, match="sentence 2 "):
        search(name, arcs, torch.full((4,), 4), engine)
    arcs = torch.zeros(4, 5, 5)
    arcs[3, 1:, 1:3] = -torch.inf  # words 1 and 2 can only hang on the root
    search(name, arcs, torch.full((4,), 4), engine)
    with pytest.raises(NoTreeError, match="sentence 3 "):
        search(name, arcs, torch.full((4,), 4), engine, single_root=True)


@every_decoder
@every_engine
def test_views_and_scores_that_require_gradients(name, engine):
    arcs = torch.randn(4, 12, 12, generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([5, 5, 3, 4], dtype=torch.int32)
    view = arcs[:, ::2, ::2].mT.requires_grad_()
    heads, values = search(name, view, lengths, engine)
    expected_heads, expected = search(name, view.detach().contiguous(), lengths.long(), engine)
    assert heads.equal(expected_heads)
    assert values.equal(expected)
    assert not values.requires_grad


def test_decode_by_name():
    drawn = {
        field.name: torch.randint(-99, 99, (2, *[6] * axes)).float()
        for field, axes in zip(fields(Scores), (2, 0, 3, 2, 3, 4, 4, 4, 3, 3), strict=True)
    }
    scores = Scores(**drawn | {"lengths": torch.tensor([5, 4])})
    for name, decoder in DECODERS.items():
        parse = decode(name, scores, single_root=True, engine="native")
        assert isinstance(parse, Parse)
        others = {f"{field}_scores": getattr(scores, field) for field in decoder.reads}
        read = (scores.arc, scores.lengths)
        if decoder.order == 2:
            read = (scores.arc, others.pop("sibling_scores"), scores.lengths)
        search = decoder.function("best")
        found, values, *_ = search(*read, single_root=True, engine="native", **others)
        assert parse.scores.equal(values)
        for field in set(drawn) - {"arc", "lengths", "sibling"}:  # each is read, or is not
            without = decode(
                name, replace(scores, **{field: None}), single_root=True, engine="native"
            )
            assert without.scores.equal(values) != (field in decoder.reads)
        if decoder.gives_graphs:
            assert parse.heads is None
            assert parse.arcs.equal(found)
        else:
            assert parse.arcs is None
            assert parse.heads.equal(found)
    with pytest.raises(ConfigError, match=r"unknown decoder 'best'.*eisner"):
        decode("best", scores)
    with pytest.raises(ScoreError, match="eisner_sibling reads sibling scores, and there are none"):
        decode("eisner_sibling", Scores(scores.arc, scores.lengths))
    with pytest.raises(ScoreError, match="hill_climb does not run on the engine 'torch'"):
        decode("hill_climb", scores, engine="torch")

"""Scores that the check accepts and refuses, and its messages."""

from dataclasses import fields, replace

import pytest
import torch

from gpuparse.errors import ConfigError, NoTreeError, ScoreError
from gpuparse.inference import DECODERS, Parse, Scores, decode, eisner, engines
from tests.inference.decoders import ENGINES, ROWS, search_with

every_decoder = pytest.mark.parametrize("name", ROWS)
every_engine = pytest.mark.parametrize("engine", [*ENGINES, "auto"])


def search(name, arcs, lengths, engine="auto", **options):
    return search_with(ROWS[name].search, arcs, lengths, engine=engine, **options)


@every_decoder
@every_engine
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, 3e38, -3e38])
def test_values_that_break_sums_are_turned_away(name, engine, bad):
    arcs = torch.zeros(3, 5, 5)
    arcs[1, 2, 3] = bad
    with pytest.raises(ScoreError, match="sentence 1: the score of head 2 -> modifier 3 is"):
        search(name, arcs, torch.tensor([4, 4, 4]), engine)
    search(name, arcs, torch.tensor([4, 2, 4]), engine)  # there it is padding


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
    ("arcs", "lengths", "message"),
    [
        (torch.zeros(5, 5), torch.tensor([4]), r"shape \(5, 5\), expected \(B, N, N\)"),
        (torch.zeros(1, 5, 4), torch.tensor([3]), r"expected \(B, N, N\)"),
        (torch.zeros(2, 5, 5), torch.tensor([4]), r"lengths has shape \(1,\), expected \(2,\)"),
        (torch.zeros(1, 5, 5), torch.tensor([4.0]), "expected integers"),
        (torch.zeros(1, 5, 5).bool(), torch.tensor([4]), "expected floats or integers"),
        (torch.zeros(1, 5, 5).cfloat(), torch.tensor([4]), "expected floats or integers"),
    ],
)
def test_wrong_shapes_and_types(name, arcs, lengths, message):
    with pytest.raises(ScoreError, match=message):
        search(name, arcs, lengths)


@every_decoder
def test_an_engine_that_does_not_exist(name):
    with pytest.raises(ScoreError, match="unknown engine 'numpy'"):
        search(name, torch.zeros(1, 3, 3), torch.tensor([2]), "numpy")


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

"""Laws of every kind of model: what is saved is loaded, and parses are the same however made."""

import dataclasses
import functools
import pickle
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.graphs import read_graphs
from gpuparse.errors import ConfigError
from gpuparse.features.templates import TemplateSet, load_templates, parse_set
from gpuparse.inference.decoders import DECODERS
from gpuparse.jobs.gold import written
from gpuparse.learning.trainer import Trainer
from gpuparse.model.decoder_choice import with_decoder
from gpuparse.model.folder import (
    CONFIG,
    FEATURES,
    LABEL_FEATURES,
    VOCABULARY,
    WEIGHTS,
    load_parser,
    save_parser,
)
from gpuparse.model.parser import UNLABELLED, Parser
from tests.graphs_by_place import acyclic_graph, with_deps
from tests.hostile_files import facts_of, rewrite
from tests.inference.decoders import HAS_GPU
from tests.oracles import brute_force
from tests.oracles.graphs import is_acyclic
from tests.runs import model_files, run_config
from tests.samples import Sentence, random_sentences, row, template_set_text, treebank_of

FILES = [CONFIG, FEATURES, LABEL_FEATURES, VOCABULARY, WEIGHTS]
ARCS = parse_set(
    template_set_text(
        arc=[
            "h.form m.form", "h.pos m.pos direction distance", "h.feats.* m.feats.*",
            "h.lemma m.pos", "h.pos between.pos m.pos direction", "m.form[-3:] h.pos",
        ],
        sibling=[
            "s.form m.form", "s.pos m.pos direction distance", "s.feats.* m.feats.*",
            "h.pos s.pos m.pos", "h.lemma s.pos m.pos direction", "s-1.pos m.pos",
        ],
        end=["h.pos e.pos direction distance", "h.feats.* e.feats.*", "e.form", "h+1.pos e.lemma"],
    ),
    "arcs",
)  # fmt: skip
WITH_VECTORS = replace(
    ARCS,
    word_vectors=parse_set(
        "word_vectors: {hidden: 8, arc: 4, label: 4,"
        " templates: [w.form, w.pos, w+1.pos, between.pos]}",
        "set",
    ).word_vectors,
)
LABELS = parse_set(template_set_text(label=["m.form h.pos direction", "g.pos m.pos"]), "labels")
JOINT = parse_set(
    template_set_text(label=["m.form h.pos direction", "h.pos m.pos", "m.pos distance"]), "labels"
)
TRAIN = [
    with_deps(sentence, acyclic_graph(random.Random(seed), sentence))
    for seed, sentence in enumerate(random_sentences(100, 40, 9, projective=False))
]
SENTENCES = random_sentences(101, 30, 14)
TEST = treebank_of(SENTENCES)
KINDS = {
    "first order": {},
    "any size": {"map_rows": 100_003},
    "non-projective, one root": {"decoder": "chu_liu_edmonds", "single_root": True},
    "word vectors": {"templates": WITH_VECTORS, "decoder": "chu_liu_edmonds"},
    "second order": {"decoder": "eisner_sibling"},
    "second order, one root": {"decoder": "eisner_sibling", "single_root": True},
    "by single changes": {"decoder": "hill_climb", "map_rows": 100_003},
    "graphs": {"decoder": "multi_parent"},
    "graphs, one root": {"decoder": "multi_parent", "single_root": True},
    "graphs without labels": {"decoder": "multi_parent", "labels": False},
    "joint labels": {"labels_kind": "joint", "label_templates": JOINT},
    "joint labels, second order": {
        "decoder": "eisner_sibling", "labels_kind": "joint", "label_templates": JOINT,
    },
    "heads only": {"labels": False},
}  # fmt: skip


def trained(
    labels: bool = True, bits: int = 16, sentences: list[Sentence] = TRAIN,
    templates: TemplateSet = ARCS, label_templates: TemplateSet = LABELS, **change: object,
) -> Parser:  # fmt: skip
    """A model of little training; change: keys that differ from the usual."""
    options = {
        "decoder": "eisner", "min_gain": 0.5, "single_root": "auto", "pos": "auto",
        "map_rows": 1 << 16, "rule": "mira", "epochs": 2,
        "batch_size": 1, "cost_augmented": False, "max_step": None, "shuffle": True,
        "unreachable": "projectivise", "seed": 1, "label_rows": 1 << 12, "label_epochs": 1,
    } | change  # fmt: skip
    second_stage = label_templates if labels else None
    if options["single_root"]:
        sentences = [words for words in sentences if [word[6] for word in words].count("0") == 1]
    trainer = Trainer(treebank_of(sentences), templates, second_stage, run_config(**options))
    for _ in trainer.learn():
        pass
    return trainer.model(bits, "seed: 1\n")


@functools.cache
def of_kind(kind: str) -> Parser:
    return trained(**KINDS[kind])


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest) -> Parser:
    """A model of every kind, without the engines that other modules used."""
    return replace(of_kind(request.param))


def same(one: object, two: object) -> bool:
    """True if two predictions have the same arrays, those of graphs included."""
    if dataclasses.is_dataclass(one):
        fields = [field.name for field in dataclasses.fields(one)]
        return type(one) is type(two) and all(
            same(getattr(one, name), getattr(two, name)) for name in fields
        )
    return one is two is None or np.array_equal(one, two)


def by_sentence(values: np.ndarray, sentences: list[Sentence] = SENTENCES) -> list[list]:
    """Values of words, sentence by sentence."""
    cuts = np.cumsum([len(words) for words in sentences])[:-1]
    return [part.tolist() for part in np.split(values, cuts)]


def assert_saved_whole(model: Parser, folder: Path) -> Parser:
    """A model that is loaded parses the same, and is the same bytes when saved again.

    Parsing between the two changed neither.
    """
    save_parser(model, folder)
    first, again = model_files(folder), load_parser(folder)
    assert sorted(first) == sorted(FILES)
    engines = ("native",) if DECODERS[model.decoder].is_higher_order else ("native", "torch")
    for engine in engines:
        assert same(again.parse(TEST, engine=engine), model.parse(TEST))
    for each in (again, model):
        save_parser(each, folder)
        assert model_files(folder) == first
    for name in ("labels", "primary", "decoder", "single_root", "min_gain", "scales", "config"):
        assert getattr(again, name) == getattr(model, name), name
    for name in ("templates", "label_templates"):
        assert getattr(again.linear, name) == getattr(model.linear, name)
    return again


def test_save_and_load_lose_nothing(model: Parser, tmp_path: Path) -> None:
    again = assert_saved_whole(model, tmp_path)
    assert again.config == "seed: 1\n"
    assert again.min_gain > 0.5
    has_primary = DECODERS[again.decoder].gives_graphs and again.linear.label_weights is not None
    assert (again.primary is not None) == has_primary
    assert len(np.unique(again.parse(TEST).heads)) > 5


@pytest.mark.parametrize(
    ("name", "decoder"),
    [
        ("mcdonald-2005", "eisner"),
        ("extended", "eisner"),
        ("morphology", "eisner_sibling"),
        ("mcdonald-pereira-2006", "eisner_sibling"),
        ("extended", "hill_climb"),
        ("extended", "multi_parent"),
    ],
)
def test_shipped_sets_survive_saving(name: str, decoder: str, tmp_path: Path) -> None:
    labels = load_templates("graph-labels" if decoder == "multi_parent" else "labels")
    model = trained(templates=load_templates(name), label_templates=labels, decoder=decoder)
    assert_saved_whole(model, tmp_path)


def places() -> list[object]:
    """Devices and engines other than compiled code."""
    interpreted = [] if HAS_GPU else [pytest.param("cpu", "triton", marks=pytest.mark.triton)]
    skip = pytest.mark.skipif(not HAS_GPU, reason="no CUDA device on this machine")
    on_gpu = [("cuda", "auto"), ("cuda", "torch"), ("cuda", "triton")]
    gpu = [pytest.param(*place, marks=[pytest.mark.gpu, skip]) for place in on_gpu]
    return [("cpu", "torch"), *interpreted, *gpu]


every_place = pytest.mark.parametrize(("device", "engine"), places())


@every_place
def test_every_engine_gives_the_same_parses(model: Parser, device: str, engine: str) -> None:
    for batch_size in (3, 2048):
        found = model.parse(TEST, device=device, engine=engine, batch_size=batch_size)
        assert same(found, model.parse(TEST))


def test_parses_do_not_depend_on_how_they_are_made(model: Parser) -> None:
    expected = model.parse(TEST, batch_size=1)
    assert expected.heads.dtype == np.int32
    for batch_size in (2, 64, 1000):
        for threads, engine in ((1, "auto"), (1, "torch"), (2, "native"), (5, "auto")):
            found = model.parse(TEST, batch_size=batch_size, threads=threads, engine=engine)
            assert same(found, expected)
    # In another process, and with values that were sent before they are searched.
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    assert same(again.parse(TEST), expected)
    batch = model.encode(TEST)
    sent = model.send(batch, "cpu", "torch")
    assert same(model.parse(TEST, batch=batch, sent=sent, engine="torch"), expected)
    assert model.send(batch, "cpu") is None


def test_neither_other_sentences_nor_heads_and_labels_of_the_input_are_looked_at(
    model: Parser,
) -> None:
    together = model.parse(TEST)
    blank = [[[*word[:6], *"___", word[9]] for word in words] for words in SENTENCES]
    assert same(model.parse(treebank_of(blank)), together)
    heads = by_sentence(together.heads)
    labels = by_sentence(together.heads if together.labels is None else together.labels)
    graphs, w = together.graphs, 0
    for s, words in enumerate(SENTENCES):
        gold = with_deps(words, acyclic_graph(random.Random(1), words))
        alone = model.parse(treebank_of([gold]))
        assert alone.heads.tolist() == heads[s]
        assert alone.labels is None or alone.labels.tolist() == labels[s]
        if graphs is not None:
            starts = graphs.starts[w : w + len(words) + 1]
            arcs = slice(starts[0], starts[-1])
            assert np.array_equal(alone.graphs.starts, starts - starts[0])
            assert np.array_equal(alone.graphs.heads, graphs.heads[arcs])
            assert np.array_equal(alone.graphs.relations, graphs.relations[arcs])
        w += len(words)


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_case_18_nothing_known_is_parsed_all_the_same(model: Parser, engine: str) -> None:
    words = [
        row(m, f"neu{m}", "_", "neu", lemma="neu", cpos="NEU", fpos="NEU", feats="Neu=Neu")
        for m in range(1, 12)
    ]
    for sentences in ([words], [words, words[:1]], [[row(1, "_", "_")]], []):
        found = model.parse(treebank_of(sentences), engine=engine)
        for heads in by_sentence(found.heads, sentences) if sentences else []:
            assert heads.count(0) == 1 if model.single_root else heads.count(0) >= 1
            assert brute_force.is_tree(tuple(heads))
        n_words = sum(map(len, sentences))
        assert len(found.heads) == n_words
        assert (found.labels is None) == (not model.labels)
        assert found.labels is None or len(found.labels) == n_words
        assert found.labels is None or set(found.labels.tolist()) <= set(range(len(model.labels)))
        assert found.graphs is None or found.graphs.n_words == n_words


def test_every_parse_is_a_tree_that_the_decoder_can_build(model: Parser) -> None:
    found = model.parse(TEST)
    for heads in map(tuple, by_sentence(found.heads)):
        assert brute_force.is_tree(heads)
        assert not DECODERS[model.decoder].is_projective or brute_force.is_projective(heads)
        assert not model.single_root or heads.count(0) == 1
    assert (found.graphs is not None) == DECODERS[model.decoder].gives_graphs


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("graphs")])
def test_graphs_have_no_cycles_and_a_nearest_primary_head_of_every_word(kind: str) -> None:
    """Heads ascend, and relations are those that may stand there."""
    model = of_kind(kind)
    found = model.parse(TEST)
    graphs, w, several = found.graphs, 0, 0
    assert graphs is not None
    for words, primary in zip(SENTENCES, by_sentence(found.heads), strict=True):
        arcs = np.zeros((len(words) + 1, len(words) + 1), bool)
        for m in range(1, len(words) + 1):
            heads = graphs.heads[graphs.starts[w] : graphs.starts[w + 1]].tolist()
            assert heads == sorted(set(heads))
            assert primary[m - 1] == min(heads, key=lambda h, m=m: (abs(h - m), h))
            arcs[heads, m] = True
            several += len(heads) > 1
            w += 1
        assert is_acyclic(arcs)
        assert not model.single_root or arcs[0].sum() == 1
    assert several > 10
    is_primary = graphs.heads == found.heads[graphs.modifiers()]
    assert is_primary.sum() == len(found.heads)
    if found.labels is None:
        assert graphs.names == [UNLABELLED]
        assert set(graphs.relations.tolist()) == {0}
        return
    assert graphs.names == model.labels
    assert np.array_equal(graphs.relations[is_primary], found.labels)
    assert all(model.primary[i] is not None for i in found.labels)
    assert any(model.primary[i] is None for i in graphs.relations[~is_primary])
    again = read_graphs(treebank_from_bytes(written(model, TEST, found), "again"))
    assert np.array_equal(again.starts, graphs.starts)
    assert np.array_equal(again.heads, graphs.heads)
    assert [again.names[i] for i in again.relations] == [graphs.names[i] for i in graphs.relations]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("graphs")])
def test_known_heads_are_kept(kind: str) -> None:
    model = of_kind(kind)
    known = np.where(np.arange(TEST.n_words) % 3 == 0, TEST.heads, -1)
    found = model.parse(TEST, known=known)
    assert np.array_equal(found.heads[known >= 0], known[known >= 0])
    assert not np.array_equal(model.parse(TEST).heads[known >= 0], known[known >= 0])
    assert same(model.parse(TEST, known=known, engine="torch"), found)


def test_progress_adds_up(model: Parser) -> None:
    done: list[int] = []
    model.parse(TEST, batch_size=7, progress=done.append)
    assert sum(done) == len(TEST)
    assert max(done) <= 7
    assert len(done) > 3


@pytest.mark.parametrize("bits", [8, 16])
def test_weights_are_whole_numbers_of_few_bits(bits: int) -> None:
    model = trained(bits=bits)
    assert model.linear.label_weights is not None
    for weights in (model.linear.arcs, model.linear.label_weights):
        assert weights.array.dtype == (np.int8 if bits == 8 else np.int16)
        assert np.abs(weights.array.astype(int)).max() == 2 ** (bits - 1) - 1


@pytest.mark.parametrize("decoder", ["hill_climb", "multi_parent"])
def test_a_large_least_gain_leaves_the_projective_trees(decoder: str, tmp_path: Path) -> None:
    """Put into the facts of a model, also one that no sum of weights reaches."""
    save_parser(trained(decoder=decoder), tmp_path)
    facts, tensors = facts_of(tmp_path)
    found = {}
    for gain in (0.0, 1e5, 1e30):
        rewrite(tmp_path, facts | {"min_gain": gain}, tensors)
        model = load_parser(tmp_path)
        assert model.min_gain == gain
        found[gain] = model.parse(TEST)
        assert same(model.parse(TEST, engine="torch"), found[gain])
    assert not same(found[0.0], found[1e5])
    assert found[1e30].graphs is None or len(found[1e30].graphs.heads) == TEST.n_words
    assert all(brute_force.is_projective(tuple(each)) for each in by_sentence(found[1e30].heads))


# The decoders that search with scores of each other; those beyond the second order are in
# test_higher_order_models.py.
PAIRS = [("eisner", "chu_liu_edmonds"), ("eisner_sibling", "hill_climb")]
SEARCHABLE = [*PAIRS, *[(other, own) for own, other in PAIRS]]
UP_TO_SECOND = [name for name, decoder in DECODERS.items() if not decoder.is_higher_order]


@functools.cache
def of_decoder(name: str) -> Parser:
    return trained(decoder=name, **({"min_gain": 0.0} if name == "eisner_sibling" else {}))


@pytest.mark.parametrize(("own", "other"), SEARCHABLE)
def test_another_decoder_searches_as_its_own_models_do(
    own: str, other: str, tmp_path: Path
) -> None:
    model = of_decoder(own)
    forced = with_decoder(model, other)
    save_parser(forced, tmp_path)
    assert load_parser(tmp_path).decoder == own
    # The same weights in a model that says it was trained with the other decoder.
    facts, tensors = facts_of(tmp_path)
    rewrite(tmp_path, facts | {"decoder": other}, tensors)
    found = forced.parse(TEST)
    assert same(found, load_parser(tmp_path).parse(TEST))
    assert same(found, forced.parse(TEST, engine="torch"))
    assert not np.array_equal(found.heads, model.parse(TEST).heads)
    assert same(with_decoder(forced, own).parse(TEST), model.parse(TEST))


@pytest.mark.parametrize("own", UP_TO_SECOND)
@pytest.mark.parametrize("other", UP_TO_SECOND)
def test_decoders_that_a_model_lacks_something_for(own: str, other: str) -> None:
    model = of_decoder(own)
    if own == other:
        assert same(with_decoder(model, other).parse(TEST), model.parse(TEST))
    elif (own, other) not in SEARCHABLE:
        with pytest.raises(ConfigError, match="no option changes that") as caught:
            with_decoder(model, other)
        why = str(caught.value)
        assert own in why
        assert ("graphs" in why) == ("multi_parent" in (own, other))
        assert ("order" in why) == ("multi_parent" not in (own, other))


def test_an_unknown_decoder() -> None:
    with pytest.raises(ConfigError, match="unknown decoder 'best'"):
        with_decoder(of_decoder("eisner"), "best")


def test_a_model_that_searches_otherwise_has_tables_of_its_own() -> None:
    model = trained()
    before = model.parse(TEST, engine="torch")
    for other in (model.with_single_root(), with_decoder(model, "chu_liu_edmonds")):
        assert same(other.parse(TEST, engine="torch"), other.parse(TEST))
    assert same(model.parse(TEST, engine="torch"), before)

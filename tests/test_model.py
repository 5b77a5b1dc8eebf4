"""Models: saved and loaded, damaged and refused, and the same parses however they are made."""

import json
import os
import pickle
import random
import shutil
import stat
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch_file

from gpuparse.data.array_file import as_json, sha256
from gpuparse.errors import ConfigError, ModelError
from gpuparse.features.templates import TemplateSet, load_templates, parse_set
from gpuparse.inference.decoders import DECODERS
from gpuparse.learning.trainer import Trainer
from gpuparse.limits import MAX_TAG
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
from gpuparse.model.installed import UNFINISHED
from gpuparse.model.parser import Parser
from tests.graphs_by_place import acyclic_graph, with_deps
from tests.hostile_files import facts_of, pack, rewrite
from tests.oracles import brute_force
from tests.runs import run_config
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
TRAIN = [
    with_deps(sentence, acyclic_graph(random.Random(seed), sentence))
    for seed, sentence in enumerate(random_sentences(100, 40, 9, projective=False))
]
TEST = treebank_of(random_sentences(101, 30, 14))
KINDS = {
    "hashed": {},
    "any size": {"map_rows": 100_003},
    "non-projective": {"decoder": "chu_liu_edmonds", "single_root": True},
    "word vectors": {"templates": WITH_VECTORS},
    "second order": {"decoder": "eisner_sibling"},
    "second order, non-projective": {"decoder": "hill_climb", "map_rows": 100_003},
    "graphs": {"decoder": "multi_parent"},
    "graphs, one root": {"decoder": "multi_parent", "single_root": True},
}


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


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest) -> Parser:
    return trained(**KINDS[request.param])


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model with labels. Not to be written to."""
    folder = tmp_path_factory.mktemp("saved")
    save_parser(trained(), folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy of that folder, to be spoilt."""
    return Path(shutil.copytree(saved, tmp_path / "model"))


def test_save_and_load_lose_nothing(model: Parser, tmp_path: Path) -> None:
    save_parser(model, tmp_path)
    again = load_parser(tmp_path)
    assert again.linear.templates == model.linear.templates
    assert again.linear.label_templates == model.linear.label_templates
    assert again.linear.vocabularies.values == model.linear.vocabularies.values
    assert again.linear.vocabularies.pos_column == model.linear.vocabularies.pos_column
    assert np.array_equal(again.linear.arcs.array, model.linear.arcs.array)
    assert again.linear.arcs.array.dtype == model.linear.arcs.array.dtype
    assert again.linear.label_weights is not None
    assert np.array_equal(again.linear.label_weights.array, model.linear.label_weights.array)
    assert again.min_gain == model.min_gain > 0.5
    assert (again.labels, again.decoder, again.single_root, again.config) == (
        model.labels, model.decoder, model.single_root, "seed: 1\n",
    )  # fmt: skip
    ours, theirs = model.parse(TEST), again.parse(TEST)
    assert np.array_equal(ours.heads, theirs.heads)
    assert np.array_equal(ours.labels, theirs.labels)
    assert len(np.unique(ours.heads)) > 5


def test_a_parser_that_was_used_goes_to_another_process(model: Parser) -> None:
    expected = model.parse(TEST)
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    found = again.parse(TEST)
    assert np.array_equal(found.heads, expected.heads)
    assert np.array_equal(found.labels, expected.labels)


def test_saving_again_gives_the_same_bytes(model: Parser, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "second", "third")]
    for folder in folders:
        folder.mkdir()
    save_parser(model, folders[0])
    save_parser(model, folders[1])
    save_parser(load_parser(folders[0]), folders[2])
    save_parser(model, folders[2])  # over what is there
    for name in FILES:
        contents = {(folder / name).read_bytes() for folder in folders}
        assert len(contents) == 1
    assert sorted(file.name for file in folders[2].iterdir()) == sorted(FILES)


def test_a_model_without_labels(tmp_path: Path) -> None:
    model = trained(labels=False)
    save_parser(model, tmp_path)
    for each in (model, load_parser(tmp_path)):
        assert each.labels == each.label_names == []
        assert each.parse(TEST).labels is None


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_files_have_the_ordinary_mode(umask: int, mode: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        save_parser(trained(labels=False), tmp_path)
    finally:
        os.umask(before)
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in FILES} == {mode}


def test_nothing_saved_is_a_pickle_and_all_is_plain(saved: Path) -> None:
    for name in FILES:
        content = (saved / name).read_bytes()
        assert not content.startswith((b"\x80", b"PK"))
        if name != WEIGHTS:
            content.decode()
    json.loads((saved / VOCABULARY).read_text(encoding="utf-8"))
    with safe_open(saved / WEIGHTS, "np") as file:
        assert len(file.metadata()) == 1
        tensors = [file.get_tensor(name) for name in file.keys()]  # noqa: SIM118 (no dictionary)
    assert {tensor.dtype.kind for tensor in tensors} == {"i"}


def parses(path: Path) -> None:
    load_parser(path).parse(TEST)


def refused(path: Path) -> str:
    """The message with which a folder is refused, at once."""
    start = time.perf_counter()
    with pytest.raises(ModelError) as caught:
        load_parser(path)
    assert time.perf_counter() - start < 5
    return str(caught.value)


def test_the_copy_would_be_accepted(folder: Path) -> None:
    parses(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert name in refused(folder)


def test_a_missing_folder(tmp_path: Path) -> None:
    said = refused(tmp_path / "nowhere")
    assert said == (
        f"{tmp_path}/nowhere: no such folder; a model is a folder that `gpuparse train` wrote"
    )


def test_a_file_in_the_place_of_a_folder(folder: Path) -> None:
    file = folder / FILES[0]
    assert refused(file) == f"{file}: a file; a model is a folder that `gpuparse train` wrote"
    assert "no such folder" in refused(file / "x")


def test_an_unfinished_run(folder: Path) -> None:
    (folder / UNFINISHED).mkdir()
    parses(folder)  # a finished model is one
    (folder / WEIGHTS).unlink()
    assert "an unfinished run; training with resume=True finishes it" in refused(folder)


def test_a_model_in_runs_is_suggested(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder.parent / "runs").mkdir()
    folder.rename(folder.parent / "runs" / "en")
    monkeypatch.chdir(folder.parent)
    assert refused(Path("en")) == "en: no such folder; did you mean runs/en?"
    assert "did you mean" not in refused(Path("de"))


@pytest.mark.parametrize("name", FILES)
def test_a_folder_in_the_place_of_a_file(folder: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / name).mkdir()
    assert name in refused(folder)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("part", [0, 0.001, 0.3, 0.999])
def test_case_38_a_truncated_file(folder: Path, name: str, part: float) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: int(len(content) * part)])
    assert str(folder) in refused(folder)


@pytest.mark.parametrize("name", FILES)
def test_bytes_too_many(folder: Path, name: str) -> None:
    with (folder / name).open("ab") as file:
        file.write(b"\n")
    assert str(folder) in refused(folder)


@pytest.mark.parametrize("name", FILES)
def test_case_38_a_flipped_bit_anywhere(folder: Path, saved: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    draw = random.Random(name)
    places = {0, 7, len(content) - 1} | {draw.randrange(len(content)) for _ in range(60)}
    for place in sorted(places):
        bit = 1 << draw.randrange(8)
        content[place] ^= bit
        (folder / name).write_bytes(bytes(content))
        if name != WEIGHTS or not says_the_same(folder, saved):
            assert str(folder) in refused(folder), (place, bit)
        content[place] ^= bit
    (folder / name).write_bytes(bytes(content))
    parses(folder)


def text_of_facts(folder: Path) -> str:
    with safe_open(folder / WEIGHTS, "np") as file:
        return str(file.metadata()["gpuparse"])


def test_every_byte_of_the_header_and_the_facts_is_under_a_sum(folder: Path) -> None:
    """One bit of each, such as one in the digits of min_gain."""
    path = folder / WEIGHTS
    content = bytearray(path.read_bytes())
    for place in range(8 + int.from_bytes(content[:8], "little")):
        content[place] ^= 1 << place % 8
        path.write_bytes(content)
        with pytest.raises(ModelError):
            load_parser(folder)
        content[place] ^= 1 << place % 8
    path.write_bytes(content)
    parses(folder)


def says_the_same(folder: Path, other: Path) -> bool:
    """True if two weights files differ in nothing that is read."""
    try:
        facts, tensors = facts_of(folder)
    except Exception:
        return False
    wanted_facts, wanted = facts_of(other)
    return facts == wanted_facts and all(
        tensors[name].tobytes() == wanted[name].tobytes() for name in wanted
    )


@pytest.mark.parametrize(
    "value",
    [
        "missing", -0.5, float("nan"), float("inf"), float("-inf"), 1, 0, True, None, "0.5", [0.5],
        {},
    ],
    ids=repr,
)  # fmt: skip
def test_least_gains_that_are_missing_or_wrong_are_refused(folder: Path, value: object) -> None:
    facts, tensors = facts_of(folder)
    rewrite(folder, facts | {"min_gain": 0.0}, tensors)
    assert load_parser(folder).min_gain == 0
    changed = facts | {"min_gain": value}
    if value == "missing":
        del changed["min_gain"]
    rewrite(folder, changed, tensors)
    assert "min_gain" in refused(folder)


@pytest.mark.parametrize("decoder", ["hill_climb", "multi_parent"])
def test_a_large_least_gain_leaves_the_projective_trees(decoder: str, tmp_path: Path) -> None:
    """Put into the facts of a model, also one that no sum of weights reaches."""
    save_parser(trained(decoder=decoder), tmp_path)
    facts, tensors = facts_of(tmp_path)
    found = {}
    for gain in (0.0, 1e5, 1e30):
        rewrite(tmp_path, facts | {"min_gain": gain}, tensors)
        model = load_parser(tmp_path)
        for backend in ("cpu", "torch"):
            parse = model.parse(TEST, backend=backend)
            arcs = parse.heads if parse.graphs is None else parse.graphs.heads
            found[gain, backend] = arcs.tolist()
        assert found[gain, "cpu"] == found[gain, "torch"]
    assert found[0.0, "cpu"] != found[1e5, "cpu"]
    first = 0
    for sentence in TEST:
        heads = found[1e30, "cpu"][first : first + len(sentence.forms)]
        first += len(heads)
        assert brute_force.is_projective(tuple(heads))


@pytest.mark.parametrize("value", [0, 3, 4.0, "4", None, [4], {}, True])
def test_case_38_another_format(folder: Path, value: object) -> None:
    facts, tensors = facts_of(folder)
    rewrite(folder, facts, tensors, form=value)
    assert "format 5" in refused(folder)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "1", "null", '"gpuparse"', "{}", '{"format": 1}', "[" * 200_000, "NaN"]
)
def test_weird_metadata(folder: Path, text: str) -> None:
    _, tensors = facts_of(folder)
    rewrite(folder, text, tensors)
    assert str(folder) in refused(folder)


def test_case_40_unknown_facts_are_refused(folder: Path) -> None:
    facts, tensors = facts_of(folder)
    rewrite(folder, facts, tensors)
    parses(folder)
    rewrite(folder, facts | {"author": "🦊" * 1000, "more": [[]]}, tensors)
    assert "unknown or missing: 'author', 'more'" in refused(folder)


def test_case_38_another_programs_weights(folder: Path) -> None:
    save_file({"weight": np.zeros((3, 3), np.float32)}, folder / WEIGHTS)
    assert "not a gpuparse model" in refused(folder)
    save_file({}, folder / WEIGHTS, metadata={"format": "pt"})
    assert "not a gpuparse model" in refused(folder)


def test_types_that_numpy_lacks(folder: Path) -> None:
    save_torch_file({"w": torch.zeros(3, dtype=torch.bfloat16)}, folder / WEIGHTS)
    assert "not a gpuparse model" in refused(folder)


def test_no_weights_at_all(folder: Path) -> None:
    for content in (b"PK\x03\x04" + b"x" * 100, b"\x80\x04." * 50, b"# text\n" * 99):
        (folder / WEIGHTS).write_bytes(content)
        assert "damaged or not a weights file" in refused(folder)


def test_case_39_a_header_that_claims_to_be_huge(folder: Path) -> None:
    content = (folder / WEIGHTS).read_bytes()
    for size in (1 << 40, (1 << 64) - 1, len(content), 100_000_000):
        (folder / WEIGHTS).write_bytes(size.to_bytes(8, "little") + content[8:])
        assert "damaged" in refused(folder)


@pytest.mark.parametrize("name", ["arcs", "labels"])
def test_a_missing_tensor(folder: Path, name: str) -> None:
    facts, tensors = facts_of(folder)
    del tensors[name]
    rewrite(folder, facts, tensors)
    refused(folder)


@pytest.mark.parametrize("name", ["arcs", "labels"])
def test_changed_weights_are_noticed(folder: Path, name: str) -> None:
    _, tensors = facts_of(folder)
    tensors[name] = tensors[name].copy()
    tensors[name].flat[-1] += 1
    (folder / WEIGHTS).write_bytes(pack(text_of_facts(folder), tensors))
    assert f"'{name}' was changed or damaged after training" in refused(folder)


def test_relations_that_are_too_long(folder: Path) -> None:
    words = json.loads((folder / VOCABULARY).read_text())
    for length, is_refused in ((MAX_TAG, False), (MAX_TAG + 1, True), (100_000, True)):
        words["labels"][0] = "x" * length
        (folder / VOCABULARY).write_text(as_json(words))
        facts, tensors = facts_of(folder)
        facts["texts"][VOCABULARY] = sha256(as_json(words).encode())
        rewrite(folder, facts, tensors)
        if is_refused:
            assert f"{VOCABULARY}: a relation of more than 1,000 characters" in refused(folder)
        else:
            assert load_parser(folder).labels[0] == "x" * length


def test_files_of_two_models(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    save_parser(trained(sentences=TRAIN[5:9]), other)
    for name in (WEIGHTS, VOCABULARY):
        mixed = Path(shutil.copytree(folder, tmp_path / f"with {name}"))
        shutil.copy(other / name, mixed / name)
        assert f"'{VOCABULARY}' was changed or damaged" in refused(mixed)


def test_parses_do_not_depend_on_how_they_are_made(model: Parser) -> None:
    expected = model.parse(TEST, batch_size=1)
    for batch_size in (2, 64, 1000):
        for threads, backend in ((1, "auto"), (1, "torch"), (2, "cpu"), (5, "auto")):
            found = model.parse(TEST, batch_size=batch_size, threads=threads, backend=backend)
            assert found.heads.dtype == np.int32
            assert np.array_equal(found.heads, expected.heads)
            assert np.array_equal(found.labels, expected.labels)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
def test_parses_on_cuda_are_the_same(model: Parser) -> None:
    found, expected = model.parse(TEST, device="cuda"), model.parse(TEST)
    assert np.array_equal(found.heads, expected.heads)
    assert np.array_equal(found.labels, expected.labels)


def test_parses_do_not_depend_on_the_other_sentences(model: Parser) -> None:
    sentences = random_sentences(101, 30, 14)
    together = model.parse(TEST)
    first = 0
    for sentence in sentences:
        alone = model.parse(treebank_of([sentence]))
        assert np.array_equal(alone.heads, together.heads[first : first + len(sentence)])
        assert np.array_equal(alone.labels, together.labels[first : first + len(sentence)])
        first += len(sentence)
    assert first == len(together.heads)


def test_heads_and_labels_of_the_input_are_not_looked_at(model: Parser) -> None:
    blank = [
        [[*word[:6], "_", "_", *word[8:]] for word in sentence]
        for sentence in random_sentences(101, 30, 14)
    ]
    found, expected = model.parse(treebank_of(blank)), model.parse(TEST)
    assert np.array_equal(found.heads, expected.heads)
    assert np.array_equal(found.labels, expected.labels)


def test_case_18_nothing_known_is_parsed_all_the_same(model: Parser) -> None:
    words = [
        row(m, f"neu{m}", "_", "neu", lemma="neu", cpos="NEU", fpos="NEU", feats="Neu=Neu")
        for m in range(1, 12)
    ]
    for sentences in ([words], [words[:1]], [[row(1, "_", "_")]]):
        for backend in ("auto", "torch"):
            found = model.parse(treebank_of(sentences), backend=backend)
            heads = found.heads.tolist()
            assert heads.count(0) == 1 if model.single_root else heads.count(0) >= 1
            assert brute_force.is_tree(tuple(heads))
            assert found.labels is not None
            assert set(found.labels.tolist()) <= set(range(len(model.labels)))


def test_every_parse_is_a_tree_that_the_decoder_can_build(model: Parser) -> None:
    found, first = model.parse(TEST), 0
    for sentence in TEST:
        heads = tuple(found.heads[first : first + len(sentence.forms)].tolist())
        first += len(heads)
        assert brute_force.is_tree(heads)
        assert not DECODERS[model.decoder].is_projective or brute_force.is_projective(heads)
        assert not model.single_root or heads.count(0) == 1


def test_no_sentences(model: Parser) -> None:
    found = model.parse(treebank_of([]))
    assert found.heads.tolist() == []
    assert found.labels is not None
    assert found.labels.tolist() == []


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


def test_the_model_is_not_written_to_by_parsing(saved: Path, tmp_path: Path) -> None:
    model = load_parser(saved)
    model.parse(TEST)
    model.parse(TEST, backend="torch")
    save_parser(model, tmp_path)
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (saved / name).read_bytes()


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
    save_parser(model, tmp_path)
    again = load_parser(tmp_path)
    assert again.linear.templates == model.linear.templates
    assert np.array_equal(again.parse(TEST).heads, model.parse(TEST).heads)
    for backend in ("torch", "cpu"):
        found = again.parse(TEST, backend=backend, batch_size=5)
        assert np.array_equal(found.heads, model.parse(TEST).heads)
        assert np.array_equal(found.labels, model.parse(TEST).labels)


@pytest.mark.parametrize("label", [7, "a\tb", "a\nb"])
def test_relations_that_no_column_can_hold_are_refused(tmp_path: Path, label: object) -> None:
    changed = trained()
    changed.labels[0] = label
    save_parser(changed, tmp_path)
    with pytest.raises(ModelError):
        load_parser(tmp_path)


@pytest.fixture(scope="module")
def of_decoders() -> dict[str, Parser]:
    """A model trained with each decoder."""
    return {
        "eisner": trained(),
        "chu_liu_edmonds": trained(decoder="chu_liu_edmonds"),
        "eisner_sibling": trained(decoder="eisner_sibling", min_gain=0.0),
        "hill_climb": trained(decoder="hill_climb"),
        "multi_parent": trained(decoder="multi_parent"),
    }


PAIRS = [("eisner", "chu_liu_edmonds"), ("eisner_sibling", "hill_climb")]
SEARCHABLE = [*PAIRS, *[(other, own) for own, other in PAIRS]]


@pytest.mark.parametrize(("own", "other"), SEARCHABLE)
def test_another_decoder_searches_as_its_own_models_do(
    own: str, other: str, of_decoders: dict[str, Parser], tmp_path: Path
) -> None:
    model = of_decoders[own]
    forced = with_decoder(model, other)
    # The same weights in a model that says it was trained with the other decoder.
    save_parser(model, tmp_path)
    facts, tensors = facts_of(tmp_path)
    rewrite(tmp_path, facts | {"decoder": other}, tensors)
    found, expected = forced.parse(TEST), load_parser(tmp_path).parse(TEST)
    assert np.array_equal(found.heads, expected.heads)
    assert np.array_equal(found.labels, expected.labels)
    assert not np.array_equal(found.heads, model.parse(TEST).heads)
    assert np.array_equal(forced.parse(TEST, backend="torch").heads, found.heads)


# Those beyond the second order are in test_higher_order_models.py.
UP_TO_SECOND = [name for name, decoder in DECODERS.items() if not decoder.is_higher_order]


@pytest.mark.parametrize("own", UP_TO_SECOND)
@pytest.mark.parametrize("other", UP_TO_SECOND)
def test_decoders_that_a_model_lacks_something_for(
    own: str, other: str, of_decoders: dict[str, Parser]
) -> None:
    model = of_decoders[own]
    if own == other:
        found, expected = with_decoder(model, other).parse(TEST), model.parse(TEST)
        assert np.array_equal(found.heads, expected.heads)
    elif (own, other) not in SEARCHABLE:
        with pytest.raises(ConfigError, match="no option changes that") as caught:
            with_decoder(model, other)
        why = str(caught.value)
        assert own in why
        assert ("graphs" in why) == ("multi_parent" in (own, other))
        assert ("order" in why) == ("multi_parent" not in (own, other))


def test_an_unknown_decoder(of_decoders: dict[str, Parser]) -> None:
    with pytest.raises(ConfigError, match="unknown decoder 'best'"):
        with_decoder(of_decoders["eisner"], "best")


def test_a_model_search_decoder_another_decoder_is_saved_with_its_own(
    of_decoders: dict[str, Parser], tmp_path: Path
) -> None:
    model = with_decoder(of_decoders["eisner"], "chu_liu_edmonds")
    save_parser(model, tmp_path)
    assert load_parser(tmp_path).decoder == "eisner"
    back = with_decoder(model, "eisner")
    assert np.array_equal(back.parse(TEST).heads, of_decoders["eisner"].parse(TEST).heads)


def test_graphs_do_not_depend_on_how_they_are_found(
    of_decoders: dict[str, Parser], tmp_path: Path
) -> None:
    model = of_decoders["multi_parent"]
    save_parser(model, tmp_path)
    expected = model.parse(TEST, batch_size=1)
    assert expected.graphs is not None
    assert len(expected.graphs.heads) > expected.graphs.n_words
    for each in (model, load_parser(tmp_path)):
        for threads, backend in ((1, "torch"), (3, "cpu")):
            found = each.parse(TEST, batch_size=7, threads=threads, backend=backend)
            assert found.graphs is not None
            for name in ("starts", "heads", "relations"):
                assert np.array_equal(getattr(found.graphs, name), getattr(expected.graphs, name))
            assert np.array_equal(found.heads, expected.heads)
            assert np.array_equal(found.labels, expected.labels)

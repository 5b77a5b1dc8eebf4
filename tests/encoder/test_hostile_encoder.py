"""Hostile folders of models with an encoder: always a ModelError, quickly."""

import json
import shutil
from contextlib import suppress
from functools import partial

import numpy as np
import pytest

from gpuparse.data.array_file import sha256
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.errors import ModelError, ScoreError
from gpuparse.model.folder import load_parser
from tests.hostile_files import bounded, facts_of, rewrite

SECONDS, MEGABYTES = 5.0, 150
TEXTS = ("encoder.json", "encoder-tokenizer.json", "vocabulary.json")
WEIGHTS = "weights.safetensors"
SENTENCES = b"".join(
    f"{i}\t{form}".encode() + b"\t_" * 8 + b"\n"
    for i, form in enumerate(["The", "tall", "officer", "saw", "a", "cat", "."] * 30, 1)
) + b"\n"  # fmt: skip


class Folder:
    """A copy of a model's folder, to be changed."""

    def __init__(self, folder):
        self.path = folder
        self.facts, arrays = facts_of(folder)
        self.arrays = {name: np.array(array) for name, array in arrays.items()}
        self.texts = {name: (folder / name).read_text() for name in TEXTS}

    def json(self, name):
        return json.loads(self.texts[name])

    def put(self, name, content):
        self.texts[name] = json.dumps(content)

    def change(self, name, **keys):
        self.put(name, self.json(name) | keys)

    def edit(self, name, change):
        """change: a function that changes the content."""
        content = self.json(name)
        change(content)
        self.put(name, content)

    def write(self):
        """Write all with the right sums."""
        for name, text in self.texts.items():
            data = text.encode("utf-8", "surrogatepass")
            (self.path / name).write_bytes(data)
            self.facts["texts"][name] = sha256(data)
        rewrite(self.path, self.facts, self.arrays)


@pytest.fixture(scope="module", params=[8, 16], ids=["of-8-bits", "of-16-bits"])
def sound(models, request):
    name = f"of-{request.param}-bits"
    models.model("roberta", name, weights__bits=request.param)
    folder = models.model("bert", name, weights__bits=request.param)
    parse(folder)  # what is imported and compiled costs nothing later
    return folder


@pytest.fixture
def folder(sound, tmp_path):
    shutil.copytree(sound, tmp_path / "model")
    return Folder(tmp_path / "model")


def parse(path):
    from gpuparse.model.pipeline import NO_STAGES

    parser = load_parser(path)
    treebank = NO_STAGES.filled_by(parser).annotate(treebank_from_bytes(SENTENCES, "test"))
    return parser.parse(treebank)


def refused(path):
    """The message of the error; the model is loaded, and parses if that succeeds."""
    with bounded(SECONDS, MEGABYTES), pytest.raises(ModelError) as caught:
        parse(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_folder_that_is_written_again_is_sound(folder, sound):
    folder.write()
    assert (parse(folder.path).heads == parse(sound).heads).all()


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9, 0.9999])
def test_truncated_weights(folder, share):
    data = (folder.path / WEIGHTS).read_bytes()
    (folder.path / WEIGHTS).write_bytes(data[: int(len(data) * share)])
    refused(folder.path)


@pytest.mark.parametrize("name", TEXTS)
def test_missing_and_changed_texts(folder, name):
    data = (folder.path / name).read_bytes()
    (folder.path / name).write_bytes(data.replace(b"a", b"b", 1))
    assert name in refused(folder.path)
    (folder.path / name).write_bytes(b"\xff" + data)
    assert name in refused(folder.path)
    (folder.path / name).unlink()
    assert name in refused(folder.path)


def test_the_command_says_it_in_one_line(models, folder, capsys):
    folder.change("encoder.json", vocab_size=10)
    folder.write()
    capsys.readouterr()
    code, out = models.call(folder.path, SENTENCES)
    assert (code, out) == (4, b"")
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert len(said.strip().splitlines()) == 1


CONFIGS = {
    "unknown family": {"model_type": "gpt2"},
    "another family": {"model_type": "deberta-v2"},
    "no family": {"model_type": None},
    "family of another type": {"model_type": ["bert"]},
    "code": {"auto_map": {"AutoModel": "code.Model"}},
    "private": {"_name_or_path": "x"},
    "quantisation": {"quantization_config": {"load_in_8bit": True}},
    "no layers": {"num_hidden_layers": 0},
    "negative layers": {"num_hidden_layers": -1},
    "another layer": {"num_hidden_layers": 3},
    "many layers": {"num_hidden_layers": 256},
    "too many layers": {"num_hidden_layers": 10**9},
    "endless layers": {"num_hidden_layers": 10**30},
    "layers as a number with a point": {"num_hidden_layers": 2.0},
    "layers as text": {"num_hidden_layers": "2"},
    "layers as a truth": {"num_hidden_layers": True},
    "width": {"hidden_size": 64},
    "small width": {"hidden_size": 1},
    "large width": {"hidden_size": 1 << 15},
    "too large width": {"hidden_size": 1 << 40},
    "inner": {"intermediate_size": 50},
    "large inner": {"intermediate_size": 1 << 18},
    "heads that do not divide": {"num_attention_heads": 5},
    "more heads than numbers": {"num_attention_heads": 64},
    "smaller vocabulary": {"vocab_size": 10},
    "larger vocabulary": {"vocab_size": 90},
    "huge vocabulary": {"vocab_size": 1 << 24},
    "more positions": {"max_position_embeddings": 512},
    "fewer positions": {"max_position_embeddings": 3},
    "huge positions": {"max_position_embeddings": 1 << 20},
    "activation": {"hidden_act": "no such"},
    "activation of another type": {"hidden_act": 3},
    "padding outside": {"pad_token_id": 1000},
    "padding of another type": {"pad_token_id": "x"},
    "negative padding": {"pad_token_id": -5},
    "types": {"type_vocab_size": 0},
    "many types": {"type_vocab_size": 1 << 40},
    "epsilon": {"layer_norm_eps": "x"},
    "dropout": {"hidden_dropout_prob": 7.0},
    "a licence that is no text": {"license": ["mit"]},
    "a licence of two lines": {"license": "mit\n\x1b[2J"},
    "decoder": {"is_decoder": True},
    "cross attention": {"is_decoder": True, "add_cross_attention": True},
}
VALUES = {
    "NUL": lambda column: ["\0", *column[1:]],
    "tab": lambda column: ["a\tb", *column[1:]],
    "line": lambda column: ["a\nb", *column[1:]],
    "a surrogate": lambda column: ["\ud800", *column[1:]],
    "empty": lambda column: ["", *column[1:]],
    "space at the end": lambda column: ["a\r", *column[1:]],
    "long": lambda column: ["x" * 100_000, *column[1:]],
    "a number": lambda column: [3, *column[1:]],
    "null": lambda column: [None, *column[1:]],
    "a list": lambda column: [["x"], *column[1:]],
    "twice": lambda column: [column[1], *column[1:]],
    "one less": lambda column: column[1:],
    "one more": lambda column: [*column, "more"],
    "none": lambda column: [],
    "text": lambda column: "text",
    "a dict": lambda column: {"x": "y"},
    "no column": lambda column: None,
}


WORDS = {
    "another column": lambda words: words["values"].update(form=["a"]),
    "a column less": lambda words: words["values"].pop("upos"),
    "a key less": lambda words: words.pop("tags"),
    "a key more": lambda words: words.update(more=1),
    "tags that are not read": lambda words: words["tags"].update(upos=["", "X"]),
    "tags of another column": lambda words: words["tags"].update(lemma=["", "X"]),
    "tags of another type": lambda words: words.update(tags=[]),
    "values of another type": lambda words: words.update(values=[]),
    "no labels": lambda words: words.update(labels=[]),
}


FACTS = {
    "decoder of a higher order": {"decoder": "eisner_sibling"},
    "unknown decoder": {"decoder": "none"},
    "a unit of 0": {"arc_unit": 0.0},
    "a unit of another type": {"arc_unit": "1"},
    "a negative unit": {"label_unit": -1.0},
    "gain": {"min_gain": "x"},
    "root": {"single_root": 1},
    "more": {"more": 1},
    "another precision": {"precision": "float8"},
    "quantised of another type": {"quantised": 3},
    "quantised without sizes": {"quantised": {}},
    "quantised of other heads": {"quantised": {"epsilon": 1e-12, "heads": 5, "width": 32}},
    "quantised of another width": {"quantised": {"epsilon": 1e-12, "heads": 2, "width": 48}},
    "quantised of a huge width": {"quantised": {"epsilon": 1e-12, "heads": 2, "width": 1 << 60}},
    "another kind": {"kinds": {"parser": "linear"}},
    "unknown kind": {"kinds": {"parser": "none"}},
}


# What the weights of 8 bits carry themselves, or what no weight depends on, may be ignored.
IGNORED = {
    "of-8-bits": {
        "another family", "inner", "large inner", "heads that do not divide",
        "more heads than numbers", "larger vocabulary", "huge vocabulary", "activation",
        "activation of another type", "padding outside",
        "padding of another type", "negative padding", "types", "many types", "epsilon",
        "dropout", "decoder", "cross attention",
    },
    "of-16-bits": {"decoder", "dropout"},
}  # fmt: skip
OTHER_TEXTS = ["", "{", "[]", "null", "1", "{}", '{"a": 1, "a": 2}', "\0", "[" * 100_000,
               '{"hidden_size": NaN}']  # fmt: skip
SIZES = ["hidden_size", "num_hidden_layers", "vocab_size", "max_position_embeddings"]


def edited(name, change):
    """A change of a text's content."""
    return lambda folder: folder.edit(name, change)


def value(column, change):
    """A change of the values of a column, or of the relations."""

    def of_words(words):
        holder = words if column == "labels" else words["values"]
        holder[column] = change(holder[column])

    return edited("vocabulary.json", of_words)


def tokenizer(**keys):
    return lambda folder: folder.change("encoder-tokenizer.json", **keys)


def removing(**pattern):
    return tokenizer(normalizer={"type": "Replace", "pattern": pattern, "content": ""})


def far_piece(content):
    content["model"]["vocab"]["a"] = 100_000


def far_special_piece(content):
    content["post_processor"]["special_tokens"]["[CLS]"]["ids"] = [100_000]


CHANGES = {
    "a piece beyond the vocabulary": edited("encoder-tokenizer.json", far_piece),
    "a special piece beyond it": edited("encoder-tokenizer.json", far_special_piece),
    "an exponential expression": removing(Regex="(a+)+$"),
    "no pieces for a word": removing(String="a"),
    **{name: partial(Folder.change, name="encoder.json", **keys) for name, keys in CONFIGS.items()},
    **{f"no {key}": edited("encoder.json", lambda words, key=key: words.pop(key)) for key in SIZES},
    **{name: edited("vocabulary.json", change) for name, change in WORDS.items()},
    **{name: lambda folder, new=facts: folder.facts.update(new) for name, facts in FACTS.items()},
    **{
        f"{name}: {text[:9]!r}": lambda folder, new={name: text}: folder.texts.update(new)
        for name in TEXTS for text in OTHER_TEXTS
    },
    **{
        f"{column}: {name}": value(column, change)
        for column in ("upos", "xpos", "feats", "labels") for name, change in VALUES.items()
    },
}  # fmt: skip
SAID = {f"no {key}": [key] for key in SIZES} | {
    "an exponential expression": ["encoder-tokenizer.json", "(a+)+$"],
    "no pieces for a word": ["no pieces for the word 'a'"],
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_folder_is_refused(folder, sound, name):
    CHANGES[name](folder)
    folder.write()
    if name in IGNORED[sound.name.removeprefix("bert-")]:
        with bounded(SECONDS, MEGABYTES), suppress(ModelError):
            parse(folder.path)
        return
    said = refused(folder.path)
    for part in SAID.get(name, ["1,000 characters"] if name.endswith(": long") else []):
        assert part in said


def test_weights_of_another_architecture(models, folder, sound):
    other = sound.name.replace("bert-", "roberta-")
    facts, arrays = facts_of(models.folder / other)
    mine = {name for name in folder.arrays if name.startswith(("body.", "quantised."))}
    for name in mine:
        del folder.arrays[name]
    for name, array in arrays.items():
        if name.startswith(("body.", "quantised.")):
            folder.arrays[name] = np.array(array)
    if "quantised" in facts:
        folder.facts["quantised"] = facts["quantised"]
    folder.write()
    try:  # a vocabulary of another size is an error; the same architecture with as many is not
        with bounded(SECONDS, MEGABYTES):
            parse(folder.path)
    except ModelError:
        return
    shapes = {name: folder.arrays[name].shape for name in mine & folder.arrays.keys()}
    original = facts_of(sound)[1]
    assert all(original[name].shape == shape for name, shape in shapes.items())


def test_missing_renamed_and_added_arrays(folder):
    for name in sorted(folder.arrays):
        array = folder.arrays.pop(name)
        folder.write()
        refused(folder.path)
        folder.arrays[f"{name}x"] = array
        folder.write()
        refused(folder.path)
        del folder.arrays[f"{name}x"]
        folder.arrays[name] = array
    folder.arrays["more"] = np.zeros(3, np.float32)
    folder.write()
    refused(folder.path)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite(folder, number):
    for _, array in sorted(folder.arrays.items()):
        if array.dtype.kind != "f":
            continue
        kept = array.reshape(-1)[-1]
        array.reshape(-1)[-1] = number
        folder.write()
        refused(folder.path)
        array.reshape(-1)[-1] = kept


@pytest.mark.parametrize("change", ["type", "axis", "row", "empty"])
def test_arrays_of_other_types_and_shapes(folder, change):
    for name, array in sorted(folder.arrays.items()):
        if change == "type":
            other = array.astype(np.float64)
        elif change == "axis":
            other = array[None]
        elif change == "row":
            other = np.concatenate([array, array[-1:]])
        else:
            other = array[:0]
        folder.arrays[name] = other
        folder.write()
        assert refused(folder.path), name
        folder.arrays[name] = array


def test_huge_numbers_are_refused_or_give_trees(folder):
    for name, array in folder.arrays.items():
        if name.startswith("heads.") and array.dtype.kind == "f":
            array[...] = 3e38
    folder.write()
    try:
        with bounded(SECONDS, MEGABYTES):
            found = parse(folder.path)
    except (ModelError, ScoreError):
        return
    assert found.heads.min() == 0


ADDED = {"id": 100_000, "content": "officer", "single_word": False, "lstrip": False,
         "rstrip": False, "normalized": False, "special": False}  # fmt: skip


# Some words whose letters are removed have the unknown piece; the package itself numbers pieces.
@pytest.mark.parametrize(
    "change", [removing(String="officer"), tokenizer(added_tokens=[ADDED])], ids=["less", "more"]
)
def test_tokenisers_without_or_with_another_piece_of_a_word_are_read(folder, change):
    change(folder)
    folder.write()
    with bounded(SECONDS, MEGABYTES):
        assert parse(folder.path).heads.min() == 0


def test_a_tokeniser_without_an_unknown_piece(folder):
    def change(content):
        del content["model"]["vocab"]["[UNK]"]
        content["added_tokens"] = []

    folder.edit("encoder-tokenizer.json", change)
    folder.write()
    text = SENTENCES.replace(b"officer", "東京".encode())
    with bounded(SECONDS, MEGABYTES), pytest.raises(ModelError):
        load_parser(folder.path).parse(treebank_from_bytes(text, "test"))

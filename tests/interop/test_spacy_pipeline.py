"""A component and a tokeniser of spaCy with a model of all stages, whose words they keep."""

import pickle
import random
import shutil
import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import gpuparse
from gpuparse.api.results import Parsed
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.formats.paragraphs import SPACES
from gpuparse.data.formats.text import text_chunk
from gpuparse.errors import ConfigError, DataError, ModelError
from gpuparse.jobs.predictions import Result
from gpuparse.model.parser import Predictions
from gpuparse.text.conllu import surface_sentences
from tests.interop.test_programs import example
from tests.multiword_texts import raw_text
from tests.text.raw_texts import random_text

spacy = pytest.importorskip("spacy")
interop = pytest.importorskip("gpuparse.api.spacy")
pytestmark = pytest.mark.filterwarnings("ignore:.*not calibrated")
from spacy.tokens import Doc  # noqa: E402
from spacy.training.converters import conllu_to_docs  # noqa: E402

from gpuparse.api.spacy_docs import FIELDS, DocWords, add_extensions  # noqa: E402

BLANKS = set(map(chr, SPACES))


@pytest.fixture(scope="module")
def model(multiword_model) -> str:
    return str(multiword_model)


@pytest.fixture(scope="module")
def parser(model):
    return gpuparse.load(model, threads=1, single_root=True)


@pytest.fixture(scope="module")
def raw() -> str:
    return raw_text()


def pipeline(model: str, tokenizer: str = "", lang: str = "xx", **config):
    """A pipeline of the component, with the tokeniser of a model or that of spaCy."""
    own = {"@tokenizers": "gpuparse.Tokenizer.v1", "model": tokenizer}
    nlp = spacy.blank(lang, config={"nlp": {"tokenizer": own}} if tokenizer else {})
    nlp.add_pipe("gpuparse", config={"model": model, "threads": 1} | config)
    return nlp


@pytest.fixture(scope="module")
def nlp(model):
    return pipeline(model, model)


def cut(conllu: str) -> str:
    """CoNLL-U in which multiword tokens that are the text of their words are these words alone."""
    lines = conllu.split("\n")
    kept = []
    for i, line in enumerate(lines):
        row = line.split("\t")
        first, _, last = row[0].partition("-")
        if len(row) == 10 and last:
            words = [each.split("\t") for each in lines[i + 1 : i + 2 + int(last) - int(first)]]
            if "".join(word[1] for word in words) == row[1]:
                for k, word in enumerate(words[:-1], i + 1):
                    lines[k] = "\t".join([*word[:9], "SpaceAfter=No"])
                k, word = i + len(words), words[-1]
                lines[k] = "\t".join([*word[:9], row[9]])
                continue
        kept.append(lines[i])
    return "\n".join(kept)


def merged(conllu: str) -> list[list[tuple]]:
    """The tokens of each sentence as the converter of spaCy makes them, with their annotations."""
    docs = conllu_to_docs(conllu, n_sents=1, merge_subtokens=True, no_print=True)
    sentences = [tokens_of(doc[:]) for doc in docs]
    # A model may find other relations for roots, and `root` for other words.
    return [
        [
            (*token[:5], "ROOT" if token[6] == k else token[5].replace("ROOT", "root"), token[6])
            for k, token in enumerate(tokens)
        ]
        for tokens in sentences
    ]


def tokens_of(span) -> list[tuple]:
    """The tokens of a sentence without blanks; heads count tokens of this list."""
    tokens = [token for token in span if set(token.text) - BLANKS]
    numbers = {token.i: k for k, token in enumerate(tokens)}
    return [
        (
            t.text, t.lemma_, t.pos_, t.tag_, str(t.morph), t.dep_, numbers[t.head.i],
        )
        for t in tokens
    ]  # fmt: skip


def sentences_of(doc) -> list[list[tuple]]:
    return [tokens for span in doc.sents if (tokens := tokens_of(span))]


def test_docs_of_the_tokeniser_have_the_columns_of_parse_text(nlp, parser, raw):
    doc = nlp(raw)
    conllu = parser.parse_text(raw).to_conllu()
    assert doc.text == raw
    assert sentences_of(doc) == merged(cut(conllu))
    several = [token for token in doc if token._.mwt_words and len(token._.mwt_words) > 1]
    assert {"wthe", "wa", "ofe"} < {token.text for token in several}
    keys = ("form", "lemma", "upos", "xpos", "feats", "deprel")
    rows = [line.split("\t") for line in conllu.split("\n") if line[:1].isdigit()]
    places = {(1, 2, 3, 4, 5, 7)[k]: key for k, key in enumerate(keys)}
    found = [word for token in several for word in token._.mwt_words]
    expected = []
    for k, row in enumerate(rows):
        first, _, last = row[0].partition("-")
        words = rows[k + 1 : k + 2 + int(last) - int(first)] if last else []
        if "".join(word[1] for word in words) != row[1]:
            expected += [{key: w[c] for c, key in places.items() if w[c] != "_"} for w in words]
    assert found == expected


def test_the_text_of_docs_is_the_text_that_was_given(nlp, parser, raw):
    draw = random.Random(2)
    texts = [random_text(draw) for _ in range(150)]
    texts += [raw, "", " ", "\n\n", "\u200b", "a", "a  ", "  a", raw, "\n\na", "a\n", "\n", "b"]
    docs = list(map(nlp.tokenizer, texts))
    assert [doc.text for doc in docs] == texts
    for text, doc in zip(texts, docs, strict=True):
        found = parser.job().stages.tokenizer.split(text_chunk(text.encode(), "-"))
        sentences = list(surface_sentences(treebank_from_bytes(found.text, "-")))
        expected = []
        for sentence in sentences:
            for k, token in enumerate(sentence.tokens):
                is_cut = "".join(token.words) == token.text
                expected += [
                    (word, k + i == 0)
                    for i, word in enumerate(token.words if is_cut else [token.text])
                ]
        words = [(t.text, t.is_sent_start) for t in doc if set(t.text) - BLANKS]
        if expected and not set(doc[0].text) - BLANKS:  # the sentence begins with the blanks
            assert [token.is_sent_start for token in doc[:2]] == [True, False]
            words[0] = (words[0][0], True)
        assert words == expected
    assert [doc.text for doc in nlp.pipe(docs)] == texts


def test_tokens_of_another_tokeniser_are_split_for_parsing_alone(model, nlp, parser, raw):
    """A Doc of the model's tokens, none of them split, gets the trees of the text."""
    found = parser.parse_text(raw).to_conllu()
    surface = [s.tokens for s in surface_sentences(treebank_from_bytes(found.encode(), "-"))]
    tokens = [token for sentence in surface for token in sentence]
    words, spaces = [" \n"], [False]
    for token in tokens:
        after = " " if token.after is None else token.after
        words.append(token.text)
        spaces.append(after[:1] == " ")
        if after.removeprefix(" "):
            words.append(after.removeprefix(" "))
            spaces.append(False)
    component = pipeline(model)
    doc = component(Doc(component.vocab, words=words, spaces=spaces))
    assert doc.text == raw
    assert sentences_of(doc) == merged(found)
    other = next(token for token in doc if token.text == "didn't")
    assert [word["form"] for word in other._.mwt_words] == ["did", "n't"]
    # A second pass takes the words that the first one has found.
    before = sentences_of(doc)
    assert sentences_of(component(doc)) == before
    text = "The man sang wthe owl. They didn't see it."
    assert sentences_of(component(text))[0] == sentences_of(nlp(text))[0]


def given_doc(nlp, words: str, **columns) -> Doc:
    return Doc(nlp.vocab, words=words.split(), **columns)


def test_sentences_begin_where_the_doc_says_and_else_where_the_model_does(model):
    nlp = pipeline(model)
    words = "The man sang . The owls slept . She saw him ."

    def sizes(**columns):
        return [len(span) for span in nlp(given_doc(nlp, words, **columns)).sents]

    assert sizes() == [4, 4, 4]
    starts = [None] * 12
    assert sizes(sent_starts=starts) == [4, 4, 4]
    starts[2], starts[4] = True, False  # as far as it is given
    assert sizes(sent_starts=starts) == [2, 6, 4]
    assert sizes(sent_starts=[k == 0 for k in range(12)]) == [12]
    nlp.add_pipe("sentencizer", first=True, config={"punct_chars": ["sang"]})
    assert sizes() == [4, 8]  # the sentencizer puts the mark after the word into its sentence


def test_words_that_a_doc_has_are_taken_as_they_are(model, parser):
    nlp = pipeline(model)
    doc = given_doc(nlp, "She sang zz owl wthe man .")
    doc[2]._.mwt_words = [{"form": "with"}, {"form": "the"}]
    nlp(doc)
    [sentence] = parser.parse([["She", "sang", "with", "the", "owl", "wthe", "man", "."]])
    tags = [line.split("\t")[4] for line in sentence.to_conllu().split("\n")[:8]]
    assert [token.tag_ for token in doc] == [*tags[:2], "_".join(tags[2:4]), *tags[4:]]
    assert doc[4]._.mwt_words is None


def test_a_parser_alone_makes_no_sentences(model, tmp_path):
    folder = Path(shutil.copytree(model, tmp_path / "model"))
    (folder / "tokenizer.safetensors").unlink()
    nlp = pipeline(str(folder))
    doc = nlp(given_doc(nlp, "The man sang . The owls didn't sleep ."))
    assert len(list(doc.sents)) == 1
    assert doc[6]._.mwt_words is None
    with pytest.raises(ConfigError, match=r"model: has no tokeniser: train a model with tokenizer"):
        pipeline(model, str(folder))("a")


def test_multiword_tokens_are_not_split_where_the_parser_needs_tags_of_others(model, tmp_path):
    folder = Path(shutil.copytree(model, tmp_path / "model"))
    (folder / "tagger.safetensors").unlink()
    nlp = pipeline(str(folder), str(folder))
    words = ["The", "owls", "slept", "wthe", "man", "."]
    tags = ["DT", "NNS", "VBD", "IN", "NN", "."]
    pos = ["DET", "NOUN", "VERB", "ADP", "NOUN", "PUNCT"]
    made = nlp.make_doc(" ".join(words))
    assert [word["form"] for word in made[3]._.mwt_words] == ["with", "the"]
    for token, tag, part in zip(made, tags, pos, strict=True):
        token.tag_, token.pos_ = tag, part
    doc = nlp(made)
    [alone] = gpuparse.load(folder, single_root=True).parse(
        [{"form": words, "upos": pos, "xpos": tags}]
    )
    assert [0 if t.head == t else t.head.i + 1 for t in doc] == alone.heads
    assert [token.tag_ for token in doc] == tags
    lemmas = [line.split("\t")[2] for line in alone.to_conllu().split("\n")[:6]]
    assert [token.lemma_ for token in doc] == lemmas  # by the lemmatiser, which reads the tags


def test_tags_are_predicted_anew(model):
    words = "The owl sang wthe men ."
    columns = {
        "tags": ["", "XX", "", "YY", "", ""], "pos": ["X", "", "", "", "", ""],
        "lemmas": ["", "", "z", "", "", ""], "morphs": ["", "", "", "", "A=b", ""],
    }  # fmt: skip
    anew = pipeline(model)
    assert sentences_of(anew(given_doc(anew, words, **columns))) == sentences_of(
        anew(given_doc(anew, words))
    )


def test_docs_without_words(nlp, model):
    other = pipeline(model)
    for pipe in (nlp, other):
        for text in ("", " ", "\n\n", "\u200b \n"):
            doc = pipe(text)
            assert (doc.text, doc.has_annotation("DEP")) == (text, True)
            assert [t.dep_ for t in doc] == (["ROOT"] + ["dep"] * (len(doc) - 1) if text else [])
            assert {t.pos_ for t in doc if t.is_space} <= {"SPACE"}
    docs = [other.make_doc(text) for text in ("", "The man sang.", " ", "")]
    assert [len(list(doc.sents)) for doc in other.pipe(docs)] == [0, 1, 1, 0]


def test_tokens_with_characters_that_no_column_has(model, parser):
    nlp = pipeline(model)
    words = ["The", "man\tor", "a\0b", "\nsang", "x\r", "\ufeffowl", "."]
    doc = nlp(Doc(nlp.vocab, words=words))
    assert [token.text for token in doc] == words
    [sentence] = parser.parse([["The", "man or", "a\ufffdb", "sang", "x", "\ufeffowl", "."]])
    assert [0 if t.head == t else t.head.i + 1 for t in doc] == sentence.heads
    own = pipeline(model, model)
    with pytest.raises(DataError, match="NUL, which no text has"):
        own("a\0b")
    with pytest.raises(DataError, match="text: an unpaired surrogate at 1"):
        own.tokenizer("a\ud800")
    with pytest.raises(DataError, match="takes texts, and not int"):
        own.tokenizer(1)


def test_annotations_of_a_stream_do_not_depend_on_how_it_is_cut(nlp):
    texts = ["The man sang wthe owl.", "", "She didn't see it. They slept.", "\n", "A man."] * 3
    expected = [nlp(text).to_json() for text in texts]
    for options in ({"batch_size": 2}, {"batch_size": 100}, {"n_process": 2, "batch_size": 3}):
        found = list(nlp.pipe(texts, **options))
        assert [doc.to_json() for doc in found] == expected
        assert found[0][3]._.mwt_words == nlp(texts[0])[3]._.mwt_words
    pairs = list(nlp.pipe(zip(texts, range(15), strict=True), as_tuples=True))
    assert [(doc.text, number) for doc, number in pairs] == list(zip(texts, range(15), strict=True))


def test_docs_that_fail_go_to_the_error_handler(model, monkeypatch):
    nlp = pipeline(model)
    write = DocWords.write

    def failing(words, *given, **options):
        if "bad" in words.doc.text:
            raise DataError("a bad Doc")
        return write(words, *given, **options)

    monkeypatch.setattr(DocWords, "write", failing)
    texts = ["The man.", "A bad owl.", "She sang."]
    with pytest.raises(DataError, match="a bad Doc"):
        list(nlp.pipe(texts))
    failed = []
    nlp.set_error_handler(lambda name, proc, docs, error: failed.append((name, docs[0].text)))
    assert [doc.text for doc in nlp.pipe(texts)] == ["The man.", "She sang."]
    assert failed == [("gpuparse", "A bad owl.")]


def pickled(value):
    return pickle.loads(pickle.dumps(value))  # noqa: S301 (our own)


def copies_of(nlp, folder: Path) -> dict:
    """The pipeline as it comes back from a folder, from bytes and from a pickle."""
    nlp.to_disk(folder / "saved")
    moved = (folder / "saved").rename(folder / "moved")
    of_bytes = spacy.util.load_model_from_config(nlp.config).from_bytes(nlp.to_bytes())
    same = spacy.util.load_model_from_config(nlp.config).from_disk(moved)
    return {"load": spacy.load(moved), "bytes": of_bytes, "from_disk": same,
            "pickle": pickled(nlp), "pickle of bytes": pickled(of_bytes)}  # fmt: skip


@pytest.mark.parametrize("own", [True, False])
def test_saved_pipelines_have_the_whole_model(model, tmp_path, own, raw):
    folder = shutil.copytree(model, tmp_path / "model")
    nlp = pipeline(str(folder), str(folder) if own else "", probabilities=True)
    texts = [raw, "She didn't see wthe owl. They slept."]
    expected = [nlp(text) for text in texts]
    copies = copies_of(nlp, tmp_path)
    shutil.rmtree(folder)
    shutil.rmtree(tmp_path / "moved")
    for name, copy in copies.items():
        for text, doc in zip(texts, expected, strict=True):
            found = copy(text)
            assert found.to_json() == doc.to_json(), name
            assert found.user_data == doc.user_data, name


def test_saving_reads_the_model_first(model, tmp_path):
    nlp = pipeline(model, model)
    nlp.to_disk(tmp_path / "saved")  # before any Doc
    assert spacy.load(tmp_path / "saved")("The man didn't sing.")[3].text == "n't"
    nlp = spacy.load(tmp_path / "saved")
    nlp.to_disk(tmp_path / "saved")  # into the folder that it is from
    assert len(list(spacy.load(tmp_path / "saved")("She sang. They slept.").sents)) == 2


def test_damaged_models_are_refused(model, tmp_path):
    nlp = pipeline(model, model)
    nlp.to_disk(tmp_path / "saved")
    component, tokenizer = nlp.get_pipe("gpuparse"), nlp.tokenizer
    for file in ("tokenizer/tokenizer", "gpuparse/model/tagger", "gpuparse/model/weights"):
        folder = Path(shutil.copytree(tmp_path / "saved", tmp_path / file.replace("/", "-")))
        path = folder / f"{file}.safetensors"
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(ModelError, match=path.name):
            spacy.load(folder)
        path.unlink()
        if path.stem != "tagger":  # a model may lack it
            with pytest.raises(ModelError, match=f"{path.name}: no such file"):
                spacy.load(folder)
    for data in (
        spacy.util.to_bytes({}, ()),
        spacy.util.to_bytes({"config.yaml": lambda: b""}, ()),
    ):
        with pytest.raises(ModelError, match="files of a model are missing"):
            component.from_bytes(data)
    with pytest.raises(ModelError, match="tokenizer"):
        tokenizer.from_bytes(b"abc")
    for data in (b"abc", b"", b"\xc1"):
        with pytest.raises(
            ModelError, match=r"gpuparse: not the bytes|files of a model are missing"
        ):
            component.from_bytes(data)
    with pytest.raises(ModelError, match=r"weights\.safetensors"):
        component.from_bytes(spacy.util.to_bytes({"weights.safetensors": lambda: b"abc"}, ()))


def test_installed_models_are_given_by_name():
    assert [str(token) for token in pipeline("english", "english")("He can't.")] == [
        "He", "ca", "n't", ".",
    ]  # fmt: skip


def test_errors_name_the_model(model, tmp_path):
    with pytest.raises(ConfigError, match=r"Tokenizer\.v1: name a model"):
        interop.DocTokenizer(spacy.blank("xx").vocab, "")("a")
    with pytest.raises(ModelError, match="no such folder; a model is a folder"):
        pipeline(model, str(tmp_path / "nothing"))("a")
    with pytest.raises(ModelError, match="no such folder; a model is a folder"):
        pipeline(str(tmp_path / "nothing"), model)("a")
    nlp = spacy.blank("xx")
    nlp.add_pipe("gpuparse", name="trees")
    for call in (nlp.to_bytes, lambda: nlp("a b")):
        with pytest.raises(ConfigError, match="trees: name a model"):
            call()
    assert pickled(nlp.get_pipe("trees")).name == "trees"


def test_trees_of_multiword_tokens_are_those_of_the_converter_of_spacy():
    """Any trees, with any multiword tokens."""
    draw = random.Random(5)
    vocab = spacy.blank("xx").vocab
    add_extensions()
    tags, names = ["_", "NOUN", "VERB", "ADP"], ["obj", "nsubj", "case"]
    features = ["_", "A=x", "A=y|B=z", "B=y,z"]
    for _ in range(300):
        n = draw.randrange(1, 9)
        order = draw.sample(range(1, n + 1), n)  # each word is below one that is before it
        heads = [0] * n
        for k, word in enumerate(order[1:], 1):
            heads[word - 1] = order[draw.randrange(k)]
        rows, tokens = [], []
        while len(rows) < n:
            size = min(draw.choice([1, 1, 2, 3]), n - len(rows))
            first = len(rows) + 1
            tokens.append((f"t{first}", size))
            for k in range(first, first + size):
                rows.append([
                    str(k), f"w{k}", f"l{k}", draw.choice(tags[1:]), f"X{draw.choice(tags[1:])}",
                    draw.choice(features), str(heads[k - 1]), draw.choice(names), "_", "_",
                ])  # fmt: skip
        lines, words, marks, at = [], [], [], 0
        for text, size in tokens:
            if size > 1:
                lines.append("\t".join([f"{at + 1}-{at + size}", text, *"_" * 8]))
            else:
                rows[at][1] = text
            lines += ["\t".join(row) for row in rows[at : at + size]]
            words.append(text)
            marks.append([{"form": row[1]} for row in rows[at : at + size]] if size > 1 else None)
            at += size
        conllu = "\n".join(lines) + "\n\n"
        doc = Doc(vocab, words=words, sent_starts=[k == 0 for k in range(len(words))])
        for token, mark in zip(doc, marks, strict=True):
            if mark:
                token._.mwt_words = mark
        treebank = treebank_from_bytes(conllu.encode(), "-")
        labels = np.array([[names.index(row[7]) for row in rows]])
        found = Predictions(np.array(heads), labels[0])
        of_names = [name.encode() for name in names]
        result = Result(treebank=treebank, found=found, names=of_names, decoder="eisner")
        parsed = Parsed(result, np.array([n]))
        read = DocWords(doc)
        assert read.cut(splits=True) == n
        assert sum(read.forms, []) == [row[1] for row in rows]  # noqa: RUF017
        read.write(parsed, 0, FIELDS)
        assert sentences_of(doc) == merged(conllu)


def test_tags_and_features_that_spacy_does_not_hold():
    vocab = spacy.blank("xx").vocab
    conllu = "1\ta\ta\tNN\tN1\tsg|A=b\t2\tx\t_\t_\n2\tb\tb\tVERB\tV\tA=b=c\t0\ty\t_\t_\n\n"
    doc = Doc(vocab, words=["a", "b"])
    treebank = treebank_from_bytes(conllu.encode(), "-")
    found = Predictions(np.array([2, 0]), None)
    result = Result(treebank=treebank, found=found, names=[], decoder="eisner")
    parsed = Parsed(result, np.array([2]))
    words = DocWords(doc)
    words.cut(splits=True)
    with pytest.warns(UserWarning, match="no UPOS"), pytest.warns(UserWarning, match="Name=Value"):
        words.write(parsed, 0, FIELDS)
    assert [(t.pos_, t.tag_, str(t.morph), t.dep_) for t in doc] == [
        ("", "N1", "A=b", "dep"), ("VERB", "V", "", "ROOT"),
    ]  # fmt: skip


def test_probabilities_of_multiword_tokens_are_those_of_their_highest_word(model, parser):
    nlp = pipeline(model, model, probabilities=True)
    doc = nlp("He xsing wthe owl.")
    [sentence] = parser.parse_text(doc.text, probabilities=True)
    assert sentence.words == ["He", "must", "sing", "with", "the", "owl", "."]
    assert [token._.head_prob for token in doc] == [
        sentence.probabilities[k] for k in (0, 2, 3, 5, 6)
    ]
    assert doc[1].dep_ == "ROOT"
    assert doc[1].lemma_ == "must sing"


def test_what_the_component_assigns(nlp):
    meta = nlp.get_factory_meta("gpuparse")
    doc = nlp("She didn't see wthe owl.")
    for name in meta.assigns:
        owner, _, attribute = name.partition(".")
        if owner == "token" and not attribute.startswith("_."):
            assert doc.has_annotation({"is_sent_start": "SENT_START"}.get(attribute, attribute))
    assert nlp.analyze_pipes()["problems"] == {"gpuparse": []}


def test_what_pip_registers():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    names = {
        "spacy_factories": spacy.registry.factories,
        "spacy_tokenizers": spacy.registry.tokenizers,
    }
    for group, registry in names.items():
        for name, place in project["entry-points"][group].items():
            module, _, function = place.partition(":")
            assert getattr(import_module(module), function).__module__ == module
            assert name in registry
    assert set(project["entry-points"]["spacy_tokenizers"]) == {"gpuparse.Tokenizer.v1"}


def test_example(model, tmp_path, capsys):
    module = example("spacy_pipeline")
    (tmp_path / "in.txt").write_text("She sang wthe owl.\n\nThey didn't sleep.\n")
    module.parse_file(model, str(tmp_path / "in.txt"), str(tmp_path / "saved"))
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    doc = spacy.load(tmp_path / "saved")((tmp_path / "in.txt").read_text())
    assert rows == [[t.text, t.pos_, t.dep_, t.head.text] for t in doc if not t.is_space]
    assert len(rows) == 10

"""The component of spaCy fills in the trees that `parse` finds."""

import pytest

import gpuparse
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.errors import DataError
from tests.synthetic import generate

spacy = pytest.importorskip("spacy")
pytest.importorskip("gpuparse.api.spacy")
pytestmark = pytest.mark.filterwarnings("ignore:.*not calibrated")
from spacy.tokens import Doc  # noqa: E402 (spaCy may be missing)

TEXT = generate(20, 5)


@pytest.fixture(scope="module")
def nlp(model):
    made = spacy.blank("da")
    made.add_pipe("gpuparse", config={"model": model, "threads": 1, "probabilities": True})
    return made


def made_doc(vocab, sentences) -> Doc:
    """A Doc with the words and tags of sentences, and nothing of their trees."""

    def flat(name):
        return [None if v == "_" else v for s in sentences for v in getattr(s, name)]

    starts = [m == 0 for s in sentences for m in range(len(s))]
    return Doc(
        vocab, words=flat("forms"), tags=[t or "" for t in flat("pos")],
        pos=[t or "" for t in flat("cpos")], lemmas=[t or "" for t in flat("lemmas")],
        morphs=[t or "" for t in flat("feats")], sent_starts=starts,
    )  # fmt: skip


def trees_of(doc) -> list[tuple[list[int], list[str]]]:
    found = []
    for span in doc.sents:
        heads = [0 if t.head.i == t.i else t.head.i - span.start + 1 for t in span]
        found.append((heads, ["root" if t.dep_ == "ROOT" else t.dep_ for t in span]))
    return found


def test_docs_get_the_trees_of_their_words(nlp, model):
    sentences = list(treebank_from_bytes(TEXT, "text"))
    parsed = gpuparse.load(model, threads=1, single_root=True).parse(TEXT, probabilities=True)
    docs = [made_doc(nlp.vocab, sentences[k : k + 4]) for k in range(0, 20, 4)]
    docs.append(Doc(nlp.vocab))
    found = list(nlp.pipe(docs, batch_size=2))
    for k, doc in enumerate(found[:5]):
        expected = parsed[4 * k : 4 * k + 4]
        assert [len(span) for span in doc.sents] == [len(s) for s in expected]
        for (heads, deps), sentence in zip(trees_of(doc), expected, strict=True):
            assert heads == sentence.heads
            relations = [d if h else "root" for h, d in zip(heads, sentence.deprels, strict=True)]
            assert deps == relations
        assert [t._.head_prob for t in doc] == [p for s in expected for p in s.probabilities]
    assert len(found[5]) == 0
    [alone] = trees_of(nlp(made_doc(nlp.vocab, sentences[:1])))
    assert alone[0] == parsed[0].heads


def test_a_doc_without_sentences_is_one_and_blanks_hang_on_words(nlp):
    words = [" ", "a", "\n\n", "b", "\t"]
    doc = Doc(nlp.vocab, words=words, pos=["SPACE", "NOUN", "SPACE", "VERB", "SPACE"],
              tags=["", "NN", "", "VB", ""])  # fmt: skip
    doc = nlp(doc)
    assert len(list(doc.sents)) == 1
    assert [t.head.i for t in doc if t.is_space] == [1, 1, 3]
    assert sum(t.dep_ == "ROOT" for t in doc) == 1
    blank = nlp(Doc(nlp.vocab, words=["\n", " "]))
    assert [t.dep_ for t in blank] == ["ROOT", "dep"]


def test_errors_say_what_to_do(model):
    nlp = spacy.blank("da")
    nlp.add_pipe("gpuparse", config={"model": model})
    with pytest.raises(DataError, match="put components that set tags"):
        nlp("a b")

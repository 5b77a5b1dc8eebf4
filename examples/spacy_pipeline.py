"""Parse with a pipeline of spaCy: python examples/spacy_pipeline.py MODEL IN.conllu

The tags are those of the file; in your pipeline a tagger sets them.
"""

import sys
from pathlib import Path

import spacy
from spacy.tokens import Doc
from spacy.training.converters import conllu_to_docs

import gpuparse.interop.spacy  # noqa: F401 (needed from a checkout; pip registers the component)


def parse_docs(model: str, docs: list[Doc]) -> list[Doc]:
    """The Docs with heads and relations."""
    nlp = spacy.blank("xx")
    nlp.add_pipe("gpuparse", config={"model": model})
    return list(nlp.pipe(docs))


if __name__ == "__main__":
    model, source = sys.argv[1:]
    for doc in parse_docs(model, list(conllu_to_docs(Path(source).read_text()))):
        for token in doc:
            print(token.i, token.text, token.head.i, token.dep_)

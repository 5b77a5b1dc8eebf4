"""Raw text to trees with a pipeline of spaCy: python examples/spacy_pipeline.py MODEL IN.txt FOLDER

MODEL has a tokeniser, a tagger, a lemmatiser and a parser, as `gpuparse train pipeline` makes them.
The pipeline is saved in FOLDER; `spacy.load(FOLDER)` gives it back without MODEL.
"""

import sys
from pathlib import Path

import spacy
from spacy.language import Language

import gpuparse.api.spacy  # noqa: F401 (needed from a checkout; pip registers the names)


def make_pipeline(model: str) -> Language:
    """A pipeline with the tokeniser of a model and all its other stages."""
    tokenizer = {"@tokenizers": "gpuparse.Tokenizer.v1", "model": model}
    nlp = spacy.blank("xx", config={"nlp": {"tokenizer": tokenizer}})
    nlp.add_pipe("gpuparse", config={"model": model})
    return nlp


def parse_file(model: str, source: str, folder: str) -> None:
    """Print the tokens of a text with part of speech, relation and head; save the pipeline."""
    nlp = make_pipeline(model)
    for token in nlp(Path(source).read_text(encoding="utf-8")):
        if not token.is_space:
            print(token.text, token.pos_, token.dep_, token.head.text)
    nlp.to_disk(folder)


if __name__ == "__main__":
    parse_file(*sys.argv[1:])

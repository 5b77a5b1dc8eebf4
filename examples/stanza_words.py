"""Parse what Stanza has tagged: python examples/stanza_words.py MODEL LANGUAGE < text"""

import sys

import stanza

import gpuparse


def parse_document(model: str, document: stanza.Document) -> gpuparse.Parsed:
    """The trees of a Document that has words and tags."""
    return gpuparse.load(model).parse(f"{document:C}")


if __name__ == "__main__":
    model, language = sys.argv[1:]
    tag = stanza.Pipeline(language, processors="tokenize,mwt,pos,lemma")
    print(parse_document(model, tag(sys.stdin.read())).to_conllu(), end="")

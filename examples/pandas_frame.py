"""Parse a pandas frame: python examples/pandas_frame.py MODEL IN.json OUT.json

The frame has a row per word: columns sentence, form, upos, ...; head and deprel are added.
"""

import sys

import pandas

import gpuparse


def parse_words(model: str, words: pandas.DataFrame) -> pandas.DataFrame:
    """The frame of words with the columns head and deprel."""
    sentences = words.groupby("sentence", sort=False).agg(list).reset_index()
    parsed = gpuparse.load(model).parse(sentences).to_pandas()
    lists = [name for name in parsed.columns if name != "sentence"]
    return parsed.explode(lists, ignore_index=True)[[*words.columns, "head", "deprel"]]


if __name__ == "__main__":
    model, source, target = sys.argv[1:]
    parse_words(model, pandas.read_json(source)).to_json(target, orient="records")

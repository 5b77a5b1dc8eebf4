"""Parse a Hugging Face dataset: python examples/hugging_face_datasets.py MODEL INPUT OUTPUT

INPUT and OUTPUT are Parquet files with a row per sentence and list columns form, upos, ...
"""

import sys

import datasets
import pyarrow

import gpuparse


def parse_dataset(model: str, dataset: datasets.Dataset) -> datasets.Dataset:
    """The dataset with the columns head and deprel."""
    parser = gpuparse.load(model)

    def parse(batch: pyarrow.Table) -> pyarrow.Table:
        return parser.parse(batch).to_arrow()

    return dataset.with_format("arrow").map(parse, batched=True, batch_size=5000).with_format(None)


if __name__ == "__main__":
    model, source, target = sys.argv[1:]
    loaded = datasets.load_dataset("parquet", data_files=source, split="train")
    parse_dataset(model, loaded).to_parquet(target)

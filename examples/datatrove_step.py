"""A step of a datatrove pipeline that parses documents: examples/datatrove_step.py MODEL IN OUT

Documents have their sentences in metadata["sentences"]: a list of dicts of lists with the keys
form, upos, ...; each gets head and deprel. IN and OUT are folders of JSON lines.
"""

import sys
from itertools import islice

from datatrove.data import DocumentsPipeline
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers.jsonl import JsonlWriter

import gpuparse


class Parse(PipelineStep):
    """Parses the sentences of documents, some documents at a time."""

    name, type = "gpuparse", "🌳 - PARSER"

    def __init__(self, model: str, documents: int = 100):
        super().__init__()
        self.model, self.documents = model, documents

    def run(self, data: DocumentsPipeline, rank: int = 0, world_size: int = 1) -> DocumentsPipeline:
        parser = gpuparse.load(self.model, threads=1)  # once per task; tasks are processes
        left = iter(data)
        while documents := list(islice(left, self.documents)):
            with self.track_time(unit="batch"):
                sentences = [s for each in documents for s in each.metadata["sentences"]]
                for sentence, found in zip(sentences, parser.parse(sentences), strict=True):
                    sentence |= {"head": found.heads, "deprel": found.deprels}
                self.stat_update("sentences", value=len(sentences))
            yield from documents


def parse_folder(model: str, source: str, target: str, logs: str | None = None) -> None:
    steps = [JsonlReader(source), Parse(model), JsonlWriter(target, compression=None)]
    LocalPipelineExecutor(pipeline=steps, tasks=1, logging_dir=logs).run()


if __name__ == "__main__":
    parse_folder(*sys.argv[1:])

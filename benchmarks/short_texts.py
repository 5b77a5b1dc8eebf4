"""One sentence of raw text at a time, as a service gets them: CPU time of calls and tokens."""

import argparse
import time
from collections.abc import Callable

import gpuparse
from benchmarks.registry import Report, median_times

GATE = ("tests/text/test_views.py", "tests/sequences/test_sequences.py")
SENTENCE = "She sings an old song about the sea every morning."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model and the text."""
    parser.add_argument("model", help="folder of a model with a tokeniser and a parser")
    parser.add_argument("--text", default=SENTENCE, help="what is parsed again and again")


def run(options: argparse.Namespace) -> Report:
    """Milliseconds of CPU time of a call, all threads together."""
    parser = gpuparse.load(options.model, threads=options.threads)
    parsed = parser.parse_text(options.text)
    of_words = [[word for sentence in parsed for word in sentence.words]]
    contestants: dict[str, Callable[[], object]] = {
        "parse_text": lambda: parser.parse_text(options.text),
        "parse_text, and its tokens": lambda: _read_tokens(parser.parse_text(options.text)),
        "parse_text, to_dict": lambda: [s.to_dict() for s in parser.parse_text(options.text)],
        "parse, of its words": lambda: parser.parse(of_words),
    }
    seconds = median_times(contestants, options, least=0.05, clock=time.process_time)
    return Report(
        f"CPU time of one call, {len(of_words[0])} words",
        ["call", "ms"],
        [[name, 1e3 * each] for name, each in seconds.items()],
    )


def _read_tokens(parsed: gpuparse.Parsed) -> list[tuple[object, ...]]:
    """The attributes of tokens that programs mostly read."""
    return [
        (token.form, token.lemma, token.upos, token.feats, token.head, token.deprel, token.start)
        for sentence in parsed
        for token in sentence
    ]

"""A treebank with several copies of each sentence, which differ in comments."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpuparse.data.treebank import Treebank

_LINE_FEED = 10


def repeated(treebank: Treebank, comments: Sequence[Sequence[Sequence[str]]]) -> Treebank:
    """The treebank with its sentences repeated, one copy after the other.

    Args:
        comments: for each sentence and copy, at least one, the lines that stand after the
            sentence's own comments, without line ends; each begins with `#`.
    Returns: a treebank whose bytes are those of the copies; what is between sentences comes once,
        what the writer leaves out not at all. `lines` are those of the original.
    Raises: ValueError for a sentence without copies, or lists that do not fit the treebank.
    Cost: one copy of the bytes for each; some microseconds a sentence.
    """
    if len(comments) != len(treebank) or not all(comments):
        raise ValueError(f"{len(comments)} lists of copies, some perhaps empty, do not fit")
    text = treebank.data.tobytes()
    starts = treebank.word_starts
    pieces: list[bytes] = []
    at, done, span = 0, 0, 0  # bytes written, bytes read, spans passed
    moved, spans, words = [], [], []

    def add(piece: bytes) -> None:
        nonlocal at
        pieces.append(piece)
        at += len(piece)

    def pass_to(offset: int) -> None:
        nonlocal done, span
        while span < len(treebank.dropped) and treebank.dropped[span, 0] < offset:
            add(text[done : treebank.dropped[span, 0]])
            done = int(treebank.dropped[span, 1])
            span += 1
        add(text[done:offset])
        done = offset

    for s, copies in enumerate(comments):
        start, end = (int(offset) for offset in treebank.spans[s])
        pass_to(start)
        first_row = _after_comments(text, start)
        last = text.rfind(b"\n", 0, end)
        line_end = b"\r\n" if last > 0 and text[last - 1 : last] == b"\r" else b"\n"
        of_sentence = np.arange(starts[s], starts[s + 1])
        for number, lines in enumerate(copies):
            if number:
                add((b"" if text[end - 1] == _LINE_FEED else line_end) + line_end)
            began = at
            add(text[start:first_row] + b"".join(line.encode() + line_end for line in lines))
            moved.append(np.full(len(of_sentence), at - first_row))
            add(text[first_row:end])
            spans.append((began, at))
            words.append(of_sentence)
        done = end
    pass_to(len(text))
    index = np.concatenate([*words, np.empty(0, np.int64)])
    offsets = np.concatenate([*moved, np.empty(0, np.int64)])
    return replace(
        treebank,
        data=np.array(np.frombuffer(b"".join(pieces), np.uint8)),
        columns=treebank.columns[index] + offsets[:, None],
        word_starts=np.concatenate([[0], np.cumsum([len(part) for part in words], dtype=np.int64)]),
        heads=treebank.heads[index],
        lines=treebank.lines[index],
        spans=np.array(spans, np.int64).reshape(-1, 2),
        dropped=np.empty((0, 2), np.int64),
    )


def _after_comments(text: bytes, start: int) -> int:
    """Offset of the first line from `start` on that is no comment."""
    while text.startswith(b"#", start):
        start = text.index(b"\n", start) + 1
    return start

"""Random texts, and tokens drawn at random in them."""

import random

import numpy as np

from gpuparse.data.formats.paragraphs import are_spaces, byte_offsets, code_points, segments
from gpuparse.text.conllu import NEW_DOCUMENT, NEW_PARAGRAPH, NO_PARAGRAPH, TokenTable

_RANGES = [
    (0x20, 0x7F), (0x20, 0x7F), (0x61, 0x7B), (0x61, 0x7B), (0xA0, 0x250), (0x300, 0x370),
    (0x370, 0x600), (0x600, 0x700), (0x900, 0xA00), (0x2000, 0x2070), (0x3000, 0x3100),
    (0x4E00, 0x4F00), (0xFE00, 0xFF00), (0x1F300, 0x1F700), (1, 0x20), (1, 0x110000),
]  # fmt: skip


def random_text(draw: random.Random, longest: int = 60) -> str:
    """A text of characters of all kinds, many spaces and line ends, none of them NUL."""
    text = []
    for _ in range(draw.randrange(longest)):
        if draw.random() < 0.25:
            text.append(draw.choice(["\n", "\r\n", " ", "  ", "\t", "\n\n", " \n \n", "\u2029"]))
        else:
            code = draw.randrange(*draw.choice(_RANGES))
            text.append("?" if 0xD800 <= code < 0xE000 else chr(code))
    return "".join(text)


def random_tokens(draw: random.Random, text: bytes) -> TokenTable:
    """Runs of characters that are no spaces, cut at random into tokens and sentences."""
    codes = code_points(text)
    spaces = are_spaces(codes)
    first = dict(zip(*map(np.ndarray.tolist, segments(codes, spaces)), strict=True))
    offsets = byte_offsets(codes).tolist()
    starts, ends, sentence_starts, begins, numbers = [], [], [], [], []
    of_segment, segment, characters = [], 0, []
    words, word_starts, pool = 0, [0], [b""]
    is_new = True
    for i, is_space in enumerate(spaces.tolist()):
        if i in first:
            segment += 1
            is_new = True
            kind = NEW_PARAGRAPH if first[i] else NO_PARAGRAPH
            kind = NEW_DOCUMENT if i == 0 else kind
        if is_space:
            continue
        if i == 0 or spaces[i - 1] or draw.random() < 0.3 or is_new:
            if is_new or draw.random() < 0.2:
                numbers.append(1 if is_new else numbers[-1] + 1)
                begins.append(kind if is_new else NO_PARAGRAPH)
                of_segment.append(segment)
                sentence_starts.append(len(starts))
                is_new = False
            starts.append(offsets[i])
            characters.append([i, i])
            ends.append(0)
            n = draw.choice([0, 0, 0, 1, 2, 3])
            words += n
            word_starts.append(words)
            pool += [draw.choice(["a", "ß", "語"]).encode() for _ in range(n)]
        ends[-1] = offsets[i + 1]
        characters[-1][1] = i + 1
    sentence_starts.append(len(starts))
    return TokenTable(
        *(np.array(offsets, np.int64) for offsets in (starts, ends, sentence_starts)),
        np.array(begins, np.uint8),
        np.array(of_segment, np.int64),
        np.array(numbers, np.int64),
        np.array(word_starts, np.int64),
        np.frombuffer(b"".join(pool), np.uint8),
        np.cumsum([len(word) for word in pool]).astype(np.int64),
        np.array(characters if draw.random() < 0.3 else [], np.int64).reshape(-1, 2),
        True,
        np.frombuffer(draw.choice([b"", b"doc 1"]), np.uint8),
    )  # fmt: skip

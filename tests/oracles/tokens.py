"""Tokens as CoNLL-U, in plain Python."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from gpuparse.data.formats.paragraphs import SPACES

_ESCAPES = str.maketrans(
    {chr(code): f"\\u{code:04X}" for code in SPACES}
    | {" ": "\\s", "\t": "\\t", "\r": "\\r", "\n": "\\n"}
)


def write_tokens(text: np.ndarray, table: Any) -> bytes:
    """As `gpuparse.text.conllu.write_tokens`."""
    return "".join(_sentences(text.tobytes(), table)).encode()


def _sentences(text: bytes, table: Any) -> Iterator[str]:
    starts, ends = table.starts.tolist(), table.ends.tolist()
    words = table.words.tobytes()
    tokens = [text[a:b].decode() for a, b in zip(starts, ends, strict=True)]
    next_starts = [*starts[1:], len(text)][: len(ends)]
    after = [text[a:b].decode() for a, b in zip(ends, next_starts, strict=True)]
    bounds = table.sentence_starts.tolist()
    for s, begins in enumerate(table.begins.tolist()):
        first, last = bounds[s], bounds[s + 1]
        is_end = table.ends_paragraph if s + 2 == len(bounds) else bool(table.begins[s + 1])
        name = table.document.tobytes().decode()
        yield (f"# newdoc id = {name}\n" if name else "# newdoc\n") * (begins > 1)
        yield "# newpar\n" * (begins > 0) + "# sent_id = " + (name and f"{name}-")
        yield f"{table.segments[s]}-{table.numbers[s]}\n# text = "
        for t in range(first, last):
            yield tokens[t] + (" " if after[t] and t + 1 < last else "")
        yield "\n"
        number = 1
        for t in range(first, last):
            misc = [f"SpacesBefore={text[: starts[0]].decode().translate(_ESCAPES)}"]
            if t or not starts[0]:
                misc.clear()
            if not after[t]:
                misc.append("SpaceAfter=No")
            elif after[t] != " " or (is_end and t + 1 == last):
                misc.append(f"SpacesAfter={after[t].translate(_ESCAPES)}")
            if len(table.characters):
                misc.append("TokenRange={}:{}".format(*table.characters[t].tolist()))
            a, b = table.word_starts[t : t + 2].tolist()
            column = "|".join(misc) or "_"
            if b - a < 2:
                yield f"{number}\t{tokens[t]}\t_\t_\t_\t_\t_\t_\t_\t{column}\n"
                number += 1
                continue
            yield f"{number}-{number + b - a - 1}\t{tokens[t]}\t_\t_\t_\t_\t_\t_\t_\t{column}\n"
            for w in range(a, b):
                form = words[table.word_ends[w] : table.word_ends[w + 1]].decode()
                yield f"{number}\t{form}\t_\t_\t_\t_\t_\t_\t_\t_\n"
                number += 1
        yield "\n"

"""Arrow files whose memory is not as they say: parsed, or refused in one line."""

from __future__ import annotations

import io
import random

import pyarrow
from pyarrow import ipc

from gpuparse.commands import parse
from gpuparse.data.conll import treebank_from_bytes
from tests.campaign.bench import Bench
from tests.campaign.running import call, check_end
from tests.synthetic import generate

KINDS = {
    "string": pyarrow.string(), "large": pyarrow.large_string(), "view": pyarrow.string_view(),
    "dictionary": pyarrow.dictionary(pyarrow.int32(), pyarrow.string()),
}  # fmt: skip


def tables(draw: random.Random, bench: Bench) -> list[str]:
    """One Arrow file of which numbers are changed, those of offsets and indices mostly."""
    kind, file = draw.choice(list(KINDS)), bench.place() / "table.arrow"
    content = bytearray(arrow_file(KINDS[kind], draw))
    for _ in range(draw.choice([1, 1, 2, 5])):
        # Buffers begin at multiples of 8; the ends of the file are its description.
        at = 4 * draw.randrange(len(content) // 4)
        value = draw.choice([-1, 1, 7, 1000, 2**31 - 1, -(2**31), draw.randrange(2**31)])
        content[at : at + 4] = value.to_bytes(4, "little", signed=True)
    file.write_bytes(content)
    words = [bench.model(), file, "--threads", 1, "--allow-missing"]
    ended = call(parse.main, [*words, "--on-error", draw.choice(["fail", "skip"])], file.parent)
    check_end(ended, [0, 1, 3])
    return [f"{kind}: exit {ended.code}"]


def arrow_file(kind: pyarrow.DataType, draw: random.Random) -> bytes:
    """Some sentences in the memory of a record batch, and a column that is passed over."""
    treebank = treebank_from_bytes(generate(draw.randint(1, 4), draw.randrange(50)), "text")
    table = pyarrow.table(
        {
            "form": pyarrow.array([s.forms for s in treebank], pyarrow.list_(kind)),
            "upos": pyarrow.array([s.cpos for s in treebank], pyarrow.large_list(kind)),
            "text": pyarrow.array([" ".join(s.forms) for s in treebank]),
        }
    )
    written = io.BytesIO()
    with ipc.new_file(written, table.schema) as writer:
        writer.write_table(table)
    return written.getvalue()

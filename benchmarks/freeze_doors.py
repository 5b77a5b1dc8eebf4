"""Results of Python's doors: `python benchmarks/freeze_doors.py MODEL`, in a folder of inputs.

Prints one SHA-256 for each door, kind of input and options, as JSON. `benchmarks.freeze` runs it
with the code of a checkout, so it uses nothing but what `import gpuparse` and `gpuparse.api`
offer.
"""

import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import ipc, parquet

import gpuparse
from gpuparse.api.workers import WorkerParser

FIELDS = {1: "form", 2: "lemma", 3: "upos", 4: "xpos", 5: "feats", 6: "head", 7: "deprel"}
OPTIONS: dict[str, dict[str, Any]] = {
    "": {},
    "probabilities": {"probabilities": True},
    "mbr": {"mbr": True},
    "kbest": {"kbest": 3},
    "kbest, probabilities": {"kbest": 3, "probabilities": True},
    "deps": {"deps": "tree"},
}
OF_COLUMNS: dict[str, dict[str, Any]] = {
    "keep": {"keep": "tags"},
    "keep, probabilities": {"keep": "tags", "probabilities": True},
    "keep_heads": {"keep_heads": True},
}


def sentences_of(text: str) -> list[list[dict[str, Any]]]:
    """The words of CoNLL-U without multiword tokens and empty nodes, as dicts."""
    sentences = []
    for part in text.strip().split("\n\n"):
        rows = [line.split("\t") for line in part.split("\n") if line[0].isdigit()]
        words = [row for row in rows if row[0].isdigit()]
        sentences.append(
            [
                {name: row[i] for i, name in FIELDS.items() if row[i] != "_"}
                | ({"head": int(row[6])} if row[6] != "_" else {})
                for row in words
            ]
        )
    return sentences


def write_tables(text: str) -> None:
    """The sentences as Parquet and Arrow files, with a column of the user's own."""
    sentences = sentences_of(text)
    columns = {
        name: [[word.get(name) for word in sentence] for sentence in sentences]
        for name in FIELDS.values()
    }
    table = pyarrow.table({"page": list(range(len(sentences))), **columns})
    parquet.write_table(table, "table.parquet")
    with ipc.new_file("table.arrow", table.schema) as writer:
        writer.write_table(table)


def outcome(work: Callable[[], Any]) -> str:
    """The SHA-256 of what a door gives, or the error."""
    try:
        found = work()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    content = found if isinstance(found, bytes) else str(found).encode()
    return hashlib.sha256(content).hexdigest()


def everything(parsed: Any) -> str:
    """All that results offer."""
    parts = []
    for s in parsed:
        trees = [tuple(tree) if isinstance(tree, tuple) else vars(tree) for tree in s.trees]
        parts.append(
            (
                s.words, s.heads, s.deprels, s.probabilities, s.deprel_probabilities,
                s.tag_probabilities, s.deps, s.certified, s.sent_id, trees, s.to_conllu(),
            )
        )  # fmt: skip
    return repr(parts)


def table_text(parsed: Any) -> str:
    """The table of results as text, in which NaN equals itself."""
    return str(parsed.to_arrow().to_pydict())


def doors(model: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Names of doors with kinds of input and options, and what they do."""
    parser = gpuparse.load(model, threads=1)
    single = gpuparse.load(model, threads=1, single_root=True)
    tagged, known = Path("input.conllu").read_text(), Path("known.conllu").read_text()
    dicts, text = sentences_of(known), Path("text.txt").read_text()
    objects = {
        "words": [[word["form"] for word in sentence] for sentence in dicts],
        "pairs": [[(word["form"], word["xpos"]) for word in s] for s in dicts],
        "dicts": dicts,
        "columns": {
            name: [[word.get(name) for word in s] for s in dicts]
            for name in ("form", "upos", "xpos")
        },
        "conllu": tagged,
        "bytes": tagged.encode(),
        "table": parquet.read_table("table.parquet"),
        "pandas": parquet.read_table("table.parquet").to_pandas(),
    }
    for what, options in (OPTIONS | OF_COLUMNS).items():
        for kind, given in objects.items():
            if "keep_heads" in options and kind in ("conllu", "bytes"):
                given = known if kind == "conllu" else known.encode()
            yield (
                f"parse {kind} {what}",
                lambda given=given, options=options: everything(parser.parse(given, **options)),
            )
            if kind in ("table", "pandas", "dicts"):
                yield (
                    f"to_arrow {kind} {what}",
                    lambda given=given, options=options: table_text(parser.parse(given, **options)),
                )
        for name in ("known.conllu", "table.parquet", "table.arrow"):
            yield (
                f"parse_file {name} {what}",
                lambda name=name, options=options: written(parser, name, options),
            )
            yield (
                f"stream {name} {what}",
                lambda name=name, options=options: everything(parser.stream(name, **options)),
            )
    for what, options in OPTIONS.items():
        yield (
            f"parse_text {what}",
            lambda options=options: everything(parser.parse_text(text, **options)),
        )
        for name, kind in (("text.txt", {}), ("words.vert", {"input": "vertical"})):
            yield (
                f"parse_file {name} {what}",
                lambda name=name, o=options | kind: written(parser, name, o),
            )
            yield (
                f"stream {name} {what}",
                lambda name=name, o=options | kind: everything(parser.stream(name, **o)),
            )
    yield "single root", lambda: everything(single.parse(tagged))
    yield "stream objects", lambda: everything(parser.stream(iter(dicts)))
    yield "first of a stream", lambda: everything(islice(parser.stream("text.txt"), 3))
    for on_error in ("fail", "skip", "keep"):
        yield (
            f"parse_file {on_error}",
            lambda on_error=on_error: written(parser, "malformed.conllu", {"on_error": on_error}),
        )
    of_worker = WorkerParser(model)
    for name in ("known.conllu", "table.parquet"):
        yield f"WorkerParser.file {name}", lambda name=name: by_worker(of_worker, name)
    yield "WorkerParser", lambda: str(of_worker(objects["table"]).to_pydict())
    yield "explain", lambda: json.dumps(parser.explain(dicts[0], 3).to_dict(), sort_keys=True)


def written(parser: Any, name: str, options: dict[str, Any]) -> bytes:
    parser.parse_file(name, "written", force=True, **options)
    return Path("written").read_bytes()


def by_worker(parse: WorkerParser, name: str) -> bytes:
    parse.file(name, "of-worker")
    return Path("of-worker").read_bytes()


def main(model: str) -> None:
    warnings.simplefilter("ignore")
    print(json.dumps({name: outcome(work) for name, work in doors(model)}))


if __name__ == "__main__":
    if sys.argv[1] == "--tables":
        write_tables(Path("known.conllu").read_text())
    else:
        main(sys.argv[1])

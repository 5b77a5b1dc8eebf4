"""Write the generated tables and pictures of the documentation: `python -m docs.update`."""

import re
from pathlib import Path
from typing import get_args

from docs import reference
from gpuparse.config import known_keys
from gpuparse.config.schema import Key, default_values, yaml_word
from gpuparse.data.svg import svg_graph
from gpuparse.inference.decoders import DECODERS, DERIVED, Quantity

PAGES = Path(__file__).parent
UNBOUNDED = 2**31 - 1  # a greatest value that the table of keys does not name
TREES = {"projective": "projective trees", "all": "all trees", "graphs": "graphs"}


def keys_table() -> str:
    """All keys as a Markdown table: key, what it accepts and its default, meaning."""
    defaults = default_values() | {"output": "runs/NAME"}
    rows = ["| key | accepts (default) | meaning |", "| --- | --- | --- |"]
    for name, key in known_keys().items():
        default = yaml_word(defaults[name]) if name in defaults else "required"
        words = accepted(key) + ", null" * (key.optional and default != "null")
        rows.append(f"| `{name}` | {words} ({default}) | {key.meaning} |")
    return "\n".join(rows) + "\n"


def accepted(key: Key) -> str:
    """The values that a key accepts, shorter than in error messages."""
    if key.kind in ("integer", "number"):
        if key.above is not None:
            words = f"{key.kind} > {key.above}"
        elif key.high is None or key.high >= UNBOUNDED:
            words = f"{key.kind} ≥ {key.low}"
        else:
            words = f"{key.kind} {key.low}-{key.high}"
        return f"{words}, auto" if key.auto else words
    if key.kind != "choice":
        return key.expected().removeprefix("a ").removesuffix(" or null")
    words = [yaml_word(choice) for choice in key.choices]
    return ", ".join(words if len(words) <= len(DECODERS) + 1 else [*words[:2], f"... {words[-1]}"])


def quantities_table() -> str:
    """The quantities of decoders that have several, and their engines, as a Markdown table."""
    quantities = {name: name for name in get_args(Quantity)} | dict(DERIVED)
    rows = [
        f"| decoder | {' | '.join(name.replace('_', ' ') for name in quantities)} |",
        "| --- " * (len(quantities) + 1) + "|",
    ]
    for name, decoder in DECODERS.items():
        if len(decoder.engines) == 1:
            continue
        cells = [
            ", ".join(decoder.engines[quantity]) if decoder.has(quantity) else ""
            for quantity in quantities.values()
        ]
        rows.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def decoders_table() -> str:
    """The trees, parts, exactness and cost of each decoder, as a Markdown table."""
    rows = ["| `decoder` | finds | parts besides arcs | search | time |", "| --- " * 5 + "|"]
    for name, decoder in DECODERS.items():
        parts = ", ".join(part.replace("_", " ") for part in decoder.parts)
        facts = [f"`{name}`", TREES[decoder.trees], parts, decoder.search, decoder.time]
        rows.append(f"| {' | '.join(facts)} |")
    return "\n".join(rows) + "\n"


def tree_picture() -> str:
    """The tree of the tutorial's sentence as SVG, on white, for pages of any colour."""
    tutorial = (PAGES / "tutorial.md").read_text(encoding="utf-8")
    _, parsed, *_ = re.findall(r"^```conllu\n(.*?)^```$", tutorial, re.MULTILINE | re.DOTALL)
    rows = [line.split("\t") for line in parsed.splitlines() if line[:1].isdigit()]
    _, forms, _, tags, _, _, heads, relations, *_ = zip(*rows, strict=True)
    arcs = [(int(h), m, name) for m, (h, name) in enumerate(zip(heads, relations, strict=True), 1)]
    picture = svg_graph(forms, arcs, tags=tags)
    ground = '<rect width="100%" height="100%" rx="6" fill="#fff"/>'
    picture = picture.replace("</title>", f"</title>{ground}")
    return picture.replace("currentColor", "#1f2328") + "\n"


TABLES = {
    ("decoders.md", "decoders"): decoders_table,
    ("commands.md", "commands"): reference.commands_table,
    ("configuration.md", "keys"): keys_table,
    ("decoders.md", "quantities"): quantities_table,
}


def with_table(text: str, name: str, table: str) -> str:
    """A page with the table between its two comments `name` replaced."""
    before, start, rest = text.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- end of {name} -->")
    assert end, f"no table {name}"
    return before + start + table + end + after


def updated() -> dict[Path, str]:
    """The pages with generated tables, and the pictures, as they should be."""
    pages = {PAGES / "tree.svg": tree_picture()}
    for (page, name), table in TABLES.items():
        path = PAGES / page
        pages[path] = with_table(pages.get(path) or path.read_text(encoding="utf-8"), name, table())
    api = PAGES / "api.md"
    pages[api] = reference.with_summaries(api.read_text(encoding="utf-8"))
    return pages


if __name__ == "__main__":
    for path, text in updated().items():
        path.write_text(text, encoding="utf-8")

"""Write the generated tables of the documentation: `python -m docs.update`."""

from pathlib import Path
from typing import get_args

from gpuparse.commands.config import schema_table
from gpuparse.inference.decoders import DECODERS, Quantity

PAGES = Path(__file__).parent


def quantities_table() -> str:
    """The quantities of each decoder and their engines, as a Markdown table."""
    quantities = get_args(Quantity)
    rows = [
        f"| decoder | {' | '.join(name.replace('_', ' ') for name in quantities)} |",
        "| --- " * (len(quantities) + 1) + "|",
    ]
    for name, decoder in DECODERS.items():
        cells = [
            ", ".join(decoder.forms[quantity].engines) if decoder.has(quantity) else ""
            for quantity in quantities
        ]
        rows.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


TABLES = {
    ("configuration.md", "keys"): schema_table,
    ("confidence.md", "quantities"): quantities_table,
}


def with_table(text: str, name: str, table: str) -> str:
    """A page with the table between its two comments `name` replaced."""
    before, start, rest = text.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- end of {name} -->")
    assert end, f"no table {name}"
    return before + start + table + end + after


def updated() -> dict[Path, str]:
    """The pages with generated tables, as they should be."""
    pages: dict[Path, str] = {}
    for (page, name), table in TABLES.items():
        path = PAGES / page
        pages[path] = with_table(pages.get(path) or path.read_text(encoding="utf-8"), name, table())
    return pages


if __name__ == "__main__":
    for path, text in updated().items():
        path.write_text(text, encoding="utf-8")

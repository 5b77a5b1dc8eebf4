"""Write the generated tables of the documentation: `python -m docs.update`."""

from pathlib import Path

from gpuparse.commands.config import schema_table

PAGES = Path(__file__).parent
TABLES = {("configuration.md", "keys"): schema_table}


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

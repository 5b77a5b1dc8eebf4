"""Drawings of sentences, shown by notebooks and saved as files."""

from __future__ import annotations

import os
from pathlib import Path

from gpuparse.data.conll import treebank_from_bytes
from gpuparse.errors import ConfigError
from gpuparse.files import write_file
from gpuparse.jobs.drawing import (
    GRAPHS,
    TAGS,
    TEXT,
    WRITERS,
    drawn_sentences,
    format_of_suffix,
    has_graphs,
    tree_texts,
)
from gpuparse.jobs.progress import silent

_WIDTH = 100  # characters of a line of text


class Drawing:
    """Sentences that are drawn, one below the other, which a notebook shows as a picture.

    svg: the picture as an `<svg>` element.
    """

    def __init__(
        self, text: str, name: str, *, tags: str = "upos", graphs: str | None = None
    ) -> None:
        """`ParsedSentence.draw` and `Parsed.draw` make one.

        Args: text: CoNLL-U. name: in titles and messages.
        Raises: as `ParsedSentence.draw`.
        """
        if tags not in TAGS:
            raise ConfigError(f"tags: expected one of {', '.join(TAGS)}, not {tags!r}")
        if graphs is not None and graphs not in GRAPHS:
            raise ConfigError(f"graphs: expected {' or '.join(GRAPHS)}, not {graphs!r}")
        self._treebank, self._tags = treebank_from_bytes(text.encode(), name), TAGS[tags]
        self._with_graphs = has_graphs(self._treebank, None, graphs, tell=silent)
        self.svg = self.text_of("svg")

    def text_of(self, form: str) -> str:
        """The drawing in a format: "svg", "html", "tikz" or "text".

        Raises: ConfigError: no such format. DataError: heads that cannot be drawn.
        """
        if form != TEXT and form not in WRITERS:
            raise ConfigError(f"text_of(): expected {', '.join((*WRITERS, TEXT))}, not {form!r}")
        treebank = self._treebank
        chosen = range(len(treebank))
        if form == TEXT:
            return "".join(tree_texts(treebank, None, chosen, _WIDTH))
        pictures = drawn_sentences(
            treebank, None, chosen, with_graphs=self._with_graphs, tags=self._tags
        )
        return "".join(WRITERS[form](pictures, treebank.source))

    def saved(self, target: str | os.PathLike[str] | None, *, force: bool) -> Drawing:
        """The drawing, written to a file if one is named; see `save`."""
        if target is not None:
            self.save(target, force=force)
        return self

    def save(self, target: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write a file, in the format of its suffix: .svg, .html, .tex, .tikz or .txt.

        Raises: as `ParsedSentence.draw`.
        """
        path = Path(target)
        text = self.text_of(format_of_suffix(path)).encode()
        write_file(path, text, force=force)

    def __repr__(self) -> str:
        return f"<Drawing of {self._treebank.source}>"

    def __str__(self) -> str:
        """The trees for a terminal."""
        return self.text_of(TEXT).rstrip("\n")

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        """The picture for notebooks, in which long sentences scroll."""
        return f'<div style="overflow-x: auto">{self.svg}</div>'

"""The results of a parser: a sequence of parsed sentences."""

from __future__ import annotations

import html
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from gpuparse.api.drawings import Drawing
from gpuparse.api.tokens import (
    MultiwordToken,
    Surfaces,
    Token,
    as_dict,
    tokens_as_json,
    values_of,
)
from gpuparse.data.cached import cached_property
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.draw import draw_tree
from gpuparse.data.formats.arrow_tables import is_arrow, with_lists
from gpuparse.data.formats.documents import repeated
from gpuparse.data.formats.objects import is_pandas
from gpuparse.data.svg import svg_graph
from gpuparse.data.tag_columns import unrewritten
from gpuparse.data.treebank import Treebank
from gpuparse.errors import DataError, plural, require
from gpuparse.jobs.given_trees import given_trees
from gpuparse.jobs.predictions import (
    EMPTY,
    FoundArrays,
    Result,
    WordColumns,
    given_arrays,
    word_columns,
)

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from spacy.tokens import Doc
    from spacy.vocab import Vocab


SHOWN = 10  # sentences that a notebook or `str` shows
_OF_INPUT = range(1, 6)  # FORM to FEATS


class Tree(NamedTuple):
    """One of the trees of a sentence; word i (1..n) is at index i - 1 of every list.

    heads: 0 for the root, else 1..n. deprels: relations, None from a parser of heads only.
    probabilities: of the heads; deprel_probabilities: of the relations, given the heads; None
    unless they were asked for. score: in nats, without a constant. probability: of the tree.
    Both are None unless several trees were asked for.
    """

    heads: list[int]
    deprels: list[str] | None
    probabilities: list[float] | None = None
    deprel_probabilities: list[float] | None = None
    score: float | None = None
    probability: float | None = None


class Parsed(Sequence["ParsedSentence"]):
    """Parsed sentences, in the order of the input: `parsed[0].heads`.

    `gpuparse.read` returns the sentences of a file as one, with the heads of the file. It has no
    connection to its parser, and can be pickled.
    """

    def __init__(
        self, result: Result, counts: np.ndarray, table: Any = None,
        documents: list[tuple[str, int]] | None = None, *, is_text: bool = False,
        firsts: Mapping[int, int] | None = None,
    ) -> None:  # fmt: skip
        """
        Args:
            result: the words that were parsed, and what was found.
            counts: (S,) words of each sentence of the input; those without words are not in the
                treebank of the result.
            table: the Arrow table or pandas frame that the sentences are from.
            documents: the names and numbers of sentences of the documents that the sentences are
                from, if there are some.
            is_text: whether the sentences are from raw text, as those of documents always are.
            firsts: of pieces of texts, the first character by the number of the first sentence
                among those that have words.
        """
        self._result, self._table, self._documents = result, table, documents
        self._is_text, self._firsts = is_text or documents is not None, firsts
        self._starts = [0, *accumulate(counts.tolist())]
        self._fields: dict[str, list[Any]] = {}

    @cached_property
    def _names(self) -> list[str] | None:
        """The name of the document of each sentence."""
        if self._documents is None:
            return None
        return [name for name, n in self._documents for _ in range(n)]

    @cached_property
    def _rows(self) -> list[int]:
        """The number of each sentence among those that have words; -1 for one without."""
        counts = np.diff(self._starts)
        return np.where(counts > 0, np.cumsum(counts > 0) - 1, -1).tolist()

    @property
    def _treebank(self) -> Treebank:
        return self._result.treebank

    @cached_property
    def _found(self) -> FoundArrays:
        result = self._result
        return given_arrays(result.treebank) if result.found is None else result.arrays

    @cached_property
    def _surfaces(self) -> Surfaces:
        """The spelling of the words in the text."""
        treebank = unrewritten(self._treebank)
        return Surfaces.of(treebank, is_text=self._is_text, firsts=self._firsts)

    @cached_property
    def _tokens_as_json(self) -> list[str]:
        return tokens_as_json(self)

    def _values(self, field: str) -> list[Any]:
        """A field of tokens, for all words."""
        if field not in self._fields:
            self._fields[field] = values_of(self, field)
        return self._fields[field]

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self._starts) - 1

    @overload
    def __getitem__(self, index: int) -> ParsedSentence: ...
    @overload
    def __getitem__(self, index: slice) -> list[ParsedSentence]: ...
    def __getitem__(self, index: int | slice) -> ParsedSentence | list[ParsedSentence]:
        """A sentence, or a list of several."""
        if isinstance(index, slice):
            return [ParsedSentence(self, s) for s in range(*index.indices(len(self)))]
        if not hasattr(index, "__index__"):
            raise DataError(f"parsed[...]: expected the number of a sentence, not {index!r}")
        if not -len(self) <= index < len(self):
            raise IndexError(f"sentence {index} of {len(self)}")
        return ParsedSentence(self, index % len(self))

    def __iter__(self) -> Iterator[ParsedSentence]:
        """The sentences in order."""
        return (ParsedSentence(self, s) for s in range(len(self)))

    @property
    def sentences(self) -> list[ParsedSentence]:
        """All sentences."""
        return list(self)

    def with_heads(
        self, heads: Sequence[Any], deprels: Sequence[Sequence[str]] | None = None
    ) -> Parsed:
        """The same sentences with other trees, as another parser would return them.

        Args:
            heads: for each sentence a list, array or tensor with the head of each word, 0 for the
                root; or with the row (N,) of `gpuparse.inference`, -1 at position 0 and in padding,
                such as the rows of `trees.best().heads`.
            deprels: for each sentence a list with the relation of each word; None: all are `_`.
        Returns: new sentences, with the other columns, comments, multiword tokens and empty nodes
            of these; probabilities and graphs are left out.
        Raises: DataError: heads are no tree, or the numbers of sentences or words differ; names the
            sentence.
        Cost: 1 µs per word.

        >>> she = {"form": ["She", "sings"], "upos": ["PRON", "VERB"], "xpos": ["PRP", "VBZ"]}
        >>> parser.parse([she]).with_heads([[0, 1]], [["root", "dep"]])[0].heads
        [0, 1]
        """
        counts = np.diff(self._starts)
        found, names = given_trees(self._treebank, counts, heads, deprels)
        result = replace(self._result, found=found, names=names, decoder="", kept=None, deps=EMPTY)
        return Parsed(
            result, counts, self._table, self._documents, is_text=self._is_text, firsts=self._firsts
        )

    @property
    def documents(self) -> dict[str, list[ParsedSentence]]:
        """The sentences by the name of their document, of inputs that have documents.

        Documents are in the order of the input; one without words has no sentences.

        Raises: DataError: two rows of a table have the same name.
        """
        documents, sentences = self._documents or [], iter(self)
        names = [name for name, _ in documents]
        if (same := repeated(names)) is not None:
            i, j = same
            raise DataError(f"documents {i} and {j} are both named {names[j]!r}; rename one")
        return {name: list(filter(len, islice(sentences, n))) for name, n in documents}

    def to_conllu(self) -> str:
        r"""All sentences as CoNLL-U, as the command `parse` writes them.

        Sentences of lists have `_` in the columns that were not given.

        >>> she = {"form": ["She", "sings"], "upos": ["PRON", "VERB"], "xpos": ["PRP", "VBZ"]}
        >>> parser.parse([she]).to_conllu().split("\n")[1]
        '2\tsings\t_\tVERB\tVBZ\t_\t0\troot\t_\t_'
        """
        return self._result.text.decode()

    def draw(
        self, target: str | os.PathLike[str] | None = None, *, tags: str = "upos",
        graphs: str | None = None, force: bool = False,
    ) -> Drawing:  # fmt: skip
        """Draw all sentences, one below the other.

        Args, Returns, Raises: those of `ParsedSentence.draw`.
        Cost: about a millisecond and 10 KB per sentence.
        """
        text = "".join(sentence._best_conllu for sentence in self)
        drawing = Drawing(text, plural(len(self), "sentence"), tags=tags, graphs=graphs)
        return drawing.saved(target, force=force)

    def to_spacy(self, vocab: Vocab | None = None) -> Doc:
        """All sentences as one Doc of spaCy; needs spacy.

        Its text is the text that was given; between several texts is an empty line. A multiword
        token is one token, or several, as `gpuparse.Tokenizer.v1` makes them.

        Args: vocab: of a pipeline; None: a new one.
        Raises: DataError: a sentence is no tree with one root, which a Doc cannot hold.
        Cost: some microseconds per word.
        """
        require("to_spacy()", "spacy")
        from gpuparse.api.spacy_docs import doc_of

        return doc_of(self, vocab)

    def to_arrow(self) -> pyarrow.Table:
        """An Arrow table with one row per sentence; needs pyarrow.

        It has the list columns form, lemma, upos, xpos and feats as far as the input has them, head
        and deprel (of the best tree), prob, deprel_prob and, of models with a tagger, tag_prob if
        probabilities were asked for (NaN of words whose tags were given), and
        deps (such as `2:nsubj|4:conj`) from a parser of graphs. If the input was an Arrow table,
        all its columns are kept, and head and those after it are added or replaced; so are tags and
        lemmas of models with a tagger or a lemmatiser, with what was missing filled in. A table of
        documents gets one row per sentence, with the other values of its document; sentences of a
        list of texts have a column `document`.

        >>> she = {"form": ["She", "sings"], "upos": ["PRON", "VERB"], "xpos": ["PRP", "VBZ"]}
        >>> table = parser.parse([she]).to_arrow()
        >>> table.column_names, table.column("head").to_pylist()
        (['form', 'upos', 'xpos', 'head', 'deprel'], [[2, 0]])
        """
        require("to_arrow()", "pyarrow")
        import pyarrow

        table = self._table if is_arrow(self._table) else None
        if table is None and self._names is not None:
            table = pyarrow.table({"document": self._names})
            return with_lists(table, np.diff(self._starts), self._columns(of_input=False))
        return with_lists(table, np.diff(self._starts), self._columns(of_input=table is not None))

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas frame with the rows and columns of `to_arrow`; needs pandas.

        If the input was a frame, its index and all its columns are kept.
        """
        require("to_pandas()", "pandas")
        import pandas

        new: dict[str, list[Any]] = {}
        if self._names is not None and is_arrow(self._table):  # the sentences of documents
            new = self._table.to_pydict()
        elif self._names is not None:
            new["document"] = self._names
        for name, (array, names) in self._columns(of_input=is_pandas(self._table)).items():
            of_words = array.tolist()
            if names is not None:
                of_words = [names[i] if i >= 0 else None for i in of_words]
            new[name] = [of_words[i:j] for i, j in pairwise(self._starts)]
        if not is_pandas(self._table):
            return pandas.DataFrame(new)
        kept = self._table.copy(deep=False)
        for name, values in new.items():
            kept[name] = pandas.Series(values, index=kept.index, dtype=object)
        return kept

    def __repr__(self) -> str:
        return f"<Parsed: {plural(len(self), 'sentence')}, {plural(int(self._starts[-1]), 'word')}>"

    def __str__(self) -> str:
        """The first trees, drawn."""
        return "\n\n".join([*map(str, self[:SHOWN]), *self._more()])

    def _repr_html_(self) -> str:
        """The first trees, drawn, for notebooks."""
        shown = [sentence._repr_html_() for sentence in self[:SHOWN]]
        return "".join([*shown, *(f"<p>{line}</p>" for line in self._more())])

    def _more(self) -> list[str]:
        return [f"… and {plural(len(self) - SHOWN, 'more sentence')}"] if len(self) > SHOWN else []

    def _columns(self, *, of_input: bool) -> WordColumns:
        """As `FoundArrays.columns`, after those of the input unless they are there already."""
        given = () if self._table is None else _names_of(self._table)
        if of_input:
            return self._result.columns(given)
        columns = {
            name: column for name, column in word_columns(self._treebank, _OF_INPUT).items()
            if name == "form" or column[1] != ["_"]
        }  # fmt: skip
        return columns | self._found.columns(given, self._result.deps)

    @cached_property
    def _heads(self) -> list[int]:
        return self._found.heads[0].tolist()

    @cached_property
    def _deprels(self) -> list[str] | None:
        labels, names = self._found.labels, self._found.names
        return None if labels is None else [names[i] for i in labels[0].tolist()]

    @cached_property
    def _deps(self) -> list[list[tuple[int, str]]]:
        """The heads and relations of every word."""
        graphs = self._found.graphs
        assert graphs is not None
        arcs = [
            (h, graphs.names[r])
            for h, r in zip(graphs.heads.tolist(), graphs.relations.tolist(), strict=True)
        ]
        return [arcs[i:j] for i, j in pairwise(graphs.starts.tolist())]

    @cached_property
    def _texts(self) -> list[str]:
        """The text of each sentence that has words."""
        text = self._result.text
        end = "\r\n" if b"\r\n" in text[:4096] else "\n"
        texts = [
            text[start:stop].decode().rstrip("\r\n") + 2 * end
            for start, stop in self._written.spans.tolist()
        ]
        return ["".join(texts[i:j]) for i, j in pairwise(self._copies)]

    @cached_property
    def _written(self) -> Treebank:
        """The treebank of the text, in which a sentence is repeated for each of its trees."""
        return treebank_from_bytes(self._result.text, "parsed")

    @cached_property
    def _copies(self) -> list[int]:
        """The first sentence in the text of each sentence that has words, and their number."""
        scores, size = self._found.scores, len(self._treebank)
        counts = [1] * size if scores is None else (scores > -np.inf).sum(0).tolist()
        return list(accumulate(counts, initial=0))


def _names_of(table: Any) -> list[Any]:
    """The names of the columns of an Arrow table or a frame."""
    return list(table.columns) if is_pandas(table) else table.schema.names


class ParsedSentence(Sequence[Token]):
    """A sequence of tokens with their tree; word i (1..n) is at index i - 1, also of every list.

    Sentences are equal if they are the same one of one result.

    >>> she = {"form": ["She", "sings"], "upos": ["PRON", "VERB"], "xpos": ["PRP", "VBZ"]}
    >>> [sentence] = parser.parse([she])
    >>> [(token.form, token.deprel, token.head) for token in sentence]
    [('She', 'nsubj', <Token 2 sings: root>), ('sings', 'root', None)]
    """

    __slots__ = ("_index", "_parsed")

    def __init__(self, parsed: Parsed, index: int) -> None:
        self._parsed, self._index = parsed, index

    def __len__(self) -> int:
        """Number of words."""
        return self._stop - self._start

    @overload
    def __getitem__(self, index: int) -> Token: ...
    @overload
    def __getitem__(self, index: slice) -> list[Token]: ...
    def __getitem__(self, index: int | slice) -> Token | list[Token]:
        """A token, counted from 0, or a list of several."""
        if isinstance(index, slice):
            return [Token(self, i) for i in range(*index.indices(len(self)))]
        if not hasattr(index, "__index__"):
            raise DataError(f"sentence[...]: expected the number of a token, not {index!r}")
        if not -len(self) <= index < len(self):
            of = f"sentence {self._index}" + (f" ({self.sent_id})" if self.sent_id else "")
            raise IndexError(f"token {index} of the {len(self)} of {of}")
        return Token(self, int(index) % len(self))

    def __iter__(self) -> Iterator[Token]:
        """The tokens in order."""
        return (Token(self, i) for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ParsedSentence):
            return NotImplemented
        return self._parsed is other._parsed and self._index == other._index

    def __hash__(self) -> int:
        return hash((id(self._parsed), self._index))

    @property
    def root(self) -> Token | None:
        """The word attached to the root, the first of several; None without any."""
        roots = np.flatnonzero(self._head_array == 0)
        return Token(self, int(roots[0])) if len(roots) else None

    @property
    def text(self) -> str:
        """The comment `# text` of CoNLL-U, or the words joined as `SpaceAfter` in MISC says."""
        return "" if self._row < 0 else self._parsed._surfaces.texts[self._row]

    @property
    def multiword(self) -> list[MultiwordToken]:
        """The tokens of several words."""
        return [] if self._row < 0 else list(self._parsed._surfaces.multiword[self._row])

    @property
    def words(self) -> list[str]:
        """The words."""
        return self._parsed._values("form")[self._start : self._stop]

    @property
    def heads(self) -> list[int]:
        """The head of each word: 0 for the root, else 1..n; of a graph the primary heads."""
        return self._parsed._heads[self._start : self._stop]

    @property
    def deprels(self) -> list[str] | None:
        """The relation of each word to its head; None from a parser of heads only."""
        deprels = self._parsed._deprels
        return None if deprels is None else deprels[self._start : self._stop]

    @property
    def probabilities(self) -> list[float] | None:
        """The probability of each head; None unless asked for."""
        return self._numbers(self._parsed._found.head_probabilities)

    @property
    def deprel_probabilities(self) -> list[float] | None:
        """The probability of each relation, given the head; None unless asked for."""
        return self._numbers(self._parsed._found.label_probabilities)

    @property
    def tag_probabilities(self) -> list[float | None] | None:
        """The probability of UPOS and XPOS of each word, None of a word whose tags were given.

        None for all unless asked for, and from a model without a tagger. Where the tagger has many
        pairs of UPOS and XPOS, it is that of UPOS.
        """
        if self._parsed._found.tag_probabilities is None:
            return None
        return self._parsed._values("tag_probability")[self._start : self._stop]

    @property
    def deps(self) -> list[list[tuple[int, str]]] | None:
        """All heads of each word with their relations, from a parser of graphs; else None."""
        if self._parsed._found.graphs is None:
            return None
        return self._parsed._deps[self._start : self._stop]

    @property
    def trees(self) -> list[Tree]:
        """The trees that were found, the best first: one, or at most `kbest`."""
        found, row, words = self._parsed._found, self._row, slice(self._start, self._stop)
        if row < 0:
            return [Tree([], None if found.labels is None else [])]
        k_there = 1 if found.scores is None else int((found.scores[:, row] > -np.inf).sum())
        return [
            Tree(
                found.heads[k, words].tolist(),
                None
                if found.labels is None
                else [found.names[i] for i in found.labels[k, words].tolist()],
                self._numbers(found.head_probabilities, k),
                self._numbers(found.label_probabilities, k),
                None if found.scores is None else float(found.scores[k, row]),
                None if found.probabilities is None else float(found.probabilities[k, row]),
            )
            for k in range(k_there)
        ]

    @property
    def certified(self) -> bool | None:
        """True if dual decomposition proves that no tree scores more; None: another decoder."""
        certified = self._parsed._found.certified
        return None if certified is None or self._row < 0 else bool(certified[self._row])

    @property
    def document(self) -> str | None:
        """The name of its document, of a list of texts or a table of texts; else None."""
        names = self._parsed._names
        return None if names is None else names[self._index]

    @property
    def sent_id(self) -> str:
        """The comment `# sent_id` of CoNLL-U, or ""."""
        row = self._row
        return "" if row < 0 else unrewritten(self._parsed._treebank).sent_id(row)

    def to_conllu(self) -> str:
        """The sentence as CoNLL-U, with its comments and a blank line at the end."""
        return "" if self._row < 0 else self._parsed._texts[self._row]

    def to_dict(self) -> dict[str, Any]:
        """The sentence as plain data, which `/api/parse` of `gpuparse serve` answers, too.

        Returns: None stands for what is not known.
            id: sent_id, or the number of the sentence from 1. text: see `text`.
            tokens: each with the values of `Token`; `head` is its number, 0 for the root.
            multiword: each with the values of `MultiwordToken`.
            trees: of `trees`, each with `heads`, `deprels`, `probabilities`, `score` and
                `probability`.
        Cost: 2 µs per word.

        >>> she = {"form": ["She", "sings"], "upos": ["PRON", "VERB"], "xpos": ["PRP", "VBZ"]}
        >>> [token["head"] for token in parser.parse([she])[0].to_dict()["tokens"]]
        [2, 0]
        """
        return as_dict(self, str(self._index + 1))

    def draw(
        self, target: str | os.PathLike[str] | None = None, *, tags: str = "upos",
        graphs: str | None = None, force: bool = False,
    ) -> Drawing:  # fmt: skip
        """Draw the sentence, as the command `draw` draws its CoNLL-U.

        Args:
            target: a file to write: .svg, .html, .tex, .tikz or .txt; None: no file.
            tags: "upos", "xpos" or "none": what is below the words.
            graphs: "deps": the arcs of DEPS too; "heads": the tree alone; None: DEPS if it has any.
            force: whether an existing file may be replaced.
        Returns: the drawing, which a notebook shows, and which `save` writes.
        Raises: ConfigError: the suffix names no format, the file exists, or an option does not
            exist. DataError: heads that cannot be drawn. OSError: the file cannot be written.

        >>> she = {"form": ["She", "sings"], "upos": ["PRON", "VERB"], "xpos": ["PRP", "VBZ"]}
        >>> drawing = parser.parse([she])[0].draw("she.svg", force=True)
        >>> drawing.svg.startswith("<svg")
        True
        """
        name = self.sent_id or f"sentence {self._index + 1}"
        drawing = Drawing(self._best_conllu, name, tags=tags, graphs=graphs)
        return drawing.saved(target, force=force)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        """The tree, drawn for a terminal."""
        words, heads = self.words, self.heads
        try:
            return draw_tree(words, heads, self.deprels)
        except ValueError:  # the primary heads of a graph may be no tree
            return "\n".join(f"{i} {word}" for i, word in enumerate(words, 1))

    def _repr_html_(self) -> str:
        """The tree or graph, drawn for notebooks."""
        picture = svg_graph(self.words, self.arcs)
        name = f"<small>{html.escape(self.sent_id)}</small>" if self.sent_id else ""
        return f'<div style="overflow-x: auto">{name}{picture}</div>'

    @property
    def arcs(self) -> list[tuple[int, int, str]]:
        """The arcs of the graph, or of the tree: head, modifier and relation."""
        if self.deps is not None:
            return [(h, m, name) for m, heads in enumerate(self.deps, 1) for h, name in heads]
        labels = self.deprels or [""] * len(self)
        return [
            (h, m, name)
            for m, (h, name) in enumerate(zip(self.heads, labels, strict=True), 1)
            if h >= 0
        ]

    @property
    def _best_conllu(self) -> str:
        """The best tree alone as CoNLL-U; "" without words."""
        found, end, _ = self.to_conllu().partition("\n\n")
        return found + end

    @property
    def _head_array(self) -> np.ndarray:
        """(n,) the head of each word."""
        return self._parsed._found.heads[0, self._start : self._stop]

    @property
    def _written_start(self) -> int:
        """The first word of the first copy of the sentence in the text."""
        parsed = self._parsed
        return int(parsed._written.word_starts[parsed._copies[self._row]])

    def _numbers(self, of_trees: np.ndarray | None, k: int = 0) -> list[float] | None:
        return None if of_trees is None else of_trees[k, self._start : self._stop].tolist()

    @property
    def _start(self) -> int:
        return self._parsed._starts[self._index]

    @property
    def _stop(self) -> int:
        return self._parsed._starts[self._index + 1]

    @property
    def _row(self) -> int:
        """The number of the sentence among those that have words; -1 for one without."""
        return self._parsed._rows[self._index]

"""Words with tags and lemmas from outside of a treebank.

A tagger counts each as seen once; `_` in XPOS, and in FEATS, says nothing. A lemmatiser looks up
the lemmas of words that the treebank lacks.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gpuparse.data.columns import FEATS, FORM, LEMMA, UPOS, XPOS
from gpuparse.data.conll import read_treebank
from gpuparse.data.tag_columns import read_column
from gpuparse.data.treebank import Treebank
from gpuparse.errors import DataError
from gpuparse.text.sequences.tags import Tag, TagTable

_COLUMNS = FORM, LEMMA, UPOS, XPOS, FEATS


class WordList(NamedTuple):
    """The words of a file.

    path: of the file. words: distinct (FORM, LEMMA, UPOS, XPOS, FEATS).
    """

    path: str
    words: list[tuple[str, str, str, str, str]]

    @classmethod
    def read(cls, path: str) -> "WordList":
        """Raises: DataError: the file cannot be read, or is no CoNLL file."""
        treebank = read_treebank(path)
        columns = (read_column(treebank, each).texts() for each in _COLUMNS)
        return cls(path, list(dict.fromkeys(zip(*columns, strict=True))))

    def left_out(self, treebank: Treebank) -> str:
        """The number of words whose tags or FEATS a treebank lacks, as text; empty if none.

        Raises: DataError: all have such tags.
        """
        upos, xpos, feats = (read_column(treebank, each).texts() for each in (UPOS, XPOS, FEATS))
        pairs = {*zip(upos, xpos, strict=True), *((each, "_") for each in upos)}
        values = {*feats, "_"}
        of_tags = [word for word in self.words if word[2:4] not in pairs]
        of_feats = [word for word in self.words if word[4] not in values]
        if len(of_tags) == len(self.words):
            raise DataError(
                f"{self.path}: no word has tags of data.train, so that tagger.word_list says"
                " nothing: give it UPOS and XPOS of the treebank, or _ in XPOS"
            )
        notes = []
        if of_tags:
            form, _, *tags = of_tags[0]
            notes.append(f"the tags of {len(of_tags):,} ({form}: {tags[0]}, {tags[1]})")
        if of_feats:
            form, *_, text = of_feats[0]
            notes.append(f"the FEATS of {len(of_feats):,} ({form}: {text})")
        return " and ".join(notes)

    def count_pairs(self, counts: dict[str, Counter[int]], table: TagTable) -> None:
        """Count the pairs of UPOS and XPOS of the words, those that are in the table.

        A word without XPOS counts as one with the most frequent pair of its UPOS.

        Args: counts: how often each form had each tag; is changed.
        """
        numbers = table.numbers | {}
        for upos, xpos in table.tags:  # of a UPOS, the most frequent pair comes first
            numbers.setdefault((upos, "_"), table.numbers[upos, xpos])
        has_xpos = any(xpos != "_" for _, xpos in table.tags)
        _count_once(
            counts,
            (
                (form, numbers[pair])
                for form, _, upos, xpos, _ in self.words
                if (pair := (upos, xpos if has_xpos else "_")) in numbers
            ),
        )

    def count_feats(
        self,
        counts: dict[str, Counter[int]],
        table: TagTable,
        possible: Mapping[str, Iterable[Tag]],
    ) -> None:
        """Count the FEATS of the words, those that are possible for their pairs.

        Args:
            counts: how often each `form<TAB>UPOS<TAB>XPOS` had each tag of FEATS; is changed.
            possible: for each `UPOS<TAB>XPOS`, tags of FEATS, which are in the table.
        """
        numbers: dict[tuple[str, str, str], list[tuple[str, int]]] = {}
        for pair, tags in possible.items():
            upos, _, of_pair = pair.partition("\t")
            for tag in tags:
                before, tab, feats = tag[1].rpartition("\t")
                for xpos in {before if tab else of_pair, "_"}:
                    found = numbers.setdefault((upos, xpos, feats), [])
                    found.append((pair, table.numbers[tag]))
        _count_once(
            counts,
            (
                (f"{form}\t{pair}", number)
                for form, _, upos, xpos, feats in self.words
                if feats != "_"
                for pair, number in numbers.get((upos, xpos, feats), ())
            ),
        )

    def lemmas(self) -> list[tuple[str, str, str]]:
        """Names, forms and lemmas: a name is `form<TAB>UPOS`.

        Words with several lemmas have names with `<TAB>FEATS` too, if they have FEATS.
        Raises: DataError: no word has a lemma.
        """
        known = [word for word in self.words if word[1] != "_"]
        if not known:
            raise DataError(
                f"{self.path}: LEMMA is _ in all words, so that lemmatizer.word_list says nothing:"
                " give it lemmas"
            )
        found = dict.fromkeys((f"{form}\t{upos}", form, lemma) for form, lemma, upos, *_ in known)
        counts = Counter(name for name, *_ in found)
        for form, lemma, upos, _, feats in known:
            if feats != "_" and counts[name := f"{form}\t{upos}"] > 1:
                found[f"{name}\t{feats}", form, lemma] = None
        return list(found)


def _count_once(counts: dict[str, Counter[int]], found: Iterable[tuple[str, int]]) -> None:
    """Count names with tags that were not counted before, once."""
    for name, number in found:
        counts.setdefault(name, Counter()).setdefault(number, 1)

"""Guides from MISC and from a second file, whole and in pieces, and what is wrong with them."""

import io
import random

import numpy as np
import pytest

from gpuparse.data.columns import is_guide_file
from gpuparse.data.conll import stream_treebanks, treebank_from_bytes, with_misc, write_predictions
from gpuparse.data.guides import Guides, read_guides
from gpuparse.errors import ConfigError, DataError
from tests.synthetic import generate

TEXT = generate(40, 1)
TREEBANK = treebank_from_bytes(TEXT, "text.conllu")


def some_guides(seed: int) -> np.ndarray:
    draw = random.Random(seed)
    heads = []
    for n in np.diff(TREEBANK.word_starts).tolist():
        for m in range(1, n + 1):
            heads.append(draw.choice([-1, *(h for h in range(n + 1) if h != m)]))
    return np.array(heads)


GUIDES = some_guides(2)


def sources(tmp_path) -> list[tuple[bytes, str]]:
    """A treebank and the source of its guides: in its own MISC, in another file."""
    texts = ["" if h < 0 else str(h) for h in GUIDES]
    path = tmp_path / "parsed.conllu"
    path.write_bytes(write_predictions(TREEBANK, GUIDES))
    return [(with_misc(TREEBANK, {"G": texts}), "misc:G"), (TEXT, str(path))]


def test_guides_are_read_whole_and_in_pieces(tmp_path):
    for text, source in sources(tmp_path):
        assert np.array_equal(read_guides(treebank_from_bytes(text, "f"), source), GUIDES)
        for chunk_bytes in (100, 1000, 10_000):
            guides = Guides(source)
            pieces = stream_treebanks(io.BytesIO(text), "f", chunk_bytes=chunk_bytes)
            assert np.array_equal(np.concatenate([guides.of(p) for p in pieces]), GUIDES)
            guides.check_end()


def rows(*words: tuple) -> bytes:
    """A sentence of (form, head, misc)."""
    lines = [
        f"{i}\t{f}\t_\t_\t_\t_\t{h}\tx\t_\t{misc}\n" for i, (f, h, misc) in enumerate(words, 1)
    ]
    return "".join(lines).encode() + b"\n"


@pytest.mark.parametrize(
    ("guide", "said"),
    [("3", "is 3; expected a head, 0 to 2"), ("2", "is 2; expected"), ("x", "is no number"),
     ("", "is no number"), ("-1", "is no number"), ("1.5", "is no number")],
)  # fmt: skip
def test_guides_that_are_no_heads_are_refused_with_file_and_line(guide, said, tmp_path):
    good = b"# sent_id = a\n" + rows(("x", 0, "G=0"))
    text = good + b"# sent_id = b\n" + rows(("a", 0, "_"), ("b", 1, f"X=1|G={guide}"))
    with pytest.raises(DataError, match=f"^f:6: sent_id b: the guide of word 2 {said}"):
        read_guides(treebank_from_bytes(text, "f"), "misc:G")
    if guide == "":
        return
    path = tmp_path / "g.conllu"
    path.write_bytes(good + b"\n\n" + rows(("a", 0, "_"), ("b", guide, "_")))
    with pytest.raises(DataError, match=f"^{path}:7: the guide of word 2 {said}"):
        read_guides(treebank_from_bytes(text, "f"), str(path))


def test_files_with_other_words_are_refused_with_file_and_line(tmp_path):
    one, two = rows(("a", 0, "_")), rows(("b", 0, "_"), ("c", 1, "_"))
    path = tmp_path / "g.conllu"

    def refused(ours: bytes, theirs: bytes) -> str:
        path.write_bytes(theirs)
        with pytest.raises(DataError) as caught:
            read_guides(treebank_from_bytes(ours, "f"), str(path))
        return str(caught.value)

    assert refused(one + two, one + one) == (
        f"{path}:3: a sentence of 1 word, but at f:3 it has 2; the file of guides needs the same"
        " words in the same sentences"
    )
    other = rows(("b", 0, "_"), ("d", 1, "_"))
    assert refused(one + two, one + other) == (
        f"{path}:4: the word is 'd', but at f:4 it is 'c'; the file of guides needs the same words"
    )
    longer = rows(("b", 0, "_"), ("cc", 1, "_"))
    assert "the word is 'cc'" in refused(one + two, one + longer)
    assert refused(one + two, one).startswith(f"f:3: {path}, the file of guides, ends before")
    assert refused(one, one + two).startswith(f"{path}:3: the file of guides has more sentences")


def test_no_guide_at_all_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"^text.conllu: no word has a guide, K=HEAD in MISC"):
        read_guides(TREEBANK, "misc:K")
    path = tmp_path / "g.conllu"
    path.write_bytes(write_predictions(TREEBANK, np.full(TREEBANK.n_words, -1)))
    with pytest.raises(DataError, match=r"g.conllu: no word has a guide, a number in HEAD"):
        read_guides(TREEBANK, str(path))
    with pytest.raises(DataError, match=r"none.conllu: cannot be read"):
        read_guides(TREEBANK, str(tmp_path / "none.conllu"))


def test_sources_name_a_key_or_a_file():
    assert not is_guide_file("misc:Guide")
    assert is_guide_file("guides.conllu")
    for wrong in ("misc:", "misc:a b", "misc:a=b", "misc:a|b"):
        with pytest.raises(ConfigError, match="expected misc:KEY"):
            is_guide_file(wrong)

"""Sentences that are too long for a decoder: MISC and messages on standard error."""

import numpy as np
import pytest

from gpuparse.commands import parse
from gpuparse.commands.console import run
from gpuparse.data.conll import read_treebank
from gpuparse.model.engines import admission
from gpuparse.scorers.sizes import PartSize, sentence_cells
from tests.commands.conftest import columns

HEAD, MISC = 6, 9


@pytest.fixture(scope="module")
def limit(trained) -> int:
    """Cells that some sentences of the test file have more of, and some have not."""
    lengths = np.sort(np.diff(read_treebank(trained.test).word_starts))
    return int(sentence_cells(lengths[len(lengths) // 2 :][:1], PartSize(2))[0])


@pytest.fixture
def parsed(trained, tmp_path, capfd):
    """Parse a file into bytes; (bytes, lines of standard error)."""

    def call(file, *words):
        folder = tmp_path / f"out-{len(list(tmp_path.iterdir()))}"
        assert (
            run(parse.main, [str(trained.model), str(file), "--output", f"{folder}/", *words]) == 0
        )
        return (folder / file.name).read_bytes(), capfd.readouterr().err.splitlines()

    return call


def test_case_21_misc_says_which_sentences_were_not_searched(trained, limit, parsed, monkeypatch):
    whole, said = parsed(trained.test)
    assert not any("too long" in line for line in said)
    monkeypatch.setattr(admission, "MAX_CELLS", limit)
    found, said = parsed(trained.test)
    treebank = read_treebank(trained.test)
    lengths = np.diff(treebank.word_starts)
    long = sentence_cells(lengths, PartSize(2)) > limit
    assert 0 < long.sum() < len(long)
    words = [row for row in columns(found) if row[0].isdigit()]
    of_whole = [row for row in columns(whole) if row[0].isdigit()]
    for s, (start, n) in enumerate(zip(treebank.word_starts, lengths, strict=False)):
        for m in range(n):
            mine, its = words[start + m], of_whole[start + m]
            if long[s]:
                assert mine[HEAD] == str(m).encode()
                assert mine[MISC].split(b"|")[-1] == b"ParsedWith=chain"
            else:
                assert mine == its
    [line] = [line for line in said if "too long" in line]
    assert f"{long.sum():,} sentences were too long for any decoder" in line


@pytest.mark.parametrize("words", [["--engine", "torch"], ["--shard", "all/3"]])
def test_the_same_everywhere(trained, limit, parsed, words, monkeypatch):
    monkeypatch.setattr(admission, "MAX_CELLS", limit)
    expected = parsed(trained.test)[0]
    monkeypatch.setattr(parse, "default_batch_size", lambda device: 2)
    assert parsed(trained.test, *words)[0] == parsed(trained.test)[0] == expected


@pytest.mark.parametrize("shards", [[], ["--shard", "all/12"]], ids=["whole", "in shards"])
def test_what_an_earlier_run_said_goes(trained, limit, parsed, tmp_path, shards, monkeypatch):
    """Pieces without a long sentence too: otherwise the cut of the input would be seen."""
    earlier = tmp_path / "earlier.conllu"
    with monkeypatch.context() as patch:
        patch.setattr(admission, "MAX_CELLS", 1)
        earlier.write_bytes(parsed(trained.test)[0])
    assert earlier.read_bytes().count(b"ParsedWith=chain") > 10
    assert parsed(earlier, *shards)[0] == parsed(trained.test)[0]
    monkeypatch.setattr(admission, "MAX_CELLS", limit)
    assert parsed(earlier, *shards)[0] == parsed(trained.test)[0]

"""Sentences that are too long for a decoder: MISC and messages on standard error."""

import numpy as np
import pytest

from gpuparse.commands import parse
from gpuparse.commands.console import run
from gpuparse.data.conll import read_treebank
from gpuparse.scorers.sizes import PartSize, sentence_cells
from tests.commands.test_parse import columns

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


def test_case_21_misc_says_which_sentences_were_not_searched(trained, limit, parsed):
    whole, said = parsed(trained.test)
    assert not any("too long" in line for line in said)
    found, said = parsed(trained.test, "--max-cells", str(limit))
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


@pytest.mark.parametrize(
    "words", [["--backend", "torch"], ["--shard", "all/3"], ["--batch-size", "2"]]
)
def test_the_same_everywhere(trained, limit, parsed, words):
    most = "--max-cells", str(limit)
    assert parsed(trained.test, *most, *words)[0] == parsed(trained.test, *most)[0]


@pytest.mark.parametrize("shards", [[], ["--shard", "all/12"]], ids=["whole", "in shards"])
def test_what_an_earlier_run_said_goes(trained, limit, parsed, tmp_path, shards):
    """Pieces without a long sentence too: otherwise the cut of the input would be seen."""
    earlier = tmp_path / "earlier.conllu"
    earlier.write_bytes(parsed(trained.test, "--max-cells", "1")[0])
    assert earlier.read_bytes().count(b"ParsedWith=chain") > 10
    assert parsed(earlier, *shards)[0] == parsed(trained.test)[0]
    most = "--max-cells", str(limit)
    assert parsed(earlier, *most, *shards)[0] == parsed(trained.test, *most)[0]

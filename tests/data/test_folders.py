"""Folders of treebanks: their parts, and what is known of them."""

import os
import time

import pytest

from gpuparse.data.folders import Facts, facts_of, find_parts
from gpuparse.errors import ConfigError

README = """# Summary

A treebank of UD_Other-Name.

# Changelog

* 2019-05-15 v2.4
  * Corrections
* 2024-05-15 v2.14
  * More corrections
* 2018-11-15 v2.3
  * As since v1.9

## References

Not v2.99.

<pre>
=== Machine-readable metadata (DO NOT REMOVE!) ================================
Data available since: UD v2.0
License: CC BY-SA 4.0
Includes text: yes
Genre: wiki medical news
XPOS: not available
Contributors: Candito, Marie; Seddah, Djamé
Contact: someone@example.org
===============================================================================
</pre>
"""


@pytest.fixture
def treebank(tmp_path):
    """Write the folder of a treebank with these files."""

    def write(*names, folder="UD_Old_French-Mini", **texts):
        path = tmp_path / folder
        path.mkdir(parents=True)
        for name in names:
            (path / name).write_text("")
        for name, text in texts.items():
            (path / name.replace("_", ".")).write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (
            ["fr_mini-ud-train.conllu", "fr_mini-ud-dev.conllu", "fr_mini-ud-test.conllu"],
            ["fr_mini-ud-train.conllu", "fr_mini-ud-dev.conllu", "fr_mini-ud-test.conllu"],
        ),
        (["fr-ud-train.conllu", "stats.xml"], ["fr-ud-train.conllu", None, None]),
        (["train.conll", "test.conll"], ["train.conll", None, "test.conll"]),
        (["train.conllu", "dev.conllu", "my-train.conllu"], ["train.conllu", "dev.conllu", None]),
        (["de_hdt-ud-train-a.conllu"], ["de_hdt-ud-train-a.conllu", None, None]),
    ],
)
def test_parts_are_found_by_their_names(treebank, names, expected):
    folder = treebank(*names)
    (folder / "paper-size").mkdir()
    (folder / "paper-size" / "test.conllu").write_text("")
    parts = find_parts(str(folder))
    assert list(parts) == ["train", "dev", "test"]
    assert [path and os.path.relpath(path, folder) for path in parts.values()] == expected


@pytest.mark.parametrize(
    ("names", "error"),
    [
        (["a-ud-test.conllu"], "has no part train: expected a file"),
        ([], "has no part train"),
        (["a-ud-train.conllu", "train.conllu"], "several files of the part train: a-ud-train"),
        (["train.conll", "train.conllu"], "several files of the part train"),
        (["a-ud-train-1.conllu", "a-ud-train-2.conllu"], "several files of the part train"),
        (["a-ud-train.conllu", "b-ud-dev.conllu"], "parts of several treebanks: a, b"),
    ],
)
def test_other_folders_are_refused(treebank, names, error):
    folder = treebank(*names)
    with pytest.raises(ConfigError) as caught:
        find_parts(str(folder))
    assert str(caught.value).startswith(f"{folder}: ")
    assert error in str(caught.value)


def test_a_file_or_nothing_is_no_folder(treebank):
    folder = treebank("train.conllu")
    with pytest.raises(ConfigError, match="no such folder; give the folder of a treebank"):
        find_parts(str(folder / "none"))
    with pytest.raises(ConfigError, match="a file; give the folder"):
        find_parts(str(folder / "train.conllu"))
    (folder / "folder" / "train.conllu").mkdir(parents=True)  # not a file
    with pytest.raises(ConfigError, match="has no part train"):
        find_parts(str(folder / "folder"))


def test_the_facts_are_those_of_names_and_readme(treebank):
    folder = treebank("fro_mini-ud-train.conllu", README_md=README)
    expected = Facts(
        name="UD_Old_French-Mini",
        language="Old French",
        code="fro",
        release="UD v2.14",
        since="UD v2.0",
        licence="CC BY-SA 4.0",
        attribution="Candito, Marie; Seddah, Djamé",
        genre="wiki medical news",
    )
    assert facts_of(str(folder)) == expected
    assert facts_of(f"{folder}/") == expected


def test_the_folder_of_a_release_says_which(treebank):
    folder = treebank("a-ud-train.conllu", folder="ud-treebanks-v2.16/UD_X-Y", README_md=README)
    assert facts_of(str(folder)).release == "UD v2.16"


def test_what_is_not_said_is_unknown(treebank):
    folder = treebank("train.conllu", folder="mine")
    assert facts_of(str(folder)) == Facts(name="mine")


def test_a_plain_readme_may_say_the_licence_and_the_name(treebank):
    text = (
        "# French (UD_French-Sequoia, release 2.16)\n\nSource: https://example.org/a.b, 5.\n"
        "More. Licence: CC BY-SA 3.0 US; others say CC BY-NC-SA 2.5. Not this.\n"
    )
    folder = treebank("train.conllu", folder="french", README_md=text)
    assert facts_of(str(folder)) == Facts(
        name="UD_French-Sequoia",
        language="French",
        release="UD v2.16",
        licence="CC BY-SA 3.0 US; others say CC BY-NC-SA 2.5",
        attribution="https://example.org/a.b, 5",
    )


def test_the_file_of_a_licence_is_read_without_a_readme(treebank):
    folder = treebank("train.conllu", folder="x", LICENSE_txt="\nThe licence\nof many lines\n")
    assert facts_of(str(folder)).licence == "The licence"


@pytest.mark.parametrize(
    "content", [b"License: \xff", b"License: x" * 200_000, b"License: " + b"x" * 2000, b"\0"]
)
def test_texts_that_cannot_be_used_are_passed_over(treebank, content):
    folder = treebank("train.conllu", folder="x")
    (folder / "README.md").write_bytes(content)
    assert facts_of(str(folder)) == Facts(name="x")


def test_facts_are_printable_lines(treebank):
    block = README.replace("CC BY-SA 4.0", "CC\x1b[31m BY\t4.0")
    folder = treebank("train.conllu", README_md=block)
    assert facts_of(str(folder)).licence == "CC [31m BY 4.0"


@pytest.mark.parametrize("part", ["UD_A", "=", "A ", "License: ", "# Changelog\n", "#", "\n", "- "])
def test_large_texts_take_no_long_time(treebank, part):
    text = part * (1_000_000 // len(part))
    block = "# Title\n=== Machine-readable metadata\n"
    folder = treebank("train.conllu", README_md="# " + text[:-100])
    other = treebank("train.conllu", folder="x", README_md=block + text[:-100])
    began = time.process_time()
    facts_of(str(folder))
    facts_of(str(other))
    assert time.process_time() - began < 10

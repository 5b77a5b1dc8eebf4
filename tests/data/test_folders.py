"""Folders of treebanks: their parts, and what is known of them."""

import time

import pytest

from gpuparse.data.conll import read_part
from gpuparse.data.folders import Facts, facts_of, find_parts, part_files
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
    """Write the folder of a treebank with these files, which are empty."""

    def write(*names, folder="UD_Old_French-Mini"):
        path = tmp_path / folder
        path.mkdir(parents=True)
        for name in names:
            (path / name).write_text("")
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
        (
            ["cs-ud-train-b.conllu", "cs-ud-train-a.conllu", "cs-ud-dev.conllu"],
            ["cs-ud-train-a.conllu,cs-ud-train-b.conllu", "cs-ud-dev.conllu", None],
        ),
    ],
)
def test_parts_are_found_by_their_names(treebank, names, expected):
    folder = treebank(*names)
    (folder / "paper-size").mkdir()
    (folder / "paper-size" / "test.conllu").write_text("")
    parts = find_parts(str(folder))
    assert list(parts) == ["train", "dev", "test"]
    assert [path and path.replace(f"{folder}/", "") for path in parts.values()] == expected


@pytest.mark.parametrize(
    ("names", "error"),
    [
        (["a-ud-test.conllu"], "has no part train: expected a file"),
        ([], "has no part train"),
        (["a-ud-train.conllu", "train.conllu"], "several files of the part train: a-ud-train"),
        (["train.conll", "train.conllu"], "several files of the part train"),
        (["a-ud-train-1.conllu", "a-ud-train.conllu"], "several files of the part train"),
        (["a-ud-train-1.conllu", "b-ud-train-1.conllu"], "parts of several treebanks: a, b"),
        (["a-ud-train-1,2.conllu", "a-ud-train-3.conllu"], "a name here has one: rename it"),
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


PLAIN = (
    "# French (UD_French-Sequoia, release 2.16)\n\nSource: https://example.org/a.b, 5.\n"
    "More. Licence: CC BY-SA 3.0 US; others say CC BY-NC-SA 2.5. Not this.\n"
)
OF_README = Facts(
    name="UD_Old_French-Mini", language="Old French", code="fro", release="UD v2.14",
    since="UD v2.0", licence="CC BY-SA 4.0", attribution="Candito, Marie; Seddah, Djamé",
    genre="wiki medical news",
)  # fmt: skip
OF_PLAIN = Facts(
    name="UD_French-Sequoia", language="French", release="UD v2.16",
    licence="CC BY-SA 3.0 US; others say CC BY-NC-SA 2.5",
    attribution="https://example.org/a.b, 5",
)  # fmt: skip
UNPRINTABLE = README.replace("CC BY-SA 4.0", "CC\x1b[31m BY\t4.0")


@pytest.mark.parametrize(
    ("folder", "texts", "expected"),
    [
        ("UD_Old_French-Mini", {"README.md": README}, OF_README),
        ("ud-treebanks-v2.16/UD_Old_French-Mini", {"README.md": README},
         OF_README._replace(release="UD v2.16")),
        ("UD_Old_French-Mini", {"README.md": UNPRINTABLE},
         OF_README._replace(licence="CC [31m BY 4.0")),
        ("french", {"README.md": PLAIN}, OF_PLAIN),
        ("x", {"LICENSE.txt": "\nThe licence\nof many lines\n"}, Facts("x", licence="The licence")),
        ("mine", {}, Facts(name="mine")),
        # Texts that cannot be used.
        ("x", {"README.md": b"License: \xff"}, Facts(name="x")),
        ("x", {"README.md": b"License: x" * 200_000}, Facts(name="x")),
        ("x", {"README.md": b"License: " + b"x" * 2000}, Facts(name="x")),
        ("x", {"README.md": b"\0"}, Facts(name="x")),
    ],
    ids=["metadata", "release", "unprintable", "plain", "licence", "nothing", "no UTF-8", "large",
         "long line", "NUL"],
)  # fmt: skip
def test_the_facts_are_those_of_names_and_texts(treebank, folder, texts, expected):
    path = treebank("fro_mini-ud-train.conllu" if expected.code else "train.conllu", folder=folder)
    for name, text in texts.items():
        (path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    assert facts_of(str(path)) == facts_of(f"{path}/") == expected


@pytest.mark.parametrize("part", ["UD_A", "=", "A ", "License: ", "# Changelog\n", "#", "\n", "- "])
def test_large_texts_take_no_long_time(treebank, part):
    text, began = part * (1_000_000 // len(part)), time.process_time()
    folder = treebank("train.conllu")
    for start in ("# ", "# Title\n=== Machine-readable metadata\n"):
        (folder / "README.md").write_text(start + text[:-100])
        facts_of(str(folder))
    assert time.process_time() - began < 10


def test_a_part_of_several_files_is_read_as_one(tmp_path):
    row = "1\t{}\t_\t_\t_\t_\t0\troot\t_\t_"
    files = [tmp_path / name for name in ("a.conllu", "b.conllu", "a.conllu,b.conllu")]
    for file, form in zip(files, "xyz", strict=True):
        file.write_text(f"\ufeff# sent_id = {form}\n" + row.format(form))  # no line end, a mark
    assert part_files(str(files[2])) == [str(files[2])]
    files[2].unlink()
    part = f"{files[0]},{files[1]}"
    assert part_files(part) == [str(file) for file in files[:2]]
    both = read_part(part)
    assert [sentence.forms for sentence in both] == [["x"], ["y"]]
    assert both.lines.tolist() == [2, 2]
    assert "\ufeff".encode() not in both.data.tobytes()

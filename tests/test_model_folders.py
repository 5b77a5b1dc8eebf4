"""Folders of models that are damaged, or that no training writes, are refused in one message."""

import json
import os
import random
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch_file

from gpuparse.data.array_file import facts_text
from gpuparse.errors import ModelError
from gpuparse.limits import MAX_TAG
from gpuparse.model.folder import (
    FORMAT,
    MANIFEST,
    VOCABULARY,
    WEIGHTS,
    load_parser,
    save_parser,
)
from gpuparse.model.installed import UNFINISHED
from tests.hostile_files import SECONDS, bounded, facts_of, pack, rewrite, sha256
from tests.test_model import FILES, TEST, TRAIN, same, trained

Change = Callable[[Path], object]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders with a model of trees and one of graphs. Not to be written to."""
    folders = {name: tmp_path_factory.mktemp(name) for name in ("trees", "graphs")}
    save_parser(trained(), folders["trees"])
    save_parser(trained(decoder="multi_parent", epochs=1), folders["graphs"])
    return folders


@pytest.fixture
def folder(saved: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of the model of trees, to be spoilt."""
    return Path(shutil.copytree(saved["trees"], tmp_path / "model"))


def refused(path: Path) -> str:
    """The message with which a folder is refused, at once."""
    with bounded(SECONDS, megabytes=100), pytest.raises(ModelError) as caught:
        load_parser(path)
    return str(caught.value)


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_files_have_the_ordinary_mode(umask: int, mode: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        save_parser(trained(labels=False), tmp_path)
    finally:
        os.umask(before)
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in FILES} == {mode}


def test_nothing_saved_is_a_pickle_and_all_is_plain(saved: dict[str, Path]) -> None:
    for name in FILES:
        content = (saved["trees"] / name).read_bytes()
        assert not content.startswith((b"\x80", b"PK"))
        if name != WEIGHTS:
            content.decode()
    with safe_open(saved["trees"] / WEIGHTS, "np") as file:
        assert len(file.metadata()) == 1
        tensors = [file.get_tensor(name) for name in file.keys()]  # noqa: SIM118 (no dictionary)
    assert {tensor.dtype.kind for tensor in tensors} == {"i"}


def test_what_is_no_folder_of_a_finished_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    what = "a model is a folder that `gpuparse train` wrote"
    nowhere, file = folder / "nowhere", folder / FILES[0]
    assert refused(nowhere) == f"{nowhere}: no such folder; {what}"
    assert refused(file) == f"{file}: a file; {what}"
    assert "no such folder" in refused(file / "x")
    (folder / UNFINISHED).mkdir()
    load_parser(folder)  # a finished model is one
    monkeypatch.chdir(folder.parent)
    shutil.copytree(folder, "runs/en")
    assert refused(Path("en")) == "en: no such folder; did you mean runs/en?"
    assert "did you mean" not in refused(Path("de"))
    (folder / WEIGHTS).unlink()
    assert "an unfinished run; training with resume=True finishes it" in refused(folder)


@pytest.mark.parametrize("name", FILES)
def test_case_38_a_file_that_is_missing_cut_or_longer(folder: Path, name: str) -> None:
    path, content = folder / name, (folder / name).read_bytes()
    cuts = [content[: int(len(content) * part)] for part in (0, 0.001, 0.3, 0.999)]
    for changed in (*cuts, content + b"\n"):
        path.write_bytes(changed)
        assert str(folder) in refused(folder)
    path.unlink()
    assert name in refused(folder)
    path.mkdir()
    assert name in refused(folder)


@pytest.mark.parametrize("name", FILES)
def test_case_38_a_flipped_bit_anywhere(folder: Path, saved: dict[str, Path], name: str) -> None:
    """Also every byte of the header and of the facts, such as one in the digits of min_gain."""
    content, draw = bytearray((folder / name).read_bytes()), random.Random(name)
    places = {0, 7, len(content) - 1} | {draw.randrange(len(content)) for _ in range(60)}
    if name == WEIGHTS:
        places |= {*range(8 + int.from_bytes(content[:8], "little"))}
    for place in sorted(places):
        bit = 1 << draw.randrange(8)
        content[place] ^= bit
        (folder / name).write_bytes(bytes(content))
        assert str(folder) in refused(folder), (place, bit)
        content[place] ^= bit
    (folder / name).write_bytes(bytes(content))
    assert same(load_parser(folder).parse(TEST), load_parser(saved["trees"]).parse(TEST))


def test_files_of_two_models(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    save_parser(trained(sentences=TRAIN[5:9]), other)
    for name in (WEIGHTS, VOCABULARY):
        mixed = Path(shutil.copytree(folder, tmp_path / f"with {name}"))
        shutil.copy(other / name, mixed / name)
        assert f"'{VOCABULARY}' was changed or damaged" in refused(mixed)


def weights(content: bytes | Callable[[bytes], bytes]) -> Change:
    """Another file in the place of the weights, or one that is made of them."""

    def change(folder: Path) -> None:
        path = folder / WEIGHTS
        path.write_bytes(content(path.read_bytes()) if callable(content) else content)

    return change


def facts(form: object = FORMAT, without: str = "", **changes: object) -> Change:
    """Other facts, all sums right."""

    def change(folder: Path) -> None:
        known, tensors = facts_of(folder)
        known |= changes
        known.pop(without, None)
        rewrite(folder, known, tensors, form=form)

    return change


def tensors(name: str, spoil: Callable[[dict[str, np.ndarray], str], object], sums: bool) -> Change:
    """Other tensors; sums: whether they are made right again."""

    def change(folder: Path) -> None:
        known, arrays = facts_of(folder)
        text = facts_text(folder / WEIGHTS)
        spoil(arrays, name)
        (folder / WEIGHTS).write_bytes(pack(known if sums else text, arrays))

    return change


def words(without: str = "", **changes: object) -> Change:
    """Other keys of vocabulary.json, all sums right; a function changes what is there."""

    def change(folder: Path) -> None:
        known, arrays = facts_of(folder)
        content = json.loads((folder / VOCABULARY).read_text(encoding="utf-8"))
        for key, value in changes.items():
            content[key] = value(content[key]) if callable(value) else value
        content.pop(without, None)
        text = json.dumps(content).encode()
        (folder / VOCABULARY).write_bytes(text)
        known["texts"][VOCABULARY] = sha256(text)
        rewrite(folder, known, arrays)

    return change


def begins_with(value: object) -> Callable[[list], list]:
    return lambda known: [value, *known[1:]]


def add_one(arrays: dict[str, np.ndarray], name: str) -> None:
    arrays[name] = arrays[name] + np.int16(1)


OTHERS = "not a gpuparse model"
NO_FILE = "damaged or not a weights file"
# Name -> which model, what is changed of it, and what the message says.
WRONG: dict[str, tuple[str, Change, str]] = {
    **{
        f"min_gain is {value!r}": ("trees", facts(min_gain=value), "min_gain")
        for value in (-0.5, float("nan"), float("inf"), float("-inf"), 1, 0, True, None, "0.5",
                      [0.5], {})
    },
    "no number of nats": ("trees", facts(arc_unit=float("nan")), "arc_unit or label_unit"),
    "no min_gain": ("trees", facts(without="min_gain"), "min_gain"),
    **{
        f"format {value!r}": ("trees", facts(form=value), "format 5")
        for value in (0, 3, 4.0, "4", None, [4], {}, True)
    },
    **{
        f"facts {text[:20]!r}": (
            "trees", lambda folder, text=text: rewrite(folder, text, facts_of(folder)[1]), ""
        )
        for text in ("", "{", "[]", "1", "null", '"gpuparse"', "{}", '{"format": 1}',
                     "[" * 200_000, "NaN")
    },
    "scores of a strange kind": ("trees", facts(**{MANIFEST: {"parser": "strange"}}),
                                 "its scores are of kind strange; this version reads linear"),
    "a list of kinds": ("trees", facts(**{MANIFEST: {"parser": ["linear"]}}),
                        "its scores are of kind"),
    **{
        f"kinds {value!r}": ("trees", facts(**{MANIFEST: value}), "kinds names other stages")
        for value in ({}, {"parser": "linear", "other": "linear"}, "linear")
    },
    "a pickle": ("trees", weights(b"\x80\x04." * 50), NO_FILE),
    "a zip file": ("trees", weights(b"PK\x03\x04" + b"x" * 100), NO_FILE),
    "a text": ("trees", weights(b"# text\n" * 99), NO_FILE),
    "another program's": ("trees", lambda folder: save_file(
        {"weight": np.zeros((3, 3), np.float32)}, folder / WEIGHTS), OTHERS),
    "another program's facts": ("trees", lambda folder: save_file(
        {}, folder / WEIGHTS, metadata={"format": "pt"}), OTHERS),
    "types that numpy lacks": ("trees", lambda folder: save_torch_file(
        {"w": torch.zeros(3, dtype=torch.bfloat16)}, folder / WEIGHTS), OTHERS),
    **{f"no {name}": ("trees", tensors(name, dict.pop, True), "") for name in ("arcs", "labels")},
    **{
        f"other {name}": (
            "trees", tensors(name, add_one, False),
            f"'{name}' was changed or damaged after training",
        )
        for name in ("arcs", "labels")
    },
    **{
        f"a relation of {length:,} characters": (
            "trees", words(labels=begins_with("x" * length)),
            f"{VOCABULARY}: a relation of more than 1,000 characters",
        )
        for length in (MAX_TAG + 1, 100_000)
    },
    **{
        f"relation {value!r}": ("trees", words(labels=begins_with(value)), "")
        for value in (7, "a\tb", "a\nb")
    },
    "primary relations of trees": ("trees", words(primary=["dep"]), "primary"),
    "no primary relations": ("graphs", words(without="primary"), "primary"),
    **{
        f"primary relations {value!r}": ("graphs", words(primary=value), "primary")
        for value in (None, [], ["dep"], "dep", 7, {"dep": 1})
    },
    "no relation is primary": (
        "graphs", words(primary=lambda known: [None] * len(known)), "primary"
    ),
    "one primary relation more": ("graphs", words(primary=lambda known: [*known, "dep"]),
                                  "primary"),
    **{
        f"primary relation {value!r}": ("graphs", words(primary=begins_with(value)), "primary")
        for value in (3, "a\tb", "\ud800")
    },
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_case_38_what_no_training_writes_is_refused(
    name: str, saved: dict[str, Path], tmp_path: Path
) -> None:
    model, change, said = WRONG[name]
    folder = Path(shutil.copytree(saved[model], tmp_path / "model"))
    change(folder)
    message = refused(folder)
    assert message.startswith(str(folder))
    assert said in message


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("trees", facts()),
        ("trees", facts(**{MANIFEST: {"parser": "linear"}})),
        ("graphs", words(primary=lambda known: known)),
    ],
    ids=["the same facts", "a manifest", "the same words"],
)
def test_a_change_of_nothing_is_accepted(
    name: str, change: Change, saved: dict[str, Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(saved[name], tmp_path / "model"))
    change(folder)
    assert same(load_parser(folder).parse(TEST), load_parser(saved[name]).parse(TEST))


def test_a_relation_may_be_long(folder: Path) -> None:
    words(labels=begins_with("x" * MAX_TAG))(folder)
    assert load_parser(folder).labels[0] == "x" * MAX_TAG


def test_case_39_a_header_that_claims_to_be_huge(folder: Path) -> None:
    content = (folder / WEIGHTS).read_bytes()
    for size in (1 << 40, (1 << 64) - 1, len(content), 100_000_000):
        (folder / WEIGHTS).write_bytes(size.to_bytes(8, "little") + content[8:])
        assert "damaged" in refused(folder)


def test_case_40_unknown_facts_are_refused(folder: Path) -> None:
    facts(author="🦊" * 1000, more=[[]])(folder)
    assert "unknown or missing: 'author', 'more'" in refused(folder)


@pytest.mark.parametrize(
    ("decoder", "other"),
    [
        ("multi_parent", "eisner"),
        ("multi_parent", "hill_climb"),
        ("hill_climb", "multi_parent"),
        ("eisner_sibling", "chu_liu_edmonds"),
        ("eisner", "eisner_sibling"),
        ("chu_liu_edmonds", "hill_climb"),
    ],
)
def test_another_kind_of_decoder_than_the_parts_are_for_is_refused(
    tmp_path: Path, decoder: str, other: str
) -> None:
    save_parser(trained(decoder=decoder, epochs=1), tmp_path)
    facts(decoder=other)(tmp_path)
    refused(tmp_path)

"""Damaged models and states: refused in one line, or the result of the undamaged ones."""

from __future__ import annotations

import random
import shutil
from functools import cache
from pathlib import Path

import gpuparse
from gpuparse.commands import parse, train
from gpuparse.jobs import checkpoint
from tests.campaign.bench import ALONE, PIPELINE, SYSTEMS, Bench
from tests.campaign.files import damaged
from tests.campaign.running import Failure, call, check_end, check_same
from tests.hostile_files import CATALOGUES, Entry, entries, try_entry
from tests.runs import model_files

REFUSED = 4


def damage(file: Path, draw: random.Random) -> str:
    """Change a file in some way; says which."""
    kind = draw.choice(["changed"] * 7 + ["gone", "folder"])
    content = damaged(file.read_bytes(), draw, lines=file.suffix != ".safetensors")
    file.unlink()
    if kind == "folder":
        file.mkdir()
    elif kind == "changed":
        file.write_bytes(content)
    return f"{file.name} {kind}"


@cache
def catalogue(name: str) -> list[Entry]:
    """The entries of a catalogue of hostile models, stages or states; all kinds are learned."""
    return list(entries(name))


def hostile(draw: random.Random, bench: Bench) -> list[str]:
    """One entry of the catalogues, whose checksums are right: refused in one line, or harmless."""
    name = draw.choice(CATALOGUES)
    entry = draw.choice(catalogue(name))

    def main(words: object) -> int:
        print(try_entry(entry))
        return 0

    ended = call(main, [], bench.folder)
    try:
        check_end(ended, [0])
    except Failure as failure:
        raise Failure(f"{name}: {entry.name}: {failure}") from None
    return [f"{name}: {ended.out.decode().strip()}"]


def damaged_models(draw: random.Random, bench: Bench) -> list[str]:
    """One file of a model is damaged; its parses are those of the whole model, or none."""
    system = draw.choice(list(SYSTEMS))
    place = bench.place()
    model = place / "model"
    shutil.copytree(bench.model(system), model)
    n_files = len(list(model.iterdir()))
    said = damage(draw.choice(sorted(model.iterdir())), draw)
    if system in (ALONE, PIPELINE) and len(list(model.iterdir())) < n_files:
        return ["model: other stages"]  # a folder with some of the stages is a model
    file = bench.config(system).parent / "dev.conllu"
    words = [file, "--threads", 1, *draw.choice([[], ["--probabilities"], ["--kbest", 2]])]
    undamaged = call(parse.main, [bench.model(system), *words], place)
    ended = call(parse.main, [model, *words], place)
    try:
        check_end(ended, [undamaged.code, REFUSED])
        if ended.code == REFUSED and len(ended.err.splitlines()) > 3:
            raise Failure(f"more than a line: {ended.err}")
        if ended.code == 0:
            check_same({"output": ended.out}, {"output": undamaged.out}, "parses")
    except Failure as failure:
        raise Failure(f"{system}: {said}: {failure}") from None
    return [f"model: exit {ended.code}"]


def changed_in_place(draw: random.Random, bench: Bench) -> list[str]:
    """A file of a model is overwritten or cut off while a parser uses it: its trees stay."""
    system = draw.choice([name for name in SYSTEMS if name != ALONE])
    model = bench.place() / "model"
    shutil.copytree(bench.model(system), model)
    file = draw.choice(sorted(model.glob("*.safetensors")))
    size = file.stat().st_size
    at = draw.randrange(size + 1)
    is_cut, more = draw.random() < 0.5, draw.randbytes(draw.randrange(1, size + 2))
    source = (bench.config(system).parent / "dev.conllu").read_text()

    def main(words: object) -> int:
        parser = gpuparse.load(model)
        before = parser.parse(source).to_conllu() if draw.random() < 0.5 else None
        with open(file, "r+b") as stream:
            stream.seek(at)
            if is_cut:
                stream.truncate()
            else:
                stream.write(more)
        after = parser.parse(source).to_conllu()
        return int(
            after != (before or gpuparse.load(bench.model(system)).parse(source).to_conllu())
        )

    try:
        check_end(call(main, [], model.parent), [0])
    except Failure as failure:
        raise Failure(
            f"{system}: {file.name} {'cut' if is_cut else 'written'} at {at}: {failure}"
        ) from None
    return [f"in place: {file.name}"]


def damaged_states(draw: random.Random, bench: Bench) -> list[str]:
    """A kept file of an unfinished run is damaged; it is refused, or ends as if undisturbed."""
    system = draw.choice([name for name in SYSTEMS if name != ALONE])
    model = bench.place() / "model"
    shutil.copytree(unfinished(system, bench), model)
    said = damage(draw.choice(sorted((model / "last").rglob("*.safetensors"))), draw)
    words = [bench.config(system), *SYSTEMS[system], f"output={model}", "--resume"]
    ended = call(train.main, words, model.parent)
    try:
        check_end(ended, [0, 2, REFUSED])
        if ended.code == 0:
            check_same(model_files(model), bench.bytes_of(system), "resumed")
    except Failure as failure:
        raise Failure(f"{system}: {said}: {failure}") from None
    return [f"state: exit {ended.code}"]


def unfinished(system: str, bench: Bench) -> Path:
    """The folder of a run that ended after its first kept state."""
    folder = bench.folder / f"unfinished-{system}"
    if folder.exists():
        return folder

    def begin(words: object) -> int:
        def keep(*given: object) -> None:
            write(*given)
            raise KeyboardInterrupt

        write = checkpoint.write_checkpoint
        checkpoint.write_checkpoint = keep  # of this process alone
        return train.main(words)

    words = [bench.config(system), *SYSTEMS[system], f"output={folder}"]
    check_end(call(begin, words, bench.folder), [130])
    return folder

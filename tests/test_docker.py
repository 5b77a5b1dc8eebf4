"""The image's recipe: pinned, locked, without root; and its entry behaves as the commands do."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpuparse import __version__
from gpuparse.__main__ import COMMANDS
from gpuparse.config import load_config
from gpuparse.jobs.version import described_version
from tests.test_requirements import canonical, pinned

ROOT = Path(__file__).parents[1]
TARGETS = ("cpu", "cuda")
PROGRAM = "/opt/gpuparse"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def logical_lines(text: str) -> list[str]:
    """Without comments and blank lines, and with continued lines as one."""
    kept = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(kept))
    return joined.splitlines()


def instructions() -> list[tuple[str, str]]:
    lines = logical_lines((ROOT / "Dockerfile").read_text())
    return [tuple(line.split(maxsplit=1)) for line in lines]


def stages() -> dict[str, tuple[str, list[tuple[str, str]]]]:
    """Name -> what it begins with, and its instructions."""
    found: dict[str, tuple[str, list[tuple[str, str]]]] = {}
    current: list[tuple[str, str]] = []
    for word, rest in instructions():
        if word == "FROM":
            parent, name = re.fullmatch(r"(\S+) AS (\S+)", rest).groups()
            current = []
            found[name] = parent, current
        else:
            current.append((word, rest))
    return found


def lineage(target: str) -> list[tuple[str, str]]:
    """All instructions that make a target, the first stage's first."""
    parent, own = stages()[target]
    return (lineage(parent) if parent in stages() else []) + own


def locked(target: str) -> dict[str, tuple[str, list[str]]]:
    """Package -> version and hashes."""
    found = {}
    for line in logical_lines((ROOT / "docker" / f"{target}.lock").read_text()):
        requirement, *hashes = line.split("--hash=")
        package, version = requirement.strip().split("==")
        found[canonical(package)] = version, [each.strip() for each in hashes]
    return found


def test_the_base_is_pinned_by_digest():
    bases = [rest for word, rest in instructions() if word == "ARG" and rest.startswith("BASE=")]
    assert len(bases) == 1
    assert re.fullmatch(r"BASE=docker\.io/library/python:[\w.-]+@sha256:[0-9a-f]{64}", bases[0])
    parents = {parent for parent, _ in stages().values()}
    assert parents <= {"${BASE}", *stages()}, "every image is made from the base alone"


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_has_the_packages_of_its_lock_and_runs_without_root_by_the_entry(target):
    made = lineage(target)
    [install] = [rest for word, rest in made if word == "RUN" and "pip install" in rest]
    # What the lock does not name must not come along.
    assert all(each in install for each in ("--require-hashes", "--no-deps", "packages.lock"))
    users = [rest for word, rest in made if word == "USER"]
    assert users
    assert not re.match(r"(root|0)\b", users[-1])
    assert made[-1][0] == "USER", "nothing after it runs as another user"
    entries = [rest for word, rest in made if word == "ENTRYPOINT"]
    assert entries == ['["/opt/gpuparse/entry.sh"]']
    assert ("ARG", "COMMIT") in made


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_copied_exists_and_reaches_the_builder(target):
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    sent = [rule[1:] for rule in rules if rule.startswith("!")]
    assert all((ROOT / name).exists() for name in sent)
    copies = [shlex.split(rest) for word, rest in lineage(target) if word == "COPY"]
    assert ["--from=program", PROGRAM, PROGRAM] in copies
    own = [words for words in copies if not words[0].startswith("--from=")]
    own += [shlex.split(rest) for word, rest in stages()["program"][1] if word == "COPY"]
    sources = [source for *several, _ in own for source in several]
    assert {"gpuparse", "configs", f"docker/{target}.lock", "docker/entry.sh"} <= set(sources)
    for source in sources:
        assert (ROOT / source).exists(), source
        assert source.split("/")[0] in sent, source


def test_the_library_is_built_where_no_image_keeps_the_compiler():
    parent, made = stages()["program"]
    assert parent == "${BASE}"
    assert ("COPY", "native /build/native") in made
    assert ("RUN", "python /build/native/build.py --levels --quiet") in made
    assert "/build/gpuparse/_native" in made[-1][1]
    assert "gpuparse/_native" in (ROOT / ".dockerignore").read_text().splitlines()
    for target in TARGETS:
        assert not any("g++" in rest for _, rest in lineage(target))


@pytest.mark.parametrize("target", TARGETS)
def test_the_lock_is_that_of_requirements(target):
    text = (ROOT / "docker" / f"{target}.lock").read_text()
    assert "://" not in text
    lock = locked(target)
    assert all(hashes for _, hashes in lock.values())
    assert all(
        re.fullmatch("sha256:[0-9a-f]{64}", each) for _, hashes in lock.values() for each in hashes
    )
    section = (ROOT / "requirements.txt").read_text().split("# tests and checks")[0]
    wanted = {name: version for name, version in pinned().items() if is_named(name, section)}
    assert {"torch", "triton"} <= set(wanted)
    if target == "cpu":
        wanted["torch"] += "+cpu"
        assert wanted.pop("triton")
        assert not [name for name in lock if name.startswith(("nvidia", "cuda", "triton"))]
    assert wanted == {name: lock[name][0] for name in wanted}


def is_named(package: str, text: str) -> bool:
    return any(canonical(line.split("==")[0]) == package for line in text.splitlines())


def test_cuda_brings_the_libraries_and_asks_for_the_driver():
    lock = locked("cuda")
    assert {"triton", "nvidia-cublas", "nvidia-cuda-runtime"} <= set(lock)
    settings = " ".join(rest for word, rest in lineage("cuda") if word == "ENV")
    assert "NVIDIA_VISIBLE_DEVICES=all" in settings
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in settings
    cuda = lock["nvidia-cuda-runtime"][0].rpartition(".")[0]
    assert f'NVIDIA_REQUIRE_CUDA="cuda>={cuda}"' in settings
    assert any("gcc" in rest for word, rest in lineage("cuda") if word == "RUN")


@pytest.fixture
def image(tmp_path):
    """The content of the image but for the packages."""
    root = tmp_path / "image"
    root.mkdir()
    (root / "COMMIT").write_text(f"{COMMIT}\n")
    shutil.copytree(ROOT / "gpuparse", root / "gpuparse", ignore=shutil.ignore_patterns("__pyc*"))
    shutil.copy(ROOT / "docker" / "entry.sh", root)
    return root


def enter(image, *words, **settings):
    python = image.parent / "bin" / "python"
    if not python.exists():
        python.parent.mkdir()
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    given = {"PATH": path, "PYTHONPATH": str(image), "PYTHONSAFEPATH": "1"}
    given |= {"TMPDIR": str(image.parent)} | kept | settings
    return subprocess.run(
        ["sh", str(image / "entry.sh"), *words],
        env=given, cwd=image.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_every_run_says_version_and_commit(image):
    done = enter(image, "--version")
    assert done.returncode == 0
    assert done.stdout == f"gpuparse {__version__} ({COMMIT})\n"
    assert done.stderr == f"gpuparse: version {__version__} ({COMMIT})\n"


@pytest.mark.parametrize("words", [("nonsense",), (), ("train", "--nonsense")])
def test_the_entry_hands_on_what_a_command_exits_with(image, words):
    done = enter(image, *words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert f"({COMMIT})" in done.stderr


def test_train_and_parse_are_the_commands(image):
    config = ROOT / "configs" / "quickstart.yaml"
    done = enter(image, "config", str(config), "seed=3")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^seed: 3$", done.stdout, re.MULTILINE)
    missing = enter(image, "parse", "no-model", "no-file")
    assert missing.returncode in (3, 4)
    assert "no-" in missing.stderr
    missing = enter(image, "train", "no-config.yaml")
    assert missing.returncode == 2
    assert "no-config.yaml" in missing.stderr


def test_compiled_gpu_code_goes_where_it_can_be_written(image):
    cache = image.parent / "cache"
    for _ in range(2):
        assert enter(image, "--version", GPUPARSE_CACHE=str(cache)).returncode == 0
        assert cache.is_dir()


def test_without_such_a_place_nothing_is_run(image):
    (image.parent / "file").write_text("")
    done = enter(image, "--version", GPUPARSE_CACHE=str(image.parent / "file" / "cache"))
    assert done.returncode == 5
    assert done.stdout == ""
    assert "GPUPARSE_CACHE" in done.stderr


@pytest.mark.parametrize("commit", ["", "main", "0123", f"{COMMIT} x"])
def test_an_image_without_a_commit_is_not_built(tmp_path, commit):
    shutil.copy(ROOT / "docker" / "install.sh", tmp_path)
    done = subprocess.run(
        ["sh", str(tmp_path / "install.sh"), commit], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "--build-arg COMMIT" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["install.sh"]


def test_a_checkout_says_its_commit(tmp_path):
    assert described_version(tmp_path) == __version__
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    assert described_version(tmp_path) == __version__
    (tmp_path / "file").write_text("one")
    subprocess.run([*git, "add", "file"], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "one"], check=True)
    subprocess.run([*git, "tag", "some-tag"], check=True)
    asked = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    assert described_version(tmp_path) == f"{__version__} ({asked.stdout[:12]})"
    (tmp_path / "file").write_text("two")
    assert described_version(tmp_path) == f"{__version__} ({asked.stdout[:12]}-dirty)"


GUIDE = ROOT / "docs" / "installing.md"


def shown_commands() -> list[list[str]]:
    fenced = re.findall(r"^```sh\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for text in fenced for line in logical_lines(text)]


def test_the_guide_builds_both_targets():
    builds = [words for words in shown_commands() if words[:2] == ["docker", "build"]]
    assert {words[words.index("--target") + 1] for words in builds} == set(TARGETS)
    assert all("COMMIT=$(git rev-parse HEAD)" in words for words in builds)


def test_the_guide_runs_commands_that_exist():
    alias = next(words for words in shown_commands() if words[0].startswith("gpuparse()"))
    assert "--network" in alias
    assert alias[alias.index("--network") + 1] == "none"
    used = [words[1:] for words in shown_commands() if words[0] == "gpuparse"]
    assert {"train", "parse", "evaluate"} <= {words[0] for words in used} <= set(COMMANDS)
    for command, *words in used:
        if command == "train":
            config = str(ROOT / words[0]) if "/" in words[0] else words[0]
            load_config(config, [word for word in words[1:] if "=" in word])


# Programs of a machine with buildah, which write down how they are called.
FAKES = {
    "debootstrap": 'mkdir -p "$4/usr/bin"',
    "unshare": 'shift; NETWORK=none exec "$@"',
    "buildah": """while case $1 in --*) shift 2 ;; *) false ;; esac; do :; done
        printf '%s\\t' "$NETWORK" "$@" >> "$RECORD"; printf '\\36' >> "$RECORD"
        [ "$1" = from ] && echo container
        [ "$1" = mount ] && mkdir "$TMPDIR/root" && echo "$TMPDIR/root"
        [ "$1" = run ] || exit 0
        while [ "$1" != -- ]; do shift; done
        [ "$3" != "$FAILS" ] || exit 3
        echo nsubj""",
}


def try_images(tmp_path, *words, fails="", fakes=tuple(FAKES)):
    """Run docker/test with those programs: what it ended with, and the calls of buildah."""
    for name in fakes:
        (tmp_path / name).write_text(f"#!/bin/bash\n{FAKES[name]}\n")
        (tmp_path / name).chmod(0o755)
    for name in ("bash", "dirname"):
        (tmp_path / name).symlink_to(shutil.which(name))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    path = f"{tmp_path}:{os.environ['PATH']}" if len(fakes) == len(FAKES) else str(tmp_path)
    record = tmp_path / "record"
    record.touch()
    given = {"PATH": path, "TMPDIR": str(scratch), "RECORD": str(record), "FAILS": fails}
    done = subprocess.run(
        [ROOT / "docker" / "test", *words], env=given, capture_output=True, text=True, check=False
    )
    assert [path.name for path in scratch.iterdir()] in ([], ["root"]), "it leaves nothing behind"
    return done, [call.split("\t")[:-1] for call in record.read_text().split("\36")[:-1]]


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="docker/test is for root")


@needs_root
@pytest.mark.parametrize("targets", [TARGETS, ("cpu",)])
def test_the_trial_builds_and_runs_what_the_guide_shows(tmp_path, targets):
    options = ["--cpu"] * (len(targets) == 1) + ["--build-arg", "TORCH_INDEX=file:///wheels"]
    done, calls = try_images(tmp_path, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    builds = [words[2:] for words in calls if words[1] == "build"]
    shown = [words[2:] for words in shown_commands() if words[:2] == ["docker", "build"]]
    assert [words[words.index("--target") + 1] for words in builds] == list(targets)
    git = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    for words, printed in zip(builds, shown, strict=False):
        assert words[-len(printed) :] == [
            word.replace("$(git rev-parse HEAD)", commit) for word in printed
        ]
        assert options[-1] in words
    runs = [words for words in calls if words[1] == "run"]
    for words in runs:
        assert words[0] == "none", "without a network"
        assert words[words.index("--user") + 1] == "10001:10001"
    entered = [words for words in runs if "/opt/gpuparse/entry.sh" in words]
    assert all(any(word.endswith("/data:/work/data:ro") for word in words) for words in entered)
    commands = [words[words.index("--") + 2 :] for words in entered]
    last_ones = ["parse", "parse", "doctor"] * len(targets)
    guide = [words[1:] for words in shown_commands() if words[0] == "gpuparse"]
    first = guide.index(["train", "configs/quickstart.yaml"])
    last = next(i for i, words in enumerate(guide) if words[0] == "evaluate")
    printed = [words[: words.index(">")] if ">" in words else words for words in guide[first:]]
    assert commands[: last - first + 1] == printed[: last - first + 1]
    assert [words[0] for words in commands[last - first + 1 :]] == last_ones


@needs_root
def test_the_trial_ends_at_the_first_failure(tmp_path):
    done, calls = try_images(tmp_path, fails="train")
    assert done.returncode == 1
    assert re.search(r"^FAILED \(3\) .*: gpuparse train", done.stdout, re.MULTILINE)
    assert [words for words in calls if words[1] == "run"][-1][-2] == "train"


def test_the_trial_says_what_to_install(tmp_path):
    done, calls = try_images(tmp_path, fakes=["debootstrap"])
    assert (done.returncode, calls) == (2, [])
    assert "apt-get install buildah" in done.stderr

"""pyproject.toml and requirements.txt speak of the same packages, and their versions agree."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


def canonical(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package.partition("[")[0]).lower()


def pinned() -> dict[str, str]:
    """Versions in requirements.txt; every line but the checkout's own pins one."""
    versions = {}
    for line in (ROOT / "requirements.txt").read_text().splitlines():
        if line and not line.startswith("#") and line != "-e .":
            package, equals, version = line.partition(";")[0].partition("==")
            assert equals, f"{line!r} pins no version"
            assert canonical(package) not in versions, f"{package} appears twice"
            versions[canonical(package)] = version
    return versions


def accepted() -> dict[str, Requirement]:
    """The versions that pyproject.toml accepts, extras included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    requirements = [Requirement(line) for lines in groups for line in lines]
    named = {canonical(requirement.name): requirement for requirement in requirements}
    del named["gpuparse"]  # an extra that has another
    return named


def test_both_name_the_same_packages():
    assert set(pinned()) == set(accepted())


@pytest.mark.parametrize("package", sorted(accepted()))
def test_the_pinned_version_is_accepted(package):
    assert accepted()[package].specifier.contains(pinned()[package])


def test_torch_is_never_older_than_its_safe_loader():
    assert not accepted()["torch"].specifier.contains("2.9.1")

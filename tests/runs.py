"""Run configs for tests: keys by short names."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuparse.config import DataConfig, RunConfig
from gpuparse.files import is_temporary
from gpuparse.jobs.records import METRICS, SCORES

# Keys whose last word is not theirs alone, and keys of other sections than that of learning.
_SECTIONS = {
    "single_root": ("data", "single_root"),
    "pos": ("data", "pos"),
    "map_rows": ("feature_map", "rows"),
    "label_rows": ("labels", "rows"),
    "label_epochs": ("labels", "epochs"),
    "labels_kind": ("labels", "kind"),
    "max_heads": ("pruning", "max_heads"),
    "pruning_threshold": ("pruning", "threshold"),
}
_TOP = ("decoder", "min_gain", "seed", "device", "pruning")


def model_files(folder: Path) -> dict[str, bytes]:
    """The files of a model's folder by path, without the times of its training, and without what a
    kill may leave: a lock file that locks nothing, and files under temporary names.
    """
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.name not in (METRICS, SCORES, ".lock")
        and not any(is_temporary(name) for name in path.relative_to(folder).parts)
    }


def changed(config: RunConfig, **keys: Any) -> RunConfig:
    """A copy of a config with other values of some keys.

    Args:
        keys: of the section `learning` and of the whole run by their names, of others as above.
    """
    for name, value in keys.items():
        if name in _TOP:
            config = replace(config, **{name: value})
            continue
        section, key = _SECTIONS.get(name, ("learning", name))
        config = replace(config, **{section: replace(getattr(config, section), **{key: value})})
    return config


def run_config(**keys: Any) -> RunConfig:
    """The defaults with other values of some keys, without pruning."""
    config = RunConfig(output="model", data=DataConfig(train="train.conllu"))
    return changed(config, max_heads=None, **keys)

"""The run's config: the schema of its keys, files and overrides, and the command `config`."""

from gpuparse.commands.config.command import add_overrides, main, schema_table
from gpuparse.commands.config.load import (
    SYNTHETIC,
    Settings,
    folder_of,
    load_config,
    parse_config,
)
from gpuparse.commands.config.schema import DataConfig, Key, RunConfig, known_keys

__all__ = [
    "SYNTHETIC",
    "DataConfig",
    "Key",
    "RunConfig",
    "Settings",
    "add_overrides",
    "folder_of",
    "known_keys",
    "load_config",
    "main",
    "parse_config",
    "schema_table",
]

"""The config of a run: the schema of its keys, files and overrides."""

from gpuparse.config.load import (
    Settings,
    folder_of,
    load_config,
    make_config,
    parse_config,
)
from gpuparse.config.schema import (
    RULES,
    DataConfig,
    Key,
    RunConfig,
    WordVectorsConfig,
    known_keys,
)

__all__ = [
    "RULES",
    "DataConfig",
    "Key",
    "RunConfig",
    "Settings",
    "WordVectorsConfig",
    "folder_of",
    "known_keys",
    "load_config",
    "make_config",
    "parse_config",
]

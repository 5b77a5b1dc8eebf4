"""Keys of MISC, and sources of guides, which may name a key."""

from gpuparse.errors import ConfigError

IN_MISC = "misc:"
SEPARATORS = "\t\n\r|"  # what neither a key nor a value may have in it


def is_key(name: str) -> bool:
    """Whether a name can be the key of an item."""
    return name not in ("", "_") and not any(c in SEPARATORS + " =\0" for c in name)


def is_guide_file(source: str) -> bool:
    """Whether a source of guides, `misc:KEY` or a path, names a file.

    Raises:
        ConfigError: it names an impossible key of MISC.
    """
    if not source.startswith(IN_MISC):
        return True
    if not is_key(source.removeprefix(IN_MISC)):
        raise ConfigError(
            f"{source!r}: expected {IN_MISC}KEY, the key without blanks, '=' and '|', or a file"
        )
    return False

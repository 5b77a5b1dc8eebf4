"""Packages that only some features need: one error says which extra installs a missing one."""

import importlib

from gpuparse.errors import MissingPackageError, one_line

# Package -> the extra of pyproject.toml that installs it.
EXTRAS = {
    "torch": "torch",
    "matplotlib": "plots",
    "pyarrow": "arrow",
    "pandas": "arrow",
    "spacy": "spacy",
    "prometheus_client": "serve",
    "starlette": "serve",
    "tokenizers": "encoder",
    "transformers": "encoder",
    "uvicorn": "serve",
    "zstandard": "zstd",
}


def require(what: str, *modules: str) -> None:
    """Import modules of optional packages.

    Args:
        what: what needs them, as the error says it.
        modules: of the packages in `EXTRAS`, such as "pyarrow.parquet".
    Raises: MissingPackageError: one cannot be imported.
    """
    for module in modules:
        package = module.partition(".")[0]
        try:
            importlib.import_module(module)
        except ImportError as error:
            missing = error.name if isinstance(error, ModuleNotFoundError) else None
            is_missing = missing is not None and missing.partition(".")[0] == package
            why = "" if is_missing else f", which cannot be imported ({one_line(error)})"
            install = f"pip install 'gpuparse[{EXTRAS[package]}]'"
            raise MissingPackageError(f"{what} needs {package}{why}: {install}") from error

"""Graph-based dependency parsing: fast, exact, repeatable.

`load` reads a trained parser, `train` makes one, `check` finds what is wrong with treebanks. What
is offered is imported when it is first used.
"""

from importlib import import_module

__version__ = "0.1.0"
__all__ = [
    "Checked",
    "Parsed",
    "ParsedSentence",
    "SentenceParser",
    "TrainedRun",
    "Tree",
    "__version__",
    "check",
    "load",
    "train",
]

TYPE_CHECKING = False  # as typing has it, which takes longer to import
if TYPE_CHECKING:
    from gpuparse.api.checking import Checked, check
    from gpuparse.api.parsing import SentenceParser, load
    from gpuparse.api.results import Parsed, ParsedSentence, Tree
    from gpuparse.api.training import TrainedRun, train

_MODULES = {
    "Checked": "checking",
    "check": "checking",
    "SentenceParser": "parsing",
    "load": "parsing",
    "Parsed": "results",
    "ParsedSentence": "results",
    "Tree": "results",
    "TrainedRun": "training",
    "train": "training",
}


def __getattr__(name: str) -> object:
    """What is offered, imported now."""
    if name not in _MODULES:
        raise AttributeError(f"module 'gpuparse' has no attribute {name!r}")
    return getattr(import_module(f"gpuparse.api.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__

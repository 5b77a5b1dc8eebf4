"""Graph-based dependency parsing: fast, exact, repeatable.

`load` reads a trained parser, `train` makes one, `read` reads a file of trees, `check` finds what
is wrong with treebanks. What is offered is imported when it is first used.
"""

from importlib import import_module

__version__ = "0.1.0"
__all__ = [
    "Checked",
    "Drawing",
    "Evaluation",
    "MultiwordToken",
    "Parsed",
    "ParsedSentence",
    "SentenceParser",
    "Token",
    "TrainedRun",
    "Tree",
    "__version__",
    "check",
    "compare",
    "evaluate",
    "load",
    "read",
    "train",
]

TYPE_CHECKING = False  # as typing has it, which takes longer to import
if TYPE_CHECKING:
    from gpuparse.api.checking import Checked, check
    from gpuparse.api.documents import Evaluation, compare, evaluate, read
    from gpuparse.api.drawings import Drawing
    from gpuparse.api.parsing import SentenceParser, load
    from gpuparse.api.results import Parsed, ParsedSentence, Tree
    from gpuparse.api.tokens import MultiwordToken, Token
    from gpuparse.api.training import TrainedRun, train

_MODULES = {
    "Evaluation": "documents",
    "compare": "documents",
    "evaluate": "documents",
    "read": "documents",
    "Drawing": "drawings",
    "MultiwordToken": "tokens",
    "Token": "tokens",
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
    """An offered name, imported now."""
    if name not in _MODULES:
        raise AttributeError(f"module 'gpuparse' has no attribute {name!r}")
    return getattr(import_module(f"gpuparse.api.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__

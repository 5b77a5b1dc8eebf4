"""Options of a parse: one set for all doors, whose errors have the names of the door."""

import ast
import inspect
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import fields
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

import gpuparse
from gpuparse.api.parsing import ParseArguments, SentenceParser
from gpuparse.commands.console import as_option
from gpuparse.commands.parse import read_options
from gpuparse.data.formats.names import CONLLU, TEXT, VERTICAL
from gpuparse.errors import ConfigError, option, options_named
from gpuparse.jobs.options import ParseOptions
from gpuparse.jobs.parse import Job
from gpuparse.model.pipeline import NO_STAGES
from tests.dense_scorer import dense_parser

NAMES = {field.name for field in fields(ParseOptions)}
# Of the command: `load` has allow_missing, `stream` encoding.
OF_COMMAND = {"allow_missing", "encoding", "ranges"}


def test_all_doors_have_all_options_with_the_same_defaults():
    command = vars(read_options(["model", "file.conllu"]).asked)
    python = dict(inspect.signature(SentenceParser.parse_file).parameters)
    assert python.pop("asked").annotation == "Unpack[ParseArguments]"
    options = inspect.signature(SentenceParser.parse).parameters
    python |= {name: options[name] for name in ParseArguments.__annotations__}
    for field in fields(ParseOptions):
        assert command[field.name] == field.default
        if field.name not in OF_COMMAND:
            assert python[field.name].default == field.default
    more = {"self", "source", "target", "input", "force"}
    assert set(python) - more == NAMES - OF_COMMAND


@pytest.mark.parametrize(
    ("options", "command", "python"),
    [
        ({"mbr": True, "kbest": 2}, "--mbr and --kbest cannot", "mbr and kbest cannot"),
        ({"kbest": 0}, "--kbest: expected a whole", "kbest: expected a whole"),
        ({"kbest": True}, "--kbest: expected a whole", "kbest: expected a whole"),
        ({"keep": "heads"}, "--keep: expected None or 'tags'", "keep: expected None or 'tags'"),
        ({"deps": "all"}, "--deps: expected 'empty' or 'tree'", "deps: expected 'empty'"),
        ({"on_error": "null"}, "--on-error: expected 'fail' or", "on_error: expected 'fail' or"),
        ({"keep": "tags"}, "--keep tags: m has no tagger", 'keep="tags": m has no tagger'),
        ({"mbr": True}, "--mbr: m has no parser", "mbr: m has no parser"),
        ({"keep_heads": True}, "--keep heads: m has no", "keep_heads: m has no"),
        ({"deps": "tree"}, "--deps tree: m has no parser", 'deps="tree": m has no parser'),
        ({"probabilities": True}, "--probabilities: m has no", "probabilities: m has no"),
    ],
)
def test_errors_have_the_names_of_the_door(options, command, python):
    for naming, said in ((options_named(as_option), command), (nullcontext(), python)):
        with naming, pytest.raises(ConfigError) as caught:
            ParseOptions(**options).check(None, NO_STAGES, "m")
        assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("options", "kind", "command", "python"),
    [
        ({}, TEXT, "--input vertical or conllu", 'input="vertical" or "conllu"'),
        ({"ranges": True}, CONLLU, "--ranges are places", "ranges are places"),
        ({"guide": "misc:A"}, VERTICAL, "--guide needs CoNLL-U", "guide needs CoNLL-U"),
        ({"keep_heads": True}, VERTICAL, "--keep heads needs", "keep_heads needs"),
        ({"on_error": "keep"}, VERTICAL, "--on-error skip or fail", 'on_error="skip" or "fail"'),
    ],
)
def test_inputs_that_do_not_fit_are_refused(options, kind, command, python):
    for naming, said in ((options_named(as_option), command), (nullcontext(), python)):
        given = ParseOptions(**options)
        if "on_error" not in options:
            check = partial(given.check_input, kind, "f", "m", NO_STAGES)
        else:
            check = partial(given.check_output, kind, CONLLU, "f", None)
        with naming, pytest.raises(ConfigError) as caught:
            check()
        assert str(caught.value).startswith("f: ")
        assert said in str(caught.value)


def test_another_thread_does_not_get_the_names_of_a_door():
    with options_named(as_option), ThreadPoolExecutor(1) as pool:
        assert option("kbest") == "--kbest"
        assert pool.submit(option, "kbest").result() == "kbest"
        assert pool.submit(copy_context().run, option, "kbest").result() == "--kbest"


def test_what_changes_bytes_is_in_the_recipe_of_shards():
    others = {"allow_missing", "encoding"}
    assert set(ParseOptions().of_bytes(CONLLU)) == NAMES - others - {"ranges"}
    assert set(ParseOptions().of_bytes(TEXT)) == NAMES - others | {"input"}


def literals(source: str) -> list[str]:
    """The texts in a module, but for docstrings."""
    tree = ast.parse(source)
    docs = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return [each.value for each in constants if isinstance(each.value, str) and each not in docs]


def texts_below(folder: Path) -> list[tuple[Path, str]]:
    files = sorted(folder.rglob("*.py"))
    return [(path, text) for path in files for text in literals(path.read_text(encoding="utf-8"))]


def test_the_library_knows_no_options_of_commands():
    package = Path(gpuparse.__file__).parent
    doors = package / "commands"
    options = {text for _, text in texts_below(doors) if re.fullmatch(r"--[a-z-]+", text)}
    assert {"--force", "--max-words", "--grid"} <= options
    wrong = [
        f"{path.relative_to(package)}: {text}"
        for path, text in texts_below(package)
        if doors not in path.parents and path != package / "__main__.py"
        if options.intersection(re.findall(r"--[a-z-]+", text))
    ]
    assert wrong == []


def test_texts_with_options_are_found():
    source = 'def f():\n    """Do as --help says."""\n    raise E(f"{x}: give --force")\n'
    assert literals(source) == [": give --force"]


@pytest.mark.parametrize("asked", [{}, {"kbest": 2}, {"probabilities": True}, {"mbr": True}])
@pytest.mark.parametrize("is_exact", [True, False])
def test_the_device_is_in_the_recipe_where_scores_or_sums_are_not_exact(is_exact, asked):
    parser = dense_parser("eisner")
    if is_exact:
        object.__setattr__(parser, "scorers", ())
    jobs = [
        Job(
            model=parser,
            stages=NO_STAGES,
            options=ParseOptions(**asked),
            device=device,
            engine=engine,
        )
        for device, engine in (("cpu", "torch"), ("cuda", "torch"), ("cuda", "triton"))
    ]
    recipes = [job.recipe(CONLLU, CONLLU) for job in jobs]
    is_exact = is_exact and not asked.keys() & {"probabilities", "mbr"}
    assert recipes[0]["decoder"] == "eisner"
    assert ("device" in recipes[0], "engine" in recipes[0]) == (not is_exact, not is_exact)
    assert all((one == other) is is_exact for one, other in pairwise(recipes))

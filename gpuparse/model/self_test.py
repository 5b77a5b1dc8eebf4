"""Self-tests: what a device or native code computes, against a form known to be right."""

from collections.abc import Mapping
from importlib import import_module
from types import SimpleNamespace

import numpy as np

from gpuparse import native
from gpuparse.data.batch import Encoded, word_places
from gpuparse.data.parts import axes_of
from gpuparse.errors import one_line
from gpuparse.inference.decoders import DECODERS
from gpuparse.inference.search import Search
from gpuparse.model.engines.results import SearchResult
from gpuparse.model.parser import NOTHING_KNOWN, Parser
from gpuparse.scorers.linear.weights import Weights

# Of words, where scores are not exact. A broken device differs in most; an encoder of 8 bits that
# torch computed in bfloat16 differed in 3 of 87.
MOST_DIFFERING = 0.2
LENGTHS = (1, 2, 3, 5, 8, 13, 21, 34)  # words of the generated sentences


def with_random_weights(parser: Parser, dtype: str = "int16") -> Parser:
    """A parser whose weights are small whole numbers, for tests before anything is learned.

    For sentences of known values: learning keeps features of unknown ones at zero, which some
    engines rely on.
    """
    rng = np.random.default_rng(1)

    def drawn(weights: Weights) -> Weights:
        return Weights(rng.integers(-99, 100, weights.array.shape).astype(dtype))

    labels = None if parser.linear.label_weights is None else drawn(parser.linear.label_weights)
    arcs = drawn(parser.linear.arcs)
    return parser.with_linear(arcs=arcs, label_weights=labels, compiled=None)


def device_difference(
    parser: Parser,
    device: str,
    engine: str = "auto",
    *,
    keep_heads: bool = False,
    only_known: bool = False,
) -> str:
    """The first difference between a device and the CPU, on generated sentences.

    Args:
        parser: whose scores, search and labels run: every kernel that a job with it needs.
        device, engine: as `Parser.parse` takes them.
        keep_heads: whether heads are known in the job; the first word of each sentence then is
            attached to the root.
        only_known: as for `Scorer.generated`.
    Returns: What differs, or the error, in one line; "" where the results are equal. Those of
        scores that are not exact, which every device rounds in its own way, may differ in a few
        words.
    Cost: the kernels are compiled, as the job needs them; then some milliseconds.
    """
    batch = parser.generated(LENGTHS, only_known=only_known)
    known = NOTHING_KNOWN
    if keep_heads:
        known = np.full(batch.n_tokens, -1, np.int64)
        known[batch.starts + 1] = 0
    try:
        found = parser.search(
            batch, known=known, batch_size=len(batch), device=device, engine=engine
        )
    except Exception as error:  # a driver or a compiler may raise anything
        return one_line(f"{type(error).__name__}: {error}")
    wanted = parser.search(batch, known=known, batch_size=len(batch))
    if not parser.is_exact and _share_of_words(batch, found, wanted) <= MOST_DIFFERING:
        return ""
    return first_difference(batch, found, wanted)


def _share_of_words(batch: Encoded, found: SearchResult, wanted: SearchResult) -> float:
    """The share of words with another head or label, or of graphs with other arcs into them."""
    tokens = word_places(batch)
    differs = (found.heads != wanted.heads) | (found.labels != wanted.labels)
    if found.arcs is not None and wanted.arcs is not None:
        one, other = (
            set(zip(*(part.tolist() for part in each), strict=True))
            for each in (found.arcs, wanted.arcs)
        )
        differs[[token for token, _, _ in one ^ other]] = True
    return float(differs[tokens].mean())


def first_difference(batch: Encoded, found: SearchResult, wanted: SearchResult) -> str:
    """The first difference of two results for a batch, in one line; "" if they are equal."""
    by_token = (("head", found.heads, wanted.heads), ("label", found.labels, wanted.labels))
    for s, (start, n) in enumerate(zip(batch.starts.tolist(), batch.lengths.tolist(), strict=True)):
        words = slice(start + 1, start + n + 1)
        for name, its, right in by_token:
            wrong = np.flatnonzero(its[words] != right[words])
            if len(wrong):
                w = int(wrong[0])
                return (
                    f"generated sentence {s + 1} of {n} words, word {w + 1}: {name}"
                    f" {its[words][w]}, expected {right[words][w]}"
                )
    if found.arcs is None or wanted.arcs is None:
        return ""
    for name, its, right in zip(found.arcs._fields, found.arcs, wanted.arcs, strict=True):
        if not np.array_equal(its, right):
            return f"{name} of the arcs of graphs differ"
    return ""


# Decoder -> the module of inference.textbook with its textbook form, and the scores it takes.
_TEXTBOOK = {
    "eisner": ("projective", ()),
    "chu_liu_edmonds": ("spanning_trees", ()),
    "eisner_sibling": ("projective", ("sibling", "end")),
    "eisner_grandchild": ("higher_order", ("sibling", "inner_grandchild", "outer_grandchild")),
    "eisner_grand_sibling": (
        "higher_order",
        ("sibling", "grandparent", "grand_sibling", "end"),
    ),
    "eisner_tri_sibling": ("higher_order", ("sibling", "tri_sibling", "outermost", "end")),
}


def native_difference(decoder: str) -> str:
    """The first difference between native search and the textbook form; "" for none.

    The scores of twelve sentences of 1 to 6 words are small whole numbers, so that trees tie.

    Args: decoder: a key of TESTED_DECODERS.
    """
    module, fields = _TEXTBOOK[decoder]
    textbook = getattr(import_module(f"gpuparse.inference.textbook.{module}"), decoder)
    rng = np.random.default_rng(1)
    for number in range(12):
        n, single_root = 1 + number % 6, number % 2 == 1
        parts = {
            field: rng.integers(-3, 4, [n + 1] * len(axes_of(field))).astype(np.float64)
            for field in ("arc", *fields)
        }
        wanted, *_ = textbook(*parts.values(), single_root=single_root)
        try:
            heads = _native_tree(decoder, parts, single_root=single_root)
        except Exception as error:  # the test is for any error
            return one_line(f"{type(error).__name__}: {error}")
        if heads != list(wanted):
            return f"sentence {number + 1}: heads {heads[1:]}, expected {list(wanted)[1:]}"
    return ""


def _native_tree(decoder: str, parts: Mapping[str, np.ndarray], *, single_root: bool) -> list[int]:
    """The heads of the best tree of one sentence by native code, from dense scores by field."""
    number, n_nodes = DECODERS[decoder].number, len(parts["arc"])
    lengths = np.array([n_nodes - 1])
    if not DECODERS[decoder].is_higher_order:
        heads, scores = np.zeros((1, 1, n_nodes), np.int64), np.zeros((1, 1))
        ends = parts["end"][None] if "end" in parts else None
        native.call(
            "find_trees_batch", number, parts["arc"][None], parts.get("sibling"), ends, lengths,
            single_root, heads, scores,
        )  # fmt: skip
        return heads[0, 0].tolist()
    rows = {_FIELDS.get(field, field): part.reshape(1, -1) for field, part in parts.items()}
    given = dict.fromkeys((*_SCORES, "limited")) | rows
    heads, labels = np.zeros((2, 1, n_nodes), np.int64)
    native.call(
        "higher_order_batch", SimpleNamespace(n_labels=1, **given), Search(number, single_root),
        lengths, heads, labels, np.zeros(1, np.bool_), np.zeros(1, np.int64),
    )  # fmt: skip
    return heads[0].tolist()


# What native/api/higher.h declares, and where a field has another name there.
_SCORES = (
    "arc", "sibling", "grandparent", "grand_sibling", "tri_sibling", "inner_grandchild",
    "outer_grandchild", "end",
)  # fmt: skip
_FIELDS = {"outermost": "grand_sibling"}
TESTED_DECODERS = tuple(_TEXTBOOK)

"""Log-partitions, marginals and entropies of checked scores, and their derivatives.

With the engines "native" and "triton" all values are theirs, as are the derivatives of
log-partitions, which are the marginals. Derivatives of marginals and entropies come from the torch
forms. With the engine "torch" everything is the torch forms, which autograd goes through.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gpuparse.errors import ScoreError
from gpuparse.inference import native_trees
from gpuparse.inference.charts import eisner, eisner_sibling
from gpuparse.inference.decoders import Engine
from gpuparse.inference.engines import is_traced
from gpuparse.inference.operators import operation
from gpuparse.inference.scores import (
    largest_into_words,
    read_cells,
    read_part_cells,
    require_trees,
)
from gpuparse.inference.torch.charts import differentiate, log_sums
from gpuparse.inference.torch.matrix_tree import eliminate, marginals_by_inverse, sums_by_inverse
from gpuparse.inference.torch.random_trees import random_spanning_trees
from gpuparse.inference.torch.several_trees import random_trees

CHARTS = {"eisner": eisner.CHART, "eisner_sibling": eisner_sibling.CHART}
NAMES, FIELDS = ("arc", "sib", "end"), ("arc", "sibling", "end")
"""Parts, as charts and as `Scores` name them."""

PRECISE = 1e-9  # what comes from an inverse is as near to the elimination, or is not used
MOST_CANCELLED = 1e3  # the size of a sum that an entropy may be what is left of
LARGEST_TOP = 1e5
CELLS = 1 << 18  # of terms at a time: pages of larger tensors are new in each call


class SummedTrees(NamedTuple):
    """Checked scores of a batch as float64, still attached to the graph.

    parts: of arcs, and for a decoder that reads siblings of siblings and ends. lengths: int64 (B,).
    is_checked: whether scores and results are checked; if not, nothing waits for the device.
    """

    decoder: str
    single_root: bool
    lengths: Tensor
    parts: tuple[Tensor, ...]
    is_checked: bool = True

    @property
    def needs_gradient(self) -> bool:
        return torch.is_grad_enabled() and any(part.requires_grad for part in self.parts)

    def some(self, which: Tensor) -> "SummedTrees":
        """Some sentences."""
        parts = tuple(part[which] for part in self.parts)
        return self._replace(lengths=self.lengths[which], parts=parts)

    def checked(self, sums: Tensor, *found: Tensor) -> tuple[Tensor, ...]:
        """Results beside log-partitions; NaN where there is no tree, if nothing is checked.

        Raises: NoTreeError.
        """
        if self.is_checked:
            require_trees(sums.detach())
            return found
        is_none = ~(sums.detach() > -torch.inf)  # of scores that are not finite, too
        return tuple(
            part.masked_fill(is_none.view(-1, *[1] * (part.dim() - 1)), torch.nan) for part in found
        )

    def log_sums(self, *, with_entropy: bool = False) -> Tensor:
        """Log-partitions, -inf without a tree, and perhaps entropies in torch: (1 or 2, B)."""
        if self.decoder not in CHARTS:
            return self._sum_spanning_trees()
        scores = {}
        for name, field, part in zip(NAMES, FIELDS, self.parts, strict=False):
            read = read_part_cells(self.lengths, part.shape[1], field)
            scores[name] = torch.where(read, part, 0.0)
        return log_sums(
            CHARTS[self.decoder], scores, self.lengths, single_root=self.single_root,
            with_entropy=with_entropy,
        )  # fmt: skip

    def _sum_spanning_trees(self) -> Tensor:
        """`log_sums` of all trees: by the inverse of the Laplacian where that is precise.

        Asking where it is waits for the device: where nothing may wait, all sums are eliminations.
        """
        given = self.parts[0], self.lengths, self.single_root
        if not self.is_checked or is_traced() or self.parts[0].shape[1] == 1:
            return torch.stack(eliminate(*given))
        found, bound = sums_by_inverse(*given)
        is_precise = bound <= PRECISE
        if is_precise.all():
            return found
        good, bad = is_precise.nonzero()[:, 0], (~is_precise).nonzero()[:, 0]
        by_elimination = self.some(bad)._replace(is_checked=False)
        both = [self.some(good)._sum_spanning_trees(), by_elimination._sum_spanning_trees()]
        return torch.cat(both, 1)[:, torch.cat([good, bad]).argsort()]

    def marginals(self, count: int, *, keep_gradients: bool) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Log-partitions, and the marginals of the first parts, by differentiation in torch."""
        with torch.inference_mode(False):  # autograd refuses tensors made in inference mode
            rest = self.parts[count:] if keep_gradients else [p.clone() for p in self.parts[count:]]
            trees = self._replace(lengths=self.lengths.clone())

        def log_partitions(*parts: Tensor) -> Tensor:
            return trees._replace(parts=(*parts, *rest)).log_sums()[0]

        return differentiate(log_partitions, self.parts[:count], keep_gradients=keep_gradients)

    def centred_arcs(self) -> tuple[Tensor, Tensor]:
        """Scores of arcs (B, N, N) less the largest finite one into each word (B, N).

        Both are 0 where no score is read or finite.
        """
        arcs = self.parts[0]
        is_there = read_cells(self.lengths, arcs.shape[1]) & (arcs > -torch.inf)
        top = largest_into_words(arcs, self.lengths)
        return torch.where(is_there, arcs - top[:, None], 0.0), top


def find_log_partitions(trees: SummedTrees, engine: Engine) -> Tensor:
    """Log-partitions (B,), differentiable any number of times.

    Raises: NoTreeError.
    """
    if engine == "torch":
        sums = trees.log_sums()[0]
    else:
        count = len(trees.parts) if trees.needs_gradient else 0
        sums = _apply(trees, engine, count, are_results=False)[0]
    trees.checked(sums)
    return sums


def find_marginals(trees: SummedTrees, engine: Engine, count: int) -> tuple[Tensor, ...]:
    """Log-partitions (B,), and marginals of the first `count` parts; these are differentiable.

    Raises: NoTreeError.
    """
    if engine == "torch":
        sums, marginals = trees.marginals(count, keep_gradients=trees.needs_gradient)
        if trees.decoder not in CHARTS:  # rounded where ways through a word cancel
            marginals = tuple(part.clamp(0.0, 1.0) for part in marginals)
    else:
        sums, *more = _apply(trees, engine, count, are_results=True)
        marginals = tuple(more)
    return sums.detach(), *trees.checked(sums, *marginals)


def find_entropies(trees: SummedTrees, engine: Engine) -> Tensor:
    """Entropies in nats (B,), differentiable any number of times.

    Raises: NoTreeError.
    """
    if engine == "torch":
        sums, entropies = trees.log_sums(with_entropy=True)
    else:
        entropies = _Entropies.apply(*trees[:3], engine, *_three(trees.parts))
        sums = torch.where(entropies.isnan(), -torch.inf, 0.0)
    return trees.checked(sums, entropies)[0]


def draw_trees(trees: SummedTrees, n_samples: int, generator: torch.Generator | None) -> Tensor:
    """Random trees in torch, heads (B, n_samples, N).

    Args: generator: one of another device gives the seed.
    Raises: NoTreeError.
    """
    device = trees.lengths.device
    if generator is not None and generator.device != device:
        seed = torch.randint(2**63 - 1, (), generator=generator, device=generator.device)
        generator = torch.Generator(device).manual_seed(int(seed))
    if trees.decoder in CHARTS:
        scores = dict(zip(NAMES, (part.detach() for part in trees.parts), strict=False))
        heads, has_tree = random_trees(
            CHARTS[trees.decoder], scores, trees.lengths, n_samples, generator,
            single_root=trees.single_root,
        )  # fmt: skip
    else:
        heads, has_tree = random_spanning_trees(
            trees.parts[0].detach(),
            trees.lengths,
            n_samples,
            generator,
            single_root=trees.single_root,
        )
    require_trees(torch.where(has_tree, 0.0, -torch.inf))
    return heads


@operation(lambda decoder, root, lengths, engine, parts, count: [
    lengths.new_empty(len(lengths), dtype=torch.float64), *_new_like(parts[:count])
])  # fmt: skip
def sum_over_trees(
    decoder: str, single_root: bool, lengths: Tensor, engine: str, parts: list[Tensor], count: int
) -> list[Tensor]:
    """Log-partitions, and marginals of the first `count` parts.

    Native code raises NoTreeError; by Triton a log-partition is -inf, and an entropy NaN.
    """
    if engine == "triton":
        return _sum_on_device(lengths, parts, single_root=single_root, n_marginals=count)
    return native_trees.sum_trees(
        decoder, lengths, *parts, single_root=single_root, n_marginals=count
    )


@operation(lambda decoder, root, lengths, engine, parts: [
    lengths.new_empty(len(lengths), dtype=torch.float64)
])  # fmt: skip
def entropy_of_trees(
    decoder: str, single_root: bool, lengths: Tensor, engine: str, parts: list[Tensor]
) -> list[Tensor]:
    """Entropies.

    Native ones are log Z - <marginals, scores>, or where that loses digits the torch form's.
    """
    if engine == "triton":
        return _sum_on_device(lengths, parts, single_root=single_root, with_entropy=True)[1:]
    given = tuple(part.detach() for part in parts)
    trees = SummedTrees(decoder, single_root, lengths, given, is_checked=False)
    sums, *marginals = sum_over_trees(*trees[:3], engine, list(trees.parts), len(parts))
    arcs, top = trees.centred_arcs()
    expected = torch.zeros_like(sums)
    size = torch.zeros_like(sums)
    for part, share in zip((arcs, *trees.parts[1:]), marginals, strict=True):
        step = 1 + CELLS * len(part) // max(1, part.numel())
        for some in (slice(b, b + step) for b in range(0, len(part), step)):
            # 0 * -inf = 0: forbidden parts have no probability.
            terms = torch.where(share[some] > 0, share[some] * part[some], 0.0).flatten(1)
            expected[some] += terms.sum(1)
            size[some] += terms.abs().sum(1)
    entropies = (sums - top.sum(1) - expected).clamp(min=0.0)
    is_blunt = ~((size < MOST_CANCELLED) & (top.abs().sum(1) < LARGEST_TOP))
    if is_blunt.any():
        entropies[is_blunt] = trees.some(is_blunt).log_sums(with_entropy=True)[1]
    return [entropies]


@operation(lambda quantity, decoder, root, lengths, parts, directions: _new_like(parts))
def derivatives_of_trees(
    quantity: str, decoder: str, single_root: bool, lengths: Tensor, parts: list[Tensor],
    directions: list[Tensor],
) -> list[Tensor]:  # fmt: skip
    """`_derivatives` without a graph."""
    if not any(bool(direction.any()) for direction in directions):
        return [torch.zeros_like(part, memory_format=torch.contiguous_format) for part in parts]
    trees = SummedTrees(decoder, single_root, lengths, tuple(parts))
    # Below an operation torch records nothing for autograd, but in a thread of its own.
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(_derivatives, quantity, trees, directions, False).result()
    return [part.contiguous() for part in found]


def _sum_on_device(lengths: Tensor, parts: list[Tensor], **options: Any) -> list[Tensor]:
    from gpuparse.inference.triton.eisner_sums import sum_trees

    return sum_trees(lengths, *(part.detach() for part in parts), **options)


def _new_like(parts: Sequence[Tensor]) -> list[Tensor]:
    return [torch.empty_like(part, memory_format=torch.contiguous_format) for part in parts]


# torch.compile wants functions with a fixed number of arguments: parts that are missing are None.


class _Sums(torch.autograd.Function):
    """Log-partitions and marginals of the first `count` parts.

    are_results: the marginals are the results; otherwise the log-partitions are, and marginals are
    there to be their derivatives.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(decoder, single_root, lengths, engine, count, are_results, arc, sibling, end):  # type: ignore[no-untyped-def]
        parts = _given(arc, sibling, end)
        return tuple(sum_over_trees(decoder, single_root, lengths, engine, parts, count))

    @staticmethod
    def setup_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
        ctx.decoder, ctx.single_root, lengths, ctx.engine, _, ctx.are_results, *parts = inputs
        parts = _given(*parts)
        ctx.count = len(parts)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(lengths, *parts, *output[1:])

    @staticmethod
    def backward(ctx, grad, *directions):  # type: ignore[no-untyped-def]
        lengths, *saved = ctx.saved_tensors
        parts, marginals = saved[: ctx.count], saved[ctx.count :]
        trees = SummedTrees(ctx.decoder, ctx.single_root, lengths, tuple(parts))
        found = []
        if grad is not None and not ctx.are_results:
            if len(marginals) < ctx.count:
                marginals = list(_apply(trees, ctx.engine, ctx.count, are_results=True)[1:])
            found = [grad.view(-1, *[1] * (part.dim() - 1)) * part for part in marginals]
        # torch.compile has zeros for all that is None, and no second derivatives.
        if torch.compiler.is_compiling() and not ctx.are_results:
            directions = ()
        if any(direction is not None for direction in directions):
            given = [
                torch.zeros_like(part) if direction is None else direction
                for direction, part in zip(directions, parts, strict=False)
            ]
            more = _derive("marginals", trees, given)
            found = [a + b for a, b in zip(found, more, strict=True)] if found else more
        return *[None] * 6, *_three(found)


class _Entropies(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(decoder, single_root, lengths, engine, arc, sibling, end):  # type: ignore[no-untyped-def]
        parts = _given(arc, sibling, end)
        return entropy_of_trees(decoder, single_root, lengths, engine, parts)[0]

    @staticmethod
    def setup_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
        ctx.decoder, ctx.single_root, lengths, _, *parts = inputs
        ctx.save_for_backward(lengths, *_given(*parts))

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        lengths, *parts = ctx.saved_tensors
        trees = SummedTrees(ctx.decoder, ctx.single_root, lengths, tuple(parts))
        return *[None] * 4, *_three(_derive("entropy", trees, [grad]))


class _Derivatives(torch.autograd.Function):
    """`derivatives_of_trees`, for traced code."""

    generate_vmap_rule = True

    @staticmethod
    def forward(quantity, decoder, single_root, lengths, arc, sibling, end, x, y, z):  # type: ignore[no-untyped-def]
        given = _given(arc, sibling, end), _given(x, y, z)
        return tuple(derivatives_of_trees(quantity, decoder, single_root, lengths, *given))

    @staticmethod
    def setup_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
        pass

    @staticmethod
    def backward(ctx, *grads):  # type: ignore[no-untyped-def]
        raise ScoreError(
            "traced and transformed code has no further derivatives of native sums; use engine"
            " 'torch'"
        )


def _three(parts: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    return *parts, *[None] * (3 - len(parts))


def _given(*parts: Tensor | None) -> list[Tensor]:
    return [part for part in parts if part is not None]


def _apply(
    trees: SummedTrees, engine: Engine, count: int, *, are_results: bool
) -> tuple[Tensor, ...]:
    if not (trees.needs_gradient or is_traced()):
        return tuple(sum_over_trees(*trees[:3], engine, list(trees.parts), count))
    found: tuple[Tensor, ...] = _Sums.apply(
        *trees[:3], engine, count, are_results, *_three(trees.parts)
    )
    return found


def _derive(quantity: str, trees: SummedTrees, directions: list[Tensor]) -> list[Tensor]:
    """The derivatives of <directions, quantity> with respect to the parts."""
    if is_traced():
        given = *trees[:3], *_three(trees.parts), *_three(directions)
        return list(_Derivatives.apply(quantity, *given))
    return _derivatives(quantity, trees, directions, torch.is_grad_enabled())


def _derivatives(
    quantity: str, trees: SummedTrees, directions: list[Tensor], create_graph: bool
) -> list[Tensor]:
    """`_derive`, perhaps differentiable in its turn."""
    with torch.enable_grad():
        parts = tuple(
            part if create_graph and part.requires_grad else part.detach().requires_grad_()
            for part in trees.parts
        )
        trees = trees._replace(parts=parts)
        if trees.decoder not in CHARTS and parts[0].shape[1] > 1:
            return [_derivative_by_inverse(quantity, trees, directions, create_graph)]
        return _gradients(
            _in_torch(quantity, trees, len(directions)), parts, directions, create_graph
        )


def _in_torch(quantity: str, trees: SummedTrees, count: int) -> Sequence[Tensor]:
    if quantity == "entropy":
        return trees.log_sums(with_entropy=True)[1:]
    return trees.marginals(count, keep_gradients=True)[1]


def _derivative_by_inverse(
    quantity: str, trees: SummedTrees, directions: list[Tensor], create_graph: bool
) -> Tensor:
    """`_derivatives` for all trees, from the inverse of the Laplacian where that is precise."""
    (arcs,), (direction,) = trees.parts, directions
    if quantity == "entropy":  # its gradient is minus the second derivatives times the scores
        direction = -direction[:, None, None] * trees.centred_arcs()[0]
    found = marginals_by_inverse(arcs, trees.lengths, trees.single_root)
    _, exact = sum_over_trees(*trees[:3], "native", [arcs], 1)
    is_precise = ((found.detach() - exact).abs() <= PRECISE).flatten(1).all(1)
    if is_precise.all():
        return _gradients([found], [arcs], [direction], create_graph)[0]
    good, bad = is_precise.nonzero()[:, 0], (~is_precise).nonzero()[:, 0]
    by_inverse = _derivative_by_inverse(
        quantity, trees.some(good), [directions[0][good]], create_graph
    )
    some = trees.some(bad)._replace(is_checked=False)
    rest = _gradients(_in_torch(quantity, some, 1), some.parts, [directions[0][bad]], create_graph)
    return torch.cat([by_inverse, *rest])[torch.cat([good, bad]).argsort()]


def _gradients(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], directions: Sequence[Tensor],
    create_graph: bool,
) -> list[Tensor]:  # fmt: skip
    pairs = [pair for pair in zip(outputs, directions, strict=True) if pair[0].requires_grad]
    if not pairs:  # of sentences without words
        return [torch.zeros_like(part) for part in inputs]
    outputs, directions = zip(*pairs, strict=True)
    found = torch.autograd.grad(
        outputs, inputs, directions, create_graph=create_graph, materialize_grads=True
    )
    return list(found)

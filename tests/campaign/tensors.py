"""Hostile score tensors: every public function returns what it promises, or refuses."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpuparse import inference
from gpuparse.errors import GpuparseError
from tests.campaign.bench import Bench
from tests.campaign.running import Failure, call

CALLS = 20  # in a process
LABELS = 2
AXES = {
    "arc_scores": 2, "end_scores": 2, "marginals": 2, "arc_marginals": 2, "label_scores": 2,
    "sibling_scores": 3, "grandparent_scores": 3, "inner_grandchild_scores": 3,
    "outer_grandchild_scores": 3, "grand_sibling_scores": 4, "tri_sibling_scores": 4,
    "outermost_scores": 4,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(inference, name)
    for name in inference.__all__
    if inspect.isfunction(getattr(inference, name))
    and {"arc_scores", "label_scores", "marginals"}
    & set(inspect.signature(getattr(inference, name)).parameters)
}
NUMBERS = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.int16,
           torch.int32, torch.int64]  # fmt: skip
TYPES = [*NUMBERS, torch.uint8, torch.uint16, torch.float8_e4m3fn, torch.bool, torch.complex64]


def losses(
    arc_scores: Tensor, lengths: Tensor | None = None, *, single_root: bool = False
) -> tuple[Tensor, ...]:
    """Best and k best scores and losses of both kinds of trees; as under the scores in float64."""
    every: list[Tensor] = []
    for made in (inference.ProjectiveTrees, inference.NonProjectiveTrees):
        trees = made(arc_scores, lengths, single_root=single_root)
        heads, scores, _ = trees.best()
        wide = made(arc_scores.detach().double(), lengths, single_root=single_root)
        pairs = [
            (trees.score_of(heads), wide.score_of(heads)),
            (trees.log_prob(heads), wide.log_prob(heads)),
            (scores, wide.best().scores), (trees.k_best(3)[1], wide.k_best(3)[1]),
        ]  # fmt: skip
        for name in ("conditional_loss", "hinge_loss", "local_loss", "risk_loss"):
            of_narrow, of_wide = (getattr(inference, name)(each, heads) for each in (trees, wide))
            pairs.append((of_narrow.double(), of_wide))
        for found, expected in pairs:
            if found.dtype != torch.float64 or not torch.allclose(found, expected, rtol=1e-5):
                raise Failure(f"{found.tolist()} of {arc_scores.dtype}, not {expected.tolist()}")
            every.append(found.detach())
    return tuple(every)


FUNCTIONS["losses"] = losses
# Formulas over cells, which pass on what is not a number.
UNCHECKED = {"label_marginals", "arc_scores_of_labels", "constrain"}
VALUES = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e6, -1e6, 1e38, 1e290, 1.7e308,
          5e-324]  # fmt: skip


def arguments_of(name: str, draw: random.Random) -> dict[str, Any]:
    """Valid arguments of a function by name; optional ones are often left out."""
    n_batch, n_nodes = draw.randint(1, 3), draw.randint(2, 6)
    labelled = name == "eisner_grandchild_labelled"
    given: dict[str, Any] = {}
    generator = torch.Generator().manual_seed(draw.randrange(2**30))
    for key, parameter in inspect.signature(FUNCTIONS[name]).parameters.items():
        # A thousand iterations of dual decomposition in torch take half a minute.
        is_optional = parameter.default is not parameter.empty and key != "max_iterations"
        if is_optional and draw.random() < 0.5:
            continue
        if key in AXES:
            has_labels = key == "label_scores" or (labelled and key in AXES)
            shape = [n_batch, *[n_nodes] * AXES[key], *[LABELS] * has_labels]
            numbers = torch.randint(-9, 9, shape, generator=generator)
            given[key] = numbers.to(draw.choice(NUMBERS))
            if "marginals" in key:
                given[key] = torch.rand(shape, generator=generator)
        elif key == "lengths":
            words = [draw.randint(0, n_nodes - 1) for _ in range(n_batch)]
            given[key] = torch.tensor(words)
        elif key in ("required", "forbidden"):
            given[key] = torch.rand(n_batch, n_nodes, n_nodes, generator=generator) < 0.1
        elif key in ("k", "n_samples", "max_iterations", "max_changes"):
            given[key] = draw.randint(1, 5)
        elif key == "limits":
            given[key] = [[0, 1]]
        elif key == "decoder":
            given[key] = draw.choice(["eisner", "chu_liu_edmonds"])
        elif key == "engine":
            given[key] = draw.choice(["auto", "torch", "native"])
        elif key == "single_root":
            given[key] = draw.random() < 0.5
    return given


def damaged(value: Any, draw: random.Random) -> Any:
    """Another value in place of an argument."""
    if isinstance(value, Tensor):
        return damaged_tensor(value, draw)
    if isinstance(value, str):
        return draw.choice(["", "nonsense", "gpu", None])
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return draw.choice([0, -1, 2**62, -(2**62)])
    return draw.choice([[], [[]], [[5]], [[-1, 0]], [[0]] * 99])


def damaged_tensor(tensor: Tensor, draw: random.Random) -> Any:
    kind = draw.randrange(8)
    if kind == 0:
        return tensor.to(draw.choice(TYPES))
    if kind == 1:
        shape = list(tensor.shape)
        at = draw.randrange(len(shape))
        shape[at] = draw.choice([0, 1, shape[at] + 1])
        return torch.zeros(shape, dtype=tensor.dtype)
    if kind == 2:
        return draw.choice([tensor[0], tensor[None], tensor.flatten(), tensor.sum()])
    if kind == 3:
        return draw.choice([
            lambda: tensor.to("meta"), tensor.to_sparse, tensor.tolist, tensor.double().numpy,
            lambda: None,
            lambda: torch.nested.nested_tensor([tensor], layout=torch.jagged),
        ])()  # fmt: skip
    if kind == 4:
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    if kind == 5 and tensor.is_floating_point():
        return tensor.clone().requires_grad_()
    changed = tensor.clone()
    cells = torch.from_numpy(np.random.default_rng(draw.randrange(2**30)).random(tensor.shape))
    cells = cells < draw.choice([0.05, 0.3, 2])
    if tensor.is_floating_point():
        values = torch.tensor(draw.choice(VALUES), dtype=torch.float64)
        changed[cells] = values.to(changed.dtype)
    elif tensor.dtype == torch.int64:
        changed[cells] = draw.choice([-1, -(2**62), 2**62, 2**31, 7])
    else:
        changed[cells] = True
    return changed


def check(name: str, given: dict[str, Any], found: Any) -> None:
    """Failure unless heads are words of their sentences, and sums and probabilities numbers."""
    tensors = found if isinstance(found, tuple) else (found,)
    scores = given.get("arc_scores", given.get("marginals"))
    lengths = given.get("lengths")
    for place, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            continue
        if place == 0 and tensor.dtype == torch.int64 and lengths is not None:
            words = torch.as_tensor(lengths).long().reshape(-1, *[1] * (tensor.dim() - 1))
            if tensor.numel() and bool(((tensor < -1) | (tensor > words)).any()):
                raise Failure(f"{name}: a head outside of its sentence")
        if name in UNCHECKED:
            continue
        if tensor.is_floating_point() and bool(tensor.isnan().any()):
            raise Failure(f"{name}: not a number")
    if name.endswith("_marginals") and name != "label_marginals" and isinstance(scores, Tensor):
        own = tensors[0]
        if own.numel() and (float(own.min()) < 0 or float(own.max()) > 1 + 1e-6):
            raise Failure(f"{name}: probabilities from {float(own.min())} to {float(own.max())}")


def try_calls(draw: random.Random) -> None:
    """Call functions with damaged arguments, and print how each call ended."""
    for _ in range(CALLS):
        name = draw.choice(list(FUNCTIONS))
        given = arguments_of(name, draw)
        said = []
        for key in draw.sample(list(given), k=min(len(given), draw.choice([1, 1, 1, 2]))):
            given[key] = damaged(given[key], draw)
            if key == "max_iterations":
                given[key] = min(given[key], 5)  # more than that is right, and takes its time
            said.append(f"{key}={describe(given[key])}")
        print("?", name, *said, flush=True)  # the call that a crash ends
        try:
            check(name, given, FUNCTIONS[name](**given))
            print("=accepted")
        except GpuparseError as error:
            print(f"=refused by {type(error).__name__}")
        except Exception as error:
            line = str(error).splitlines()[0][:200] if str(error) else ""
            print(f"!{name}({', '.join(said)}): {type(error).__name__}: {line}")


def describe(value: Any) -> str:
    if isinstance(value, Tensor):
        return (
            f"{value.dtype} {value.layout} {value.device} {tuple(value.size())}"
            if not (value.is_nested)
            else "nested"
        )
    return f"{type(value).__name__} {str(value)[:40]}"


@cache
def load() -> None:
    """Import once, before processes are forked, what is imported when it is first used."""
    torch.nested.nested_tensor([torch.zeros(1)], layout=torch.jagged)


def tensors(draw: random.Random, bench: Bench) -> list[str]:
    """Twenty calls with damaged arguments in one process."""

    def main(words: object) -> int:
        try_calls(draw)
        return 0

    load()
    ended = call(main, [], bench.place())
    lines = ended.out.decode().splitlines()
    bad = [line[1:] for line in lines if line.startswith("!")]
    if ended.code:
        last = next((line for line in reversed(lines) if line.startswith("?")), "nothing")
        raise Failure(f"exit code {ended.code} in {last}: {ended.err[-500:]}")
    if bad:
        raise Failure("\n    ".join(bad))
    return [line[1:] for line in lines if line.startswith("=")]

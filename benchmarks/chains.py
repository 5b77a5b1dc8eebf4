"""Linear chains, best sequences, k best, sums and their gradients: microseconds a sequence."""

import argparse
import importlib
import warnings
from functools import partial

import torch
from torch import Tensor

from benchmarks.kernels import Search, is_installed
from benchmarks.registry import Report, median_times
from gpuparse.inference import chain_kbest, chain_log_partition, chain_marginals, chain_viterbi

GATE = ("tests/inference/test_chains.py",)
SIZES = ((10, 5), (25, 5), (25, 17))
"""Positions and tags: 5 tags for chunks, 17 for UPOS. The peer's k best of 50 tags need 20 GB."""
BATCH = 16
K = 5
COLUMNS = ["what", "n", "tags", "cpu us", "torch us", "peer us", "x cpu", "x torch"]


def run(options: argparse.Namespace) -> Report:
    """Time all on the same scores, after checking that values agree."""
    warnings.filterwarnings("ignore", ".*arg_constraints")
    has_peer = is_installed("torch_struct")
    notes = [
        f"float32, normal random scores of tags and of pairs at each position; batch {BATCH}, "
        f"{options.threads} thread(s); median of {options.repeats} rounds of "
        + ("CPU time." if options.threads == 1 else "time on the clock."),
        "Public functions with their checks, native (cpu) and torch, in float64. peer: "
        "LinearChainCRF of torch-struct in float32, its own layout ready-made. x: how many times "
        "faster than the peer.",
        f"k best: {K} sequences. gradients: the log-partition and its gradient of all scores.",
    ]
    if not has_peer:
        notes.append("The peer is left out: torch_struct is not installed.")
    rows = [row for n, k in SIZES for row in _rows(n, k, options, has_peer)]
    return Report("Linear chains, microseconds a sequence", COLUMNS, rows, notes)


def _rows(n: int, k: int, options: argparse.Namespace, has_peer: bool) -> list[list[object]]:
    generator = torch.Generator().manual_seed(100 * n + k)
    unary = torch.randn(BATCH, n, k, generator=generator)
    pairs = torch.randn(BATCH, n - 1, k, k, generator=generator)
    contestants: dict[str, Search] = {"k best": partial(chain_kbest, unary, pairs, K)}
    for backend in ("cpu", "torch"):
        contestants |= {
            f"best {backend}": partial(chain_viterbi, unary, pairs, backend=backend),
            f"sums {backend}": partial(chain_log_partition, unary, pairs, backend=backend),
            f"marginals {backend}": partial(chain_marginals, unary, pairs, backend=backend),
        }
    leaves = unary.clone().requires_grad_(), pairs.clone().requires_grad_()

    def gradients(backend: str) -> tuple[Tensor, ...]:
        return torch.autograd.grad(chain_log_partition(*leaves, backend=backend).sum(), leaves)

    for backend in ("cpu", "torch"):
        contestants[f"gradients {backend}"] = partial(gradients, backend)
    if has_peer:
        contestants |= _peer(unary, pairs)
    seconds = median_times(contestants, options)
    micro = {name: time / BATCH * 1e6 for name, time in seconds.items()}
    micro["k best cpu"] = micro.pop("k best")
    rows: list[list[object]] = []
    for what in ("best", "k best", "sums", "marginals", "gradients"):
        ours = [micro.get(f"{what} {backend}") for backend in ("cpu", "torch")]
        peer = micro.get(f"{what} peer")
        ratios = [peer / time if peer and time else None for time in ours]
        rows.append([what, n, k, *ours, peer, *ratios])
    return rows


def _peer(unary: Tensor, pairs: Tensor) -> dict[str, Search]:
    """The searches of torch-struct on the same scores; their values are compared with ours."""
    crf = importlib.import_module("torch_struct").LinearChainCRF
    # A position, the tag there, the tag before; the first tag counts with the second.
    edges = unary[:, 1:, :, None] + pairs.transpose(2, 3)
    edges[:, 0] += unary[:, 0, None, :]
    # Release 0.5 fails on scores that do not require gradients.
    edges = edges.detach().requires_grad_()

    def k_best() -> Tensor:
        found: Tensor = crf(edges).topk(K)
        return found

    def marginals() -> Tensor:
        found: Tensor = crf(edges).marginals
        return found

    def sums() -> Tensor:
        found: Tensor = crf(edges).partition
        return found

    def gradients() -> Tensor:
        return torch.autograd.grad(crf(edges).partition.sum(), edges)[0]

    def best() -> Tensor:
        found: Tensor = crf(edges).argmax
        return found

    close = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-3)
    total = (1, 2, 3)
    close((best() * edges).sum(total).detach(), chain_viterbi(unary, pairs)[1].float())
    their_kbest = (k_best() * edges).sum((2, 3, 4)).T.detach()
    close(their_kbest, chain_kbest(unary, pairs, K)[1].float())
    close(sums().detach(), chain_log_partition(unary, pairs).float())
    close(marginals().sum(3).detach(), chain_marginals(unary, pairs)[:, 1:].float())
    close(gradients().sum(3), chain_marginals(unary, pairs)[:, 1:].float())
    searches = {
        "best": best, "k best": k_best, "sums": sums, "marginals": marginals,
        "gradients": gradients,
    }  # fmt: skip
    return {f"{what} peer": search for what, search in searches.items()}

"""Plans as the Triton kernels of `triton_sums.py` read them, on a device."""

from typing import Any

import numpy as np
import torch

from gpuparse.features.plan import HEAD, LINE, MODIFIER, ArcPlan, SiblingPlan
from gpuparse.scorers.linear.hashing import WORD
from gpuparse.scorers.linear.plan_tensors import sender

# Numbers of words without a value: bits that the XOR of two or three roles keeps, beyond all keys;
# SILENT is more than any sum of lines, too.
SILENT_HEAD, SILENT_MODIFIER, SILENT = 1 << 33, 1 << 34, 1 << 40
_BOTH = 2  # the kind of families that look at both words; those of one have its role

# The number of a word for a family is a hash of its atoms, or a multiple of the value of the only
# one. first, end: its atoms. silent: the number where one has no value. most: bits of the hash, or
# the largest value told apart.
LOOK = ("first", "end", "silent", "is_hashed", "seed", "most", "factor", "constant")


class KernelArcs:
    """An ArcPlan: F families of one or two words, Y families in between.

    looks: (2 F + 3 Y, LOOK) head and modifier of each of the F; head, modifier, middle of the Y.
    atoms: (A, 2) rows and offsets. groups: (G + Y, 4): G runs of families with the same codes, then
    the Y families: first and second code table, the first look and the one after the last.
    of_kind: the groups where families begin that look at the head, the modifier, both; and G.
    """

    def __init__(self, plan: ArcPlan, device: torch.device) -> None:
        word, pair, between = plan.word, plan.pair, plan.between
        codes = "first_codes", "second_codes"
        kind = np.concatenate([word["role"], np.full(len(pair), _BOTH)])
        first, second, seed = (np.concatenate([word[x], pair[x]]) for x in (*codes, "seed"))
        order = np.lexsort((second, first, kind))
        runs, sizes = np.unique(np.stack([kind, first, second], 1), axis=0, return_counts=True)
        self.of_kind = np.searchsorted(runs[:, 0], [HEAD, MODIFIER, _BOTH, _BOTH + 1]).tolist()
        ends = 2 * sizes.cumsum()
        own = 2 * len(order) + 3 * np.arange(len(between))
        alike = *runs[:, 1:].T, ends - 2 * sizes, ends
        alone = *(between[x] for x in codes), own, own
        of_words = []
        for role, name, silent in (
            (HEAD, "head_side", SILENT_HEAD),
            (MODIFIER, "modifier_side", SILENT_MODIFIER),
        ):
            of_role = np.where(word["role"] == role, word["side"], -1)
            side = np.concatenate([of_role, pair[name]])[order]
            salt = (2 * seed + (role == MODIFIER) * (kind == _BOTH))[order]
            look = looks(*_atoms_of(plan, side), silent=silent, is_hashed=1, seed=salt, most=WORD)
            look[side < 0] = 0  # adds nothing
            of_words.append(look)
        middle = len(plan.atoms) + np.arange(len(between))
        step = LINE * between["n_modifiers"]
        lines = [
            looks(*atoms, silent=SILENT, most=between[n] - 1, factor=factor, constant=constant)
            for atoms, n, factor, constant in (
                (
                    _atoms_of(plan, between["head_side"]), "n_heads",
                    step * between["n_middles"], between["line"] * LINE,
                ),
                (_atoms_of(plan, between["modifier_side"]), "n_modifiers", LINE, 0),
                ((middle, middle + 1), "n_middles", step, 0),
            )
        ]  # fmt: skip
        sent = sender(device)
        self.looks = sent(np.concatenate([_in_turn(of_words), _in_turn(lines)]))
        middles = np.stack([between["row"], np.zeros(len(between), np.int64)], 1)
        self.atoms = sent(np.concatenate([plan.atoms.view(np.int64).reshape(-1, 2), middles]))
        self.groups = sent(np.concatenate([np.stack(alike, 1), np.stack(alone, 1)]))
        self.codes, self.buckets = sent(plan.codes.astype(np.int64)), sent(plan.buckets)
        self.n_buckets, self.n_between = plan.n_buckets, len(between)


class KernelTriples:
    """The triple families of a SiblingPlan, Z of them.

    looks: (3 Z, LOOK) head, sibling and modifier of each. atoms: as above. triples: (Z, 3): first
    and second code table, first row in the dense region.
    """

    def __init__(self, plan: SiblingPlan, device: torch.device) -> None:
        triple, sent, roles = plan.triple, sender(device), ("head", "sibling", "modifier")
        is_hashed = triple["is_hashed"] == 1
        of_roles = []
        for role, name in enumerate(roles):
            atom = 3 * np.arange(len(triple)) + role
            shift = 1 << triple[f"{name}_shift"]
            most = np.where(is_hashed, triple["cells"] - 1, WORD)
            factor = np.where(is_hashed, triple["slots"], shift)
            of_roles.append(
                looks(
                    atom, atom + 1, silent=SILENT << role, is_hashed=is_hashed, most=most,
                    seed=3 * triple["seed"] + role, factor=factor,
                )
            )  # fmt: skip
        self.looks, rows = sent(_in_turn(of_roles)), [triple[f"{name}_row"] for name in roles]
        self.atoms = sent(np.stack([np.stack(rows, 1).ravel(), np.zeros(3 * len(triple), int)], 1))
        codes = triple["first_codes"], triple["second_codes"]
        self.triples = sent(np.stack([*codes, triple["line"] * LINE], 1))


def looks(first: np.ndarray, end: np.ndarray, **columns: Any) -> np.ndarray:
    """(L, LOOK) int64; a factor of 1 and zeros for columns that are not given."""
    found = np.zeros((len(first), len(LOOK)), np.int64)
    for name, column in {"first": first, "end": end, "factor": 1, **columns}.items():
        found[:, LOOK.index(name)] = column
    return found


def _atoms_of(plan: ArcPlan, side: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first atom of sides, and the one after the last."""
    return plan.side_start[side], plan.side_start[side + 1]


def _in_turn(roles: list[np.ndarray]) -> np.ndarray:
    """The looks of all roles of a family, then those of the next one."""
    return np.stack(roles, 1).reshape(-1, len(LOOK))

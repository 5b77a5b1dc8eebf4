"""The state of all stages of a run, checked: native code does not look for what a file says."""

from collections.abc import Mapping, Sequence

import numpy as np

from gpuparse.data.array_file import below
from gpuparse.errors import ModelError, plural
from gpuparse.learning.stages.stage import BestEpoch, Shape, Stage

_DONE, _BEST = "done", "best"


def state_of(stages: Sequence[Stage]) -> dict[str, np.ndarray]:
    """All that `restore` goes on from, by `stage.name`; no copies. Only between two epochs."""
    state: dict[str, np.ndarray] = {}
    for stage in stages:
        own = {_DONE: np.array([stage.done])} | stage.state()
        if stage.best is not None:
            own[_BEST] = np.array([stage.best.score, stage.best.epoch], np.float64)
            own |= {f"{_BEST}_{i}": a for i, a in enumerate(stage.best.averages)}
        state |= {f"{stage.name}.{name}": array for name, array in own.items()}
    return state


def restore(stages: Sequence[Stage], state: Mapping[str, np.ndarray]) -> None:
    """Let stages go on from a state of the same run.

    Raises: ModelError: the state is of another run, or of none: arrays are missing or unknown; of
        other types or shapes; not finite; or more epochs are done than there are.
    """
    own = {stage.name: below(state, stage.name) for stage in stages}
    done = {stage.name: _done(stage, own[stage.name]) for stage in stages}
    shapes = {
        f"{stage.name}.{name}": shape
        for stage in stages
        for name, shape in _shapes(stage, done[stage.name], own[stage.name]).items()
    }
    _check_arrays(state, shapes)
    open_stage = None
    for stage in stages:
        if done[stage.name] and open_stage:
            raise ModelError(f"a damaged state: {stage.name} before the end of {open_stage.name}")
        open_stage = open_stage or (stage if done[stage.name] < stage.epochs else None)
    for stage in stages:
        stage.done = done[stage.name]
        arrays = own[stage.name]
        stage.best = _best(stage, arrays)
        stage.restore({n: a for n, a in arrays.items() if n != _DONE and not n.startswith(_BEST)})


def _done(stage: Stage, own: Mapping[str, np.ndarray]) -> int:
    """The number of epochs done; 0 if it is missing, which `_check_arrays` refuses."""
    found = own.get(_DONE)
    if found is None or found.dtype != np.int64 or found.shape != (1,):
        return 0
    done = int(found[0])
    if not 0 <= done <= stage.epochs:
        raise ModelError(f"a damaged state: {plural(done, stage.unit)} of {stage.name}")
    return done


def _shapes(stage: Stage, done: int, own: Mapping[str, np.ndarray]) -> dict[str, Shape]:
    shapes = {_DONE: Shape(np.int64, (1,))} | stage.shapes(done, own)
    if _BEST in own and done:
        shapes[_BEST] = Shape(np.float64, (2,))
        sizes = stage.average_sizes(done)
        shapes |= {f"{_BEST}_{i}": Shape(np.float32, size) for i, size in enumerate(sizes)}
    return shapes


def _check_arrays(state: Mapping[str, np.ndarray], shapes: Mapping[str, Shape]) -> None:
    lacking = sorted(set(shapes) ^ set(state))
    if lacking:
        raise ModelError(f"a state of another run: {lacking[0][:40]!r} is missing or unknown")
    for name, (dtype, sizes) in shapes.items():
        array = state[name]
        if array.dtype != dtype or array.shape != sizes:
            raise ModelError(
                f"a state of another run: '{name}' is {array.dtype} {list(array.shape)}, not"
                f" {np.dtype(dtype)} {list(sizes)}"
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ModelError(f"a damaged state: '{name}' has numbers that are not finite")


def _best(stage: Stage, own: Mapping[str, np.ndarray]) -> BestEpoch | None:
    """The best epoch so far.

    Raises: ModelError: an epoch that is not done.
    """
    if _BEST not in own:
        return None
    score, epoch = own[_BEST].tolist()
    if not 1 <= epoch <= stage.done or epoch != int(epoch):
        raise ModelError(f"a damaged state: epoch {epoch} of {stage.name} is not done")
    averages = [own[f"{_BEST}_{i}"] for i in range(len(stage.average_sizes(stage.done)))]
    return BestEpoch(score, int(epoch), averages, is_chosen=stage.done == stage.epochs)

"""Pruners that are learned quickly."""

from collections.abc import Iterator

import pytest

from gpuparse.learning.stages import pruning


@pytest.fixture(scope="module")
def three_folds() -> Iterator[None]:
    """A pruner is learned from three folds with two passes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pruning, "FOLDS", 3)
        patch.setattr(pruning, "EPOCHS", 2)
        yield

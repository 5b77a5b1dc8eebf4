"""Small stages: for tests that need a tokeniser, tagger or lemmatiser, but no good one."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gpuparse.text import training
from gpuparse.text.tagging import lemmatizer, tagger_learner


@contextmanager
def small_stages(epochs: int = 3, rows: int = 1 << 16) -> Iterator[pytest.MonkeyPatch]:
    """Stages are learned with few passes and rows; words that occur five times are frequent."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (training, tagger_learner, lemmatizer):
            learning = module.LEARNING._replace(epochs=epochs, rows=rows)
            patch.setattr(module, "LEARNING", learning)
        patch.setattr(tagger_learner, "FREQUENT", 5)
        yield patch

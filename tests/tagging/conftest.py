"""Fixtures of the tests of taggers."""

from collections.abc import Iterator

import pytest

from gpuparse.text.tagging import tagger_learner
from tests.small_stages import small_stages


@pytest.fixture(scope="module")
def small_taggers() -> Iterator[None]:
    """Small stages, and networks of three passes."""
    with small_stages() as patch:
        patch.setattr(tagger_learner, "epochs_of", lambda n_words, *, of_fold=False: 3)
        yield

"""Grain's tests of interleaving, of which the wheel has only the base class, that is skipped."""

from grain._src.python.dataset.transformations import interleave_test


class InterleaveTest(interleave_test._InterleaveIterDatasetTestBase):
    """Runs them."""

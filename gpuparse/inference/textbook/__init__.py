"""Algorithms as plain loops over one sentence, for readers and tests."""

"""Algorithms in torch over whole batches, on any device."""

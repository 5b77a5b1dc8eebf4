"""Searches without a guarantee of the best tree, and approximate marginals."""

"""Graph-based dependency parsing: fast, exact, repeatable."""

__version__ = "0.1.0"

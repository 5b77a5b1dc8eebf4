"""Parsing over HTTP: one queue, one thread that parses, and two interfaces over them."""

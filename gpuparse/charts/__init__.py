"""The charts: a page each, with the items and rules that all engines follow."""

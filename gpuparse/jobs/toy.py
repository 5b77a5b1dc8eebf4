"""Models of generated sentences, such as that of `quickstart`, which know a toy grammar."""

TOY = (
    "learned from generated sentences: it knows only their toy grammar; for real text learn from a"
    " treebank (data.train=FILE)"
)


def is_toy(config: str) -> bool:
    """True if a model learned from generated sentences, by the config that it records."""
    return "\n  train: toy-train.conllu\n" in config  # it is always written in the same form

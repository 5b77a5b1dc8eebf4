"""Tree search: score tensors in, trees out."""

from gpuparse.inference.chu_liu_edmonds import chu_liu_edmonds
from gpuparse.inference.decode import DECODERS, decode
from gpuparse.inference.eisner import eisner
from gpuparse.inference.scores import Parse, Scores

__all__ = ["DECODERS", "Parse", "Scores", "chu_liu_edmonds", "decode", "eisner"]

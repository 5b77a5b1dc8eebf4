"""Tree search: score tensors in, trees out."""

from gpuparse.inference.chu_liu_edmonds import chu_liu_edmonds
from gpuparse.inference.decode import DECODERS, Decoder, decode
from gpuparse.inference.eisner import eisner
from gpuparse.inference.eisner_kbest import eisner_kbest
from gpuparse.inference.eisner_sibling import eisner_sibling
from gpuparse.inference.eisner_sibling_kbest import eisner_sibling_kbest
from gpuparse.inference.hill_climb import hill_climb
from gpuparse.inference.multi_parent import multi_parent
from gpuparse.inference.scores import Parse, Scores

__all__ = [
    "DECODERS",
    "Decoder",
    "Parse",
    "Scores",
    "chu_liu_edmonds",
    "decode",
    "eisner",
    "eisner_kbest",
    "eisner_sibling",
    "eisner_sibling_kbest",
    "hill_climb",
    "multi_parent",
]

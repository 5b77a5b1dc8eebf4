"""The language in which the pages of this folder state their charts.

A chart is a list of rules, one per line:

    C_R(i,j) = I_R(i,r) C_R(r,j)   for i < r <= j
    C_R(i,i) = 1

On the left is an item: a kind and its positions. On the right is one way to derive it: a
product of items and of scores, for every split r within bounds. A name on the left of no rule
is a score. Products are computed from the left, those in brackets first. Rules of the same
item are alternatives. A rule that ends in `if 0 < i` holds only where that is true.

The letters of items on most pages, in the terms of Eisner's algorithm:

    C_R, C_L  complete: a half-span, a head with all words below it on one side
    I_R, I_L  incomplete: the span of an arc, with all that is between its two words
    S         between: what is between the two words of an arc or two successive modifiers
    E_R, E_L  end: I where the modifier is the outermost one of its head on that side

In R the head is the left end of the span, in L the right one. Other items are explained on the page
of their chart; grandchild.py spells all of its items out.

Rules are in an order in which the items of one span can be computed one after another.

Splits are taken in the order in which they are written: `for i < r <= j` from the smallest,
`for j > r >= i` from the largest. A capital letter is a size, not a position, such as
the number of labels.

Ties: an item prefers the first of its rules, and within a rule the first split. Among k best
trees, derivations of equal value are in the order of rule, split, and the ranks of the items of the
product from left to right.

An item may have more words than the ends of its span: C(g,h,e) is a half-span whose head h has the
head g.
"""

import re
from typing import NamedTuple


class Index(NamedTuple):
    """A position: a variable plus a number, or a number alone (variable "")."""

    variable: str
    offset: int

    def at(self, values: dict[str, int]) -> int:
        """The position, given the values of variables."""
        return values.get(self.variable, 0) + self.offset


class Factor(NamedTuple):
    """An item or a score."""

    name: str
    positions: tuple[Index, ...]


class Product(NamedTuple):
    """Factors and products in brackets, from left to right; without any it is one."""

    factors: tuple["Factor | Product", ...]

    def flat(self) -> list[Factor]:
        """All factors, without brackets."""
        found: list[Factor] = []
        for factor in self.factors:
            found += factor.flat() if isinstance(factor, Product) else [factor]
        return found


class Split(NamedTuple):
    """The variable of a split, its first and last value, and 1 or -1 from one to the next."""

    variable: str
    first: Index
    last: Index
    step: int


class Rule(NamedTuple):
    """One way to derive an item.

    factors: those of the product, without brackets. holds: low < high is needed, None for always.
    """

    item: Factor
    product: Product
    factors: tuple[Factor, ...]
    split: Split | None
    holds: tuple[Index, Index] | None

    def split_values(self, values: dict[str, int]) -> range:
        """The splits for given positions of the item; one where there is no split."""
        if self.holds and not self.holds[0].at(values) < self.holds[1].at(values):
            return range(0)
        if self.split is None:
            return range(1)
        step = self.split.step
        return range(self.split.first.at(values), self.split.last.at(values) + step, step)


class Chart:
    """The rules of a chart.

    rules: as text. trees: the item of all trees of the words 1..n under the root 0. single_root:
    the product for trees with one root word m, which is the item TREE(n). arc: the score whose
    first two positions are the head and the modifier of an arc. by_item: the rules of each item.
    spans: the items that have rules for spans of several words, in the order of the rules.
    """

    def __init__(self, rules: str, trees: str, single_root: str, arc: str = "arc") -> None:
        self.rules, self.trees, self.single_root, self.arc = rules, trees, single_root, arc
        of_spans = [_parse_rule(line) for line in rules.splitlines() if line.strip()]
        whole = f"TREE(n) = {single_root}", f"FOREST(n) = {trees}"
        self.by_item: dict[str, tuple[Rule, ...]] = {}
        for rule in [*of_spans, *map(_parse_rule, whole)]:
            self.by_item[rule.item.name] = (*self.by_item.get(rule.item.name, ()), rule)
        self.spans = tuple(dict.fromkeys(rule.item.name for rule in of_spans if rule.factors))

    def top(self, single_root: bool) -> str:
        """The name of the item of all trees, whose one position is n."""
        return "TREE" if single_root else "FOREST"


_FACTOR = re.compile(r"\s*(?:(\w+)\(([^()]*)\)|([()]))")
_CHAIN = re.compile(r"(\S+)\s*([<>]=?)\s*(\w+)\s*([<>]=?)\s*(\S+)")


def _parse_rule(line: str) -> Rule:
    head, _, rest = line.partition("=")
    rest, _, condition = rest.partition(" if ")
    text, _, bounds = rest.partition(" for ")
    holds = None
    if condition:
        low, _, high = condition.partition("<")
        holds = _parse_index(low), _parse_index(high)
    split = None
    if bounds:
        chain = _CHAIN.fullmatch(bounds.strip())
        if chain is None:
            raise ValueError(f"not a split: {bounds!r}")
        begin, after, variable, before, end = chain.groups()
        if after[0] != before[0]:
            raise ValueError(f"not a split: {bounds!r}")
        step = 1 if after[0] == "<" else -1
        first, last = _parse_index(begin), _parse_index(end)
        split = Split(
            variable,
            first._replace(offset=first.offset + step * (len(after) == 1)),
            last._replace(offset=last.offset - step * (len(before) == 1)),
            step,
        )
    product = _parse_product(text)
    return Rule(_parse_product(head).flat()[0], product, tuple(product.flat()), split, holds)


def _parse_product(text: str) -> Product:
    """A product such as `I_R(i,k) (S(k,j) sib(i,j,k))`, or 1."""
    if text.strip() == "1":
        return Product(())
    stack: list[list[Factor | Product]] = [[]]
    end = 0
    while text[end:].strip():
        found = _FACTOR.match(text, end)
        if found is None:
            raise ValueError(f"not a product: {text[end:]!r}")
        end = found.end()
        name, positions, bracket = found.groups()
        if name:
            stack[-1].append(Factor(name, tuple(map(_parse_index, positions.split(",")))))
        elif bracket == "(":
            stack.append([])
        else:
            inner = Product(tuple(stack.pop()))
            stack[-1].append(inner)
    (factors,) = stack
    return Product(tuple(factors))


def _parse_index(text: str) -> Index:
    variable, number = re.fullmatch(r"\s*([a-zA-Z]?)\s*([+-]?\s*\d+)?\s*", text).groups()  # type: ignore[union-attr]
    return Index(variable, int((number or "0").replace(" ", "")))

"""Multiword tokens: rules that split a token into words, learned from a treebank.

A rule takes characters off both ends of a token and puts words in their place; the rest, the stem,
may get other beginnings and endings, and lose its accents: `dárselo` is `dar`, `se`, `lo` by a rule
that takes `selo` off. A rule without a stem is for one token alone (`des`: `de`, `les`).
"""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gpuparse.data.array_file import check_names
from gpuparse.data.columns import common_string, has_separator, is_value
from gpuparse.limits import MAX_NEW_TEXT, MAX_NEW_WORDS, MAX_SPLIT_WORDS

LEAST_STEMS = 2  # different stems that a rule needs; else there is a rule for each token
LEAST_SHARE = 0.02  # of the tokens that a rule fits, those that it splits
LONGEST = 100  # characters of a token
MOST = 8_000  # rules of one token each that are learned
MAX_RULES = 20_000  # what is read


class SplitRule(NamedTuple):
    """A rule to split a token; all texts are in lower case.

    front, back: what is taken off; all of the token for a rule without a stem.
    before, after: the words in their place. prefix, suffix: what the stem gets.
    is_plain: whether the stem loses its accents. shortest: characters that the stem has at least,
    not all of them spaces; 0 for a rule without a stem, whose words are `before`.
    """

    front: str
    back: str
    before: tuple[str, ...]
    prefix: str
    suffix: str
    after: tuple[str, ...]
    is_plain: bool
    shortest: int

    def words(self, token: str) -> list[str] | None:
        """The words of a token; None where the rule does not fit."""
        low = lower(token)
        if not self.shortest:
            return _cased(self.before, token) if low == self.front else None
        if len(low) < len(self.front) + len(self.back) + self.shortest:
            return None
        if not (low.startswith(self.front) and low.endswith(self.back)):
            return None
        end = len(token) - len(self.back)
        stem = token[len(self.front) : end]
        if not stem.strip(" "):
            return None
        before = _taken(self.before, token[: len(self.front)])
        after = _taken(self.after, token[end:])
        if self.is_plain:
            stem = without_accents(stem)
        return [*before, self.prefix + stem + self.suffix, *after]

    def faults(self) -> str:
        """The fault of a model's rule; empty if there is none."""
        words = (*self.before, *self.after)
        n_taken = len(self.front) + len(self.back)
        parts = (self.front, self.back, self.prefix, self.suffix)
        if not all(map(is_value, words)) or any(map(has_separator, parts)):
            return "texts that cannot be in a column"
        if not self.shortest and (self.back or self.prefix or self.suffix or self.after):
            return "no stem, but parts of one"
        n_words = len(words) + (self.shortest > 0)
        if n_words < 2 or not n_taken:
            return "nothing that it splits"
        if n_words > MAX_SPLIT_WORDS or max(len(self.front), len(self.back)) > LONGEST:
            return f"more than {MAX_SPLIT_WORDS} words or {LONGEST} characters to take off"
        n_new = len("".join((*words, self.prefix, self.suffix)))
        if len(words) > MAX_NEW_WORDS * n_taken or n_new > MAX_NEW_TEXT * n_taken:
            return (
                f"more than {MAX_NEW_WORDS} words or {MAX_NEW_TEXT} characters for each one that it"
                " takes off"
            )
        return ""


def lower(text: str) -> str:
    """In lower case, letter by letter; letters without one that is single stay."""
    low = text.lower()
    if len(low) == len(text):
        return low
    return "".join(c if len(c.lower()) > 1 else c.lower() for c in text)


def without_accents(text: str) -> str:
    """Letters without acute accents, each still one character."""
    plain = []
    for character in text:
        parts = unicodedata.normalize("NFD", character)
        joined = unicodedata.normalize("NFC", parts.replace("\u0301", ""))
        plain.append(joined if len(joined) == 1 else character)
    return "".join(plain)


def _cased(words: tuple[str, ...], token: str) -> list[str]:
    """The words with the first one in the case of the token."""
    first = words[0]
    if len(token) > 1 and token.isupper():
        first = first.upper()
    elif token[0].isupper():
        first = first[0].upper() + first[1:]
    return _taken(words, token) if "".join(words) == lower(token) else [first, *words[1:]]


def _taken(words: tuple[str, ...], text: str) -> list[str]:
    """The words as they are in the text, if they are all of it."""
    if "".join(words) != lower(text):
        return list(words)
    taken, at = [], 0
    for word in words:
        taken.append(text[at : at + len(word)])
        at += len(word)
    return taken


class SplitRules:
    """The rules of a model, and which of them fit a token."""

    def __init__(self, rules: Iterable[SplitRule], exceptions: Mapping[str, list[str]]) -> None:
        """Args: exceptions: words of tokens that a rule would give another case."""
        self.rules = list(rules)
        self.exceptions = dict(exceptions)
        self._whole: dict[str, list[int]] = defaultdict(list)
        self._by_front: dict[str, dict[str, list[int]]] = {}
        for number, rule in enumerate(self.rules):
            if not rule.shortest:
                self._whole[rule.front].append(number)
            else:
                backs = self._by_front.setdefault(rule.front, {})
                backs.setdefault(rule.back, []).append(number)
        self._longest_front = max(map(len, self._by_front), default=-1)
        self._longest_back = max((len(rule.back) for rule in self.rules), default=0)

    def fitting(self, token: str) -> list[int]:
        """Numbers of the rules that fit a token, ascending. Cost: some microseconds."""
        low = lower(token)
        found = list(self._whole.get(low, ()))
        for size in range(min(self._longest_front, len(low)) + 1):
            backs = self._by_front.get(low[:size])
            if backs is None:
                continue
            for taken in range(min(self._longest_back, len(low) - size) + 1):
                end = len(low) - taken
                for number in backs.get(low[end:], ()):
                    shortest = self.rules[number].shortest
                    if end >= size + shortest and low[size:end].strip(" "):
                        found.append(number)
        return sorted(found)

    def words(self, token: str, rule: int) -> list[str]:
        """The words of a token that the rule fits."""
        words = self.rules[rule].words(token)
        if words is None:
            raise ValueError(f"rule {rule} does not fit {token!r}")
        exception = self.exceptions.get(token)
        if exception and [word.lower() for word in exception] == [w.lower() for w in words]:
            return exception
        return words

    def endings(self) -> tuple[set[str], set[str]]:
        """Last two characters of tokens that some rule fits, and first two of others.

        A text of one character stands for all that end, or begin, with it.
        """
        last, first = set(), set()
        for rule in self.rules:
            if not rule.shortest:
                last.add(rule.front[-2:])
            elif rule.back:
                last.add(rule.back[-2:])
            else:
                first.add(rule.front[:2])
        return last, first

    def edges(self) -> set[str]:
        """Texts that tokens of `endings` end, or begin, with if some rule fits them."""
        return {(rule.shortest and rule.back) or rule.front for rule in self.rules}

    def packed(self) -> dict[str, Any]:
        """Plain data from which `unpacked` makes the rules again."""
        return {
            "rules": [[*rule[:2], list(rule[2]), *rule[3:5], list(rule[5]), *rule[6:]]
                      for rule in self.rules],
            "exceptions": self.exceptions,
        }  # fmt: skip

    @classmethod
    def unpacked(cls, facts: Any) -> "SplitRules":
        """The rules of `packed`, checked.

        Raises: ValueError, TypeError, KeyError: they are none.
        """
        check_names(facts, ["rules", "exceptions"])
        rules, exceptions = facts["rules"], facts["exceptions"]
        if (
            not isinstance(rules, list)
            or len(rules) > MAX_RULES
            or not isinstance(exceptions, dict)
        ):
            raise ValueError("rules: a list is expected")
        if len(exceptions) > MAX_RULES or not all(
            isinstance(words, list) and len(words) > 1 and all(map(is_value, words))
            for words in exceptions.values()
        ):
            raise ValueError("exceptions: words of tokens are expected")
        return cls([_rule(each) for each in rules], exceptions)


def _rule(row: Any) -> SplitRule:
    if not isinstance(row, list) or len(row) != len(SplitRule._fields):
        raise ValueError("a rule has other parts")
    front, back, before, prefix, suffix, after, is_plain, shortest = row
    if not all(isinstance(text, str) for text in (front, back, prefix, suffix)):
        raise ValueError("a rule without texts")
    if not (isinstance(before, list) and isinstance(after, list)):
        raise ValueError("a rule without words")
    if type(is_plain) is not bool or type(shortest) is not int:
        raise ValueError("a rule without its numbers")
    if not 0 <= shortest <= LONGEST:
        raise ValueError(f"a rule of stems of {shortest} characters")
    rule = SplitRule(front, back, tuple(before), prefix, suffix, tuple(after), is_plain, shortest)
    if faults := rule.faults():
        raise ValueError(f"a rule with {faults}")
    return rule


def learn_rules(tokens: Iterable[tuple[str, tuple[str, ...]]]) -> SplitRules:
    """The rules that split the tokens of a treebank as they are split there.

    Each token gets the rule with a stem that most tokens share; those that share none get one each,
    the most frequent ones if they are too many. Tokens of more than LONGEST characters get none,
    nor do those that would need a rule that no model may have (`SplitRule.faults`).

    Args: tokens: each with its words; a word is its own only one.
    """
    counts = Counter(each for each in tokens if len(each[1]) < 2 or not split_fault(*each))
    splits = {each: count for each, count in counts.items() if len(each[1]) > 1}
    derived = {each: _derived(*each) for each in splits}
    stems: dict[SplitRule, set[str]] = {}
    while True:
        stems, before = _stems(derived), stems
        if stems == before:
            break
        shared = {rule for rule, found in stems.items() if len(found) >= LEAST_STEMS}
        shared &= _precise(shared, counts)
        # A rule stays where it is the most shared one of enough tokens.
        for each, rules in derived.items():
            left = [rule for rule in rules if rule in shared]
            derived[each] = sorted(left, key=lambda rule: (-len(stems[rule]), rule))[:1]
    kept = [rule._replace(shortest=min(map(len, found))) for rule, found in stems.items()]
    low: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for (token, words), count in splits.items():
        if not derived[token, words]:
            low[lower(token), tuple(map(lower, words))] += count
    often = sorted(low, key=lambda each: (-low[each], each))[:MOST]
    kept += [_whole(token, words) for token, words in often]
    learned = SplitRules(sorted(kept), {})
    exceptions: dict[str, list[str]] = {}
    for (token, words), _ in sorted(splits.items(), key=lambda item: (item[1], item[0])):
        exceptions[token] = list(words)  # the most frequent one is the last
    needed: dict[str, list[str]] = {}
    for token, wanted in sorted(exceptions.items()):
        found = [learned.words(token, number) for number in learned.fitting(token)]
        low_words = [word.lower() for word in wanted]
        if wanted not in found and any([w.lower() for w in each] == low_words for each in found):
            needed[token] = wanted
    return SplitRules(learned.rules, dict(list(needed.items())[:MOST]))


def split_fault(token: str, words: tuple[str, ...]) -> str:
    """The reason why no rule can split a token so; "" if one can."""
    if len(token) > LONGEST:
        return f"more than {LONGEST} characters"
    return _whole(lower(token), tuple(map(lower, words))).faults()


def _whole(token: str, words: tuple[str, ...]) -> SplitRule:
    """The rule of one token alone; all in lower case."""
    return SplitRule(token, "", words, "", "", (), False, 0)


def _stems(
    derived: Mapping[tuple[str, tuple[str, ...]], list[SplitRule]],
) -> dict[SplitRule, set[str]]:
    """The different stems of each rule."""
    stems: dict[SplitRule, set[str]] = defaultdict(set)
    for (token, _), rules in derived.items():
        for rule in rules:
            stems[rule].add(lower(token)[len(rule.front) : len(token) - len(rule.back)])
    return dict(stems)


def _precise(
    rules: Iterable[SplitRule], counts: Mapping[tuple[str, tuple[str, ...]], int]
) -> set[SplitRule]:
    """The rules that split enough of the tokens that they fit."""
    fits = SplitRules(sorted(rules), {})
    n_fitting, n_right = [0] * len(fits.rules), [0] * len(fits.rules)
    for (token, words), count in counts.items():
        for number in fits.fitting(token):
            n_fitting[number] += count
            if len(words) > 1:
                n_right[number] += count * (fits.rules[number].words(token) == list(words))
    shares = zip(fits.rules, n_fitting, n_right, strict=True)
    return {rule for rule, fitting, right in shares if right > LEAST_SHARE * fitting}


def _derived(token: str, words: tuple[str, ...]) -> list[SplitRule]:
    """Rules with a stem that split a token so, each with a shortest stem of one character."""
    low, small = lower(token), tuple(map(lower, words))
    found = []
    for stem in range(len(words)):
        before, after = small[:stem], small[stem + 1 :]
        if "".join(small) == low:
            front, back = "".join(before), "".join(after)
            found.append(SplitRule(front, back, before, "", "", after, False, 1))
            continue
        for is_plain in (False, True):
            text = without_accents(low) if is_plain else low
            if is_plain and text == low:
                continue
            start, at, size = common_string(text, small[stem])
            if size < 2 or size == len(low):
                continue
            rule = SplitRule(
                low[:start], low[start + size :], before, small[stem][:at],
                small[stem][at + size :], after, is_plain, 1,
            )  # fmt: skip
            found.append(rule)
    return [rule for rule in found if not rule.faults() and rule.words(token) == list(words)]

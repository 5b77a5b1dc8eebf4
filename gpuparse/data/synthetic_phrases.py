"""Phrases of the synthetic treebank: nouns and verbs with their modifiers, drawn at random."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from gpuparse.data import synthetic_words as words
from gpuparse.data.synthetic_words import Verb

VOWELS = "aeio"  # and "umbrella"
CONTRACTED = ("do", "does", "did", "is", "are", "was", "were", "has", "have", "had")

Item = TypeVar("Item")


class Word:
    """A word with its place in the tree, before words have numbers."""

    __slots__ = (
        "feats", "form", "glued", "head", "joined", "kind", "label", "lemma", "number", "others",
        "person", "upos", "xpos",
    )  # fmt: skip

    def __init__(self, form: str, lemma: str, upos: str, xpos: str, feats: str = "_") -> None:
        self.form, self.lemma, self.upos, self.xpos, self.feats = form, lemma, upos, xpos, feats
        self.head: Word | None = None
        self.label = "root"
        self.others: list[tuple[Word, str]] = []  # further heads, for DEPS
        self.glued = False  # no space after it
        self.joined = False  # one multiword token with the word after it
        self.number, self.person, self.kind = "Sing", 3, ""  # for agreement and preferences

    def under(self, head: "Word", label: str) -> "Word":
        """Hangs the word from its head; returns it."""
        self.head, self.label = head, label
        return self


class Phrase(NamedTuple):
    """Words in order, all below the head."""

    head: Word
    words: list[Word]

    def under(self, head: Word, label: str) -> list[Word]:
        """Hangs the phrase from its head; returns its words."""
        self.head.under(head, label)
        return self.words


def mark(form: str) -> Word:
    return Word(form, form, "PUNCT", form)


def preposition(form: str) -> Word:
    return Word(form, form, "ADP", "IN")


def conjunction(form: str) -> Word:
    return Word(form, form, "CCONJ", "CC")


def adverb(form: str) -> Word:
    return Word(form, form, "ADV", "RB")


def _third_person(lemma: str) -> str:
    """The form with he or she: `watches`, `carries`, `sees`."""
    if lemma.endswith(("s", "sh", "ch", "x", "o")):
        return lemma + "es"
    if lemma.endswith("y") and lemma[-2] not in "aeou":
        return lemma[:-1] + "ies"
    return lemma + "s"


def _adjective(form: str) -> Word:
    return Word(form, form, "ADJ", "JJ", "Degree=Pos")


def infinitive(verb: Verb) -> Word:
    return Word(verb.lemma, verb.lemma, "VERB", "VB", "VerbForm=Inf")


def participle(verb: Verb) -> Word:
    return Word(verb.participle, verb.lemma, "VERB", "VBN", "Tense=Past|VerbForm=Part")


def gerund(verb: Verb) -> Word:
    return Word(verb.gerund, verb.lemma, "VERB", "VBG", "Tense=Pres|VerbForm=Part")


def finite(verb: Verb, subject: Word, tense: str) -> Word:
    """The form that agrees with the subject; `upos` VERB, to be changed for auxiliaries."""
    number, person = subject.number, subject.person
    third = number == "Sing" and person == 3
    plural = number == "Plur" or person == 2
    if tense == "Past":
        form = "were" if verb is words.BE and plural else verb.past
        return Word(form, verb.lemma, "VERB", "VBD", "Mood=Ind|Tense=Past|VerbForm=Fin")
    if verb is words.BE:
        form = "are" if plural else ("is" if third else "am")
    elif verb is words.HAVE:
        form = "has" if third else "have"
    else:
        form = _third_person(verb.lemma) if third else verb.lemma
    feats = f"Mood=Ind|Number={number}|Person={person}|Tense=Pres|VerbForm=Fin"
    return Word(form, verb.lemma, "VERB", "VBZ" if third else "VBP", feats)


class PhraseGrammar:
    """Rules for phrases: each is a method that chooses at random among its forms."""

    def __init__(self, draw: Callable[[], float]) -> None:
        self.draw = draw  # uniform from 0 to 1; the only source of randomness

    def tense(self) -> str:
        return "Past" if self.happens(0.65) else "Pres"

    def happens(self, share: float) -> bool:
        return self.draw() < share

    def pick(self, items: Sequence[Item]) -> Item:
        return items[int(self.draw() * len(items))]

    # Nouns

    def determiner(self, noun: Word, next_form: str, indefinite: bool) -> Word | None:
        """The, a, this, my, three or nothing, as the noun's number allows."""
        plural = noun.number == "Plur"
        at = self.draw()
        if indefinite:
            at = 0.63 + 0.37 * at
        if at < 0.48:
            return Word("the", "the", "DET", "DT", "Definite=Def|PronType=Art").under(noun, "det")
        if at < 0.58:
            form, lemma = self.pick(words.POSSESSIVES)
            return Word(form, lemma, "PRON", "PRP$", "Poss=Yes|PronType=Prs").under(
                noun, "nmod:poss"
            )
        if at < 0.63:
            form = "these" if plural else "this"
            feats = f"Number={noun.number}|PronType=Dem"
            return Word(form, "this", "DET", "DT", feats).under(noun, "det")
        if not plural:
            form = "an" if next_form[0] in VOWELS or next_form.startswith("umb") else "a"
            return Word(form, "a", "DET", "DT", "Definite=Ind|PronType=Art").under(noun, "det")
        if at < 0.8:
            form = self.pick(words.NUMBERS)
            return Word(form, form, "NUM", "CD", "NumType=Card").under(noun, "nummod")
        return None

    def common_noun(self, kind: str, *, singular: bool = False, indefinite: bool = False) -> Phrase:
        """Determiner, adjectives and a noun of the kind: `the old man`, `three red boxes`."""
        plural = not singular and self.happens(0.3)
        form, other = self.pick(words.NOUNS[kind])
        number, tag = ("Plur", "NNS") if plural else ("Sing", "NN")
        noun = Word(other if plural else form, form, "NOUN", tag, f"Number={number}")
        noun.number, noun.kind = number, kind
        return self.described(noun, kind, indefinite)

    def described(self, noun: Word, kind: str, indefinite: bool = False) -> Phrase:
        """The noun with its determiner and up to two adjectives."""
        before = [
            _adjective(self.pick(group)).under(noun, "amod")
            for group in words.ADJECTIVES[kind]
            if self.happens(0.25)
        ]
        determiner = self.determiner(noun, (before[0] if before else noun).form, indefinite)
        return Phrase(noun, [*([determiner] if determiner else []), *before, noun])

    def name(self) -> Phrase:
        """A first name, sometimes with a surname."""
        form = self.pick(words.NAMES)
        first = Word(form, form, "PROPN", "NNP", "Number=Sing")
        first.kind = "person"
        if self.happens(0.75):
            return Phrase(first, [first])
        form = self.pick(words.SURNAMES)
        last = Word(form, form, "PROPN", "NNP", "Number=Sing").under(first, "flat")
        return Phrase(first, [first, last])

    def pronoun(self, case: str) -> Phrase:
        """A personal pronoun, case Nom or Acc."""
        # Objects are in the third person, to avoid sentences such as "I see me".
        choice = words.PRONOUNS if case == "Nom" else words.PRONOUNS[3:]
        subject, other, lemma, person, number, gender = self.pick(choice)
        feats = f"Case={case}|" + (f"Gender={gender}|" if gender else "")
        feats += f"Number={number}|Person={person}|PronType=Prs"
        word = Word(subject if case == "Nom" else other, lemma, "PRON", "PRP", feats)
        word.number, word.person, word.kind = number, person, "person"
        return Phrase(word, [word])

    def tool(self, form: str) -> Phrase:
        """A noun for what something is done with, or has."""
        noun = Word(form, form, "NOUN", "NN", "Number=Sing")
        return self.described(noun, "tool")

    def prepositional(self, form: str, phrase: Phrase) -> Phrase:
        """The phrase with a preposition before it, which hangs from it as its case."""
        case = preposition(form).under(phrase.head, "case")
        return Phrase(phrase.head, [case, *phrase.words])

    def place(self, form: str) -> Phrase:
        """`in the garden`, `near an old church`; one is `at` some places only."""
        if form == "at":
            stop = self.pick(words.STOPS)
            noun = Word(stop, stop, "NOUN", "NN", "Number=Sing")
            return self.prepositional(form, self.described(noun, "place"))
        return self.prepositional(form, self.common_noun("place", singular=True))

    def noun_complement(self, noun: Word) -> Phrase:
        """A prepositional phrase that suits the noun: `with a beard`, `about a fox`."""
        kind = noun.kind
        if kind in ("text", "song"):
            theme = self.common_noun(self.pick(("animal", "person", "place")))
            return self.prepositional("about", theme)
        if kind == "food" or (kind == "person" and self.happens(0.4)):
            return self.place("from")
        if kind not in words.FEATURES or (kind != "person" and self.happens(0.4)):
            return self.prepositional("of", self.common_noun("person", singular=True))
        return self.prepositional("with", self.tool(self.pick(words.FEATURES[kind])))

    def noun_phrase(self, kinds: tuple[str, ...], case: str, depth: int) -> Phrase:
        """A noun phrase of one of the kinds; depth bounds what is nested in it."""
        kind = self.pick(kinds)
        at = self.draw()
        if kind == "person" and at < 0.22:
            return self.pronoun(case)
        if kind == "person" and at < 0.4:
            return self.name()
        phrase = self.common_noun(kind)
        at = self.draw()
        if depth > 0 and at < 0.14:
            complement = self.noun_complement(phrase.head)
            phrase.words.extend(complement.under(phrase.head, "nmod"))
        elif depth > 0 and at < 0.22:
            relative = self.relative(phrase.head, depth - 1)
            phrase.words.extend(relative.under(phrase.head, "acl:relcl"))
        return phrase

    def participant(self, kinds: tuple[str, ...], case: str, depth: int) -> tuple[Phrase, Phrase]:
        """A noun phrase, or two joined by `and`; the second of the pair is the second conjunct.

        The second phrase is the first again where there is only one.
        """
        first = self.noun_phrase(kinds, case, depth)
        if depth == 0 or first.head.upos == "PRON" or not self.happens(0.09):
            return first, first
        second = self.noun_phrase((first.head.kind,), case, 0)
        if second.head.upos == "PRON" or second.head.lemma == first.head.lemma:
            return first, first
        and_ = conjunction(self.pick(("and", "and", "or")))
        joined = [*first.words, and_.under(second.head, "cc"), *second.under(first.head, "conj")]
        if and_.form == "and":
            first.head.number = "Plur"
        else:
            first.head.number = second.head.number
        return Phrase(first.head, joined), second

    def take_part(self, both: tuple[Phrase, Phrase], verb: Word, label: str) -> list[Word]:
        """Hangs a participant from the verb; a second conjunct gets the verb as second head."""
        phrase, second = both
        if second.head is not phrase.head:
            second.head.others.append((verb, label))
        return phrase.under(verb, label)

    def adjective(self, kind: str) -> Word:
        """An adjective that suits nouns of the kind."""
        return _adjective(self.pick(self.pick(words.ADJECTIVES[kind])))

    # Verbs

    def verb_group(self, verb: Verb, subject: Word, tense: str | None) -> Phrase:
        """Auxiliaries, `not` and the verb in the right form: `did n't see`, `is reading`."""
        at = self.draw()
        past = tense or self.tense()
        if at < 0.64:
            main = finite(verb, subject, past)
            return Phrase(main, [main])
        if at < 0.76:
            main, auxiliary = infinitive(verb), finite(words.DO, subject, past)
            return self.negated(main, auxiliary)
        if at < 0.84 and tense is None:
            main, form = infinitive(verb), self.pick(words.MODALS)
            auxiliary = Word(form, form, "AUX", "MD", "VerbForm=Fin")
        elif at < 0.92 and verb.lemma not in words.STATES:
            main, auxiliary = gerund(verb), finite(words.BE, subject, past)
        else:
            main, auxiliary = participle(verb), finite(words.HAVE, subject, past)
        if self.happens(0.1):
            return self.negated(main, auxiliary)
        return Phrase(main, [self.auxiliary(auxiliary, main), main])

    def auxiliary(self, auxiliary: Word, main: Word, label: str = "aux") -> Word:
        auxiliary.upos = "AUX"
        return auxiliary.under(main, label)

    def negated(self, main: Word, auxiliary: Word) -> Phrase:
        """`did not see`, or `did n't see` as one token with two words in it."""
        contracted = auxiliary.form in CONTRACTED and self.happens(0.7)
        negation = Word("n't" if contracted else "not", "not", "PART", "RB", "Polarity=Neg")
        auxiliary.joined = auxiliary.glued = contracted or auxiliary.form == "can"
        return Phrase(main, [self.auxiliary(auxiliary, main), negation.under(main, "advmod"), main])

    def object_of(self, verb: Verb, main: Word, depth: int) -> list[Word]:
        """The object with what may follow it: an instrument, a place, or neither.

        A place belongs to the verb if it likes one, else to the object; so does `with`.
        """
        both = self.participant(verb.objects, "Acc", depth)
        noun = both[0].head
        after: list[Word] = []
        at = self.draw()
        if depth > 0 and at < 0.2 and verb.tools:
            after = self.prepositional("with", self.tool(self.pick(verb.tools))).under(main, "obl")
        elif depth > 0 and at < 0.4 and verb.places:
            after = self.place(self.pick(verb.places)).under(main, "obl")
        elif depth > 0 and at < 0.4 and noun.upos == "NOUN" and noun is both[0].words[-1]:
            complement = self.place("in") if self.happens(0.4) else self.noun_complement(noun)
            after = complement.under(noun, "nmod")
        return [*self.take_part(both, main, "obj"), *after]

    def time(self, main: Word) -> list[Word]:
        """`yesterday`, `on Monday`, `in the morning`: only in the past."""
        at = self.draw()
        if at < 0.4:
            return [adverb(self.pick(words.LATELY)).under(main, "advmod")]
        if at < 0.75:
            form = self.pick(words.DAYS)
            day = Word(form, form, "PROPN", "NNP", "Number=Sing")
            return self.prepositional("on", Phrase(day, [day])).under(main, "obl")
        form = self.pick(words.PARTS_OF_DAY)
        part = Word(form, form, "NOUN", "NN", "Number=Sing")
        the = Word("the", "the", "DET", "DT", "Definite=Def|PronType=Art").under(part, "det")
        return self.prepositional("in", Phrase(part, [the, part])).under(main, "obl")

    def complements(self, verb: Verb, main: Word, depth: int) -> list[Word]:
        """What follows the verb: its object, or a place."""
        if verb.objects:
            return self.object_of(verb, main, depth)
        if verb.places and self.happens(0.55):
            return self.place(self.pick(verb.places)).under(main, "obl")
        if self.happens(0.35):
            return [adverb(self.pick(words.MANNER)).under(main, "advmod")]
        return []

    def predicate(self, verb: Verb, subject: Word, depth: int, tense: str | None = None) -> Phrase:
        """The verb group with adverbs and complements, the subject left out."""
        group = self.verb_group(verb, subject, tense)
        main = group.head
        before = group.words[:-1]
        if self.happens(0.1):
            manner = self.pick(words.MANNER if before else words.OFTEN)
            before.append(adverb(manner).under(main, "advmod"))
        after = self.complements(verb, main, depth)
        in_past = "Tense=Past" in (before[0] if before else main).feats
        if depth > 0 and in_past and self.happens(0.18):
            after.extend(self.time(main))
        return Phrase(main, [*before, main, *after])

    def any_verb(self) -> Verb:
        return self.pick(words.TRANSITIVE if self.happens(0.72) else words.INTRANSITIVE)

    def verb_for(self, subject: Word) -> Verb:
        """A verb whose subject can be of the subject's kind."""
        while True:
            verb = self.any_verb()
            if subject.kind in verb.subjects:
                return verb

    def clause(self, depth: int, tense: str | None = None) -> Phrase:
        """Subject and predicate."""
        verb = self.any_verb()
        both = self.participant(verb.subjects, "Nom", depth)
        predicate = self.predicate(verb, both[0].head, depth, tense)
        subject = self.take_part(both, predicate.head, "nsubj")
        return Phrase(predicate.head, [*subject, *predicate.words])

    def relative(self, noun: Word, depth: int) -> Phrase:
        """A relative clause on the noun: `who sings`, `that the dog chased`."""
        who = noun.kind == "person"
        form = self.pick(("who", "who", "that") if who else ("that", "that", "which"))
        pronoun = Word(form, form, "PRON", "WP" if form == "who" else "WDT", "PronType=Rel")
        pronoun.number, pronoun.kind = noun.number, noun.kind
        if noun.kind in ("person", "animal") and self.happens(0.65):
            predicate = self.predicate(self.verb_for(pronoun), pronoun, depth)
            pronoun.under(predicate.head, "nsubj")
            return Phrase(predicate.head, [pronoun, *predicate.words])
        verb = self.pick([verb for verb in words.TRANSITIVE if noun.kind in verb.objects])
        subject = self.noun_phrase(verb.subjects, "Nom", 0)
        group = self.verb_group(verb, subject.head, "Past")
        pronoun.under(group.head, "obj")
        return Phrase(group.head, [pronoun, *subject.under(group.head, "nsubj"), *group.words])

"""A generated treebank: sentences of a small English-like grammar, with their trees.

Relations are those of Universal Dependencies. Words with two heads (subjects and objects shared by
coordinated verbs, coordinated nouns, subjects of infinitives) have both in DEPS. Some trees are
non-projective: relative clauses after the verb (`A man arrived who wore a hat`), and
questions about a word of a clause below (`What did Anna say that the dog ate?`).
Verbs and nouns have preferences, so that whether `with the spoon` belongs to the verb or to the
noun before it depends on the words alone.
"""

import functools
import itertools
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

SHORTEST, LONGEST = 3, 35  # words

# Class -> singular forms, each with its plural where that is irregular.
NOUNS = {
    "person": "man/men woman/women boy girl child/children teacher doctor farmer student neighbour"
    " baker sailor painter nurse singer queen guest driver officer friend visitor poet lawyer"
    " thief/thieves",
    "animal": "dog cat horse bird mouse/mice sheep/sheep fox goose/geese rabbit cow owl"
    " wolf/wolves",
    "food": "apple cake loaf/loaves potato pear egg carrot sandwich onion cherry pie",
    "text": "book letter story poem newspaper report",
    "song": "song tune ballad",
    "thing": "picture box ball cup chair clock lamp bottle boat bag bicycle map",
    "opening": "door window gate chest",
    "place": "garden kitchen park school market village forest street library station house hotel"
    " harbour church",
}
STOPS = "school market library station hotel harbour church"  # places that go with `at`
# What `with` adds to a noun of a class.
FEATURES = {
    "person": "hat beard scarf umbrella coat basket telescope",
    "animal": "tail collar bell",
    "thing": "handle lid label",
    "opening": "lock handle",
}
# Class -> adjectives of size and quality, which come first, and of age, colour and origin.
ADJECTIVES = {
    "person": ("tall clever tired happy angry quiet", "old young famous"),
    "animal": ("big small hungry fat shy", "black white brown wild old"),
    "food": ("big small cheap", "fresh sweet hot ripe cold"),
    "text": ("long short sad strange famous", "new old English French"),
    "song": ("sad short beautiful strange", "old French new"),
    "thing": ("heavy small beautiful expensive", "red old new green"),
    "opening": ("heavy narrow large", "wooden old red green"),
    "place": ("quiet large beautiful empty small", "old famous new"),
    "tool": ("small long heavy", "new old black"),
}
NAMES = "Anna Peter Maria Tom Clara Victor Emma Oscar Julia Hugo"
SURNAMES = "Miller Baker Young Stone Fisher Wood"
# Forms (past, participle and gerund where they are irregular); classes of subjects; of objects;
# nouns that `with` adds to the verb; prepositions of a place that belongs to the verb.
TRANSITIVE = """
see saw seen seeing; person animal; person animal thing; telescope; in near
watch; person animal; person animal; telescope
chase; person animal; animal person; stick; through into
meet met; person; person; ; in near at
find found; person animal; thing animal food; ; in behind
like; person; person text thing
know knew known; person; person place text
describe; person; person place
admire; person; person thing place
read read; person; text; ; in at
write wrote written; person; text; pen; in
sing sang sung; person; song; ; in
open; person; opening text; key knife
close; person; opening; key rope
break broke broken; person animal; thing opening; hammer stick
repair; person; thing opening; hammer rope
paint; person; thing opening animal; brush
cut cut cut cutting; person; food; knife; in
eat ate eaten; person animal; food; spoon knife; in at
wash; person; food thing; brush; in
peel; person; food; knife
buy bought; person; food thing text; ; in at
sell sold; person; food thing; ; in at
carry; person; thing food; ; to into
bring brought; person; thing food; ; to into
draw drew drawn; person; animal person thing; pen brush
steal stole stolen; person animal; food thing; ; from
follow; person animal; person animal; ; through into
help; person; person; ; in
feed fed; person; animal; spoon; in near
"""
INTRANSITIVE = """
sleep slept; person animal; ; ; in near
laugh; person; ; ; in
arrive; person animal; ; ; at
disappear; person animal; ; ; in
swim swam swum swimming; person animal; ; ; near
run ran run running; person animal; ; ; through into to
walk; person animal; ; ; through to
dance; person; ; ; in
work; person; ; ; in at
wait; person animal; ; ; in near at
rest; person animal; ; ; in near
smile; person
play; person animal; ; ; in near
"""
GIVING = """
give gave given; person; food thing text
send sent; person; text thing
show showed shown; person; thing text
offer; person; food thing
"""
SAYING = "say said; person\nthink thought; person\nbelieve; person\nhope; person"
WANTING = """
want; person
try; person
plan planned planned planning; person
decide; person
begin began begun beginning; person animal
"""
STATES = "like know admire believe hope see find want"  # never "is knowing"
# Form of the subject, of the object, lemma, person, number, gender.
PRONOUNS = (
    "I me I 1 Sing", "we us we 1 Plur", "you you you 2 Sing", "he him he 3 Sing Masc",
    "she her she 3 Sing Fem", "they them they 3 Plur",
)  # fmt: skip
MANNER = "quickly slowly quietly carefully happily suddenly"
CONTRACTED = "do does did is are was were has have had"  # before "n't"

# Relation -> universal tag, tag and features of the words that have it.
TAGS = {
    "cc": ("CCONJ", "CC"), "mark": ("SCONJ", "IN"), "case": ("ADP", "IN"),
    "advmod": ("ADV", "RB"), "amod": ("ADJ", "JJ", "Degree=Pos"),
}  # fmt: skip
ARTICLE, ASKING = "Definite={}|PronType=Art", "PronType=Int"
Item = TypeVar("Item")


class Verb(NamedTuple):
    """A verb's forms and preferences."""

    lemma: str
    past: str
    participle: str
    gerund: str
    subjects: list[str]  # classes of nouns
    objects: list[str]  # empty: intransitive
    tools: list[str]
    places: list[str]

    def infinitive(self) -> "Word":
        return Word(self.lemma, "VERB", "VB", "VerbForm=Inf", self.lemma)

    def past_participle(self) -> "Word":
        return Word(self.participle, "VERB", "VBN", "Tense=Past|VerbForm=Part", self.lemma)

    def finite(self, subject: "Word", tense: str) -> "Word":
        """The form that agrees with the subject."""
        third = subject.number == "Sing" and subject.person == 3
        plural = subject.number == "Plur" or subject.person == 2
        if tense == "Past":
            form = "were" if self.lemma == "be" and plural else self.past
            return Word(form, "VERB", "VBD", "Mood=Ind|Tense=Past|VerbForm=Fin", self.lemma)
        form = _with_s(self.lemma) if third else self.lemma
        if self.lemma == "be":
            form = "are" if plural else ("is" if third else "am")
        elif self.lemma == "have" and third:
            form = "has"
        feats = f"Number={subject.number}|Person={subject.person}|Tense=Pres|VerbForm=Fin"
        return Word(form, "VERB", "VBZ" if third else "VBP", "Mood=Ind|" + feats, self.lemma)


def _with_s(lemma: str) -> str:
    """The plural of a noun, the third person of a verb: `boxes`, `carries`, `sees`."""
    if lemma.endswith(("s", "sh", "ch", "x", "o")):
        return lemma + "es"
    if lemma.endswith("y") and lemma[-2] not in "aeou":
        return lemma[:-1] + "ies"
    return lemma + "s"


def _verbs(table: str) -> list[Verb]:
    verbs = []
    for row in table.strip().splitlines():
        forms, subjects, objects, tools, places = (row + "; ; ; ; ").split(";")[:5]
        lemma, *others = forms.split()
        regular = lemma.removesuffix("e") + "ed"
        if _with_s(lemma).endswith("ies"):
            regular = lemma[:-1] + "ied"
        past, participle, gerund = [*others, "", "", ""][:3]
        past = past or regular
        gerund = gerund or lemma.removesuffix("e") + "ing"
        lists = (part.split() for part in (subjects, objects, tools, places))
        verbs.append(Verb(lemma, past, participle or past, gerund, *lists))
    return verbs


class Word:
    """A word with its place in the tree, before words have numbers."""

    def __init__(
        self, form: str, upos: str, xpos: str, feats: str = "_", lemma: str = "", kind: str = ""
    ) -> None:
        self.form, self.upos, self.xpos, self.feats = form, upos, xpos, feats
        self.lemma, self.kind = lemma or form, kind  # kind: its class in NOUNS
        self.number, self.person = "Plur" if "Number=Plur" in feats else "Sing", 3
        self.head: Word | None = None
        self.label = "root"
        self.others: list[tuple[Word, str]] = []  # further heads, for DEPS
        self.glued = self.joined = False  # no space after it; one token with the word after it

    def under(self, head: "Word", label: str) -> "Word":
        """Hangs the word from its head; returns it."""
        self.head, self.label = head, label
        return self


class Phrase:
    """Words in order, all below the head."""

    def __init__(self, head: Word, *parts: "Word | Phrase") -> None:
        self.head = head
        self.words: list[Word] = []
        for part in parts or (head,):
            self.words.extend([part] if isinstance(part, Word) else part.words)

    def under(self, head: Word, label: str) -> "Phrase":
        """Hangs the phrase from its head; returns it."""
        self.head.under(head, label)
        return self


Part = Word | Phrase


def _noun(form: str, kind: str = "", plural: str = "") -> Word:
    tag, number = ("NNS", "Plur") if plural else ("NN", "Sing")
    return Word(plural or form, "NOUN", tag, f"Number={number}", form, kind)


def _name(form: str, kind: str = "") -> Word:
    return Word(form, "PROPN", "NNP", "Number=Sing", kind=kind)


def _small(form: str, head: Word, label: str) -> Word:
    """A mark, conjunction, preposition, adverb or adjective; its relation says which."""
    return Word(form, *(TAGS.get(label) or ("PUNCT", form))).under(head, label)


def _prepositional(form: str, phrase: Phrase) -> Phrase:
    return Phrase(phrase.head, _small(form, phrase.head, "case"), phrase)


def _auxiliary(auxiliary: Word, main: Word, label: str = "aux") -> Word:
    auxiliary.upos = "AUX"
    return auxiliary.under(main, label)


class Grammar:
    """Rules for phrases and sentences: each is a method that chooses at random among its forms."""

    def __init__(self, draw: Callable[[], float]) -> None:
        self.draw = draw  # uniform from 0 to 1; the only source of randomness
        self.transitive, self.intransitive = _verbs(TRANSITIVE), _verbs(INTRANSITIVE)
        self.giving, self.saying, self.wanting = _verbs(GIVING), _verbs(SAYING), _verbs(WANTING)
        self.be, self.do, self.have = _verbs("be was been;\ndo did done;\nhave had;")

    def happens(self, share: float) -> bool:
        return self.draw() < share

    def pick(self, items: Sequence[Item]) -> Item:
        return items[int(self.draw() * len(items))]

    def word(self, forms: str) -> str:
        return self.pick(forms.split())

    def tense(self) -> str:
        return "Past" if self.happens(0.65) else "Pres"

    # Nouns

    def determiner(self, noun: Word, next_form: str, indefinite: bool) -> list[Word]:
        """The, a, this, my, three or nothing, as the noun's number allows."""
        plural = noun.number == "Plur"
        at = self.draw()
        if indefinite:
            at = 0.63 + 0.37 * at
        if at < 0.48:
            return [Word("the", "DET", "DT", ARTICLE.format("Def")).under(noun, "det")]
        if at < 0.58:
            own = Word(self.word("my your his her our"), "PRON", "PRP$", "Poss=Yes|PronType=Prs")
            return [own.under(noun, "nmod:poss")]
        if at < 0.63:
            form, feats = "these" if plural else "this", f"Number={noun.number}|PronType=Dem"
            return [Word(form, "DET", "DT", feats, "this").under(noun, "det")]
        if not plural:
            form = "an" if next_form[0] in "aeio" or next_form.startswith("umb") else "a"
            return [Word(form, "DET", "DT", ARTICLE.format("Ind"), "a").under(noun, "det")]
        if at < 0.8:
            form = self.word("two three four five seven ten twelve")
            return [Word(form, "NUM", "CD", "NumType=Card").under(noun, "nummod")]
        return []

    def described(self, noun: Word, kind: str, indefinite: bool = False) -> Phrase:
        """The noun with its determiner and up to two adjectives."""
        before = [
            _small(self.word(group), noun, "amod")
            for group in ADJECTIVES[kind]
            if self.happens(0.25)
        ]
        next_form = (before[0] if before else noun).form
        return Phrase(noun, *self.determiner(noun, next_form, indefinite), *before, noun)

    def common_noun(self, kind: str, *, singular: bool = False, indefinite: bool = False) -> Phrase:
        """Determiner, adjectives and a noun of the kind: `the old man`, `three red boxes`."""
        in_plural = not singular and self.happens(0.3)
        form, _, plural = self.word(NOUNS[kind]).partition("/")
        noun = _noun(form, kind, (plural or _with_s(form)) if in_plural else "")
        return self.described(noun, kind, indefinite)

    def name(self) -> Phrase:
        """A first name, sometimes with a surname."""
        first = _name(self.word(NAMES), "person")
        if self.happens(0.75):
            return Phrase(first)
        return Phrase(first, first, _name(self.word(SURNAMES)).under(first, "flat"))

    def pronoun(self, case: str) -> Phrase:
        """A personal pronoun, case Nom or Acc; objects are in the third person, no `I see me`."""
        row = self.pick(PRONOUNS if case == "Nom" else PRONOUNS[3:])
        subject, other, lemma, person, number, *gender = row.split()
        feats = [f"Case={case}", *(f"Gender={each}" for each in gender), f"Number={number}"]
        feats += [f"Person={person}", "PronType=Prs"]
        form = subject if case == "Nom" else other
        word = Word(form, "PRON", "PRP", "|".join(feats), lemma, "person")
        word.person = int(person)
        return Phrase(word)

    def with_tool(self, tools: Sequence[str]) -> Phrase:
        return _prepositional("with", self.described(_noun(self.pick(tools)), "tool"))

    def place(self, form: str) -> Phrase:
        """`in the garden`, `near an old church`; one is `at` some places only."""
        if form == "at":
            return _prepositional(form, self.described(_noun(self.word(STOPS)), "place"))
        return _prepositional(form, self.common_noun("place", singular=True))

    def noun_complement(self, noun: Word) -> Phrase:
        """A prepositional phrase that suits the noun: `with a beard`, `about a fox`."""
        kind = noun.kind
        if kind in ("text", "song"):
            return _prepositional("about", self.common_noun(self.word("animal person place")))
        if kind == "food" or (kind == "person" and self.happens(0.4)):
            return self.place("from")
        if kind not in FEATURES or (kind != "person" and self.happens(0.4)):
            return _prepositional("of", self.common_noun("person", singular=True))
        return self.with_tool(FEATURES[kind].split())

    def noun_phrase(self, kinds: Sequence[str], case: str, depth: int) -> Phrase:
        """A noun phrase of one of the kinds; depth bounds what is nested in it."""
        kind = self.pick(kinds)
        at = self.draw()
        if kind == "person" and at < 0.22:
            return self.pronoun(case)
        if kind == "person" and at < 0.4:
            return self.name()
        phrase = self.common_noun(kind)
        noun = phrase.head
        at = self.draw()
        if depth > 0 and at < 0.14:
            return Phrase(noun, phrase, self.noun_complement(noun).under(noun, "nmod"))
        if depth > 0 and at < 0.22:
            return Phrase(noun, phrase, self.relative(noun, depth - 1).under(noun, "acl:relcl"))
        return phrase

    def participants(self, kinds: Sequence[str], case: str, depth: int) -> list[Phrase]:
        """A noun phrase, or two joined by `and` or `or`: all of it, then the second conjunct."""
        first = self.noun_phrase(kinds, case, depth)
        if depth == 0 or first.head.upos == "PRON" or not self.happens(0.09):
            return [first]
        second = self.noun_phrase((first.head.kind,), case, 0)
        if second.head.upos == "PRON" or second.head.lemma == first.head.lemma:
            return [first]
        form = self.word("and and or")
        first.head.number = "Plur" if form == "and" else second.head.number
        link = _small(form, second.head, "cc")
        return [Phrase(first.head, first, link, second.under(first.head, "conj")), second]

    def hang(self, participants: list[Phrase], verb: Word, label: str) -> Phrase:
        """Hangs participants from the verb; a second conjunct gets the verb as second head."""
        for conjunct in participants[1:]:
            conjunct.head.others.append((verb, label))
        return participants[0].under(verb, label)

    # Verbs

    def verb_group(self, verb: Verb, subject: Word, tense: str | None) -> Phrase:
        """Auxiliaries, `not` and the verb in the right form: `did n't see`, `is reading`."""
        at = self.draw()
        past = tense or self.tense()
        if at < 0.64:
            return Phrase(verb.finite(subject, past))
        if at < 0.76:
            return self.negated(verb.infinitive(), self.do.finite(subject, past))
        if at < 0.84 and tense is None:
            main, form = verb.infinitive(), self.word("can must should may will")
            auxiliary = Word(form, "AUX", "MD", "VerbForm=Fin")
        elif at < 0.92 and verb.lemma not in STATES.split():
            feats = "Tense=Pres|VerbForm=Part"
            main = Word(verb.gerund, "VERB", "VBG", feats, verb.lemma)
            auxiliary = self.be.finite(subject, past)
        else:
            main, auxiliary = verb.past_participle(), self.have.finite(subject, past)
        if self.happens(0.1):
            return self.negated(main, auxiliary)
        return Phrase(main, _auxiliary(auxiliary, main), main)

    def negated(self, main: Word, auxiliary: Word) -> Phrase:
        """`did not see`, or `did n't see` as one token with two words in it."""
        contracted = auxiliary.form in CONTRACTED.split() and self.happens(0.7)
        not_ = Word("n't" if contracted else "not", "PART", "RB", "Polarity=Neg", "not")
        auxiliary.joined = auxiliary.glued = contracted or auxiliary.form == "can"
        return Phrase(main, _auxiliary(auxiliary, main), not_.under(main, "advmod"), main)

    def time(self, main: Word) -> Part:
        """`yesterday`, `on Monday`, `in the morning`: only in the past."""
        at = self.draw()
        if at < 0.4:
            return _small(self.word("yesterday again recently"), main, "advmod")
        if at < 0.75:
            day = self.word("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
            return _prepositional("on", Phrase(_name(day))).under(main, "obl")
        part = _noun(self.word("morning afternoon evening"))
        the = Word("the", "DET", "DT", ARTICLE.format("Def")).under(part, "det")
        return _prepositional("in", Phrase(part, the, part)).under(main, "obl")

    def complements(self, verb: Verb, main: Word, depth: int) -> list[Part]:
        """The parts after the verb: its object with its modifiers, or a place, or an adverb.

        A place after an object belongs to the verb if it likes one, else to the object; so does
        `with`.
        """
        if verb.objects:
            both = self.participants(verb.objects, "Acc", depth)
            noun = both[0].head
            after: list[Part] = []
            at = self.draw()
            if depth > 0 and at < 0.2 and verb.tools:
                after = [self.with_tool(verb.tools).under(main, "obl")]
            elif depth > 0 and at < 0.4 and verb.places:
                after = [self.place(self.pick(verb.places)).under(main, "obl")]
            elif depth > 0 and at < 0.4 and noun.upos == "NOUN" and noun is both[0].words[-1]:
                complement = self.place("in") if self.happens(0.4) else self.noun_complement(noun)
                after = [complement.under(noun, "nmod")]
            return [self.hang(both, main, "obj"), *after]
        if verb.places and self.happens(0.55):
            return [self.place(self.pick(verb.places)).under(main, "obl")]
        return [_small(self.word(MANNER), main, "advmod")] if self.happens(0.35) else []

    def predicate(self, verb: Verb, subject: Word, depth: int, tense: str | None = None) -> Phrase:
        """The verb group with adverbs and complements, the subject left out."""
        group = self.verb_group(verb, subject, tense)
        main = group.head
        before = group.words[:-1]
        if self.happens(0.1):
            often = "often always never sometimes usually"
            before.append(_small(self.word(MANNER if before else often), main, "advmod"))
        after = self.complements(verb, main, depth)
        in_past = "Tense=Past" in (before[0] if before else main).feats
        if depth > 0 and in_past and self.happens(0.18):
            after.append(self.time(main))
        return Phrase(main, *before, main, *after)

    def any_verb(self) -> Verb:
        return self.pick(self.transitive if self.happens(0.72) else self.intransitive)

    def verb_for(self, subject: Word) -> Verb:
        """A verb whose subject can be of the subject's kind."""
        while True:
            verb = self.any_verb()
            if subject.kind in verb.subjects:
                return verb

    def verbs_of(self, kind: str) -> list[Verb]:
        """The verbs whose object can be of the kind."""
        return [verb for verb in self.transitive if kind in verb.objects]

    def clause(self, depth: int, tense: str | None = None) -> Phrase:
        """Subject and predicate."""
        verb = self.any_verb()
        both = self.participants(verb.subjects, "Nom", depth)
        predicate = self.predicate(verb, both[0].head, depth, tense)
        return Phrase(predicate.head, self.hang(both, predicate.head, "nsubj"), predicate)

    def relative(self, noun: Word, depth: int) -> Phrase:
        """A relative clause on the noun: `who sings`, `that the dog chased`."""
        form = self.word("who who that" if noun.kind == "person" else "that that which")
        tag = "WP" if form == "who" else "WDT"
        pronoun = Word(form, "PRON", tag, "PronType=Rel", kind=noun.kind)
        pronoun.number = noun.number
        if noun.kind in ("person", "animal") and self.happens(0.65):
            predicate = self.predicate(self.verb_for(pronoun), pronoun, depth)
            return Phrase(predicate.head, pronoun.under(predicate.head, "nsubj"), predicate)
        verb = self.pick(self.verbs_of(noun.kind))
        subject = self.noun_phrase(verb.subjects, "Nom", 0)
        group = self.verb_group(verb, subject.head, "Past")
        main = group.head
        return Phrase(main, pronoun.under(main, "obj"), subject.under(main, "nsubj"), group)

    # Sentences

    def sentence(self) -> list[Word]:
        """Words of one sentence, from capital letter to final mark."""
        at = self.draw()
        for share, rule, end in SENTENCES:  # noqa: B007 (the last one where numbers are rounded)
            at -= share
            if at < 0:
                break
        phrase = rule(self)
        if end == "!":  # a command can end in a full stop
            end = "!" if self.happens(0.6) else "."
        words = [*phrase.words, _small(end, phrase.head, "punct")]
        for before, after in itertools.pairwise(words):
            before.glued = before.glued or after.upos == "PUNCT"
        words[0].form = words[0].form[0].upper() + words[0].form[1:]
        return words

    def statement(self) -> Phrase:
        """`The old man saw a dog.` `On Monday, Anna met a sailor.`"""
        if not self.happens(0.15):
            return self.clause(2)
        clause = self.clause(1, "Past")
        return Phrase(
            clause.head, self.time(clause.head), _small(",", clause.head, "punct"), clause
        )

    def shared_subject(self) -> Phrase:
        """`She sang and danced.` `The boy laughed, ran to the house and closed the door.`"""
        verb = self.any_verb()
        subject = self.noun_phrase(verb.subjects, "Nom", 1)
        tense = self.tense()
        first = self.predicate(verb, subject.head, 1, tense)
        parts: list[Part] = [subject.under(first.head, "nsubj"), first]
        lemmas = [verb.lemma]
        n_verbs = 3 if self.happens(0.2) else 2
        while len(lemmas) < n_verbs:
            verb = self.verb_for(subject.head)
            if verb.lemma in lemmas:
                continue
            lemmas.append(verb.lemma)
            main = verb.finite(subject.head, tense)
            after = self.complements(verb, main, 1)
            form = self.word("and and but") if n_verbs == 2 else "and"
            last = len(lemmas) == n_verbs
            parts.append(_small(form, main, "cc") if last else _small(",", main, "punct"))
            parts += [main.under(first.head, "conj"), *after]
            subject.head.others.append((main, "nsubj"))
        return Phrase(first.head, *parts)

    def shared_object(self) -> Phrase:
        """`The baker washed and peeled the potatoes.`"""
        kind = self.word("food animal thing text person")
        one = self.pick(self.verbs_of(kind))
        other = self.pick([verb for verb in self.verbs_of(kind) if verb is not one])
        subject = self.noun_phrase(("person",), "Nom", 1)
        tense = self.tense()
        main = one.finite(subject.head, tense)
        second = other.finite(subject.head, tense).under(main, "conj")
        object_ = self.noun_phrase((kind,), "Acc", 2).under(main, "obj")
        subject.head.others.append((second, "nsubj"))
        object_.head.others.append((second, "obj"))
        subject.under(main, "nsubj")
        return Phrase(main, subject, main, _small("and", second, "cc"), second, object_)

    def two_clauses(self) -> Phrase:
        """`The dog chased the cat, but the cat disappeared.`"""
        tense = self.tense()
        first, second = self.clause(1, tense), self.clause(1, tense)
        link = _small(self.word("and but so"), second.head, "cc")
        second.under(first.head, "conj")
        return Phrase(first.head, first, _small(",", second.head, "punct"), link, second)

    def adverbial_clause(self) -> Phrase:
        """`When the queen arrived, the guests smiled.` `Tom waited because he knew the way.`"""
        tense = self.tense()
        main, below = self.clause(1, tense), self.clause(1, tense)
        link = _small(self.word("when because while although after before"), below.head, "mark")
        below.under(main.head, "advcl")
        if self.happens(0.5):
            return Phrase(main.head, main, link, below)
        return Phrase(main.head, link, below, _small(",", below.head, "punct"), main)

    def reported_clause(self) -> Phrase:
        """`The doctor thinks that the child is tired.`"""
        subject = self.noun_phrase(("person",), "Nom", 1)
        group = self.verb_group(self.pick(self.saying), subject.head, None)
        below = self.clause(1) if self.happens(0.75) else self.quality()
        that = [_small("that", below.head, "mark")] if self.happens(0.7) else []
        below.under(group.head, "ccomp")
        return Phrase(group.head, subject.under(group.head, "nsubj"), group, *that, below)

    def infinitive_clause(self) -> Phrase:
        """`The girls want to swim.` The subject is that of both verbs."""
        verb = self.pick(self.wanting)
        subject = self.noun_phrase(verb.subjects, "Nom", 1)
        group = self.verb_group(verb, subject.head, None)
        below = self.verb_for(subject.head)
        main = below.infinitive().under(group.head, "xcomp")
        to = Word("to", "PART", "TO").under(main, "mark")
        after = self.complements(below, main, 2)
        subject.head.others.append((main, "nsubj"))
        return Phrase(group.head, subject.under(group.head, "nsubj"), group, to, main, *after)

    def gift(self) -> Phrase:
        """`Maria gave the child an apple.` `Maria gave an apple to the child.`"""
        verb = self.pick(self.giving)
        subject = self.noun_phrase(verb.subjects, "Nom", 1)
        group = self.verb_group(verb, subject.head, None)
        main = group.head
        receiver = self.noun_phrase(("person",), "Acc", 0)
        given = self.noun_phrase(verb.objects, "Acc", 1).under(main, "obj")
        subject.under(main, "nsubj")
        if self.happens(0.45):
            to = _prepositional("to", receiver).under(main, "obl")
            return Phrase(main, subject, group, given, to)
        return Phrase(main, subject, group, receiver.under(main, "iobj"), given)

    def quality(self) -> Phrase:
        """`The soup was very hot.` `Anna is a doctor.`"""
        kind = self.word("person person animal food text thing place")
        subject = self.noun_phrase((kind,), "Nom", 1)
        if kind == "person" and subject.head.number == "Sing" and self.happens(0.3):
            predicate = self.common_noun("person", singular=True)
        else:
            hot = Word(self.word(self.pick(ADJECTIVES[kind])), *TAGS["amod"])
            very = self.happens(0.4)
            degree = [_small(self.word("very quite too rather"), hot, "advmod")] if very else []
            predicate = Phrase(hot, *degree, hot)
        head = predicate.head
        be = _auxiliary(self.be.finite(subject.head, self.tense()), head, "cop")
        return Phrase(head, subject.under(head, "nsubj"), be, predicate)

    def passive(self) -> Phrase:
        """`The window was broken by a bird.`"""
        verb = self.pick(self.transitive)
        kinds = [kind for kind in verb.objects if kind != "person"] or verb.objects
        patient = self.noun_phrase(kinds, "Nom", 2)
        main = verb.past_participle()
        be = _auxiliary(self.be.finite(patient.head, self.tense()), main, "aux:pass")
        after = []
        if self.happens(0.65):
            agent = _prepositional("by", self.noun_phrase(verb.subjects, "Acc", 1))
            after = [agent.under(main, "obl:agent")]
        elif verb.places:
            after = [self.place(self.pick(verb.places)).under(main, "obl")]
        return Phrase(main, patient.under(main, "nsubj:pass"), be, main, *after)

    def existence(self) -> Phrase:
        """`There are two cats in the garden.`"""
        subject = self.common_noun(self.word("animal person thing food"), indefinite=True)
        be = self.be.finite(subject.head, self.tense())
        there = Word("there", "PRON", "EX").under(be, "expl")
        place = self.place(self.word("in near behind")).under(be, "obl")
        return Phrase(be, there, be, subject.under(be, "nsubj"), place)

    def late_relative(self) -> Phrase:
        """`A man arrived yesterday who wore a hat.` Its arc crosses the verb's: non-projective."""
        if self.happens(0.5):
            verb = self.pick(self.intransitive)
            noun = self.common_noun("person", indefinite=True)
            main = verb.finite(noun.head, "Past")
            parts = [noun.under(main, "nsubj"), main, *self.complements(verb, main, 0)]
        else:
            verb = self.pick(self.verbs_of("person"))
            subject = self.noun_phrase(("person",), "Nom", 0)
            main = verb.finite(subject.head, "Past")
            noun = self.common_noun("person", indefinite=True)
            parts = [subject.under(main, "nsubj"), main, noun.under(main, "obj"), self.time(main)]
        return Phrase(main, *parts, self.relative(noun.head, 1).under(noun.head, "acl:relcl"))

    def question_word(self, verb: Verb) -> Phrase:
        """`what`, `who` or `which book`, as an object of the verb."""
        kind = self.pick(verb.objects)
        if self.happens(0.35):
            noun = self.common_noun(kind, singular=True).head
            return Phrase(noun, Word("which", "DET", "WDT", ASKING).under(noun, "det"), noun)
        return Phrase(Word("who" if kind == "person" else "what", "PRON", "WP", ASKING))

    def far_question(self) -> Phrase:
        """`What did Anna say that the dog ate?` The head of the first word is the last verb."""
        verb = self.pick(self.transitive)
        asked = self.question_word(verb)
        subject = self.noun_phrase(("person",), "Nom", 0)
        say = self.pick(self.saying).infinitive()
        did = _auxiliary(self.do.finite(subject.head, self.tense()), say)
        below = self.noun_phrase(verb.subjects, "Nom", 1)
        main = verb.finite(below.head, "Past").under(say, "ccomp")
        that = [_small("that", main, "mark")] if self.happens(0.5) else []
        asked.under(main, "obj"), subject.under(say, "nsubj"), below.under(main, "nsubj")
        return Phrase(say, asked, did, subject, say, *that, below, main)

    def near_question(self) -> Phrase:
        """`Which book did the student read?` `Who opened the door?`"""
        verb = self.pick(self.transitive)
        if self.happens(0.4):
            who = Word("who", "PRON", "WP", ASKING)
            predicate = self.predicate(verb, who, 2, "Past")
            return Phrase(predicate.head, who.under(predicate.head, "nsubj"), predicate)
        asked, subject = self.question_word(verb), self.noun_phrase(verb.subjects, "Nom", 1)
        main = verb.infinitive()
        did = _auxiliary(self.do.finite(subject.head, self.tense()), main)
        return Phrase(main, asked.under(main, "obj"), did, subject.under(main, "nsubj"), main)

    def yes_no_question(self) -> Phrase:
        """`Did the cat see the mouse?`"""
        verb = self.any_verb()
        subject = self.noun_phrase(verb.subjects, "Nom", 1)
        main = verb.infinitive()
        did = _auxiliary(self.do.finite(subject.head, self.tense()), main)
        subject.under(main, "nsubj")
        return Phrase(main, did, subject, main, *self.complements(verb, main, 2))

    def command(self) -> Phrase:
        """`Please open the door with the key!`"""
        verb = self.pick(self.transitive)
        main = Word(verb.lemma, "VERB", "VB", "Mood=Imp|VerbForm=Fin")
        please = [Word("please", "INTJ", "UH").under(main, "discourse")] * self.happens(0.5)
        return Phrase(main, *please, main, *self.complements(verb, main, 2))


# Share of each rule among the sentences, together 1, and the mark at the end.
SENTENCES: tuple[tuple[float, Callable[[Grammar], Phrase], str], ...] = (
    (0.17, Grammar.statement, "."),
    (0.13, Grammar.shared_subject, "."),
    (0.05, Grammar.shared_object, "."),
    (0.07, Grammar.two_clauses, "."),
    (0.13, Grammar.adverbial_clause, "."),
    (0.08, Grammar.reported_clause, "."),
    (0.06, Grammar.infinitive_clause, "."),
    (0.06, Grammar.gift, "."),
    (0.04, Grammar.quality, "."),
    (0.04, Grammar.passive, "."),
    (0.02, Grammar.existence, "."),
    (0.06, Grammar.late_relative, "."),
    (0.03, Grammar.far_question, "?"),
    (0.02, Grammar.near_question, "?"),
    (0.02, Grammar.yes_no_question, "?"),
    (0.02, Grammar.command, "!"),
)


def generate(n_sentences: int, seed: int) -> bytes:
    """Text of a treebank in CoNLL-U, made by the grammar above.

    Args:
        n_sentences: number of sentences; a longer treebank begins with a shorter one.
        seed: seed of the random numbers.
    Returns: the file's bytes, the same on every platform and version of Python.
    Cost: some 10 microseconds per word.
    """
    # Of Python's generator only random() is promised never to change.
    grammar = Grammar(random.Random(seed).random)
    parts = []
    for k in range(n_sentences):
        sentence = grammar.sentence()
        while not SHORTEST <= len(sentence) <= LONGEST:
            sentence = grammar.sentence()
        parts.append(_conllu(sentence, f"synthetic-{seed}-{k + 1}"))
    return "".join(parts).encode()


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="gpuparse-")  # removed when the process ends


@functools.cache
def treebank_file(n_sentences: int, seed: int) -> str:
    """The path of a file with these sentences."""
    path = Path(_folder().name, f"synthetic-{n_sentences}-{seed}.conllu")
    path.write_bytes(generate(n_sentences, seed))
    return str(path)


def _conllu(sentence: list[Word], sent_id: str) -> str:
    """The sentence's lines, with comments before and a blank line after."""
    number = {id(word): i for i, word in enumerate(sentence, 1)}
    text = "".join(word.form + ("" if word.glued else " ") for word in sentence).rstrip()
    lines = [f"# sent_id = {sent_id}", f"# text = {text}"]
    for i, word in enumerate(sentence, 1):
        head = number[id(word.head)] if word.head else 0
        heads = sorted([(head, word.label), *((number[id(h)], label) for h, label in word.others)])
        deps = "|".join(f"{h}:{label}" for h, label in heads)
        in_range = word.joined or (i > 1 and sentence[i - 2].joined)
        misc = "SpaceAfter=No" if word.glued and not in_range else "_"
        if word.joined:
            both = word.form + sentence[i].form
            space = "SpaceAfter=No" if sentence[i].glued else "_"
            lines.append(f"{i}-{i + 1}\t{both}\t_\t_\t_\t_\t_\t_\t_\t{space}")
        columns = (word.form, word.lemma, word.upos, word.xpos, word.feats, head, word.label)
        lines.append("\t".join(map(str, (i, *columns, deps, misc))))
    return "\n".join(lines) + "\n\n"

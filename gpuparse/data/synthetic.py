"""A generated treebank: sentences of a small English-like grammar, with their trees.

Relations are those of Universal Dependencies. Words with two heads (subjects and objects shared by
coordinated verbs, coordinated nouns, subjects of infinitives) have both in DEPS. Some trees are
non-projective: relative clauses after the verb (`A man arrived who wore a hat`), and
questions about a word of a clause below (`What did Anna say that the dog ate?`).
"""

import itertools
import random

from gpuparse.data import synthetic_words as words
from gpuparse.data.synthetic_phrases import (
    Phrase,
    PhraseGrammar,
    Word,
    adverb,
    conjunction,
    finite,
    infinitive,
    mark,
    participle,
)

SHORTEST, LONGEST = 3, 35  # words


def generate(n_sentences: int, seed: int) -> bytes:
    """Text of a treebank in CoNLL-U, made by this package's own grammar.

    Args:
        n_sentences: number of sentences; a longer treebank begins with a shorter one.
        seed: seed of the random numbers.
    Returns: the file's bytes, the same on every platform and version of Python.
    Cost: some 10 microseconds a word.
    """
    # Of Python's generator only random() is promised never to change.
    grammar = _SentenceGrammar(random.Random(seed).random)
    parts = []
    for k in range(n_sentences):
        sentence = grammar.sentence()
        while not SHORTEST <= len(sentence) <= LONGEST:
            sentence = grammar.sentence()
        parts.append(_conllu(sentence, f"synthetic-{seed}-{k + 1}"))
    return "".join(parts).encode()


class _SentenceGrammar(PhraseGrammar):
    """Rules for sentences: each returns a phrase and the mark that ends it."""

    def sentence(self) -> list[Word]:
        """Words of one sentence, from capital letter to final mark."""
        at = self.draw()
        rule = SENTENCES[-1][1]
        for share, candidate in SENTENCES:
            at -= share
            if at < 0:
                rule = candidate
                break
        phrase, end = rule(self)
        sentence = [*phrase.words, mark(end).under(phrase.head, "punct")]
        for before, after in itertools.pairwise(sentence):
            before.glued = before.glued or after.upos == "PUNCT"
        sentence[0].form = sentence[0].form[0].upper() + sentence[0].form[1:]
        return sentence

    def statement(self) -> tuple[Phrase, str]:
        """`The old man saw a dog.` `On Monday, Anna met a sailor.`"""
        if not self.happens(0.15):
            return self.clause(2), "."
        clause = self.clause(1, "Past")
        time = self.time(clause.head)
        comma = mark(",").under(clause.head, "punct")
        return Phrase(clause.head, [*time, comma, *clause.words]), "."

    def shared_subject(self) -> tuple[Phrase, str]:
        """`She sang and danced.` `The boy laughed, ran to the house and closed the door.`"""
        verb = self.any_verb()
        subject = self.noun_phrase(verb.subjects, "Nom", 1)
        tense = self.tense()
        first = self.predicate(verb, subject.head, 1, tense)
        subject_words = subject.under(first.head, "nsubj")
        sentence = [*subject_words, *first.words]
        lemmas = [verb.lemma]
        n_verbs = 3 if self.happens(0.2) else 2
        while len(lemmas) < n_verbs:
            verb = self.verb_for(subject.head)
            if verb.lemma in lemmas:
                continue
            lemmas.append(verb.lemma)
            main = finite(verb, subject.head, tense)
            complements = self.complements(verb, main, 1)
            form = self.pick(("and", "and", "but")) if n_verbs == 2 else "and"
            before = conjunction(form).under(main, "cc")
            if len(lemmas) < n_verbs:
                before = mark(",").under(main, "punct")
            sentence += [before, main.under(first.head, "conj"), *complements]
            subject.head.others.append((main, "nsubj"))
        return Phrase(first.head, sentence), "."

    def shared_object(self) -> tuple[Phrase, str]:
        """`The baker washed and peeled the potatoes.`"""
        kind = self.pick(("food", "animal", "thing", "text", "person"))
        fitting = [verb for verb in words.TRANSITIVE if kind in verb.objects]
        one = self.pick(fitting)
        other = self.pick([verb for verb in fitting if verb is not one])
        subject = self.noun_phrase(("person",), "Nom", 1)
        tense = self.tense()
        main = finite(one, subject.head, tense)
        second = finite(other, subject.head, tense).under(main, "conj")
        object_ = self.noun_phrase((kind,), "Acc", 2)
        subject.head.others.append((second, "nsubj"))
        object_.head.others.append((second, "obj"))
        and_ = conjunction("and").under(second, "cc")
        verbs = [*subject.under(main, "nsubj"), main, and_, second]
        return Phrase(main, [*verbs, *object_.under(main, "obj")]), "."

    def two_clauses(self) -> tuple[Phrase, str]:
        """`The dog chased the cat, but the cat disappeared.`"""
        tense = self.tense()
        first, second = self.clause(1, tense), self.clause(1, tense)
        comma = mark(",").under(second.head, "punct")
        link = conjunction(self.pick(("and", "but", "so"))).under(second.head, "cc")
        sentence = [*first.words, comma, link, *second.under(first.head, "conj")]
        return Phrase(first.head, sentence), "."

    def adverbial_clause(self) -> tuple[Phrase, str]:
        """`When the queen arrived, the guests smiled.` `Tom waited because he knew the way.`"""
        tense = self.tense()
        main, below = self.clause(1, tense), self.clause(1, tense)
        form = self.pick(("when", "because", "while", "although", "after", "before"))
        link = Word(form, form, "SCONJ", "IN").under(below.head, "mark")
        clause = [link, *below.under(main.head, "advcl")]
        if self.happens(0.5):
            return Phrase(main.head, [*main.words, *clause]), "."
        comma = mark(",").under(below.head, "punct")
        return Phrase(main.head, [*clause, comma, *main.words]), "."

    def reported_clause(self) -> tuple[Phrase, str]:
        """`The doctor thinks that the child is tired.`"""
        subject = self.noun_phrase(("person",), "Nom", 1)
        group = self.verb_group(self.pick(words.SAYING), subject.head, None)
        below = self.clause(1) if self.happens(0.75) else self.quality()[0]
        clause = below.under(group.head, "ccomp")
        if self.happens(0.7):
            clause = [Word("that", "that", "SCONJ", "IN").under(below.head, "mark"), *clause]
        sentence = [*subject.under(group.head, "nsubj"), *group.words, *clause]
        return Phrase(group.head, sentence), "."

    def infinitive_clause(self) -> tuple[Phrase, str]:
        """`The girls want to swim.` The subject is that of both verbs."""
        verb = self.pick(words.WANTING)
        subject = self.noun_phrase(verb.subjects, "Nom", 1)
        group = self.verb_group(verb, subject.head, None)
        below = self.verb_for(subject.head)
        main = infinitive(below).under(group.head, "xcomp")
        to = Word("to", "to", "PART", "TO").under(main, "mark")
        complements = self.complements(below, main, 2)
        subject.head.others.append((main, "nsubj"))
        sentence = [*subject.under(group.head, "nsubj"), *group.words, to, main, *complements]
        return Phrase(group.head, sentence), "."

    def gift(self) -> tuple[Phrase, str]:
        """`Maria gave the child an apple.` `Maria gave an apple to the child.`"""
        verb = self.pick(words.GIVING)
        subject = self.noun_phrase(verb.subjects, "Nom", 1)
        group = self.verb_group(verb, subject.head, None)
        receiver = self.noun_phrase(("person",), "Acc", 0)
        given = self.noun_phrase(verb.objects, "Acc", 1)
        after = [*receiver.under(group.head, "iobj"), *given.under(group.head, "obj")]
        if self.happens(0.45):
            to = self.prepositional("to", receiver)
            after = [*given.under(group.head, "obj"), *to.under(group.head, "obl")]
        sentence = [*subject.under(group.head, "nsubj"), *group.words, *after]
        return Phrase(group.head, sentence), "."

    def quality(self) -> tuple[Phrase, str]:
        """`The soup was very hot.` `Anna is a doctor.`"""
        kind = self.pick(("person", "person", "animal", "food", "text", "thing", "place"))
        subject = self.noun_phrase((kind,), "Nom", 1)
        if kind == "person" and subject.head.number == "Sing" and self.happens(0.3):
            predicate = self.common_noun("person", singular=True)
        else:
            adjective = self.adjective(kind)
            before = []
            if self.happens(0.4):
                before = [adverb(self.pick(words.DEGREES)).under(adjective, "advmod")]
            predicate = Phrase(adjective, [*before, adjective])
        be = self.auxiliary(finite(words.BE, subject.head, self.tense()), predicate.head, "cop")
        sentence = [*subject.under(predicate.head, "nsubj"), be, *predicate.words]
        return Phrase(predicate.head, sentence), "."

    def passive(self) -> tuple[Phrase, str]:
        """`The window was broken by a bird.`"""
        verb = self.pick(words.TRANSITIVE)
        kinds = tuple(kind for kind in verb.objects if kind != "person") or verb.objects
        patient = self.noun_phrase(kinds, "Nom", 2)
        main = participle(verb)
        be = self.auxiliary(finite(words.BE, patient.head, self.tense()), main, "aux:pass")
        after = []
        if self.happens(0.65):
            agent = self.prepositional("by", self.noun_phrase(verb.subjects, "Acc", 1))
            after = agent.under(main, "obl:agent")
        elif verb.places:
            after = self.place(self.pick(verb.places)).under(main, "obl")
        return Phrase(main, [*patient.under(main, "nsubj:pass"), be, main, *after]), "."

    def existence(self) -> tuple[Phrase, str]:
        """`There are two cats in the garden.`"""
        kind = self.pick(("animal", "person", "thing", "food"))
        subject = self.common_noun(kind, indefinite=True)
        be = finite(words.BE, subject.head, self.tense())
        there = Word("there", "there", "PRON", "EX").under(be, "expl")
        place = self.place(self.pick(("in", "near", "behind"))).under(be, "obl")
        return Phrase(be, [there, be, *subject.under(be, "nsubj"), *place]), "."

    def late_relative(self) -> tuple[Phrase, str]:
        """`A man arrived yesterday who wore a hat.` Its arc crosses the verb's: non-projective."""
        if self.happens(0.5):
            verb = self.pick(words.INTRANSITIVE)
            noun = self.common_noun("person", indefinite=True)
            main = finite(verb, noun.head, "Past")
            before, after = noun.under(main, "nsubj"), self.complements(verb, main, 0)
        else:
            verb = self.pick([verb for verb in words.TRANSITIVE if "person" in verb.objects])
            subject = self.noun_phrase(("person",), "Nom", 0)
            main = finite(verb, subject.head, "Past")
            before = subject.under(main, "nsubj")
            noun = self.common_noun("person", indefinite=True)
            after = [*noun.under(main, "obj"), *self.time(main)]
        relative = self.relative(noun.head, 1).under(noun.head, "acl:relcl")
        return Phrase(main, [*before, main, *after, *relative]), "."

    def question_word(self, verb: words.Verb) -> Phrase:
        """`what`, `who` or `which book`, as an object of the verb."""
        kind = self.pick(verb.objects)
        if self.happens(0.35):
            phrase = self.common_noun(kind, singular=True)
            which = Word("which", "which", "DET", "WDT", "PronType=Int")
            return Phrase(phrase.head, [which.under(phrase.head, "det"), phrase.head])
        form = "who" if kind == "person" else "what"
        word = Word(form, form, "PRON", "WP", "PronType=Int")
        return Phrase(word, [word])

    def far_question(self) -> tuple[Phrase, str]:
        """`What did Anna say that the dog ate?` The first word hangs from the last verb."""
        verb = self.pick(words.TRANSITIVE)
        asked = self.question_word(verb)
        subject = self.noun_phrase(("person",), "Nom", 0)
        say = infinitive(self.pick(words.SAYING))
        did = self.auxiliary(finite(words.DO, subject.head, self.tense()), say)
        below = self.noun_phrase(verb.subjects, "Nom", 1)
        main = finite(verb, below.head, "Past").under(say, "ccomp")
        that = [Word("that", "that", "SCONJ", "IN").under(main, "mark")]
        sentence = [*asked.under(main, "obj"), did, *subject.under(say, "nsubj"), say]
        sentence += [*(that if self.happens(0.5) else []), *below.under(main, "nsubj"), main]
        return Phrase(say, sentence), "?"

    def near_question(self) -> tuple[Phrase, str]:
        """`Which book did the student read?` `Who opened the door?`"""
        verb = self.pick(words.TRANSITIVE)
        if self.happens(0.4):
            who = Word("who", "who", "PRON", "WP", "PronType=Int")
            predicate = self.predicate(verb, who, 2, "Past")
            return Phrase(
                predicate.head, [who.under(predicate.head, "nsubj"), *predicate.words]
            ), "?"
        asked, subject = self.question_word(verb), self.noun_phrase(verb.subjects, "Nom", 1)
        main = infinitive(verb)
        did = self.auxiliary(finite(words.DO, subject.head, self.tense()), main)
        sentence = [*asked.under(main, "obj"), did, *subject.under(main, "nsubj"), main]
        return Phrase(main, sentence), "?"

    def yes_no_question(self) -> tuple[Phrase, str]:
        """`Did the cat see the mouse?`"""
        verb = self.any_verb()
        subject = self.noun_phrase(verb.subjects, "Nom", 1)
        main = infinitive(verb)
        did = self.auxiliary(finite(words.DO, subject.head, self.tense()), main)
        after = self.complements(verb, main, 2)
        return Phrase(main, [did, *subject.under(main, "nsubj"), main, *after]), "?"

    def command(self) -> tuple[Phrase, str]:
        """`Please open the door with the key!`"""
        verb = self.pick(words.TRANSITIVE)
        main = Word(verb.lemma, verb.lemma, "VERB", "VB", "Mood=Imp|VerbForm=Fin")
        before = []
        if self.happens(0.5):
            before = [Word("please", "please", "INTJ", "UH").under(main, "discourse")]
        sentence = [*before, main, *self.complements(verb, main, 2)]
        return Phrase(main, sentence), "!" if self.happens(0.6) else "."


# Share of each rule among the sentences; together 1.
SENTENCES = (
    (0.17, _SentenceGrammar.statement),
    (0.13, _SentenceGrammar.shared_subject),
    (0.05, _SentenceGrammar.shared_object),
    (0.07, _SentenceGrammar.two_clauses),
    (0.13, _SentenceGrammar.adverbial_clause),
    (0.08, _SentenceGrammar.reported_clause),
    (0.06, _SentenceGrammar.infinitive_clause),
    (0.06, _SentenceGrammar.gift),
    (0.04, _SentenceGrammar.quality),
    (0.04, _SentenceGrammar.passive),
    (0.02, _SentenceGrammar.existence),
    (0.06, _SentenceGrammar.late_relative),
    (0.03, _SentenceGrammar.far_question),
    (0.02, _SentenceGrammar.near_question),
    (0.02, _SentenceGrammar.yes_no_question),
    (0.02, _SentenceGrammar.command),
)


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
        lines.append(
            f"{i}\t{word.form}\t{word.lemma}\t{word.upos}\t{word.xpos}\t{word.feats}\t{head}"
            f"\t{word.label}\t{deps}\t{misc}"
        )
    return "\n".join(lines) + "\n\n"

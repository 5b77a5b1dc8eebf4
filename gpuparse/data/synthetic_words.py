"""The words of the synthetic treebank: a few hundred, with what each likes to go with.

The preferences are what makes the treebank worth parsing: whether `with the spoon` belongs to the
verb or to the noun before it depends on the words alone.
"""

from typing import NamedTuple


class Verb(NamedTuple):
    """A verb's forms and the classes of noun it takes."""

    lemma: str
    past: str
    participle: str
    gerund: str
    subjects: tuple[str, ...]
    objects: tuple[str, ...] = ()  # empty: intransitive
    tools: tuple[str, ...] = ()  # nouns that "with" adds to the verb
    places: tuple[str, ...] = ()  # prepositions of a place that adds to the verb


# class -> (singular, plural)
NOUNS: dict[str, tuple[tuple[str, str], ...]] = {
    "person": (
        ("man", "men"), ("woman", "women"), ("boy", "boys"), ("girl", "girls"),
        ("child", "children"), ("teacher", "teachers"), ("doctor", "doctors"),
        ("farmer", "farmers"), ("student", "students"), ("neighbour", "neighbours"),
        ("baker", "bakers"), ("sailor", "sailors"), ("painter", "painters"), ("nurse", "nurses"),
        ("singer", "singers"), ("queen", "queens"), ("guest", "guests"), ("driver", "drivers"),
        ("officer", "officers"), ("friend", "friends"), ("visitor", "visitors"),
        ("poet", "poets"), ("lawyer", "lawyers"), ("thief", "thieves"),
    ),
    "animal": (
        ("dog", "dogs"), ("cat", "cats"), ("horse", "horses"), ("bird", "birds"),
        ("mouse", "mice"), ("sheep", "sheep"), ("fox", "foxes"), ("goose", "geese"),
        ("rabbit", "rabbits"), ("cow", "cows"), ("owl", "owls"), ("wolf", "wolves"),
    ),
    "food": (
        ("apple", "apples"), ("cake", "cakes"), ("loaf", "loaves"), ("potato", "potatoes"),
        ("pear", "pears"), ("egg", "eggs"), ("carrot", "carrots"), ("sandwich", "sandwiches"),
        ("onion", "onions"), ("cherry", "cherries"), ("pie", "pies"),
    ),
    "text": (
        ("book", "books"), ("letter", "letters"), ("story", "stories"), ("poem", "poems"),
        ("newspaper", "newspapers"), ("report", "reports"),
    ),
    "song": (("song", "songs"), ("tune", "tunes"), ("ballad", "ballads")),
    "thing": (
        ("picture", "pictures"), ("box", "boxes"), ("ball", "balls"), ("cup", "cups"),
        ("chair", "chairs"), ("clock", "clocks"), ("lamp", "lamps"), ("bottle", "bottles"),
        ("boat", "boats"), ("bag", "bags"), ("bicycle", "bicycles"), ("map", "maps"),
    ),
    "opening": (("door", "doors"), ("window", "windows"), ("gate", "gates"), ("chest", "chests")),
    "place": (
        ("garden", "gardens"), ("kitchen", "kitchens"), ("park", "parks"), ("school", "schools"),
        ("market", "markets"), ("village", "villages"), ("forest", "forests"),
        ("street", "streets"), ("library", "libraries"), ("station", "stations"),
        ("house", "houses"), ("hotel", "hotels"), ("harbour", "harbours"), ("church", "churches"),
    ),
}  # fmt: skip

# Where one can be `at`; the other prepositions go with every place.
STOPS = ("school", "market", "library", "station", "hotel", "harbour", "church")

# What `with` adds to a noun of a class.
FEATURES: dict[str, tuple[str, ...]] = {
    "person": ("hat", "beard", "scarf", "umbrella", "coat", "basket", "telescope"),
    "animal": ("tail", "collar", "bell"),
    "thing": ("handle", "lid", "label"),
    "opening": ("lock", "handle"),
}

# class -> adjectives of size and quality, which come first, and of age, colour and origin.
ADJECTIVES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "person": (("tall", "clever", "tired", "happy", "angry", "quiet"), ("old", "young", "famous")),
    "animal": (
        ("big", "small", "hungry", "fat", "shy"),
        ("black", "white", "brown", "wild", "old"),
    ),
    "food": (("big", "small", "cheap"), ("fresh", "sweet", "hot", "ripe", "cold")),
    "text": (("long", "short", "sad", "strange", "famous"), ("new", "old", "English", "French")),
    "song": (("sad", "short", "beautiful", "strange"), ("old", "French", "new")),
    "thing": (("heavy", "small", "beautiful", "expensive"), ("red", "old", "new", "green")),
    "opening": (("heavy", "narrow", "large"), ("wooden", "old", "red", "green")),
    "place": (("quiet", "large", "beautiful", "empty", "small"), ("old", "famous", "new")),
    "tool": (("small", "long", "heavy"), ("new", "old", "black")),
}

NAMES = ("Anna", "Peter", "Maria", "Tom", "Clara", "Victor", "Emma", "Oscar", "Julia", "Hugo")
SURNAMES = ("Miller", "Baker", "Young", "Stone", "Fisher", "Wood")

_PEOPLE = ("person",)
_LIVING = ("person", "animal")

TRANSITIVE = (
    Verb("see", "saw", "seen", "seeing", _LIVING, ("person", "animal", "thing"), ("telescope",),
         ("in", "near")),
    Verb("watch", "watched", "watched", "watching", _LIVING, ("person", "animal"), ("telescope",)),
    Verb("chase", "chased", "chased", "chasing", _LIVING, ("animal", "person"), ("stick",),
         ("through", "into")),
    Verb("meet", "met", "met", "meeting", _PEOPLE, ("person",), (), ("in", "near", "at")),
    Verb("find", "found", "found", "finding", _LIVING, ("thing", "animal", "food"), (),
         ("in", "behind")),
    Verb("like", "liked", "liked", "liking", _PEOPLE, ("person", "text", "thing")),
    Verb("know", "knew", "known", "knowing", _PEOPLE, ("person", "place", "text")),
    Verb("describe", "described", "described", "describing", _PEOPLE, ("person", "place")),
    Verb("admire", "admired", "admired", "admiring", _PEOPLE, ("person", "thing", "place")),
    Verb("read", "read", "read", "reading", _PEOPLE, ("text",), (), ("in", "at")),
    Verb("write", "wrote", "written", "writing", _PEOPLE, ("text",), ("pen",), ("in",)),
    Verb("sing", "sang", "sung", "singing", _PEOPLE, ("song",), (), ("in",)),
    Verb("open", "opened", "opened", "opening", _PEOPLE, ("opening", "text"), ("key", "knife")),
    Verb("close", "closed", "closed", "closing", _PEOPLE, ("opening",), ("key", "rope")),
    Verb("break", "broke", "broken", "breaking", _LIVING, ("thing", "opening"),
         ("hammer", "stick")),
    Verb("repair", "repaired", "repaired", "repairing", _PEOPLE, ("thing", "opening"),
         ("hammer", "rope")),
    Verb("paint", "painted", "painted", "painting", _PEOPLE, ("thing", "opening", "animal"),
         ("brush",)),
    Verb("cut", "cut", "cut", "cutting", _PEOPLE, ("food",), ("knife",), ("in",)),
    Verb("eat", "ate", "eaten", "eating", _LIVING, ("food",), ("spoon", "knife"), ("in", "at")),
    Verb("wash", "washed", "washed", "washing", _PEOPLE, ("food", "thing"), ("brush",), ("in",)),
    Verb("peel", "peeled", "peeled", "peeling", _PEOPLE, ("food",), ("knife",)),
    Verb("buy", "bought", "bought", "buying", _PEOPLE, ("food", "thing", "text"), (),
         ("in", "at")),
    Verb("sell", "sold", "sold", "selling", _PEOPLE, ("food", "thing"), (), ("in", "at")),
    Verb("carry", "carried", "carried", "carrying", _PEOPLE, ("thing", "food"), (),
         ("to", "into")),
    Verb("bring", "brought", "brought", "bringing", _PEOPLE, ("thing", "food"), (),
         ("to", "into")),
    Verb("draw", "drew", "drawn", "drawing", _PEOPLE, ("animal", "person", "thing"),
         ("pen", "brush")),
    Verb("steal", "stole", "stolen", "stealing", _LIVING, ("food", "thing"), (), ("from",)),
    Verb("follow", "followed", "followed", "following", _LIVING, _LIVING, (),
         ("through", "into")),
    Verb("help", "helped", "helped", "helping", _PEOPLE, ("person",), (), ("in",)),
    Verb("feed", "fed", "fed", "feeding", _PEOPLE, ("animal",), ("spoon",), ("in", "near")),
)  # fmt: skip

INTRANSITIVE = (
    Verb("sleep", "slept", "slept", "sleeping", _LIVING, places=("in", "near")),
    Verb("laugh", "laughed", "laughed", "laughing", _PEOPLE, places=("in",)),
    Verb("arrive", "arrived", "arrived", "arriving", _LIVING, places=("at",)),
    Verb("disappear", "disappeared", "disappeared", "disappearing", _LIVING, places=("in",)),
    Verb("swim", "swam", "swum", "swimming", _LIVING, places=("near",)),
    Verb("run", "ran", "run", "running", _LIVING, places=("through", "into", "to")),
    Verb("walk", "walked", "walked", "walking", _LIVING, places=("through", "to")),
    Verb("dance", "danced", "danced", "dancing", _PEOPLE, places=("in",)),
    Verb("work", "worked", "worked", "working", _PEOPLE, places=("in", "at")),
    Verb("wait", "waited", "waited", "waiting", _LIVING, places=("in", "near", "at")),
    Verb("rest", "rested", "rested", "resting", _LIVING, places=("in", "near")),
    Verb("smile", "smiled", "smiled", "smiling", _PEOPLE),
    Verb("play", "played", "played", "playing", _LIVING, places=("in", "near")),
)

GIVING = (
    Verb("give", "gave", "given", "giving", _PEOPLE, ("food", "thing", "text")),
    Verb("send", "sent", "sent", "sending", _PEOPLE, ("text", "thing")),
    Verb("show", "showed", "shown", "showing", _PEOPLE, ("thing", "text")),
    Verb("offer", "offered", "offered", "offering", _PEOPLE, ("food", "thing")),
)

SAYING = (
    Verb("say", "said", "said", "saying", _PEOPLE),
    Verb("think", "thought", "thought", "thinking", _PEOPLE),
    Verb("believe", "believed", "believed", "believing", _PEOPLE),
    Verb("hope", "hoped", "hoped", "hoping", _PEOPLE),
)

WANTING = (
    Verb("want", "wanted", "wanted", "wanting", _PEOPLE),
    Verb("try", "tried", "tried", "trying", _PEOPLE),
    Verb("plan", "planned", "planned", "planning", _PEOPLE),
    Verb("decide", "decided", "decided", "deciding", _PEOPLE),
    Verb("begin", "began", "begun", "beginning", _LIVING),
)

STATES = ("like", "know", "admire", "believe", "hope", "see", "find", "want")  # never "is knowing"

BE = Verb("be", "was", "been", "being", ())
DO = Verb("do", "did", "done", "doing", ())
HAVE = Verb("have", "had", "had", "having", ())

# form of the subject, of the object, lemma, person, number, gender
PRONOUNS = (
    ("I", "me", "I", 1, "Sing", ""),
    ("we", "us", "we", 1, "Plur", ""),
    ("you", "you", "you", 2, "Sing", ""),
    ("he", "him", "he", 3, "Sing", "Masc"),
    ("she", "her", "she", 3, "Sing", "Fem"),
    ("they", "them", "they", 3, "Plur", ""),
)
POSSESSIVES = (("my", "my"), ("your", "your"), ("his", "his"), ("her", "her"), ("our", "our"))
NUMBERS = ("two", "three", "four", "five", "seven", "ten", "twelve")
MODALS = ("can", "must", "should", "may", "will")
OFTEN = ("often", "always", "never", "sometimes", "usually")
MANNER = ("quickly", "slowly", "quietly", "carefully", "happily", "suddenly")
LATELY = ("yesterday", "again", "recently")
DEGREES = ("very", "quite", "too", "rather")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PARTS_OF_DAY = ("morning", "afternoon", "evening")

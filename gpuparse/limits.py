"""Limits of the content of files that are read: more is refused with a message (docs/commands.md).

They lie far above what training needs. Weights may be as large as memory is.
"""

MAX_TEMPLATES = 10_000  # of a set, suffixes and attributes of FEATS written out
MAX_VECTOR_TEMPLATES = 512  # of word vectors, attributes of FEATS written out
MAX_BETWEEN_VALUES = 256  # of words in between, told apart by word vectors
MAX_DISTANCE = 10_000  # words; the last upper end of the distance buckets
MAX_FIELDS = 1_000  # of a vocabulary
MAX_VALUES = 1 << 22  # of a vocabulary, all fields together
MAX_LABELS = 1 << 16
MAX_YAML_BYTES = 1 << 20
MAX_YAML_VALUES = 30_000  # keys, scalars, lists and tables of a YAML file
MAX_VOCABULARY_BYTES = 1 << 28
MAX_HEADER_BYTES = 1 << 21  # of a file of arrays
MAX_ARRAYS_BYTES = 1 << 36  # of a file of arrays as a whole
MAX_COMPACT_BYTES = 1 << 30  # of the arrays that a file has in another form, expanded
MAX_BEAM = 64  # tags of a word among which sequences are searched
MAX_MARGIN = (1 << 31) - 1  # points of a candidate below the best one of a beam
MAX_CANDIDATES = 10_000  # tags of a name in the dictionary of a tagger or lemmatiser
MAX_TAG = 1_000  # characters of UPOS, XPOS, FEATS, a relation, and a rule of lemmas
MAX_SPLIT_WORDS = 16  # of a rule for multiword tokens; treebanks have 2, rarely 3
MAX_NEW_WORDS, MAX_NEW_TEXT = 2, 16  # of such a rule, for each character that it takes off
MAX_SENTENCE = 32_768  # words of a sentence that a tokeniser finds
MAX_K_BEST = 1_000_000  # trees of a sentence that are asked for
MAX_SCALE = 1e9  # nats a point of a score; far beyond, sums over trees overflow

# The log loss of an error at 1.0000, which has four decimals, is -ln(this), not infinite.
LEAST_PROBABILITY = 0.00005

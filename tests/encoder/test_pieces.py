"""Pieces of words and windows of sentences."""

import base64
import json
import time

import numpy as np
import pytest

from gpuparse.errors import ModelError

pytest.importorskip("tokenizers", reason="pieces need the package tokenizers")

from gpuparse.scorers.encoder import tokenizer_json
from gpuparse.scorers.encoder.pieces import (
    MAX_PIECES,
    MAX_WINDOW,
    EncodedPieces,
    EncodedTreebank,
    Ragged,
    Splitter,
    casing_of,
    of_words,
)
from tests.tiny_encoders import FAMILIES, tokenizer

CLS, SEP, UNKNOWN, MASK = 1, 2, 3, 4
N_PIECES = 300  # more than each of the tokenisers has


def text_of(family: str = "bert", **parts: object) -> str:
    return of_words(json.dumps(tokenizer(family) | parts))


@pytest.fixture(scope="module", params=FAMILIES)
def splitter(request) -> Splitter:
    return Splitter(text_of(request.param), 64, N_PIECES)


def encoded_of(splitter: Splitter, sentences: list[list[str]]) -> EncodedTreebank:
    """Sentences of forms, encoded."""
    names = sorted({form for sentence in sentences for form in sentence})
    words = np.array([names.index(form) for sentence in sentences for form in sentence], np.int64)
    starts = np.concatenate([[0], np.cumsum([len(sentence) for sentence in sentences])])
    return EncodedPieces.of_forms(words, names, starts, splitter).whole


def check_windows(whole: EncodedTreebank, sentences: list[int]) -> None:
    """Every word of the sentences is kept once, with its pieces, from windows within the limit."""
    splitter = whole.splitter
    found = whole.windows(np.array(sentences))
    assert (np.diff(found.starts) <= splitter.window).all()
    assert len(found.ids) == found.starts[-1]
    for start, end in zip(found.starts[:-1], found.starts[1:], strict=True):
        window = found.ids[start:end].tolist()
        assert window[: len(splitter.prefix)] == splitter.prefix
        assert window[len(window) - len(splitter.suffix) :] == splitter.suffix
    assert len(found.casings) == len(found.ids)
    tokens, pieces, casings = whole.word_tokens, {}, {}
    for s in sentences:
        for word in range(whole.word_starts[s], whole.word_starts[s + 1]):
            of_form = slice(*whole.forms.starts[whole.words[word] : whole.words[word] + 2])
            pieces[int(tokens[word])] = whole.forms.values[of_form].tolist()
            casings[int(tokens[word])] = int(whole.casings[whole.words[word]])
    assert sorted(found.tokens.tolist()) == sorted(pieces)
    for token, first, count in zip(found.tokens, found.firsts, found.counts, strict=True):
        assert found.ids[first : first + count].tolist() == pieces[int(token)]
        assert (found.casings[first : first + count] == casings[int(token)]).all()
        ends = np.searchsorted(found.starts, [first, first + count - 1], "right")
        assert ends[0] == ends[1]  # of one window
    roots = [int(whole.word_starts[s]) + 2 * s for s in sentences]
    assert sorted(found.root_tokens.tolist()) == sorted(roots)
    assert (found.ids[found.roots] == splitter.prefix[0]).all()
    assert not found.casings[found.roots].any()


@pytest.mark.parametrize(
    ("casing", "forms"),
    [
        (0, ["rose", "été", "1990", "...", "東京", "ß", "3d", "'s"]),
        (1, ["I", "A.", "É", "4B"]),
        (2, ["NATO", "U.S.", "ÉTÉ", "A4B", "AΩ"]),
        (3, ["Rose", "Été", "St.", "Ω-ray", "Əli"]),
        (4, ["McDonald", "O'Neil", "iPhone", "l'Europe", "GmbH", "3Com"]),
    ],
)
def test_casings(casing, forms):
    assert [casing_of(form) for form in forms] == [casing] * len(forms)


def test_each_form_is_split_once(splitter, monkeypatch):
    given, split = [], Splitter.split

    def recorded(self, forms):
        given.extend(forms)
        return split(self, forms)

    monkeypatch.setattr(Splitter, "split", recorded)
    encoded_of(splitter, [["the", "cat", "the"], ["cat"], ["the", "cat"]])
    assert sorted(given) == ["cat", "the"]


def test_known_pieces(splitter):
    found = splitter.split(["ab", "abc"])
    names = [splitter._tokenizer.id_to_token(int(piece)).strip("#▁Ġ") for piece in found.values]
    assert "".join(names) == "ababc"
    assert (splitter.prefix, splitter.suffix) == ([CLS], [SEP])


UNUSUAL = [
    "\u200d", "\u200b", "\ufeff", "\u00ad", "\u0301", "\x01",  # no visible letters
    "a" * 1000, "ab" * 500, "10 000", "a b", "a\u00a0b", "a\u3000b", "b  a",
    "Москва", "東京都", "مرحبا", "ไทย", "हिन्दी", "😀👩‍👩‍👧", "𒀀",
]  # fmt: skip


@pytest.mark.parametrize("form", UNUSUAL, ids=lambda form: ascii(form[:9]))
def test_unusual_words_have_pieces_that_the_encoder_knows(splitter, form):
    found = splitter.split([form])
    assert 1 <= found.lengths[0] <= MAX_PIECES
    assert (found.values < N_PIECES).all()
    check_windows(encoded_of(splitter, [[form] * 40, ["a", form, form, "b"], [form]]), [0, 1, 2])


def test_only_the_beginning_of_a_long_form_is_read(splitter):
    long, longer = (splitter.split(["ab" * n]).values.tolist() for n in (500, 50_000))
    assert long == longer


def test_a_word_that_the_tokeniser_removes_has_the_unknown_piece():
    assert Splitter(text_of(), 64, N_PIECES).split(["\u200d"]).values.tolist() == [UNKNOWN]


def test_splitting_does_not_depend_on_the_forms_beside(splitter):
    forms = ["abc", "Москва", "\u200d", "x" * 1000, "a b", "10"]
    together = splitter.split(forms)
    for i, form in enumerate(forms):
        assert splitter.split([form]).values.tolist() == together[np.array([i])].values.tolist()


@pytest.mark.parametrize("n", [1, 2, 30, 31, 32, 61, 62, 63, 64, 100, 500])
@pytest.mark.parametrize("length", [1, 3, 16, 40])
def test_windows_of_a_long_sentence(splitter, n, length):
    whole = encoded_of(splitter, [["a"], ["a" * length] * n, ["b", "c"]])
    for sentences in ([0, 1, 2], [1], [2, 1]):
        check_windows(whole, sentences)


def test_windows_of_random_sentences(splitter):
    random = np.random.default_rng(1)
    for _ in range(20):
        sentences = [
            ["abcdefghijklmnop"[: random.integers(1, 17)] for _ in range(random.integers(1, 90))]
            for _ in range(4)
        ]
        some = random.permutation(4)[: random.integers(1, 5)].tolist()
        check_windows(encoded_of(splitter, sentences), some)


def test_windows_of_a_long_sentence_overlap(splitter):
    """A word that is not at an end of its sentence has words of its window on both sides."""
    whole = encoded_of(splitter, [["ab"] * 200])
    found = whole.windows(np.array([0]))
    assert len(found.starts) > 3
    window = np.searchsorted(found.starts, found.firsts, "right") - 1
    before = found.firsts - found.starts[window] - len(splitter.prefix)
    after = found.starts[window + 1] - len(splitter.suffix) - found.firsts - found.counts
    words, near = found.tokens - 1, splitter.room // 8
    assert (before[words >= near] >= near).all()
    assert (after[words < 200 - near] >= near).all()


def test_batches_have_each_sentence_once(splitter):
    sentences = [["ab"] * n for n in (3, 1, 200, 7, 7, 40, 1)]
    whole = encoded_of(splitter, sentences)
    lengths = np.minimum(whole.pieces + 2, splitter.window)
    for most in (1, 16, 100, 10_000):
        batches = list(whole.batches(np.arange(len(whole.pieces)), most))
        assert sorted(np.concatenate(batches).tolist()) == list(range(len(sentences)))
        assert all(len(b) == 1 or len(b) * lengths[b].max() <= most for b in batches)


def test_no_window_is_longer_than_the_limit():
    splitter = Splitter(text_of(), 100_000, N_PIECES)
    assert splitter.window == MAX_WINDOW
    check_windows(encoded_of(splitter, [["abc"] * 1000]), [0])


def test_rows():
    ragged = Ragged.of([[1, 2], [], [3]])
    assert ragged.lengths.tolist() == [2, 0, 1]
    some = ragged[np.array([2, 0, 1, 2])]
    assert some.values.tolist() == [3, 1, 2, 3]
    assert some.starts.tolist() == [0, 1, 3, 3, 4]


def changed(**parts: object) -> str:
    return json.dumps(tokenizer("bert") | parts)


def word_piece(vocabulary: object) -> str:
    model = {"type": "WordPiece", "unk_token": "[UNK]", "vocab": vocabulary,
             "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}  # fmt: skip
    return changed(model=model)


def unigram(*pieces: list) -> str:
    return changed(model={"type": "Unigram", "unk_id": 0, "vocab": [["[UNK]", 0.0], *pieces]})


def replaced(pattern: str) -> str:
    """A tokeniser that removes what a pattern finds."""
    found = {"type": "Replace", "pattern": {"Regex": pattern}, "content": ""}
    return changed(normalizer=found)


OTHER_TEXTS = {
    "empty": "", "no JSON": "{", "a list": "[]", "a number": "1", "null": "null", "text": '"x"',
    "NUL": "\0", "deeply nested": "[" * 100_000,
}  # fmt: skip
HOSTILE = {name: (lambda text=text: text) for name, text in OTHER_TEXTS.items()} | {
    "no model": lambda: changed(model=None),
    "a model of another type": lambda: changed(model={"type": "Pickle"}),
    "a vocabulary that is a list": lambda: word_piece(["a"]),
    "negative numbers": lambda: word_piece({"a": -1, "[UNK]": 0}),
    "no unknown piece": lambda: word_piece({"b": 0}),
    "an empty vocabulary": lambda: changed(
        model={"type": "WordLevel", "vocab": {}, "unk_token": "[UNK]"}
    ),
    "all words removed": lambda: changed(normalizer=replacing("a", "")),
    "a broken pattern": lambda: replaced("("),
    "a pre-tokeniser of another type": lambda: changed(pre_tokenizer={"type": "None"}),
}


def replacing(given: str, content: str) -> dict:
    return {"type": "Replace", "pattern": {"String": given}, "content": content}


def sequence(inner: str, parts: list) -> dict:
    return {"type": "Sequence", inner: parts}


def charsmap(*, units: dict[int, int] | None = None, texts: bytes = b"b\0") -> dict:
    """The normaliser of SentencePiece with a map from `a` to `b`; units: other ones."""
    array = np.zeros(256, np.uint32)
    array[ord("a")] = 0x60 << 10 | 1 << 8 | ord("a")  # its leaf is unit 1
    array[1] = 1 << 31
    for place, unit in (units or {}).items():
        array[place] = unit
    data = len(array.tobytes()).to_bytes(4, "little") + array.tobytes() + texts
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(data).decode()}


GPT_2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
BYTES = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
SPLIT = {"type": "Split", "behavior": "Isolated", "invert": False}
SPACES = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
MARKED = [replacing(" ", "▁")]
# Parts as tokenisers of the families have them, and of models that use their architectures.
SOUND = {
    "xlm-roberta": {
        "normalizer": sequence("normalizers", [charsmap(), SPACES]),
        "pre_tokenizer": sequence("pretokenizers", [{"type": "WhitespaceSplit"}, METASPACE]),
    },
    "deberta-v2": {
        "normalizer": sequence("normalizers", [
            {"type": "Lowercase"}, {"type": "Strip", "strip_left": True, "strip_right": True},
            charsmap(), {"type": "NFC"},
            {"type": "Replace", "pattern": {"Regex": r"\s{2,}|[\n\r\t]"}, "content": " "},
        ]),
        "pre_tokenizer": sequence("pretokenizers", [
            {"type": "Punctuation", "behavior": "Isolated"}, METASPACE,
        ]),
    },
    "modernbert": {
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": sequence("pretokenizers", [
            SPLIT | {"pattern": {"Regex": GPT_2}}, {"type": "Digits", "individual_digits": True},
            BYTES | {"use_regex": False},
        ]),
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                    "use_regex": True},
    },
    "roberta": {
        "normalizer": sequence("normalizers", MARKED),
        "pre_tokenizer": SPLIT | {"pattern": {"String": " "}},
        "post_processor": {"type": "RobertaProcessing", "sep": ["[SEP]", SEP],
                           "cls": ["[CLS]", CLS], "trim_offsets": True, "add_prefix_space": True},
        "decoder": sequence("decoders", [*MARKED, {"type": "ByteFallback"}, {"type": "Fuse"}]),
    },
    "bert": {
        "normalizer": sequence("normalizers", [
            {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Prepend", "prepend": "x"},
        ]),
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", SEP],
                           "cls": ["[CLS]", CLS]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "truncation": {"max_length": 128, "stride": 0, "strategy": "LongestFirst",
                       "direction": "Right"},
        "padding": {"strategy": {"Fixed": 128}, "direction": "Right", "pad_to_multiple_of": None,
                    "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"},
    },
}  # fmt: skip


@pytest.mark.parametrize("family", SOUND)
def test_parts_that_tokenisers_of_the_families_have(family):
    splitter = Splitter(text_of(family, **SOUND[family]), 64, N_PIECES)
    assert (splitter.prefix, splitter.suffix) == ([CLS], [SEP])
    check_windows(encoded_of(splitter, [["The", "10", "a b", "naïve", ","]]), [0])


def test_a_character_map_is_read():
    splitter = Splitter(text_of("xlm-roberta", normalizer=charsmap()), 64, N_PIECES)
    [a, b] = (splitter.split([form]).values.tolist() for form in "ab")
    assert a == b


A, LEAF = ord("a"), 1
HOSTILE |= {
    "an exponential expression": lambda: replaced("(a+)+$"),
    "an exponential expression without a type": lambda: changed(
        normalizer={"pattern": {"Regex": "(a+)+$"}, "content": ""}
    ),
    "an exponential expression of a split": lambda: changed(
        pre_tokenizer=SPLIT | {"pattern": {"Regex": "(a|a)+$"}}
    ),
    "an exponential expression deep inside": lambda: changed(normalizer=sequence(
        "normalizers", [sequence("normalizers", [
            {"type": "Replace", "pattern": {"Regex": "(a*)*b"}, "content": ""}
        ])],
    )),
    "an expression of a decoder": lambda: changed(
        decoder={"type": "Replace", "pattern": {"Regex": "(a*)*b"}, "content": ""}
    ),
    "a second normaliser": lambda: changed().replace(
        '"normalizer": ',
        '"normalizer": {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""},'
        ' "normalizer": ', 1,
    ),
    "a second type": lambda: changed(normalizer={"type": "Lowercase"}).replace(
        '"type": "Lowercase"', '"type": "Replace", "type": "Lowercase"'
    ),
    "a pattern of another kind": lambda: changed(
        normalizer=replacing("a", "a") | {"pattern": {"Glob": "a"}}
    ),
    "an empty pattern": lambda: changed(normalizer=replacing("", "")),
    "a long pattern": lambda: changed(normalizer=replacing("a" * 100_000, "")),
    "a longer text": lambda: changed(normalizer=replacing("a", "aa")),
    "texts that double": lambda: changed(
        normalizer=sequence("normalizers", 40 * [replacing("a", "aa")])
    ),
    "bytes as characters as bytes": lambda: changed(
        pre_tokenizer=sequence("pretokenizers", 40 * [BYTES])
    ),
    "many parts": lambda: changed(normalizer=sequence("normalizers", 17 * MARKED)),
    "many parts in sequences": lambda: changed(
        normalizer=sequence("normalizers", 3 * [sequence("normalizers", 6 * MARKED)])
    ),
    "sequences in sequences": lambda: changed(normalizer=json.loads(
        '{"type": "Sequence", "normalizers": [' * 60 + '{"type": "NFC"}' + "]}" * 60
    )),
    "a long text": lambda: changed(normalizer={"type": "Prepend", "prepend": "a" * 100_000}),
    "many special pieces": lambda: changed(post_processor={
        "type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}] * 100_000,
        "pair": [], "special_tokens": {},
    }),
    "a special piece without a number": lambda: changed(post_processor={
        "type": "TemplateProcessing", "pair": [], "special_tokens": {},
        "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                   {"Sequence": {"id": "A", "type_id": 0}}],
    }),
    "a normaliser of another type": lambda: changed(normalizer={"type": "Nmt"}),
    "a type that is a list": lambda: changed(normalizer={"type": ["NFC"]}),
    "a post-processor of another type": lambda: changed(post_processor={"type": "None"}),
    "a decoder of another type": lambda: changed(decoder={"type": "CTC"}),
    "a model of words": lambda: changed(
        model={"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"}
    ),
    "a model without a type": lambda: changed(
        model={key: value for key, value in tokenizer("bert")["model"].items() if key != "type"}
    ),
    "words of any length": lambda: changed(
        model=tokenizer("bert")["model"] | {"max_input_chars_per_word": 10**9}
    ),
    "words of a thousand characters": lambda: changed(
        model=tokenizer("bert")["model"] | {"max_input_chars_per_word": 1000}
    ),
    "huge scores": lambda: unigram(["a", -1e308]),
    "scores that are no numbers": lambda: unigram(["a", None]),
    "merges without pieces": lambda: changed(
        model=tokenizer("roberta")["model"] | {"merges": [["a", "zz"]]}
    ),
    "a long prefix": lambda: changed(
        model=tokenizer("bert")["model"] | {"continuing_subword_prefix": "#" * 100_000}
    ),
    "pieces at random": lambda: json.dumps(
        tokenizer("roberta") | {"model": tokenizer("roberta")["model"] | {"dropout": 0.5}}
    ),
    "a long piece": lambda: word_piece({"a": 0, "[UNK]": 1, "b" * 100_000: 2}),
    "many added pieces": lambda: changed(added_tokens=[
        {"id": 0, "content": f"[{i}]", "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": True} for i in range(30_000)
    ]),
    "a long added piece": lambda: changed(added_tokens=[
        {"id": 0, "content": "x" * 100_000, "single_word": False, "lstrip": False,
         "rstrip": False, "normalized": False, "special": True}
    ]),
    "a key that no tokeniser has": lambda: changed(code="import os"),
    "a map that is no base64": lambda: changed(
        normalizer={"type": "Precompiled", "precompiled_charsmap": "é"}
    ),
    "an empty map": lambda: changed(
        normalizer={"type": "Precompiled", "precompiled_charsmap": ""}
    ),
    "a map with units outside": lambda: changed(
        normalizer=charsmap(units={A: 0x100 << 10 | A})
    ),
    "a map with texts outside": lambda: changed(
        normalizer=charsmap(units={LEAF: 1 << 31 | 1000})
    ),
    "a map with parts of characters": lambda: changed(
        normalizer=charsmap(units={LEAF: 1 << 31 | 1}, texts="é".encode() + b"\0")
    ),
    "a map to long texts": lambda: changed(normalizer=charsmap(texts=b"b" * 100_000)),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_tokenisers(name, capfd):
    text = HOSTILE[name]()
    began = time.process_time()
    with pytest.raises(ModelError) as caught:
        Splitter(text, 64, N_PIECES).split(["a" * 30 + "b", "officer", "é" * 9])
    assert "\n" not in str(caught.value)
    assert time.process_time() - began < 5
    assert "panicked" not in capfd.readouterr().err


def test_what_is_refused_is_said():
    with pytest.raises(ModelError, match=r"normalizer: .*regular expression.*\(a\+\)\+\$"):
        Splitter(replaced("(a+)+$"), 64, N_PIECES)
    with pytest.raises(ModelError, match="decoder: type CTC is not known"):
        Splitter(changed(decoder={"type": "CTC"}), 64, N_PIECES)


def test_a_fault_inside_the_package_is_an_error(monkeypatch):
    """The package raises what is no `Exception` then."""
    monkeypatch.setattr(tokenizer_json, "check", lambda text: None)
    splitter = Splitter(replaced("b(a+)+$"), 64, N_PIECES)
    with pytest.raises(ModelError, match=r"the encoder's tokenizer fails: .*retry-limit"):
        splitter.split(["b" + "a" * 30 + "c"])


@pytest.mark.parametrize("name", OTHER_TEXTS)
def test_hostile_tokenisers_of_pretrained_encoders(name):
    with pytest.raises(ModelError, match="the encoder's tokenizer cannot be read"):
        of_words(OTHER_TEXTS[name])


@pytest.mark.parametrize(
    "part", [[], 1, "x", {}, {"type": "Sequence", "pretokenizers": 3},
             {"type": "Sequence", "pretokenizers": [1]}],
)  # fmt: skip
def test_hostile_parts_of_pretrained_tokenisers(part):
    with pytest.raises(ModelError, match="the encoder's tokenizer cannot be read"):
        of_words(changed(pre_tokenizer=part))


@pytest.mark.parametrize("window", [-1, 0, 1, 8, 17])
def test_small_windows_are_refused(window):
    with pytest.raises(ModelError, match="at least 32 are needed"):
        Splitter(text_of(), window, N_PIECES)


@pytest.mark.parametrize("family", ["roberta", "modernbert"])
def test_byte_pairs_get_the_mark_of_a_beginning(family):
    splitter = Splitter(text_of(family), 64, N_PIECES)
    assert splitter._tokenizer.id_to_token(int(splitter.split(["a"]).values[0])) == "Ġ"


@pytest.mark.parametrize("n_pieces", [1, 3, 20])
def test_pieces_that_the_encoder_does_not_know(n_pieces):
    with pytest.raises(ModelError):
        Splitter(text_of(), 64, n_pieces).split(["the", "zebra", "\u200d"])


@pytest.mark.parametrize("n_words", [5, 200])
def test_masks_replace_the_pieces_of_a_word_that_is_left_out(splitter, n_words):
    sentences = [["dog"], [("Ab", "c", "xyzw")[i % 3] for i in range(n_words)]]
    whole = encoded_of(splitter, sentences)
    one = EncodedPieces.all_of(whole).select(np.array([1]))
    wanted = np.array([0, 3, n_words])
    kept = whole.windows(np.array([1]))
    for most in (1, 10_000):
        batches = list(one.without_words(wanted, most))
        assert [len(each) for each in batches] == ([1, 1, 1] if most == 1 else [3])
        found = [(each.whole, s) for each in batches for s in range(len(each))]
        for (made, s), word in zip(found, wanted.tolist(), strict=True):
            windows = made.windows(np.array([s]))
            assert np.array_equal(windows.starts, kept.starts)
            assert np.array_equal(windows.firsts, kept.firsts)
            assert np.array_equal(windows.counts, kept.counts)
            masked = windows.ids != kept.ids
            form = splitter.split(sentences[1][word - 1 : word]) if word else Ragged.of([])
            assert (windows.ids[masked] == MASK).all()
            counted = windows.tokens - windows.root_tokens[0] == word
            assert windows.counts[counted].sum() == len(form.values)
            first = int(windows.firsts[counted].sum())
            assert masked[first : first + len(form.values)].all()
            assert np.array_equal(windows.casings, np.where(masked, 0, kept.casings))
            check_windows(made, [s])
            # A word in two windows is masked in both.
            assert masked.sum() in (len(form.values), 2 * len(form.values))


def test_a_tokeniser_without_a_mask_has_the_unknown_piece_instead():
    text = text_of("bert")
    without = json.loads(text)
    del without["model"]["vocab"]["[MASK]"]
    without = json.dumps(without)
    for given, n_pieces, expected in (
        (text, N_PIECES, MASK), (without, N_PIECES, UNKNOWN), (text, MASK, UNKNOWN),
    ):  # fmt: skip
        masks = Splitter(given, 64, n_pieces).masks
        assert masks.lengths.tolist() == list(range(1, MAX_PIECES + 1))
        assert set(masks.values.tolist()) == {expected}

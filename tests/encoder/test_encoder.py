"""Parsers with a pretrained encoder: training, and all ways to parse."""

import random
import sys
from dataclasses import replace

import numpy as np
import pytest

import gpuparse
from gpuparse.commands import report
from gpuparse.commands.console import run
from gpuparse.data.batch import word_places
from gpuparse.data.columns import FEATS, LEMMA, UPOS, XPOS
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.errors import ConfigError, DataError, NoTreeError
from gpuparse.model.engines.results import SearchResult
from gpuparse.model.engines.searcher import BatchOptions
from gpuparse.model.folder import load_parser
from gpuparse.model.pipeline import load_stages
from gpuparse.scorers.encoder.quantised import FAMILIES as QUANTISED
from gpuparse.text.tagging.tagger import Tags
from tests.encoder.conftest import column, rows
from tests.samples import without
from tests.tiny_encoders import FAMILIES

# Each family, with weights of 16 bits, and with those of 8 bits where there are.
MODELS = [(family, 16) for family in FAMILIES] + [(family, 8) for family in QUANTISED]
NUMBERS = {"upos": UPOS, "xpos": XPOS, "feats": FEATS, "lemmas": LEMMA}
SWITCHES = {name: f"encoder__{name}" for name in NUMBERS} | {"lemmas": "lemmatizer__learn"}
HEAD, DEPREL, MISC = 6, 7, 9


def model_of(models, request):
    family, bits = request.param
    return models.model(family, f"of-{bits}-bits", weights__bits=bits)


@pytest.fixture(scope="module", params=MODELS, ids=lambda each: f"{each[0]}-{each[1]}")
def model(models, request):
    """A model of each family."""
    return model_of(models, request)


@pytest.fixture(scope="module", params=[("bert", 8), ("deberta-v2", 16)], ids=["bert", "deberta"])
def one(models, request):
    """A model with native weights, and one with those of torch."""
    return model_of(models, request)


def sentences_of(text: bytes) -> list[bytes]:
    return [part + b"\n\n" for part in text.split(b"\n\n") if part]


def mixed(text: bytes, seed: int = 1) -> bytes:
    """The sentences in another order."""
    parts = sentences_of(text)
    random.Random(seed).shuffle(parts)
    return b"".join(parts)


def check_trees(text: bytes) -> None:
    """Heads make trees with one root."""
    for part in sentences_of(text):
        heads = [int(fields[HEAD]) for fields in rows(part)]
        assert heads.count(0) == 1
        for start in range(1, len(heads) + 1):
            word = start
            for _ in heads:
                word = heads[word - 1] if word else 0
            assert word == 0


def test_every_word_gets_all_columns(models, model):
    out = models.parse(model, models.forms)
    check_trees(out)
    parser = load_parser(model)
    assert column(out, 1) == column(models.forms, 1)
    assert set(column(out, DEPREL)) <= set(parser.labels)
    for name in ("upos", "xpos", "feats"):
        assert set(column(out, NUMBERS[name])) <= set(parser.scorers[0].values.texts[name])
    assert "_" not in column(out, UPOS) + column(out, XPOS) + column(out, LEMMA)
    assert column(out, MISC) == column(models.forms, MISC)
    same = [a == b for a, b in zip(column(out, LEMMA), column(models.gold, LEMMA), strict=True)]
    assert np.mean(same) > 0.5


@pytest.mark.parametrize(
    ("family", "bits", "words"),
    [*((*each, ["--probabilities"]) for each in MODELS), ("bert", 8, []), ("deberta-v2", 16, [])],
)
def test_bytes_do_not_depend_on_batches_threads_and_order(models, family, bits, words):
    model = models.model(family, f"of-{bits}-bits", weights__bits=bits)
    expected = models.parse(model, models.forms, *words)
    for batch, threads in ((1, 1), (7, 1), (64, 2)):
        found = models.parse(model, models.forms, *words, "--threads", threads, batch=batch)
        assert found == expected, (batch, threads)
    for seed in (1, 2):
        out = models.parse(model, mixed(models.forms, seed), *words)
        assert sorted(sentences_of(out)) == sorted(sentences_of(expected))
    for number, part in list(enumerate(sentences_of(models.forms)))[:3]:
        assert models.parse(model, part, *words) == sentences_of(expected)[number]


def test_all_doors_give_the_same_bytes(models, model, tmp_path):
    expected = models.parse(model, models.forms)
    parser = gpuparse.load(model, threads=1)
    assert parser.columns == []
    assert parser.parse(models.forms).to_conllu().encode() == expected
    words = [[{"form": f[1]} for f in rows(part)] for part in sentences_of(models.forms)]
    found = rows(parser.parse(words).to_conllu().encode())
    assert [f[:8] for f in found] == [f[:8] for f in rows(expected)]
    (tmp_path / "in.conllu").write_bytes(models.forms)
    parser.parse_file(tmp_path / "in.conllu", tmp_path / "out.conllu")
    assert (tmp_path / "out.conllu").read_bytes() == expected


def test_raw_text(models, tmp_path):
    model = models.model("bert", "text", tokenizer__learn=True)
    text = "The tall officer smiled.\n\nFarmers must want to smile.\n"
    parser = gpuparse.load(model, threads=1)
    out = parser.parse_text(text).to_conllu().encode()
    check_trees(out)
    assert "_" not in column(out, UPOS) + column(out, LEMMA) + column(out, DEPREL)
    assert models.parse(model, text.encode(), "--input", "text") == out
    (tmp_path / "in.txt").write_text(text)
    parser.parse_file(tmp_path / "in.txt", tmp_path / "out.conllu")
    assert (tmp_path / "out.conllu").read_bytes() == out


def test_unusual_sentences(models, model):
    """A long sentence, other scripts, words without letters and one of 1,000 characters."""
    sentences = [["ab", "cd"] * 150, ["\u200d"], ["Москва", "東京", "😀"], ["x" * 1000, "10 000"]]
    text = "".join(
        "".join(f"{i}\t{form}" + "\t_" * 8 + "\n" for i, form in enumerate(forms, 1)) + "\n"
        for forms in sentences
    ).encode()
    out = models.parse(model, text)
    check_trees(out)
    assert column(out, 1) == [form for forms in sentences for form in forms]
    assert models.parse(model, text, batch=1) == out
    for given, found in zip(sentences_of(text), sentences_of(out), strict=True):
        assert models.parse(model, given) == found


def test_given_tags_are_kept(models, one):
    new = models.parse(one, models.forms)
    kept = models.parse(one, without(models.gold, *range(6, 9)), "--keep", "tags")
    for number in NUMBERS.values():
        assert column(kept, number) == column(models.gold, number)
    assert column(kept, HEAD) == column(new, HEAD)
    assert column(models.parse(one, models.gold), UPOS) == column(new, UPOS)


def test_missing_tags_are_filled_beside_those_kept(models, one):
    new = models.parse(one, models.forms)
    lines = without(models.gold, *range(6, 9)).decode().splitlines(keepends=True)
    for i, line in enumerate(lines):
        fields = line.split("\t")
        if fields[0].isdigit() and int(fields[0]) % 2:
            fields[2:6] = ["_"] * 4
            lines[i] = "\t".join(fields)
    kept = models.parse(one, "".join(lines).encode(), "--keep", "tags")
    for gold, given, found in zip(rows(models.gold), rows(kept), rows(new), strict=True):
        assert given[2:6] == (found if int(gold[0]) % 2 else gold)[2:6]


def test_probabilities(models, one):
    out = models.parse(one, models.forms, "--probabilities")
    assert [f[:9] for f in rows(out)] == [f[:9] for f in rows(models.parse(one, models.forms))]
    for fields in rows(out):
        items = dict(item.split("=") for item in fields[MISC].split("|") if "Prob=" in item)
        assert set(items) == {"HeadProb", "LabelProb", "TagProb"}
        assert all(0 <= float(value) <= 1 for value in items.values())
    kept = models.parse(one, models.gold, "--probabilities", "--keep", "tags")
    assert b"TagProb" not in kept
    assert kept.count(b"HeadProb") == len(rows(kept))


def test_other_searches(models, one):
    plain = models.parse(one, models.forms)
    check_trees(models.parse(one, models.forms, "--mbr"))
    assert models.parse(one, models.forms, "--single-root") == plain
    best = sentences_of(models.parse(one, models.forms, "--kbest", 2))
    check_trees(b"".join(best))
    assert len(best) == 2 * len(sentences_of(plain))
    firsts = b"".join(best[::2])
    assert [f[:8] for f in rows(firsts)] == [f[:8] for f in rows(plain)]


@pytest.mark.parametrize("decoder", ["eisner", "chu_liu_edmonds"])
@pytest.mark.parametrize("keeps", [False, True], ids=["free", "known"])
def test_the_native_engine_finds_what_the_dense_one_finds(models, decoder, keeps):
    """Weights of 8 bits: trees, probabilities and labels under the same scores."""
    folder = models.model("bert", "of-8-bits", weights__bits=8)
    parser = replace(load_parser(folder), other_decoder=decoder).with_scales(0.01, 0.02)
    treebank = treebank_from_bytes(models.gold, "gold")
    batch = parser.encode(treebank)
    known = np.full(batch.n_tokens, -1)
    places = word_places(batch)
    gold = np.array([int(head) for head in column(models.gold, HEAD)])
    is_known = keeps * (np.arange(len(gold)) % 3 == 0)
    known[places[is_known > 0]] = gold[is_known > 0]
    one, other = parser.searcher(), parser.searcher(engine="torch")
    assert not isinstance(one, type(other))
    options = BatchOptions(7, 2, probabilities=True)
    for least_risk in (False, True):
        with_risk = replace(options, least_risk=least_risk)
        ours, theirs = (each.marginals(batch, known, with_risk) for each in (one, other))
        for name in ("heads", "labels", "head_probabilities", "label_probabilities"):
            np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-12)
    assert (ours.heads[known >= 0] == known[known >= 0]).all()
    ours, theirs = (each.k_best(batch, known, 3, options) for each in (one, other))
    for mine, its in zip(
        [*ours[:4], *ours.marginals], [*theirs[:4], *theirs.marginals], strict=True
    ):
        np.testing.assert_allclose(mine, its, atol=1e-9)
    heads, labels = ours.heads[0], ours.labels[0]
    heads[places[3]] = labels[places[5]] = -1
    for which in ("heads", "labels", "both"):
        found = [
            each.probabilities_of(batch, heads, labels, which, options) for each in (one, other)
        ]
        np.testing.assert_allclose(*map(np.array, found), atol=1e-12)
    some = [SearchResult(heads, np.full_like(heads, -1)) for _ in range(2)]
    one.label_trees(batch, some[0])
    other.label_trees(batch, some[1])
    np.testing.assert_array_equal(some[0].labels, some[1].labels)
    assert (some[0].labels >= 0).sum() == len(places) - 1


def test_known_heads_without_a_tree(models):
    parser = load_parser(models.model("bert", "of-8-bits", weights__bits=8))
    batch = parser.encode(treebank_from_bytes(models.gold, "gold"))
    known = np.full(batch.n_tokens, -1)
    start = batch.starts[4]
    known[start + 1 : start + 3] = 2, 1
    for engine in ("auto", "torch"):
        with pytest.raises(NoTreeError, match="no tree with its known heads"):
            parser.search(batch, known=known, engine=engine)


def test_without_the_package_of_the_tokeniser_its_extra_is_named(models, monkeypatch, capsys):
    model = models.model("bert", "of-8-bits", weights__bits=8)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert models.call(model, models.forms)[0] == 2
    assert "needs tokenizers: pip install 'gpuparse[accurate]'" in capsys.readouterr().err


def test_decoders_of_higher_orders_are_refused(models, one, capsys):
    assert models.call(one, models.forms, "--decoder", "eisner_sibling")[0] == 2
    assert "reads sibling scores, and the model is of the first order" in capsys.readouterr().err


def test_given_heads_are_kept(models, one):
    out = models.parse(one, without(models.gold, *range(2, 6)), "--keep", "heads")
    assert column(out, HEAD) == column(models.gold, HEAD)
    assert column(out, DEPREL) == column(models.gold, DEPREL)
    assert "_" not in column(out, UPOS)


@pytest.mark.parametrize("bits", [8, 16])
def test_tags_are_read(models, bits, capsys):
    keys = {"encoder__read_tags": True, "weights__bits": bits}
    model = models.model("bert", f"tags-of-{bits}-bits", **keys)
    parser = gpuparse.load(model, threads=1)
    assert parser.columns == ["upos", "xpos", "feats"]
    tagged = without(models.gold, *range(6, 9))
    out = models.parse(model, tagged, "--probabilities")
    check_trees(out)
    for number in (UPOS, XPOS, FEATS):
        assert column(out, number) == column(models.gold, number)
    assert models.parse(model, tagged, "--probabilities", batch=1) == out
    other = tagged.replace(b"\tNOUN\t", b"\tPUNCT\t")
    assert column(models.parse(model, other, "--probabilities"), MISC) != column(out, MISC)
    check_trees(models.parse(model, tagged.replace(b"\tNOUN\t", b"\tWHAT\t")))
    capsys.readouterr()
    assert models.call(model, models.forms)[0] == 3
    said = capsys.readouterr().err
    assert "--allow-missing" in said
    assert "Traceback" not in said
    with pytest.raises(DataError, match="allow_missing"):
        parser.parse(models.forms)
    check_trees(models.parse(model, models.forms, "--allow-missing"))


@pytest.mark.parametrize("bits", [8, 16])
def test_casings_are_learned(models, bits, tmp_path):
    file = tmp_path / "capitals.conllu"
    fields = [line.split("\t") for line in models.gold.decode().split("\n")]
    for i, (word, *others) in enumerate(fields):
        if len(others) == 9:
            others[0] = ("tree", "I", "NATO", "Ada", "iPod")[i % 5]
        fields[i] = [word, *others]
    file.write_text("\n".join(map("\t".join, fields)))
    keys = {"data__train": str(file), "weights__bits": bits}
    model = models.model("bert", f"casings-of-{bits}-bits", **keys)
    [scorer] = load_parser(model).scorers
    vectors = scorer.arrays["casings"] if bits == 16 else scorer.quantised.types
    assert (vectors != vectors[0]).any(1).tolist() == [False, True, True, True, True]


@pytest.mark.parametrize(
    "off",
    [*((name,) for name in NUMBERS), ("upos", "lemmas"), ("xpos", "feats"), ("lemmas", "xpos"),
     ("upos", "xpos", "feats"), tuple(NUMBERS)],
    ids="-".join,
)  # fmt: skip
def test_columns_that_are_switched_off_stay_as_given(models, off):
    keys = {SWITCHES[name]: False for name in off}
    model = models.model("bert", f"without-{'-'.join(off)}", **keys)
    numbers = [NUMBERS[name] for name in off]
    assert not set(numbers) & set(load_parser(model).scorers[0].fills)
    out = models.parse(model, models.forms)
    check_trees(out)
    assert all(set(column(out, n)) == {"_"} for n in numbers)
    assert all("_" not in column(out, n) for n in {UPOS, XPOS, LEMMA}.difference(numbers))
    found = models.parse(model, models.gold)
    assert all(column(found, n) == column(models.gold, n) for n in numbers)
    code, kept = models.call(model, models.gold, "--keep", "tags")
    assert code == (2 if len(off) == len(NUMBERS) else 0)  # where nothing is filled
    if not code:
        assert all(column(kept, n) == column(models.gold, n) for n in NUMBERS.values())
    probable = models.parse(model, models.forms, "--probabilities")
    assert (b"TagProb" in probable) == ("upos" not in off)
    assert b"HeadProb" in probable


def test_the_lemmatiser_reads_the_tags_that_are_filled(models, one):
    """At every door; where tags are kept, it reads these."""
    lemmatizer = load_stages(one).lemmatizer
    for text, words in ((models.forms, ()), (models.gold, ()), (models.gold, ("--keep", "tags"))):
        out = models.parse(one, text, *words)
        found = treebank_from_bytes(out, "parsed")
        expected = lemmatizer.lemmatize(found, Tags.of(found)).texts()
        if words:
            expected = column(models.gold, LEMMA)
        assert column(out, LEMMA) == expected


def test_a_report_of_an_encoder(models, one, tmp_path):
    page, gold = tmp_path / "page.html", tmp_path / "gold.conllu"
    gold.write_bytes(models.gold)
    assert run(report.main, [str(one), "--gold", str(gold), "--output", str(page)]) == 0
    parsed = tmp_path / "parsed.conllu"
    parsed.write_bytes(models.parse(one, models.gold))
    las = gpuparse.evaluate(gold, parsed)["las"]["percent"]
    assert f"{las:.2f}" in page.read_text()


def test_a_parser_of_heads_alone(models):
    model = models.model("bert", "heads", labels__kind="none")
    assert len(load_parser(model).labels) == 0
    out = models.parse(model, models.forms)
    check_trees(out)
    assert set(column(out, DEPREL)) == {"_"}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_frozen_encoder_is_not_changed(models, family):
    import torch
    from transformers import AutoModel

    pretrained = AutoModel.from_pretrained(models.encoder(family)).state_dict()
    frozen = models.model(family, "frozen", encoder__train=False, weights__bits=16)
    learned = models.model(family, "of-16-bits", weights__bits=16)
    arrays, others = (load_parser(folder).scorers[0].arrays for folder in (frozen, learned))
    bodies = [name for name in arrays if name.startswith("body.")]
    assert bodies
    for name in bodies:
        given = pretrained[name.removeprefix("body.")].to(torch.float16).numpy()
        assert (arrays[name] == given).all(), name
    assert any((others[name] != arrays[name]).any() for name in bodies)
    assert np.abs(arrays["heads.arcs.weight"]).max() > 0


@pytest.mark.parametrize("loss", ["conditional", "hinge"])
@pytest.mark.parametrize("decoder", ["chu_liu_edmonds", "eisner"])
def test_losses(models, loss, decoder):
    model = models.model("bert", f"{loss}-{decoder}", encoder__loss=loss, decoder=decoder)
    arrays = load_parser(model).scorers[0].arrays
    assert all(np.isfinite(array).all() for array in arrays.values())
    assert np.abs(arrays["heads.arcs.weight"]).max() > 0
    check_trees(models.parse(model, models.forms))


def test_a_model_of_ours_is_learned_on(models, tmp_path):
    """The encoder begins with the weights of the model; one of 8 bits is refused."""
    from gpuparse.learning.stages.encoder.pretrained import read_pretrained

    old = models.model("bert", "first", weights__bits=16)
    arrays = load_parser(old).scorers[0].arrays
    body = read_pretrained(str(old)).body()
    for name, parameter in body.named_parameters():
        assert parameter.requires_grad
        assert np.array_equal(parameter.detach().numpy(), np.float32(arrays[f"body.{name}"]))
    keys = {"encoder.model": str(old), "output": str(tmp_path / "new"), "weights.bits": 8}
    gpuparse.train("encoder", models.keys("bert", tmp_path) | keys, quiet=True)
    assert models.parse(tmp_path / "new", models.gold).count(b"\n\n") == 20
    assert "learn that model with weights.bits=16" in refused(models, tmp_path / "new", tmp_path)


def refused(models, encoder, tmp_path) -> str:
    keys = {"encoder.model": str(encoder), "output": str(tmp_path / "other")}
    with pytest.raises(ConfigError) as caught:
        gpuparse.train("encoder", models.keys("bert", tmp_path) | keys, quiet=True)
    return str(caught.value)

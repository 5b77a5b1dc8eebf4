"""The config: every key with values it must take and refuse, all errors at once, round trips."""

import dataclasses
import os
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpuparse.commands.config import main
from gpuparse.config import (
    DataConfig,
    RunConfig,
    known_keys,
    load_config,
    make_config,
    parse_config,
)
from gpuparse.config.load import MAX_BASES
from gpuparse.data.plain_yaml import dump_yaml
from gpuparse.errors import ConfigError
from gpuparse.features.templates import shipped_sets

MINIMAL = "output: runs/x\ndata:\n  train: train.conllu\n"


@pytest.fixture
def config_file(tmp_path, monkeypatch):
    """Write a config into a folder below the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").mkdir()

    def write(text: str):
        path = tmp_path / "configs" / "run.yaml"
        path.write_text(text, encoding="utf-8")
        return "configs/run.yaml"

    return write


def errors_of(path, *overrides) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides)
    assert caught.value.exit_code == 2
    return str(caught.value).splitlines()


def test_a_minimal_config_takes_every_default_and_is_frozen(config_file):
    config = load_config(config_file(MINIMAL))
    assert config == RunConfig(output="runs/x", data=DataConfig(train="configs/train.conllu"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.seed = 2


def test_the_output_is_named_after_the_file_unless_it_is_given(config_file):
    path = config_file("data: {train: t}\n")
    assert load_config(path).output == "runs/run"
    assert load_config(path, ["output=here"]).output == "here"


def test_a_file_takes_over_its_base_and_changes_what_it_states(config_file, tmp_path):
    (tmp_path / "other" / "deep").mkdir(parents=True)
    (tmp_path / "other" / "deep" / "first.yaml").write_text(
        "seed: 2\ndata: {train: t.conllu, dev: d.conllu}\nlearning: {epochs: 3, k: 2}\n"
    )
    (tmp_path / "other" / "second.yaml").write_text(
        "base: deep/first.yaml\nseed: 3\ndata: {dev: e.conllu}\n"
    )
    path = config_file("learning: {k: 4}\nbase: ../other/second.yaml\n")
    config = load_config(path, ["data.test=x.conllu"])
    assert (config.seed, config.learning.epochs, config.learning.k) == (3, 3, 4)
    assert config.data == DataConfig(
        train="other/deep/t.conllu", dev="other/e.conllu", test="x.conllu"
    )
    assert config.output == "runs/run"
    again = parse_config(config.to_yaml(), "printed")
    assert again == config


def test_the_depth_of_bases_is_limited(config_file, tmp_path):
    for i in range(MAX_BASES + 1):
        (tmp_path / "configs" / f"{i}.yaml").write_text(f"base: {i + 1}.yaml\n")
    (tmp_path / "configs" / f"{MAX_BASES - 1}.yaml").write_text("seed: 5\n")
    path = config_file("base: 0.yaml\ndata: {train: t}\n")
    assert load_config(path).seed == 5
    (tmp_path / "configs" / f"{MAX_BASES - 1}.yaml").write_text(f"base: {MAX_BASES}.yaml\n")
    [error] = errors_of(path)
    assert (
        f"a chain of more than {MAX_BASES} `base:` files: configs/run.yaml -> configs/0.yaml"
        in error
    )


MISSING = "data.train is missing: give data.train=FILE, or data.treebank=FOLDER"
RUN, LINE = "configs/run.yaml", "command line: "
A_SEED = "expected an integer from 0 to 9223372036854775807, not"
NO_CONFIG = "no such file, and no config of this name"
SECTIONS = (
    "data, feature_map, learning, pruning, word_vectors, labels, weights, tokenizer, tagger,"
    " lemmatizer, encoder"
)
ALL_KEYS = "unknown key; `gpuparse config` lists all keys"
SETS, OF_LABELS = (" or ".join(sorted([*shipped_sets(), *more])) for more in (["encoder"], []))
NO_KEYS = f"{RUN}: expected keys and values; see docs/configuration.md"
BASES = {  # the value of `base`, and what is said of it
    "none.yaml": f"configs/none.yaml: {NO_CONFIG}; `gpuparse config list` lists all names",
    "7": "expected the path of a config file, not 7",
    "null": "expected the path of a config file, not null",
    "list.yaml": "configs/list.yaml: expected keys and values; see docs/configuration.md",
    "pipe": "configs/pipe: a folder, pipe or device, where a file is expected",
    '"quick\\0start"': "'quick\\x00start': no file's name has the character NUL",
    "run.yaml": "a file cannot be its own base: configs/run.yaml -> configs/run.yaml",
}  # fmt: skip
ERRORS = [  # the file, overrides, and all errors
    *[(text, "", [NO_KEYS]) for text in ("", "# nothing\n", "- a\n", "text\n")],
    ("seed: 1\n", "", [f"{RUN}: {MISSING}"]),
    ("base: first.yaml\nseed: 1\nthreads: x\ndata: {train: t}\n", "", [
        f"configs/first.yaml:1: seed: {A_SEED} 'x'",
        "configs/first.yaml:2: epochs: unknown key; did you mean learning.epochs?",
        f"{RUN}:3: threads: expected an integer from 0 to 4096, not 'x'",
    ]),
    *[(f"seed: 1\nbase: {base}\nsead: 1\ndata: {{train: t}}\n", "", [
        f"{RUN}:2: base: {error}", f"{RUN}:3: sead: unknown key; did you mean seed?",
    ]) for base, error in BASES.items()],
    ("base: b.yaml\ndata: {train: t}\n", "", [
        "configs/c.yaml:1: base: a file cannot be its own base:"
        " configs/run.yaml -> configs/b.yaml -> configs/c.yaml -> configs/b.yaml"
    ]),
    (MINIMAL, "base=x.yaml", [f"{LINE}base: only a config file can name its base"]),
    ("data:\n  train: 5\n  trian: x\nlearning:\n  epochs: 0\n  iteratons: 5\nseed: true\n",
     "learning.epoch=3 threads=many nonsense", [
        f"{RUN}:2: data.train: expected a path, or a list of paths without commas, not 5",
        f"{RUN}:3: data.trian: unknown key; did you mean data.train?",
        f"{RUN}:5: learning.epochs: expected an integer from 1 to 10000, not 0",
        f"{RUN}:6: learning.iteratons: {ALL_KEYS}",
        f"{RUN}:7: seed: {A_SEED} true",
        f"{LINE}learning.epoch: unknown key; did you mean learning.epochs?",
        f"{LINE}threads: expected an integer from 0 to 4096, not 'many'",
        f"{LINE}'nonsense': expected KEY=VALUE, such as learning.epochs=5",
    ]),
    *[(path, "sead=1", [f"{LINE}sead: unknown key; did you mean seed?", MISSING])
      for path in ("default", "fast.yaml")],
    ("fast", "", [MISSING]),
    ("fastt", "", [f"fastt: {NO_CONFIG}; did you mean fast?"]),
    ("en", "", [f"en: {NO_CONFIG}; `gpuparse config list` lists all names"]),
    # A key with a wrong name is not called missing too.
    ("seed: 1\n", "data.trian=x", [f"{LINE}data.trian: unknown key; did you mean data.train?"]),
    ("dato: {train: t}\n", "", [f"{RUN}:1: dato: unknown section; did you mean data?"]),
    (MINIMAL + "learnig: {epochs: 5}\nmodel: {size: 3}\n", "learning=5", [
        f"{RUN}:4: learnig: unknown section; did you mean learning?",
        f"{RUN}:5: model: unknown section; the sections are {SECTIONS}",
        f"{LINE}learning: a section; expected one of its keys, such as learning.rule",
    ]),
    (MINIMAL + "learning: 5\n", "",
     [f"{RUN}:4: learning: expected a section of keys and values"]),
    (MINIMAL + "tagger: {rows: 65536, bits: 8}\n", "",
     [f"{RUN}:4: tagger.rows: this key is gone, its value is fixed; leave it out"]),
    (MINIMAL, "init_from=old", [f"{LINE}init_from: this key is gone; learn from both treebanks:"
                                " data.train=a.conllu,b.conllu"]),
    (MINIMAL + "learning: {backend: cpu}\n", "", [
        f"{RUN}:4: learning.backend: this key is gone; give learning.engine: auto, native or torch"
    ]),
    *[(MINIMAL, f"{key}=1", [f"{LINE}{key}: unknown key; did you mean {near}?"])
      for key, near in (
          ("epochs", "learning.epochs"),  # the right word without its section
          ("batch_sise", "learning.batch_size"), ("labels.eposch", "labels.epochs"),
          ("feature_map.row", "feature_map.rows"), ("sead", "seed"),
      )],
    (MINIMAL, "iterat=1", [f"{LINE}iterat: {ALL_KEYS}"]),
    (MINIMAL, "features=extendet labels.features=x sead=1", [
        f"{LINE}features: expected {SETS} or a YAML file's path, not 'extendet'; did you mean"
        " extended?",
        f"{LINE}labels.features: expected {OF_LABELS} or a YAML file's path, not 'x'",
        f"{LINE}sead: unknown key; did you mean seed?",
    ]),
    (MINIMAL + "seed: x\n", "seed=1", [f"{RUN}:4: seed: {A_SEED} 'x'"]),
    (MINIMAL, "output=null", [f"{LINE}output: expected text, not null"]),
    ("none.yaml", "", [f"none.yaml: {NO_CONFIG}; `gpuparse config list` lists all names"]),
    ("configs/bytes.yaml", "", ["configs/bytes.yaml: no UTF-8 text (byte 3)"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "overrides", "errors"), ERRORS, ids=[e[0] + e[1] for e in ERRORS])
def test_case_43_all_errors_come_at_once_with_their_place_and_advice(
    config_file, tmp_path, text, overrides, errors
):
    (tmp_path / "configs" / "list.yaml").write_text("[1]\n")
    (tmp_path / "configs" / "bytes.yaml").write_bytes(b"a: \xff\n")
    os.mkfifo(tmp_path / "configs" / "pipe")
    for name, content in (
        ("first", "seed: x\nepochs: 3\n"), ("b", "base: ./c.yaml\n"), ("c", "base: b.yaml\n"),
    ):  # fmt: skip
        (tmp_path / "configs" / f"{name}.yaml").write_text(content)
    is_file = not text or "\n" in text
    assert errors_of(config_file(text) if is_file else text, *overrides.split()) == errors


def test_almost_right_values_get_a_suggestion(config_file):
    words = ["decoder=eisnr", "learning.rule=preceptron", "features=extendd", "seed=x"]
    found = errors_of(config_file(MINIMAL), *words)
    assert [error.rpartition(", not ")[2] for error in found] == [
        "'eisnr'; did you mean eisner?", "'preceptron'; did you mean perceptron?",
        "'extendd'; did you mean extended?", "'x'",
    ]  # fmt: skip


def test_errors_in_python_name_what_was_given():
    with pytest.raises(ConfigError, match=r"^config: learnig: unknown section; did you mean l"):
        make_config({"data.train": "t", "output": "x", "learnig": {"epochs": 5}})
    with pytest.raises(ConfigError, match=r"model/config\.yaml: output is missing: give output="):
        parse_config("data: {train: t}", "model/config.yaml")


def good_and_bad_values(key):
    """Values a key must take and values it must refuse, made from its own declaration."""
    bad = [[1], {"a": 1}]
    if key.kind == "choice":
        good = list(key.choices)
        bad += ["nonsense", 1, 1.5, ""]
    elif key.kind == "integer":
        good = [key.low, key.high]
        bad += [key.low - 1, key.high + 1, 1.5, True, "5"]
    elif key.kind == "number":
        good = [0.25, 3 if key.high is None else key.high, 1e-3]
        good += [] if key.low is None else [key.low]
        bad += [-1, True, "x", ".inf", *([] if key.above is None else [key.above])]
        bad += [] if key.high is None else [key.high + 1]
    elif key.kind == "template set":
        good = ["mcdonald-2005", "no.yaml", "5.yml", "æ/set"]
        bad += [5, True, 1.5, "", "no", "extendet"]
    else:
        good = ["name", "no", "5", "æ"]
        bad += [5, True, 1.5, ""]
    (good if key.optional else bad).append(None)
    return good, bad


# A folder must exist: tests below give one.
EVERY_KEY = [(name, key) for name, key in known_keys().items() if name != "data.treebank"]


def nested(name, value):
    """The minimal config with one key set, as a dict."""
    content = {"output": "runs/x", "data": {"train": "t"}}
    section, dot, last = name.rpartition(".")
    target = content.setdefault(section, {}) if dot else content
    target[last] = value
    return content


@pytest.mark.parametrize(("name", "key"), EVERY_KEY, ids=[name for name, _ in EVERY_KEY])
def test_every_key_takes_and_refuses_in_files_and_as_override(config_file, name, key):
    good, bad = good_and_bad_values(key)
    path, (section, dot, last) = config_file(MINIMAL), name.rpartition(".")
    for value in good:
        word = "null" if value is None else str(value).lower() if value in (True, False) else value
        in_file = parse_config(dump_yaml(nested(name, value)), "run.yaml")
        again = parse_config(in_file.to_yaml(), "printed")
        assert again == in_file
        for config in (in_file, again, load_config(path, [f"{name}={word}"])):
            kept = getattr(getattr(config, section) if dot else config, last)
            assert kept == value
            assert type(kept) is type(value) or key.kind == "number"
    for value in bad:
        with pytest.raises(ConfigError, match=rf"run\.yaml:\d+: {name}: expected ") as caught:
            parse_config(dump_yaml(nested(name, value)), "run.yaml")
        assert len(str(caught.value).splitlines()) == 1, value


@pytest.fixture
def treebank(config_file):
    """A config without treebanks, and beside it the folder of a treebank without a part dev."""
    path = Path(config_file("seed: 2\n"))
    folder = path.parent / "UD_French-Mini"
    folder.mkdir()
    for part in ("train", "test"):
        (folder / f"fr_mini-ud-{part}.conllu").write_text("")
    return path, folder


def test_a_treebank_names_its_parts(treebank, capsys):
    path, folder = treebank
    config = load_config(path, [f"data.treebank={folder}"])
    parts = {part: f"{folder}/fr_mini-ud-{part}.conllu" for part in ("train", "test")}
    assert config.data == DataConfig(treebank=str(folder), dev=None, **parts)
    recorded = config.recorded()
    assert (recorded.data.treebank, recorded.data.train) == (None, "fr_mini-ud-train.conllu")
    assert parse_config(recorded.to_yaml(), "config.yaml") == recorded
    words = [f"data.treebank={folder}", "data.test=null", "output=x"]
    assert load_config(path, words).data.test is None
    assert main([str(path), *words]) == 0
    printed = Path("printed.yaml")
    printed.write_text(capsys.readouterr().out)
    assert load_config(printed) == load_config(path, words)
    path.write_text("data: {treebank: UD_French-Mini}\n")
    assert load_config(path).data == config.data  # relative to the file
    assert make_config({"output": "x", "data.treebank": folder}).data == config.data


def test_a_treebank_and_other_files_are_an_error(treebank):
    path, folder = treebank
    words = [f"data.treebank={folder}", "data.train=other.conllu", "data.dev=dev.conllu"]
    assert errors_of(path, *words) == [
        f"command line: data.{part}: given with data.treebank, which names the treebanks: leave one"
        " of them out"
        for part in ("train", "dev")
    ]
    assert load_config(path, ["data.treebank=null", "data.train=t"]).data.train == "t"
    assert errors_of(path, "data.treebank=none") == [
        "command line: data.treebank: none: no such folder; give the folder of a treebank"
    ]
    assert errors_of(path, "data.treebank=null") == [
        f"{path}: data.train is missing: give data.train=FILE, or data.treebank=FOLDER"
    ]
    path.write_text("data: {treebank: 5}\n")
    assert errors_of(path) == [f"{path}:1: data.treebank: expected a path or null, not 5"]


def test_a_part_in_several_files_is_a_list(treebank):
    path, folder = treebank
    (folder / "fr_mini-ud-train.conllu").rename(folder / "fr_mini-ud-train-a.conllu")
    (folder / "fr_mini-ud-train-b.conllu").write_text("")
    config = load_config(path, [f"data.treebank={folder}"])
    assert config.data.train == ",".join(f"{folder}/fr_mini-ud-train-{k}.conllu" for k in "ab")
    assert config.recorded().data.train == "fr_mini-ud-train-a.conllu,fr_mini-ud-train-b.conllu"
    assert load_config(path, [f"data.treebank={folder}", f"data.train={config.data.train}"])
    path = folder / "lists.yaml"
    path.write_text("data:\n  train: [a.conllu, toy-train]\n  dev: c.conllu,d.conllu\n")
    data = load_config(path).data
    assert data.train == f"{folder}/a.conllu,toy-train"
    assert data.dev == f"{folder}/c.conllu,{folder}/d.conllu"
    (folder / "c.conllu,d.conllu").write_text("")
    assert load_config(path).data.dev == f"{folder}/c.conllu,d.conllu"
    for wrong in ("[]", "[5]", "['a,b', c]", "[a, [b]]"):
        path.write_text(f"data: {{train: {wrong}}}\n")
        [error] = errors_of(path)
        assert f"{path}:1: data.train: expected a path, or a list of paths without" in error


def test_the_last_override_wins_and_text_needs_no_quotes(config_file):
    config = load_config(
        config_file(MINIMAL), ["seed=2", "seed=3", "output=2024", "data.train=[a]: b.conllu"]
    )
    assert (config.seed, config.output, config.data.train) == (3, "2024", "[a]: b.conllu")


def test_paths_count_from_the_file_and_overrides_from_here(config_file):
    text = (
        "output: runs/x\nfeatures: mine.yaml\nlabels: {features: sub/l.yml}\n"
        "data: {train: ../a/t.conllu, dev: d.conllu, test: toy-test}\n"
    )
    config = load_config(config_file(text), ["data.dev=here.conllu"])
    assert config.data.train == "a/t.conllu"
    assert config.data.dev == "here.conllu"
    assert config.data.test == "toy-test"
    assert config.features == "configs/mine.yaml"
    assert config.labels.features == "configs/sub/l.yml"
    assert config.output == "runs/x"


def test_the_folder_behind_a_link_is_where_paths_count_from(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "real" / "deep" / "run.yaml").write_text("output: x\ndata: {train: ../t}\n")
    (tmp_path / "link").symlink_to("real/deep")
    assert load_config("link/run.yaml").data.train == "real/t"


def test_yaml_one_point_one_traps(config_file):
    text = (
        "output: no\ndata: {train: 1e3.conllu, dev: 12:30, test: yes}\n"
        "learning: {max_step: 1e-3, epochs: 010}\n"
    )
    config = load_config(config_file(text))
    assert config.output == "no"
    assert (config.data.dev, config.data.test) == ("configs/12:30", "configs/yes")
    assert config.learning.max_step == 0.001
    assert config.learning.epochs == 10
    assert errors_of(config_file(MINIMAL + "learning: {shuffle: no}\n")) == [
        "configs/run.yaml:4: learning.shuffle: expected true or false, not 'no'"
    ]


def test_a_huge_number_is_text(config_file):
    [error] = errors_of(config_file(MINIMAL + f"seed: {'9' * 5000}\n"))
    assert error.startswith("configs/run.yaml:4: seed: expected an integer")
    assert len(error) < 200


printable = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Cn"], exclude_characters="\ufeff"), min_size=1
)


@given(
    st.one_of(printable, st.sampled_from(["no", "null", "~", "1e-3", "010", "1:30", "true", "- a"]))
)
def test_any_text_survives_the_round_trip(text):
    config = RunConfig(output=text, data=DataConfig(train=text))
    again = parse_config(config.to_yaml(), "config.yaml")
    assert again == config
    assert again.to_yaml() == config.to_yaml()


def test_the_resolved_file_names_every_key_and_is_ordinary_yaml():
    config = RunConfig(output="x", data=DataConfig(train="t"))
    content = yaml.safe_load(config.to_yaml())
    names = set()
    for name, value in content.items():
        names |= {f"{name}.{key}" for key in value} if isinstance(value, dict) else {name}
    assert names == set(known_keys())
    assert content == dataclasses.asdict(config)


@pytest.mark.parametrize(
    ("overrides", "learner"),
    [
        ([], "native"),
        (["device=cpu"], "native"),
        (["device=cuda"], "torch"),
        (["device=cuda", "learning.engine=native"], "native"),
        (["device=cpu", "learning.engine=torch"], "torch"),
    ],
)
def test_what_learns_is_recorded(config_file, overrides, learner):
    config = load_config(config_file(MINIMAL), overrides)
    assert config.engine == learner
    assert config.recorded().learning.engine == learner
    assert config.recorded().engine == learner
    assert config.recorded().recorded() == config.recorded()


def test_what_changes_nothing_in_a_model_is_not_recorded(config_file):
    path = config_file(MINIMAL)
    one = load_config(path, ["threads=1", "device=cpu", "output=a"])
    two = load_config(path, ["threads=2", "device=cuda", "learning.engine=native", "output=b"])
    assert one.recorded() == two.recorded()
    assert load_config(path, ["seed=2"]).recorded() != one.recorded()
    assert parse_config(one.recorded().to_yaml(), "config.yaml") == one.recorded()


def test_the_command_prints_the_resolved_config(config_file, capsys):
    assert main([config_file(MINIMAL), "seed=7"]) == 0
    printed = capsys.readouterr()
    assert parse_config(printed.out, "printed") == load_config("configs/run.yaml", ["seed=7"])
    assert printed.err == ""


def test_the_command_lists_all_keys_within_a_terminal(capsys):
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    listed = {line.split()[0]: line for line in lines[1:-2]}
    assert list(listed) == list(known_keys())
    assert max(map(len, lines)) <= 100
    assert listed["learning.epochs"].split(maxsplit=2)[1:] == [
        "10", "Passes over the training treebank."
    ]  # fmt: skip
    assert listed["data.train"].split()[1] == "required"
    assert listed["decoder"].endswith(" …")


def test_the_command_explains_a_key_and_lists_a_section(capsys):
    assert main(["learning.unreachable"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(
        "learning.unreachable\n  accepts: projectivise or skip or error or none\n"
    )
    assert " ".join(printed.split()).endswith(known_keys()["learning.unreachable"].meaning)
    for name in known_keys():
        assert main([name]) == 0
        assert max(map(len, capsys.readouterr().out.splitlines())) <= 100
    assert main(["labels"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert listed == ["labels.kind", "labels.features", "labels.rows", "labels.epochs"]


def test_a_shipped_config_is_printed_without_a_treebank_and_others_are_not(
    capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main(["fast", "seed=3"]) == 0
    printed = capsys.readouterr()
    missing = "data.train is missing: give data.train=FILE, or data.treebank=FOLDER"
    assert printed.err == f"gpuparse: {missing}\n"
    content = yaml.safe_load(printed.out)
    assert content["data"]["train"] is None
    content["data"]["train"] = "t"
    assert make_config(content) == load_config("fast", ["data.train=t", "seed=3"])
    with pytest.raises(ConfigError, match=r"^command line: sead: unknown key"):
        main(["fast", "sead=3"])
    Path("own.yaml").write_text("seed: 1\n")
    with pytest.raises(ConfigError, match=r"own\.yaml: data\.train is missing"):
        main(["own.yaml"])


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("fastt", "did you mean fast?"),
        ("learning.epoch", "did you mean learning.epochs?"),
        ("epochs", "did you mean learning.epochs?"),
        ("zzzz", "`gpuparse config` lists all keys, `gpuparse config list` all configs"),
    ],
)
def test_the_command_suggests_a_config_or_a_key(config_file, word, hint):
    with pytest.raises(ConfigError) as caught:
        main([word])
    assert str(caught.value) == f"{word}: no file, config or key of this name; {hint}"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--data.train", "t"], "--data.train: keys are given without dashes: data.train=FILE"),
        (["--seed=3"], "--seed=3: keys are given without dashes: seed=VALUE"),
    ],
)
@pytest.mark.parametrize("command", ["train", "config", "crossval"])
def test_keys_that_are_written_as_options(command, words, error):
    with pytest.raises(ConfigError) as caught:
        import_module(f"gpuparse.commands.{command}").main(["fast", *words, *FURTHER[command]])
    assert str(caught.value) == error


FURTHER = {"train": [], "config": [], "crossval": ["--output", "x"]}


def test_an_option_that_is_no_key_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["fast", "--nonsense"])
    assert ended.value.code == 2
    assert "unrecognized arguments: --nonsense" in capsys.readouterr().err


def test_a_recorded_config_keeps_the_names_of_treebanks_and_not_their_folders():
    text = "output: out\ndata: {train: some/folder/train.conllu, test: toy-test}\n"
    data = parse_config(text, "text").recorded().data
    assert (data.train, data.dev, data.test) == ("train.conllu", None, "toy-test.conllu")
    for stage in ("tagger", "lemmatizer"):
        text += f"{stage}: {{learn: true, word_list: some/{stage}.conllu}}\n"
    recorded = parse_config(text, "text").recorded()
    assert recorded.tagger.word_list == "tagger.conllu"
    assert recorded.lemmatizer.word_list == "lemmatizer.conllu"


def test_guides_are_a_key_of_misc_or_a_path_from_the_files_folder(config_file):
    path = config_file(MINIMAL)
    data = load_config(path, ["data.guide=misc:PArc/x", "data.dev_guide=here/g.conllu"]).data
    assert (data.guide, data.dev_guide, data.test_guide) == (
        "misc:PArc/x", "here/g.conllu", None,
    )  # fmt: skip
    recorded = load_config(path, ["data.guide=misc:a/b", "data.dev_guide=here/g.conllu"]).recorded()
    assert (recorded.data.guide, recorded.data.dev_guide) == ("misc:a/b", "g.conllu")
    text = "output: out\ndata: {train: t.conllu, guide: g.conllu, dev_guide: 'misc:G'}\n"
    in_file = load_config(config_file(text)).data
    assert in_file.guide == os.path.join(os.path.dirname(in_file.train), "g.conllu")
    assert in_file.dev_guide == "misc:G"
    for wrong in ("misc:", "misc:a b", "misc:a=b"):
        [error] = errors_of(path, f"data.guide={wrong}")
        assert error.startswith("command line: data.guide: expected misc:KEY or a path or null")

"""The benchmarks print no number while tests are red, and every case keeps the contract."""

import json
from pathlib import Path

import pytest

from benchmarks.registry import FOLDER, Report, case_names, gate_is_green, load_case


@pytest.mark.parametrize("name", case_names())
def test_every_case_keeps_the_contract(name):
    case = load_case(name)
    assert callable(case.run)
    assert case.__doc__
    assert case.GATE
    assert all((FOLDER.parent / test).exists() for test in case.GATE)


def test_a_red_gate_is_seen(tmp_path):
    red, green = tmp_path / "test_red.py", tmp_path / "test_green.py"
    red.write_text("def test_it():\n    assert False\n")
    green.write_text("def test_it():\n    pass\n")
    assert gate_is_green((str(green),))
    assert not gate_is_green((str(green), str(red)))


def test_a_red_gate_stops_the_figures(monkeypatch, capsys):
    from benchmarks import __main__ as program

    monkeypatch.setattr(program, "gate_is_green", lambda gate: False)
    assert program.main(["counts"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "no figures" in err


def test_the_table_is_aligned_and_keeps_every_cell():
    report = Report("Title", ["name", "us"], [["eisner", 1.25], ["longer name", None]], ["Note."])
    lines = report.as_text().splitlines()
    assert lines[0] == "Title"
    assert lines[2:6] == [
        "name           us", "-----------------", "eisner       1.25", "longer name     -",
    ]  # fmt: skip
    assert lines[-1] == "Note."


@pytest.mark.parametrize(
    ("before", "after"),
    [(["--threads", "2"], []), ([], ["--threads", "2"])],
    ids=["before", "after"],
)
def test_options_go_before_the_case_or_after_it_and_json_has_the_figures(
    before, after, tmp_path, monkeypatch, capsys
):
    from benchmarks import __main__ as program

    out = Path(tmp_path / "figures.json")
    monkeypatch.setattr(program.torch, "set_num_threads", lambda threads: None)
    monkeypatch.setattr(program, "gate_is_green", lambda gate: True)
    report = Report("Title", ["n"], [[1.5]])
    monkeypatch.setattr(load_case("counts"), "run", lambda options: report)
    assert program.main([*before, "counts", *after, "--json", str(out)]) == 0
    figures = json.loads(out.read_text())
    assert figures["rows"] == [[1.5]]
    assert figures["case"] == "counts"
    assert figures["on"]["threads"] == 2
    assert "1.5" in capsys.readouterr().out

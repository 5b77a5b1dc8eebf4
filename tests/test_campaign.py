"""The campaign of faults: what it finds it tells, with the command that repeats it."""

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("httpx")
from tests.campaign import __main__ as campaign
from tests.campaign.running import Failure

QUICK = [
    "mutants",
    "tables",
    "json-lines",
    "texts",
    "compressed",
    "models",
    "in-place",
    "kill-shards",
    "checks",
    "compact",
    "requests",
]


def test_a_few_trials_find_nothing(capsys):
    assert campaign.main(["--only", ",".join(QUICK), "--trials", "2"]) == 0
    out = capsys.readouterr().out
    assert all(f"{name}: 2 tried" in out for name in QUICK)


def test_a_failure_is_told_and_repeated(monkeypatch, capsys):
    def trial(draw, bench):
        if draw.random() < 0.5:
            raise Failure("lost")
        return ["fine"]

    monkeypatch.setitem(campaign.CAMPAIGNS, "mutants", trial)
    assert campaign.main(["--only", "mutants", "--trials", "9", "--seed", "4"]) == 1
    said = capsys.readouterr().out
    assert "FAILED" in said
    again = said[said.index("python -m tests.campaign") :].splitlines()
    assert again[1].strip() == "Failure: lost"
    assert campaign.main(again[0].split()[3:]) == 1

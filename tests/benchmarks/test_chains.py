"""The benchmark of linear chains, on small scores."""

import argparse

import pytest

from benchmarks import chains


@pytest.mark.parametrize("has_peer", [False, True])
def test_chains_are_compared_and_timed(monkeypatch, has_peer):
    if has_peer:
        pytest.importorskip("torch_struct", reason="the peer is torch-struct")
    monkeypatch.setattr(chains, "SIZES", ((4, 3),))
    monkeypatch.setattr(chains, "is_installed", lambda name: has_peer)
    report = chains.run(argparse.Namespace(threads=1, repeats=1, device="cpu"))
    assert [row[:3] for row in report.rows] == [
        [what, 4, 3] for what in ("best", "k best", "sums", "marginals", "gradients")
    ]
    for row in report.rows:
        figures = dict(zip(report.columns[3:], row[3:], strict=True))
        assert (figures["peer us"] is not None) == has_peer
        assert (figures["x torch"] is not None) == (has_peer and figures["torch us"] is not None)
        assert all(figure is None or figure > 0 for figure in figures.values())

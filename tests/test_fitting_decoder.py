"""The decoder that fits templates and a treebank."""

import pytest

from gpuparse.config import load_config
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.features.templates import load_templates
from gpuparse.jobs.gold import with_fitting_decoder
from gpuparse.model.decoder_choice import fitting_decoder

CHAIN = "\n".join(f"{i}\tw\tw\tN\tN\t_\t{i - 1}\tdep\t_\t_" for i in range(1, 9)) + "\n\n"
CROSSING = (
    "1\ta\ta\tN\tN\t_\t3\tdep\t_\t_\n2\tb\tb\tN\tN\t_\t4\tdep\t_\t_\n"
    "3\tc\tc\tN\tN\t_\t4\tdep\t_\t_\n4\td\td\tN\tN\t_\t0\troot\t_\t_\n\n"
)  # of four arcs one, 3 -> 1, spans a word that is not below its head


@pytest.mark.parametrize(
    ("features", "projective", "crossing", "most"),
    [
        ("mcdonald-2005", "eisner", "chu_liu_edmonds", 24),
        ("extended", "eisner_sibling", "hill_climb", 24),
        ("fast", "eisner_sibling", "chu_liu_edmonds", 11),
        ("vectors", "eisner_sibling", "chu_liu_edmonds", 11),
        ("third-order", "eisner_grand_sibling", "dual_decomposition", 24),
    ],
)
def test_it_has_the_order_of_the_templates_and_the_trees_of_the_treebank(
    features, projective, crossing, most
):
    templates = load_templates(features)
    # One non-projective arc of 196 is 0.51 %, of 204 0.49 %, of 92 1.09 %, of 100 1 %.
    for chains, expected in ((most, crossing), (most + 1, projective)):
        treebank = treebank_from_bytes((CHAIN * chains + CROSSING).encode(), "test")
        assert fitting_decoder(templates, treebank) == expected


def test_a_config_with_auto_gets_the_decoder_of_its_training_treebank(tmp_path):
    treebank = tmp_path / "train.conllu"
    treebank.write_text(CROSSING * 4)
    config = tmp_path / "run.yaml"
    config.write_text(f"decoder: auto\ndata: {{train: {treebank}}}\n")
    assert with_fitting_decoder(load_config(config)).decoder == "hill_climb"
    named = load_config(config, ["decoder=eisner"])
    assert with_fitting_decoder(named) is named

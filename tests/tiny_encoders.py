"""Tiny random encoders of each family, as folders that the package `transformers` reads."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

FAMILIES = ("bert", "roberta", "xlm-roberta", "deberta-v2", "modernbert")
_LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)]
_SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]")


def tokenizer(family: str, words: Iterable[str] = ()) -> dict:
    """A tokenizer.json with a piece for each letter, and for BERT one for each of some words."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    if family in ("roberta", "modernbert"):
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        names = [*_SPECIAL, *alphabet]
        vocabulary = {name: number for number, name in enumerate(names)}
        made = Tokenizer(models.BPE(vocabulary, [], unk_token="[UNK]"))
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    elif family in ("xlm-roberta", "deberta-v2"):
        scores = [(name, 0.0) for name in _SPECIAL]
        scores += [("▁", -1.0), *((letter, -2.0) for letter in _LETTERS)]
        made = Tokenizer(models.Unigram(scores, unk_id=3))
        made.pre_tokenizer = pre_tokenizers.Metaspace()
    else:
        letters = [*_LETTERS, *(f"##{letter}" for letter in _LETTERS)]
        names = list(dict.fromkeys([*_SPECIAL, *letters, *words]))
        vocabulary = {name: number for number, name in enumerate(names)}
        made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
        made.normalizer = normalizers.BertNormalizer()
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return json.loads(made.to_str())


def write_encoder(
    folder: Path, family: str = "bert", *, positions: int = 64, spread: float = 0.02,
    words: Iterable[str] = (), **sizes: int,
) -> Path:  # fmt: skip
    """Write a tiny random encoder, which reads windows of about `positions` pieces.

    Args:
        spread: the standard deviation of its weights; large ones let words change each other's
            states.
        words: in lower case, that are pieces of BERT. sizes: other ones, by keys of its config.
    """
    for module in ("torch", "transformers", "tokenizers"):
        pytest.importorskip(module)
    import torch
    from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

    content = tokenizer(family, words)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "tokenizer.json"
    file.write_text(json.dumps(content))
    fast = PreTrainedTokenizerFast(
        tokenizer_file=str(file), pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
        unk_token="[UNK]", mask_token="[MASK]",
    )  # fmt: skip
    special = {"pad_token_id": 0, "cls_token_id": 1, "bos_token_id": 1, "sep_token_id": 2,
               "eos_token_id": 2}  # fmt: skip
    more = {"deberta-v2": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}}
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
             "intermediate_size": 48, "vocab_size": max(len(fast), 80)}  # fmt: skip
    config = AutoConfig.for_model(
        family, max_position_embeddings=positions, initializer_range=spread, **small | sizes,
        **special, **more.get(family, {}),
    )  # fmt: skip
    torch.manual_seed(3)
    AutoModel.from_config(config).save_pretrained(folder, safe_serialization=True)
    fast.save_pretrained(folder)
    return folder

"""A treebank as batches of PyTorch: sentences of similar length, gold trees, lengths and masks."""

import argparse
import random
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler

import gpuparse
from gpuparse import Parsed


class Batch(NamedTuple):
    """Tensors in the layout of `gpuparse.inference`: the root at position 0, then the words."""

    numbers: list[int]  # of the sentences in the document
    words: list[list[str]]
    lengths: Tensor  # (B,) words
    mask: Tensor  # (B, N) true for words
    heads: Tensor  # (B, N) -1 at the root and in padding
    labels: Tensor  # (B, N) indices of relations; -1 there too, and for relations without one


class Trees(Dataset):
    """The sentences of a document; names: the relations of the model."""

    def __init__(self, document: Parsed, names: list[str]) -> None:
        self.document, self.ids = document, {name: i for i, name in enumerate(names)}

    def __len__(self) -> int:
        return len(self.document)

    def __getitem__(self, number: int) -> tuple[int, list[str], Tensor, Tensor]:
        sentence = self.document[number]
        labels = [self.ids.get(name, -1) for name in sentence.deprels]
        return number, sentence.words, *(torch.tensor([-1, *x]) for x in (sentence.heads, labels))


class Buckets(Sampler):
    """Numbers of sentences, by length, with at most `positions` positions in each batch."""

    def __init__(self, document: Parsed, positions: int, *, shuffle: bool) -> None:
        order = sorted(range(len(document)), key=lambda s: len(document[s]))
        self.batches, self.shuffle = [[]], shuffle
        for s in order:
            if (len(self.batches[-1]) + 1) * (1 + len(document[s])) > positions:
                self.batches.append([])
            self.batches[-1].append(s)

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[int]]:
        return iter(random.sample(self.batches, len(self)) if self.shuffle else self.batches)


def collate(items: list[tuple[int, list[str], Tensor, Tensor]]) -> Batch:
    numbers, words, *trees = zip(*items, strict=True)
    lengths = torch.tensor([len(sentence) for sentence in words])
    heads, labels = (pad_sequence(rows, True, -1) for rows in trees)
    place = torch.arange(heads.shape[1])
    mask = (place > 0) & (place <= lengths[:, None])
    return Batch(list(numbers), list(words), lengths, mask, heads, labels)


def documents_of(description: str, *names: str) -> list[Parsed]:
    """The documents whose files the command line has, one for each name."""
    arguments = argparse.ArgumentParser(description=description)
    for name in names:
        arguments.add_argument(name)
    given = vars(arguments.parse_args())
    return [gpuparse.read(given[name]) for name in names]


def relations_of(document: Parsed) -> list[str]:
    return sorted({name for sentence in document for name in sentence.deprels})


def batches_of(
    document: Parsed, names: list[str], *, positions: int = 200, shuffle: bool = False
) -> DataLoader:
    buckets = Buckets(document, positions, shuffle=shuffle)
    return DataLoader(Trees(document, names), batch_sampler=buckets, collate_fn=collate)

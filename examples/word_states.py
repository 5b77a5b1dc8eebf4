"""What a parser in PyTorch reads of sentences: a vector for each word, and one for the root."""

from functools import cache
from zlib import crc32

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence, pad_sequence

ROWS = 1 << 16  # of the table of words and characters


@cache
def rows_of(word: str) -> Tensor:
    """The row of a word, and those of its sequences of up to 4 characters."""
    spelt = f"^{word}$"
    spans = [spelt[i : i + n] for n in range(1, 5) for i in range(len(spelt) - n + 1)]
    return torch.tensor([crc32(span.encode()) % ROWS for span in (spelt, *spans)])


class Words(nn.Module):
    """A BiLSTM over a row of each word and the mean of the rows of its characters.

    It takes a list of words for each sentence, and returns states (B, N, size): the root at
    position 0, then the words, then padding.
    """

    def __init__(self, width: int = 200) -> None:
        super().__init__()
        self.words = nn.Embedding(ROWS, 100)
        self.characters = nn.EmbeddingBag(ROWS + 1, 100, padding_idx=ROWS)
        nn.init.zeros_(self.words.weight)  # so that a word that training lacks adds nothing
        nn.init.normal_(self.characters.weight, std=0.1)
        self.lstm = nn.LSTM(200, width, 2, bidirectional=True, dropout=0.33)
        self.drop, self.size = nn.Dropout(0.33), 2 * width

    def forward(self, sentences: list[list[str]]) -> Tensor:
        rows = pad_sequence([rows_of(word) for s in sentences for word in ("", *s)], True, ROWS)
        rows = rows.to(self.words.weight.device)
        # Some words are dropped whole, so that characters learn to do without.
        words = self.words(rows[:, 0]) * self.drop(torch.ones_like(rows[:, :1], dtype=torch.float))
        vectors = self.drop(torch.cat([words, self.characters(rows)], 1))
        packed = pack_sequence(vectors.split([1 + len(s) for s in sentences]), False)
        return self.drop(pad_packed_sequence(self.lstm(packed)[0], True)[0])


class Pretrained(nn.Module):
    """The same from an encoder of transformers; the state of a word is that of its first piece."""

    def __init__(self, name: str) -> None:
        from transformers import AutoModel, AutoTokenizer

        super().__init__()
        self.cut, self.encode = AutoTokenizer.from_pretrained(name), AutoModel.from_pretrained(name)
        self.size = self.encode.config.hidden_size

    def forward(self, sentences: list[list[str]]) -> Tensor:
        cut = self.cut(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
        states = self.encode(**cut.to(self.encode.device)).last_hidden_state
        firsts = [[0, *map(cut.word_ids(b).index, range(len(s)))] for b, s in enumerate(sentences)]
        return pad_sequence([of[first] for of, first in zip(states, firsts, strict=True)], True)

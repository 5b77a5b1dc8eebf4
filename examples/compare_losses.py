"""Curves of losses: python examples/compare_losses.py TRAIN TEST --loss hinge --warm 160

A small parser (BiLSTM, biaffine scores of arcs) learns heads from the first sentences of TRAIN, in
one thread. Each line has the seconds of learning, the steps, and the UAS of sentences of TEST.
`--warm`: steps that learn the loss of single heads first.
"""

import argparse
import random
import time
from collections import Counter

import torch
from torch import nn
from torch.nn.functional import pad

import gpuparse
from gpuparse import inference

LOSSES = ("conditional", "local", "hinge", "risk")


class Parser(nn.Module):
    """Scores of the arcs of sentences, from their forms and the ends of these."""

    def __init__(self, words, size=64, hidden=128, width=96):
        super().__init__()
        seen = Counter(words)
        often = [word for word, count in seen.items() if count > 1]
        ends = [end for word in seen for end in (word[-3:], word[:2] + "_")]
        self.rows = {x: i for i, x in enumerate(dict.fromkeys([*often, *ends]), 3)}
        self.table = nn.Embedding(len(self.rows) + 3, size)
        self.lstm = nn.LSTM(3 * size, hidden, bidirectional=True, batch_first=True)
        self.heads, self.modifiers = (nn.Linear(2 * hidden, width) for _ in range(2))
        self.arcs = nn.Parameter(torch.randn(width, width + 1) / width)
        self.drop = nn.Dropout(0.33)

    def forward(self, sentences):
        lengths = torch.tensor([len(sentence) for sentence in sentences])
        ids = torch.zeros(len(sentences), int(lengths.max()) + 1, 3, dtype=torch.int64)
        ids[:, 0] = 1
        for b, sentence in enumerate(sentences):
            for m, word in enumerate((token.form.lower() for token in sentence), 1):
                parts = (word, word[-3:], word[:2] + "_")
                ids[b, m] = torch.tensor([self.rows.get(part, 2) for part in parts])
        packed = nn.utils.rnn.pack_padded_sequence(
            self.drop(self.table(ids).flatten(2)), lengths + 1, batch_first=True,
            enforce_sorted=False,
        )  # fmt: skip
        states, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        states = self.drop(states)
        heads, modifiers = self.heads(states).relu(), self.modifiers(states).relu()
        scores = heads @ self.arcs @ pad(modifiers, (0, 1), value=1.0).mT
        return inference.NonProjectiveTrees(scores, lengths, single_root=True)


def gold_of(sentences):
    rows = [torch.tensor([-1, *sentence.heads]) for sentence in sentences]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)


@torch.no_grad()
def uas(model, sentences):
    batches = [sentences[i : i + 50] for i in range(0, len(sentences), 50)]
    pairs = [(model.eval()(some).best().heads, gold_of(some)) for some in batches]
    model.train()
    right = sum(int(((found == gold) & (gold >= 0)).sum()) for found, gold in pairs)
    return 100 * right / sum(map(len, sentences))


def learn(model, train, test, given):
    """Adam, in batches of sentences of similar lengths; seconds are those of the processor."""
    optimiser = torch.optim.Adam(model.parameters(), given.rate, (0.9, 0.98))
    train = sorted(train, key=len)
    batches = [train[i : i + 32] for i in range(0, len(train), 32)]
    spent, step, shown = 0.0, 0, given.every
    while spent < given.seconds:
        for batch in random.sample(batches, len(batches)):
            start = time.process_time()
            name = "local" if step < given.warm else given.loss
            loss_of = getattr(inference, f"{name}_loss")
            loss = loss_of(model(batch), gold_of(batch)).sum() / sum(map(len, batch))
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimiser.step()
            spent, step = spent + time.process_time() - start, step + 1
            if spent >= min(shown, given.seconds):
                print(f"{spent:.0f} s, {step} steps: {uas(model, test):.1f}", flush=True)
                shown += given.every
            if spent >= given.seconds:
                break


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("train")
    arguments.add_argument("test")
    arguments.add_argument("--loss", choices=LOSSES, default="conditional")
    for name, default in (("rate", 2e-3), ("seconds", 20), ("every", 5)):
        arguments.add_argument(f"--{name}", type=float, default=default)
    arguments.add_argument("--warm", type=int, default=0)
    given = arguments.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    random.seed(1)
    train, test = list(gpuparse.read(given.train))[:1000], list(gpuparse.read(given.test))[:300]
    words = [token.form.lower() for sentence in train for token in sentence]
    learn(Parser(words), train, test, given)

"""Draws sequences, and trains and exports the tagger of the folder --work: tagger.onnx, and JSON lines for mfgs.

Tags follow a hidden Markov chain whose transitions each sequence weights by a mixture of its own. Each sequence also has
a noise of its own, by which words are replaced by random ones: so its steps are easy, or hard, together.
"""
import argparse
import json
import pathlib

import numpy as np
import torch
from torch import nn

TAGS, WORDS, UNSEEN = 6, 120, 30  # words from WORDS on are in no training sequence
PADDING = WORDS + UNSEEN
SIZES = {"train": 3000, "val": 1000, "test": 6000}
NOISES = [0.02, 0.02, 0.1, 0.5]
IGNORED = -100


class Source:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        fixed = np.random.default_rng(1)
        self.next, self.word = fixed.dirichlet(np.full(TAGS, 0.35), TAGS), fixed.dirichlet(np.full(WORDS, 0.08), TAGS)

    def sequence(self):
        rng = self.rng
        weights, noise, tag = rng.dirichlet(np.full(TAGS, 2)), rng.choice(NOISES), rng.integers(TAGS)
        words, tags = [], []
        for _ in range(rng.integers(4, 25)):
            p = self.next[tag] * weights
            tag = rng.choice(TAGS, p=p / p.sum())
            word = rng.integers(WORDS) if rng.random() < noise else rng.choice(WORDS, p=self.word[tag])
            words.append(int(word))
            tags.append(int(tag))
        return words, tags


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(PADDING + 1, 32)
        self.context = nn.GRU(32, 48, batch_first=True, bidirectional=True)
        self.hidden, self.tags = nn.Linear(96, 64), nn.Linear(64, TAGS)

    def forward(self, input_ids, attention_mask):
        x = self.words(input_ids) * attention_mask.unsqueeze(-1).float()
        return self.tags(torch.tanh(self.hidden(self.context(x)[0])))


def padded(batch):
    longest = max(len(words) for words, _ in batch)
    shape = len(batch), longest
    words, mask, tags = np.full(shape, PADDING), np.zeros(shape, int), np.full(shape, IGNORED)
    for i, (w, t) in enumerate(batch):
        words[i, :len(w)], mask[i, :len(w)], tags[i, :len(w)] = w, 1, t
    return [torch.tensor(a) for a in (words, mask, tags)]


def train(sequences):
    torch.manual_seed(0)
    rng, net = np.random.default_rng(0), Tagger()
    adam = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(10):
        order = rng.permutation(len(sequences))
        for at in range(0, len(order), 50):
            words, mask, tags = padded([sequences[i] for i in order[at:at + 50]])
            loss = nn.functional.cross_entropy(net(words, mask).flatten(0, 1), tags.flatten(), ignore_index=IGNORED)
            adam.zero_grad()
            loss.backward()
            adam.step()
    return net.eval()


def line(words, tags):
    """Two steps of padding, which do not count, end each sequence."""
    return json.dumps({"input_ids": words + [PADDING] * 2, "attention_mask": [1] * len(words) + [0] * 2,
                       "label": tags + [IGNORED] * 2})


def replaced(rng, words, tags):
    """Three words in ten are replaced by unseen ones; the labels say which."""
    new = rng.random(len(words)) < 0.3
    return [int(rng.integers(WORDS, PADDING)) if n else w for n, w in zip(new, words)], [int(n) for n in new]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=pathlib.Path, required=True)
    work = parser.parse_args().work
    torch.set_num_threads(2)
    sets = {name: [source.sequence() for _ in range(n)]
            for i, (name, n) in enumerate(SIZES.items()) for source in [Source(10 + i)]}
    net = train(sets["train"])
    words, mask, _ = padded(sets["train"][:3])
    torch.onnx.export(net, (words, mask), work / "tagger.onnx", input_names=["input_ids", "attention_mask"],
                      output_names=["logits"], opset_version=14,
                      dynamic_axes={name: {0: "n", 1: "t"} for name in ("input_ids", "attention_mask", "logits")})
    rng = np.random.default_rng(20)
    sets["unseen"] = [replaced(rng, *s) for s in sets["test"][:1000]]
    for name, sequences in sets.items():
        (work / f"{name}.jsonl").write_text("".join(line(*s) + "\n" for s in sequences))


if __name__ == "__main__":
    main()

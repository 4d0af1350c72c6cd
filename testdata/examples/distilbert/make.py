#!/usr/bin/env python3
"""Trains the text model of docs/tutorials/text.md, and writes its data.

A DistilBERT of the transformers library, with two layers of 48 features and
random weights to begin with, learns to tell the language of a text that
somebody is typing: a number in words, of which the first letters are there.
The numbers are spelled by num2words, lower-cased and stripped of accents, and a
token is a letter, so that the examples have 3 to 26 tokens.

    OMP_NUM_THREADS=1 python3 make.py

Two or three minutes on one core. Writes, beside this file:

model.onnx, model.onnx.data
    Inputs input_ids and attention_mask [N,L], output logits [N,6]; PyTorch's
    default exporter.
train.jsonl, val.jsonl, test.jsonl
    1,200, 500 and 500 examples in six Germanic languages. No number stands in
    two of the files, in whatever language.
foreign-val.jsonl, romance.jsonl, others.jsonl
    300 examples each in languages that the model was not trained for: French,
    Finnish and Indonesian; Spanish, Italian and Portuguese; Polish, Hungarian
    and Lithuanian.
classes.txt
    The names of the classes in the order of their numbers.
"""

import json
import os
import unicodedata

import numpy as np
import torch
from num2words import num2words
from transformers import DistilBertConfig, DistilBertForSequenceClassification

HERE = os.path.dirname(os.path.abspath(__file__))
CLASSES = {
    "en": "English",
    "de": "German",
    "nl": "Dutch",
    "da": "Danish",
    "no": "Norwegian",
    "sv": "Swedish",
}
PAD, START, END, UNKNOWN = range(4)
FOREIGN = {
    "foreign-val": ["fr", "fi", "id"],
    "romance": ["es", "it", "pt"],
    "others": ["pl", "hu", "lt"],
}
LETTERS = " ,-abcdefghijklmnopqrstuvwxyzßø"
LONGEST = 24  # letters
EPOCHS, BATCH, RATE = 200, 32, 1e-3


def spell(number, language):
    """The number in words, as an uncased BERT has it: no capitals, no accents."""
    text = unicodedata.normalize("NFKD", num2words(number, lang=language).lower())
    return "".join(c for c in text if not unicodedata.combining(c))


def tokens(text):
    """The ids of the letters, with what marks start and end."""
    ids = [LETTERS.find(c) for c in text]
    return [START] + [UNKNOWN if i < 0 else UNKNOWN + 1 + i for i in ids] + [END]


def examples(numbers, languages, random):
    """For each number, what has been typed of it in one of the languages."""
    found = []
    for number in numbers:
        label = random.randint(len(languages))
        text = spell(int(number), languages[label])
        typed = text[: random.randint(1, min(len(text), LONGEST) + 1)]
        found.append({"text": typed, "ids": tokens(typed), "label": label})
    return found


def write(name, found, labelled=True):
    with open(os.path.join(HERE, name), "w", encoding="utf-8") as f:
        for e in found:
            record = {"text": e["text"], "input_ids": e["ids"], "attention_mask": [1] * len(e["ids"])}
            if labelled:
                record["label"] = e["label"]
            f.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")


def batch(found):
    """Token ids and mask [n,L], padded to the longest, and the labels."""
    longest = max(len(e["ids"]) for e in found)
    ids = torch.tensor([e["ids"] + [PAD] * (longest - len(e["ids"])) for e in found])
    return ids, (ids != PAD).long(), torch.tensor([e["label"] for e in found])


def train(net, found):
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0, EPOCHS)
    shuffle = torch.Generator().manual_seed(0)
    net.train()
    for epoch in range(EPOCHS):
        total = 0.0
        for part in torch.randperm(len(found), generator=shuffle).split(BATCH):
            ids, mask, labels = batch([found[i] for i in part])
            loss = net(input_ids=ids, attention_mask=mask, labels=labels).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(part)
        schedule.step()
        print(f"epoch {epoch + 1}: running NLL {total / len(found):.3g}", flush=True)


def figures(net, found):
    ids, mask, labels = batch(found)
    with torch.no_grad():
        log_p = net(input_ids=ids, attention_mask=mask).logits.log_softmax(1)
    wrong = (log_p.argmax(1) != labels).double().mean()
    return f"error {wrong:.4f}, NLL {-log_p[torch.arange(len(labels)), labels].mean():.4g}"


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    random = np.random.RandomState(0)
    numbers = random.permutation(10_000)
    cuts = {"train": numbers[:1200], "val": numbers[1200:1700], "test": numbers[1700:2200]}
    parts = {name: examples(n, list(CLASSES), random) for name, n in cuts.items()}
    for name, found in parts.items():
        write(f"{name}.jsonl", found)
    for i, (name, languages) in enumerate(FOREIGN.items()):
        strange = numbers[2200 + 300 * i : 2500 + 300 * i]
        write(f"{name}.jsonl", examples(strange, languages, random), labelled=False)
    with open(os.path.join(HERE, "classes.txt"), "w", encoding="ascii") as f:
        f.writelines(f"{name}\n" for name in CLASSES.values())

    net = DistilBertForSequenceClassification(
        DistilBertConfig(
            vocab_size=UNKNOWN + 1 + len(LETTERS),
            max_position_embeddings=LONGEST + 2,
            dim=48,
            n_layers=2,
            n_heads=4,
            hidden_dim=96,
            num_labels=len(CLASSES),
            pad_token_id=PAD,
        )
    )
    train(net, parts["train"])
    net.eval()
    for name, found in parts.items():
        print(f"{name}: {len(found)} examples, {figures(net, found)}")

    ids, mask, _ = batch(parts["val"][:2])
    dynamic = {0: torch.export.Dim("N"), 1: torch.export.Dim("L")}
    program = torch.onnx.export(
        net,
        (),
        kwargs={"input_ids": ids, "attention_mask": mask},
        input_names=["input_ids", "attention_mask"],
        output_names=["logits"],
        dynamic_shapes={"input_ids": dynamic, "attention_mask": dynamic},
    )
    # The exporter notes for each node which lines of Python it comes from, with
    # the folders of the machine: five times as many bytes as the nodes have.
    for node in program.model.graph:
        node.metadata_props.clear()
    program.save(os.path.join(HERE, "model.onnx"), external_data=True)


if __name__ == "__main__":
    main()

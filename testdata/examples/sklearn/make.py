#!/usr/bin/env python3
"""Trains the scikit-learn pipeline of docs/tutorials/tabular.md, and writes its data.

    python3 make.py

A few seconds. Writes, beside this file:

model.onnx
    StandardScaler and LogisticRegression with their default settings, as
    skl2onnx exports them by default: input X [N,30], outputs label and
    probabilities, the latter as one map per example.
train.csv, val.csv, test.csv
    The breast cancer data that scikit-learn bundles, divided by
    train_test_split: 258, 140 and 171 rows.
slipped.csv
    The rows of val.csv, each with one of its values ten times too large, as
    when a decimal point slips.
sentinel.csv, zero.csv
    The rows of test.csv, each with one of its values replaced by -999 or by 0,
    as when a missing value was filled in.
classes.txt
    The names of the two classes in the order of their numbers.
"""

import csv
import os

import numpy as np
from skl2onnx import to_onnx
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

HERE = os.path.dirname(os.path.abspath(__file__))


def write_csv(name, header, rows, labels=None):
    with open(os.path.join(HERE, name), "w", encoding="ascii", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(list(header) + ["label"] * (labels is not None))
        for i, row in enumerate(rows):
            # :g keeps the five or six digits that the original has.
            cells = [f"{value:g}" for value in row]
            out.writerow(cells + ([] if labels is None else [int(labels[i])]))


def broken(rows, random, damage):
    """The rows, each with damage done to a column of its own."""
    rows = rows.copy()
    at = np.arange(len(rows)), random.randint(0, rows.shape[1], len(rows))
    rows[at] = damage(rows[at])
    return rows


def main():
    data = load_breast_cancer()
    rest, test = train_test_split(
        np.arange(len(data.data)), test_size=0.3, stratify=data.target, random_state=0
    )
    train, val = train_test_split(
        rest, test_size=0.35, stratify=data.target[rest], random_state=0
    )
    for name, part in ("train", train), ("val", val), ("test", test):
        write_csv(f"{name}.csv", data.feature_names, data.data[part], data.target[part])

    random = np.random.RandomState(1)
    write_csv("slipped.csv", data.feature_names, broken(data.data[val], random, lambda v: v * 10))
    write_csv("sentinel.csv", data.feature_names, broken(data.data[test], random, lambda v: v * 0 - 999))
    write_csv("zero.csv", data.feature_names, broken(data.data[test], random, lambda v: v * 0))
    with open(os.path.join(HERE, "classes.txt"), "w", encoding="ascii") as f:
        f.writelines(f"{name}\n" for name in data.target_names)

    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    pipeline.fit(data.data[train], data.target[train])
    for name, part in ("train", train), ("val", val), ("test", test):
        wrong = 1 - pipeline.score(data.data[part], data.target[part])
        print(f"{name}: {len(part)} rows, error {wrong:.4f}")
    model = to_onnx(pipeline, data.data[:1].astype(np.float32))
    with open(os.path.join(HERE, "model.onnx"), "wb") as f:
        f.write(model.SerializeToString())


if __name__ == "__main__":
    main()

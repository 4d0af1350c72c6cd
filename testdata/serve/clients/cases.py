"""The clients' requests, the expected answers, and a loop over checks."""

import json
import pathlib
import sys
import traceback

import numpy as np


class Case:
    """A model, its examples, and their predictions."""

    def __init__(self, name, case, x):
        self.name, self.input, self.datatype = name, case["input"], case["datatype"]
        self.x = x.astype(object) if self.datatype == "BYTES" else x
        self.want = case["want"]

    def check(self, outputs, rows=None):
        """Compares outputs, by name, with the expected ones of rows."""
        want = [self.want[i] for i in (range(len(self.x)) if rows is None else rows)]
        classes = len(want[0]["probabilities"])
        names = {"probabilities", "logits", "logit_variance", "ood_score", "ood_percentile", "ood_pvalue", "leverage"}
        if "abstain" in want[0]:
            names |= {"abstain", "prediction_set"}
        assert set(outputs) == names, (set(outputs), names)
        for name, got in outputs.items():
            if name == "prediction_set":
                expected = np.array([[c in w[name] for c in range(classes)] for w in want])
            else:
                expected = np.array([w[name] for w in want])
            got = np.asarray(got).reshape(expected.shape)
            assert np.allclose(got.astype(float), expected.astype(float), rtol=1e-4, atol=1e-6), (self.name, name, got, expected)


def read():
    """The cases by name, and the addresses of HTTP and gRPC."""
    folder = pathlib.Path(sys.argv[1])
    arrays = np.load(folder / "cases.npz")
    cases = json.loads((folder / "cases.json").read_text())
    return {name: Case(name, case, arrays[name]) for name, case in cases.items()}, sys.argv[2], sys.argv[3]


def run(checks):
    """Runs functions, prints the result of each, and exits."""
    failed = 0
    for name, check in checks:
        try:
            check()
            print("ok  ", name, flush=True)
        except Exception:
            failed += 1
            print("FAIL", name, flush=True)
            traceback.print_exc()
    sys.exit(failed > 0)


def raises(kind, word, call, *args, **more):
    """Checks that a call raises a client error whose message contains a word."""
    try:
        call(*args, **more)
    except kind as e:
        assert word in str(e), f"{word!r} is not in {e}"
        return e
    raise AssertionError(f"no {kind.__name__} with {word!r}")

"""CTC, slow and plain: the best path, p(text) over all alignments, and probabilities of single characters.

L are log probabilities [T,K] of T frames, ids the classes of a text; class 0 is the blank.
"""
import itertools
import math

import numpy as np

from common import BLANK

OTHERS = 6  # the alternatives of a character that its posterior counts
NEAR = 1  # frames on either side of a character's run in which alternatives are looked for


def best_path(L):
    """The text of the most probable class of each frame, and the frames [begin, end) of each of its characters."""
    classes = L.argmax(1)
    ids, runs = [], []
    for t, c in enumerate(classes):
        if t and c == classes[t - 1]:
            if c != BLANK:
                runs[-1][1] = t + 1
        elif c != BLANK:
            ids.append(int(c))
            runs.append([t, t + 1])
    return ids, runs


def log_sum(*values):
    most = max(values)
    return most if most == -math.inf else most + math.log(sum(math.exp(v - most) for v in values))


def log_p(L, ids):
    """The forward algorithm: the log of the sum of the probabilities of all alignments that give the text."""
    labels = [BLANK]
    for c in ids:
        labels += [c, BLANK]
    rows = L[:, labels].tolist()
    a = [-math.inf] * len(labels)
    a[:2] = rows[0][:2]
    for row in rows[1:]:
        new = []
        for s, emitted in enumerate(row):
            before = [a[s]]
            if s > 0:
                before.append(a[s - 1])
            if s > 1 and labels[s] != BLANK and labels[s] != labels[s - 2]:
                before.append(a[s - 2])
            new.append(log_sum(*before) + emitted)
        a = new
    return log_sum(*a[-2:])


def forward(L, texts):
    """The logs of all forward probabilities [T,V,S] of V texts of one length."""
    texts = np.asarray(texts).reshape(len(texts), -1)
    v, u = texts.shape
    labels = np.full((v, 2 * u + 1), BLANK)
    labels[:, 1::2] = texts
    skip = np.full(labels.shape, -np.inf)
    skip[:, 3::2] = np.where(texts[:, 1:] != texts[:, :-1], 0, -np.inf)
    emitted = L[:, labels]
    a = np.full(emitted.shape, -np.inf)
    a[0, :, :2] = emitted[0, :, :2]
    one, two = np.full((v, 1), -np.inf), np.full((v, 2), -np.inf)
    for t in range(1, len(L)):
        b = a[t - 1]
        moved = np.logaddexp(b, np.hstack([one, b[:, :-1]]))
        a[t] = np.logaddexp(moved, np.hstack([two, b[:, :-2]])[:, :labels.shape[1]] + skip) + emitted[t]
    return a, labels


def totals(L, texts):
    """log p of V texts of one length: log_p, faster."""
    a, labels = forward(L, texts)
    return np.logaddexp(a[-1, :, -1], a[-1, :, -2]) if labels.shape[1] > 1 else a[-1, :, -1]


def occupation(L, ids):
    """[T,U]: the probability that a frame emits a character of the text, given the text."""
    a, _ = forward(L, [ids])
    b, _ = forward(L[::-1], [ids[::-1]])  # the backward probabilities: those of the reversed text
    labels = [BLANK] + [c for i in ids for c in (i, BLANK)]
    both = a[:, 0] + b[::-1, 0, ::-1] - L[:, labels]
    gamma = np.exp(both - np.logaddexp.reduce(both, 1, keepdims=True))
    return gamma[:, 1::2]


def posteriors(L, ids, runs, total):
    """The probability of each character given the others: p(text) over the sum with the texts in which it is another
    character, is missing, or has one more beside it. Only the most probable OTHERS in the frames around it count.
    And the probability of the text among all these."""
    if not ids:
        return [], float(np.exp(total))
    same, shorter, longer = [], [], []  # (character, text)
    for k, (begin, end) in enumerate(runs):
        near = L[max(0, begin - NEAR):end + NEAR].max(0)
        near[[BLANK, ids[k]]] = -np.inf
        others = np.argpartition(near, -OTHERS)[-OTHERS:]
        same += [(k, ids[:k] + [int(c)] + ids[k + 1:]) for c in others]
        shorter.append((k, ids[:k] + ids[k + 1:]))
        longer += [(k, ids[:i] + [int(c)] + ids[i:]) for c in [*others, ids[k]] for i in (k, k + 1)]
    by_character, by_text = [{} for _ in ids], {}
    for texts in (same, shorter, longer):
        for (k, text), lp in zip(texts, totals(L, [t for _, t in texts])):
            by_character[k][tuple(text)] = by_text[tuple(text)] = lp

    def share(others):
        return float(np.exp(total - np.logaddexp.reduce([total, *others.values()])))
    return [share(others) for others in by_character], share(by_text)


def align(truth, text):
    """Whether each character of text is right, by an alignment with the fewest edits, and the number of edits."""
    n, m = len(truth), len(text)
    cost = np.zeros((n + 1, m + 1), int)
    cost[0], cost[:, 0] = range(m + 1), range(n + 1)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost[i, j] = min(cost[i - 1, j - 1] + (truth[i - 1] != text[j - 1]), cost[i - 1, j] + 1, cost[i, j - 1] + 1)
    right, i, j = [False] * m, n, m
    while j:
        if i and cost[i, j] == cost[i - 1, j - 1] + (truth[i - 1] != text[j - 1]):
            i, j = i - 1, j - 1
            right[j] = truth[i] == text[j]
        elif cost[i, j] == cost[i, j - 1] + 1:
            j -= 1
        else:
            i -= 1
    return right, int(cost[n, m])


def check():
    """p(text) and the occupation against sums over all paths of small random networks."""
    rng = np.random.default_rng(0)
    for frames, classes in ((1, 3), (3, 3), (5, 3), (6, 4)):
        z = 2 * rng.normal(size=(frames, classes))
        L = z - np.log(np.exp(z).sum(1, keepdims=True))
        p, emits = {}, {}
        for path in itertools.product(range(classes), repeat=frames):
            text, at = [], np.zeros((frames, frames))
            for t, c in enumerate(path):
                if c != BLANK:
                    if t == 0 or c != path[t - 1]:
                        text.append(c)
                    at[t, len(text) - 1] = 1
            q, text = math.exp(sum(L[t, c] for t, c in enumerate(path))), tuple(text)
            p[text] = p.get(text, 0) + q
            emits[text] = emits.get(text, 0) + q * at
        for text, q in p.items():
            ids = list(text)
            assert abs(math.exp(log_p(L, ids)) - q) < 1e-12 and abs(math.exp(totals(L, [ids])[0]) - q) < 1e-12
            assert np.abs(occupation(L, ids) - emits[text][:, :len(ids)] / q).max(initial=0) < 1e-12


if __name__ == "__main__":
    check()

"""The benchmarks in Go: mf0 against its exact form, and the eigensolver against gonum's."""

import re
import subprocess

from common import ROOT, arguments, record, side

args = arguments(__doc__)


def bench(package, pattern, *flags, more=()):
    """Returns name → unit → values of all runs."""
    command = ["go", "test", "-run", "^$", "-bench", pattern, *flags, package, *more]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    found = {}
    for line in done.stdout.splitlines():
        if m := re.match(r"Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)", line):
            words = m[2].split()
            for number, unit in zip(words[::2], words[1::2]):
                found.setdefault(m[1], {}).setdefault(unit, []).append(float(number))
    return found


quick = ["-benchtime", "1x"] if args.quick else ["-count", "3"]
mf0 = bench("./calibrate/meanfield", "^BenchmarkMF0$", *quick)
for order, (k, ratio, least) in enumerate([(1000, 2, 30), (1000, 10, 15), (21841, 2, None), (21841, 10, None)]):
    units = mf0[f"MF0/K={k}/ratio={ratio}"]
    fast = units["µs/example"]
    sides, bounds = [side("mf0", fast)], []
    if "×exact" in units:
        sides.append(side("exact", [f * x for f, x in zip(fast, units["×exact"])]))
        bounds.append((1, 0, "at least" if least else "", least or 0))
    if k > 1000:
        sides.append(side("target", [5000]))
        bounds.append((0, 1, "at most", 1))
    record(args, f"mf0-{k}-{ratio}", "go", f"mf0, K = {k}, temperatures in a ratio of {ratio}", "µs", sides, bounds, order=order)

n = 512 if args.quick else 2048
# gonum's takes half a minute, so it runs once.
ours = bench("./internal/eigen", f"^BenchmarkSym$/^Sym$/^{n}$", *(["-benchtime", "1x"] if args.quick else ["-benchtime", "3x"]), more=["-large"])
gonum = bench("./internal/eigen", f"^BenchmarkSym$/^EigenSym$/^{n}$", "-benchtime", "1x", more=["-large"])
record(args, "eigen", "go", f"eigenvectors of a symmetric matrix of order {n}", "s",
       [side("mfgs", [t / 1e9 for t in ours[f"Sym/Sym/{n}"]["ns/op"]]), side("gonum's EigenSym", [t / 1e9 for t in gonum[f"Sym/EigenSym/{n}"]["ns/op"]])],
       [(1, 0, "at least", 4)], order=10)

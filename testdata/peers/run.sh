#!/bin/sh
# Runs all measurements, one after another, and writes docs/benchmarks.md. Any arguments, such as
# --quick or --work DIR, go to every script. PYTHON is the interpreter of the environment that
# requirements.txt describes.
set -eu
cd "$(dirname "$0")"
python=${PYTHON:-.venv/bin/python}
for script in prepare fused throughput sampling gobench against_laplace; do
	echo "== $script" >&2
	"$python" -W ignore "$script.py" "$@"
done
case " $* " in
*" --quick "*) ;;
*) "$python" table.py "$@" ;;
esac

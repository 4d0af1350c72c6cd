#!/bin/sh
# Measures mfgs on recognisers of lines of text, and writes docs/evidence/lines.md. Everything else goes into the folder
# $MFGS_LINES; a run that was interrupted continues from what is there.
set -eu
cd "$(dirname "$0")"
work=${MFGS_LINES:-${XDG_CACHE_HOME:-$HOME/.cache}/mfgs-lines}
mkdir -p "$work"
[ -x "$work/venv/bin/pip" ] || python3.11 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check -r requirements.txt
[ -x "$work/mfgs" ] || (cd ../.. && go build -buildvcs=true -o "$work/mfgs" ./cmd/mfgs)
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 # more are very slow where other programs need the CPUs
for script in ctc.py models.py draw.py reference.py study.py check.py page.py; do
	"$work/venv/bin/python" "$script" --work "$work"
done

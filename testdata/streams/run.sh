#!/bin/sh
# Measures mfgs on a detector of speech that runs over a stream, and writes docs/evidence/streams.md. Everything else
# goes into the folder $MFGS_STREAMS; a run that was interrupted continues from what is there.
set -eu
cd "$(dirname "$0")"
work=${MFGS_STREAMS:-${XDG_CACHE_HOME:-$HOME/.cache}/mfgs-streams}
mkdir -p "$work"
[ -x "$work/venv/bin/pip" ] || /usr/bin/python3 -m venv --system-site-packages "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check -r requirements.txt
"$work/venv/bin/pip" install -q --disable-pip-version-check --no-deps silero-vad==6.2.3 # it would install another torch
[ -x "$work/mfgs" ] || (cd ../.. && go build -buildvcs=true -o "$work/mfgs" ./cmd/mfgs)
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
for script in sounds.py check.py page.py; do
	"$work/venv/bin/python" "$script" --work "$work"
done

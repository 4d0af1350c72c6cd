#!/bin/sh
# Measures mfgs on models without a linear last layer, and writes docs/evidence/trees.md. Everything else goes into the
# folder $MFGS_TREES; a run that was interrupted continues from what is there.
set -eu
cd "$(dirname "$0")"
work=${MFGS_TREES:-${XDG_CACHE_HOME:-$HOME/.cache}/mfgs-trees}
mkdir -p "$work"
[ -x "$work/venv/bin/pip" ] || python3.11 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check -r requirements.txt
if [ ! -d "$work/usr" ]; then # unpacked, not installed: R is not needed
	(cd "$work" && apt-get download r-cran-kernlab r-cran-mlbench && for deb in ./*.deb; do dpkg -x "$deb" .; done)
fi
[ -x "$work/mfgs" ] || (cd ../.. && go build -buildvcs=true -o "$work/mfgs" ./cmd/mfgs)
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 # more are very slow where other programs need the CPUs
for script in exports.py maps.py decisions.py ensembles.py page.py; do
	"$work/venv/bin/python" "$script" --work "$work"
done

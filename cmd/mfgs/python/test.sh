#!/bin/sh
# Tests the Python package with the mfgs of this tree, in an environment of its own. Where that cannot be had, it says so
# and does not fail. PYTHON names another program than python3.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
skip() {
	echo "NOT TESTED IN PYTHON: $1"
	exit 0
}
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || skip "there is no Python 3.11 or newer"
"$python" -m venv "$work/venv" >"$work/log" 2>&1 || skip "$python -m venv: $(tail -n 1 "$work/log")"
"$work/venv/bin/pip" install -q --disable-pip-version-check --timeout 20 --retries 1 -r "$here/requirements.txt" >"$work/log" 2>&1 ||
	skip "$(tail -n 1 "$work/log")"
ln -s "$here/../../../mfgs" "$work/venv/bin/mfgs"
export PYTHONPATH="$here" PYTHONDONTWRITEBYTECODE=1
cd "$work"
"$work/venv/bin/mypy" --strict --ignore-missing-imports --cache-dir "$work/types" "$here/mfgs"
"$work/venv/bin/python" -W error::ResourceWarning -m unittest discover -v -s "$here"

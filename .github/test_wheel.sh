#!/bin/sh
# Install a wheel into an empty environment and use it from a folder outside the checkout:
# compile, evaluate and train, with the data and the rule library that the wheel contains.
# Usage: sh .github/test_wheel.sh dist/fedkg-*.whl
set -eu
unset PYTHONPATH
wheel=$(realpath "$1")
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/python" -m pip install --quiet --disable-pip-version-check \
  -c "$root/constraints.txt" "$wheel[all]"
cp -r "$root/examples/milling" "$work/milling"
cd "$work/milling"
fedkg="$work/env/bin/fedkg"
"$work/env/bin/python" -c "import fedkg; print('using', fedkg.__file__)"
"$fedkg" data ai4i -o table.csv
"$fedkg" check rules.fkg
"$fedkg" compile rules.fkg -o rules.fkgpack
"$fedkg" eval rules.fkgpack table.csv || test $? -eq 1
"$fedkg" ontology list
"$fedkg" run job.yaml --set training.rounds=2 --set seeds=1 --out run
test -s run/report.html
echo "the wheel works"

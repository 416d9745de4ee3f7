#!/bin/sh
# Installs one file of a release into a fresh environment, as a user does, and tries it there.
# With TESTS=1 the Python tests run on it as well.
set -eu

file=$1
root=$(cd "$(dirname "$0")/.." && pwd)
file=$(cd "$(dirname "$file")" && pwd)/$(basename "$file")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"${PYTHON:-python3}" -m venv "$folder/venv"
pip="$folder/venv/bin/python -m pip --quiet --disable-pip-version-check --no-input"
$pip install --upgrade 'pip>=25.1'
$pip install "$file"
# Away from the working tree: what is tried is what was installed.
cd "$folder"
venv/bin/gristmill --version
venv/bin/gristmill demo --tiny --data data
venv/bin/gristmill scan data --quiet
venv/bin/python -c 'import gristmill, pathlib; print(gristmill.__version__, pathlib.Path(gristmill.__file__).parent)'
if [ "${TESTS:-0}" = 1 ]; then
    cd "$root"
    $pip install --group test
    $pip install "$file[demo]"
    "$folder/venv/bin/python" -m pytest --numprocesses=3 --dist=worksteal --benchmark-disable
fi
echo "$(basename "$file"): works"

#!/bin/sh
# Prints the Python to use, or says in one sentence what this machine lacks.
set -eu

missing=""
need() { missing="${missing:+$missing, and }$1"; }

python=""
for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python}; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    need "Python 3.11 or newer (or set PYTHON to one)"
elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    need "Python's venv module (on Debian and Ubuntu: apt install python3-venv)"
fi

# The oldest compiler that the workspace accepts stands in Cargo.toml, once.
wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
if ! found=$(cargo --version 2>/dev/null); then
    need "cargo $wanted or newer (https://rustup.rs)"
else
    found=$(echo "$found" | cut -d ' ' -f 2)
    oldest=$(printf '%s\n%s\n' "$wanted" "$found" | sort -V | head -n 1)
    [ "$oldest" = "$wanted" ] || need "cargo $wanted or newer (here is $found: rustup update)"
fi
# A linker and C runtime: rustc calls cc.
command -v cc >/dev/null 2>&1 || need "a C compiler for linking (on Debian and Ubuntu: apt install gcc)"

if [ -n "$missing" ]; then
    echo "Gristmill needs $missing." >&2
    exit 1
fi
echo "$python"

#!/usr/bin/env bash
# Says where Valgrind is missing, and installs the program that runs benches under it: it must be of
# the same version as the library in Cargo.lock. Prints its path.
set -euo pipefail

if ! command -v valgrind >/dev/null; then
    echo "counting instructions needs Valgrind (on Debian and Ubuntu: apt install valgrind)" >&2
    exit 1
fi
version=$(sed -n '/^name = "gungraun"$/{n;s/^version = "\(.*\)"$/\1/p}' Cargo.lock)
tools="${XDG_CACHE_HOME:-$HOME/.cache}/gristmill-tools"
runner=$tools/bin/gungraun-runner
if [ "$("$runner" --version 2>/dev/null)" != "gungraun-runner $version" ]; then
    echo "building gungraun-runner $version, once" >&2
    cargo install --quiet --locked --root "$tools" "gungraun-runner@$version"
fi
realpath "$runner"

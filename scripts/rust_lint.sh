#!/usr/bin/env bash
# Format, lint and licence checks of the workspace, with what this toolchain has.
set -euo pipefail

deny_version=0.20.2

# Built when its version changes, beside clippy, for all clones; optimized, it would take several times as
# long, and nobody debugs it. crates.io has no binaries.
tools="${XDG_CACHE_HOME:-$HOME/.cache}/gristmill-tools"
deny=$tools/bin/cargo-deny
build=
if [ "$("$deny" --version 2>/dev/null)" != "cargo-deny $deny_version" ]; then
    echo "building cargo-deny $deny_version, once"
    CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --debug --locked --root "$tools" "cargo-deny@$deny_version" &
    build=$!
    trap 'kill "$build" 2>/dev/null || true' EXIT
fi

if cargo fmt --version >/dev/null 2>&1; then
    cargo fmt --all --check
else
    echo "skipped: rustfmt is not part of this toolchain (rustup component add rustfmt)"
fi

if cargo clippy --version >/dev/null 2>&1; then
    cargo clippy --locked --profile quick --workspace --all-targets --features gristmill-benches/counts \
        -- -D warnings
else
    echo "skipped: clippy is not part of this toolchain (rustup component add clippy)"
fi

if [ -n "$build" ]; then wait "$build"; fi
# Advisories are left out: their database lives in a git repository that a build machine may not reach.
"$deny" --log-level error --locked check licenses bans sources

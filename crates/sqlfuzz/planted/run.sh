#!/bin/sh
# Puts each planted fault back into a scratch checkout and prints after how many seeds the fuzzer finds it.
# Usage: planted/run.sh [SEEDS [PATCH...]]; CARGO_TARGET_DIR is where it builds.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
seeds=${1:-20000}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- "$here"/*.patch
scratch=$(mktemp -d)
git -C "$here" worktree add --quiet --detach "$scratch/coscan" HEAD
trap 'git -C "$here" worktree remove --force "$scratch/coscan"; rm -rf "$scratch"' EXIT
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$scratch/target}"
cd "$scratch/coscan"
for patch in "$@"; do
    git checkout --quiet .
    git apply "$patch"
    cargo build --quiet --locked --release --workspace --bin coscan --test architecture
    echo "$(basename "$patch" .patch):"
    "$CARGO_TARGET_DIR/release/coscan" sim sqlfuzz --seeds "0..$seeds" --failures 1 --shrink 20 --out "$scratch" || true
done

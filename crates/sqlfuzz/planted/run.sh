#!/bin/sh
# Applies each planted fault to a scratch checkout and prints after how many seeds the fuzzer finds it.
# Usage: planted/run.sh [SEEDS [PATCH...]]; CARGO_TARGET_DIR is the build folder, CARGO_ARGS are arguments of cargo.
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
    # shellcheck disable=SC2086
    cargo test ${CARGO_ARGS:-} --quiet --locked --release --workspace --test seeds --no-run
    echo "$(basename "$patch" .patch):"
    # shellcheck disable=SC2086
    COSCAN_SQLFUZZ="0..$seeds" cargo test ${CARGO_ARGS:-} --quiet --locked --release --workspace --test seeds -- --nocapture |
        grep -E '^seed [0-9]+:|^[0-9]+ seeds' || true
done

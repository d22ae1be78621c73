#!/bin/sh
# Puts each planted fault of operators that work chunk by chunk into a scratch checkout; the tests `ordered*` have to fail.
# Usage: planted/run.sh [PATCH...]; CARGO_TARGET_DIR is where it builds.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || set -- "$here"/*.patch
scratch=$(mktemp -d)
git -C "$here" worktree add --quiet --detach "$scratch/coscan" HEAD
trap 'git -C "$here" worktree remove --force "$scratch/coscan"; rm -rf "$scratch"' EXIT
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$scratch/target}"
cd "$scratch/coscan"
missed=0
for patch in "$@"; do
    git checkout --quiet .
    git apply "$patch"
    cargo test --quiet --locked --release --workspace --test sql --no-run
    if cargo test --quiet --locked --release --workspace --test sql -- ordered >"$scratch/log" 2>&1; then
        echo "$(basename "$patch" .patch): NOT FOUND"
        missed=1
    else
        echo "$(basename "$patch" .patch): found by $(grep -oE '^test .* FAILED|^    ordered[a-z_:]*' "$scratch/log" | sort -u | tr '\n' ' ')"
    fi
done
exit $missed

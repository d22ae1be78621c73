#!/bin/bash
# Plants one fault at a time in a scratch checkout and shows which test of coscan-media finds it. A fault without a test that
# finds it ends the script with 1. Usage: crates/media/planted/run.sh [name]
set -u
top=$(git rev-parse --show-toplevel)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
git -C "$top" archive HEAD | tar -x -C "$scratch"
cd "$scratch" || exit 2
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$top/target}/planted"
src=crates/media/src/scheduler
missed=0
while IFS=$'\t' read -r name file from to; do
    [ -n "${1:-}" ] && [ "$1" != "$name" ] && continue
    cp "$src/$file" saved
    FROM=$from TO=$to perl -0pi -e 's/\Q$ENV{FROM}\E/$ENV{TO}/' "$src/$file"
    cmp -s saved "$src/$file" && { echo "$name: the fault does not apply"; missed=1; continue; }
    if out=$(cargo test --release -p coscan-media --tests 2>&1); then
        echo "$name: NOT FOUND"
        missed=1
    else
        echo "$name: found by $(grep -oE '^test [a-z_]+ \.\.\. FAILED' <<<"$out" | head -1 | cut -d' ' -f2)"
    fi
    cp saved "$src/$file"
done <"$top/crates/media/planted/faults.txt"
exit $missed

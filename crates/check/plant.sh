#!/bin/bash
# Plants the faults of a list, all of them in one scratch checkout, each switched on by COSCAN_PLANTED, and shows which
# tests find each. One that no test finds ends it with 1. A line of the list: name, file, the code with the expression in
# {{ }}, the wrong expression. CARGO_TARGET_DIR is where it builds, with the dependencies that are there; PLANTED_CONFIG
# another configuration than that of `make test`.
# Usage: crates/check/plant.sh SOURCES LIST TEST FILTERS [NAME...], as planted/run.sh of coscan-datafusion and coscan-tier do; TEST is
# a test of a package, or lib for the unit tests of all.
set -u
src=$1 faults=$2 test=$3
read -ra filters <<<"$4"
shift 4
only=" $* "
top=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$top/target}"
# The scratch checkout stays, and only files that differ are written: the next run compiles what has changed.
scratch=$CARGO_TARGET_DIR/planted/$test
mkdir -p "$scratch"
# Builds of the checkout would otherwise take the scratch's for their own.
trap 'rm -rf "$CARGO_TARGET_DIR"/release/.fingerprint/coscan*' EXIT
GIT_INDEX_FILE=$scratch.index git -C "$top" --work-tree="$scratch" read-tree --reset -u HEAD || exit 2
cd "$scratch" || exit 2
missed=0
while IFS=$'\t' read -r name file code wrong; do
    cp "$src/$file" saved
    NAME=$name CODE=$code WRONG=$wrong perl -0pi -e '
        my ($before, $right, $after) = $ENV{CODE} =~ /^(.*?)\{\{(.*)\}\}(.*)$/s;
        s/\Q$before$right$after\E/${before}(if crate::planted("$ENV{NAME}") { $ENV{WRONG} } else { $right })$after/' "$src/$file"
    cmp -s saved "$src/$file" && { echo "$name: the fault does not apply"; missed=1; }
done <"$faults"
echo 'pub(crate) fn planted(name: &str) -> bool { std::env::var("COSCAN_PLANTED").is_ok_and(|planted| planted == name) }' >>"$src/lib.rs"
target=(--test "$test")
[ "$test" = lib ] && target=(--lib)
tests=(cargo test --config "${PLANTED_CONFIG:-.cargo/checked.toml}" --locked --release --workspace "${target[@]}")
"${tests[@]}" -- "${filters[@]}" >log 2>&1 || { cat log; echo "without a fault the tests fail"; exit 2; }
last=
while IFS=$'\t' read -r name _; do
    # A fault in several places has a line for each.
    [ "$name" = "$last" ] && continue
    last=$name
    [ "$only" != "  " ] && [[ $only != *" $name "* ]] && continue
    COSCAN_PLANTED=$name timeout 600 "${tests[@]}" -- "${filters[@]}" >log 2>&1
    case $? in
    0)
        echo "$name: NOT FOUND"
        missed=1
        ;;
    124)
        echo "$name: the tests did not end"
        missed=1
        ;;
    *) echo "$name: found by $(grep -oE '^test [a-z_:]+ \.\.\. FAILED' log | cut -d' ' -f2 | paste -sd, || tail -1 log)" ;;
    esac
done <"$faults"
exit $missed

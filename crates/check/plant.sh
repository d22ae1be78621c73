#!/bin/bash
# Plants all faults of a list in one scratch checkout and shows which tests find each. COSCAN_PLANTED switches a fault on.
# A fault without a test that finds it ends the script with 1. A line of the list has the name, the file, the code with the
# expression in {{ }}, and the wrong expression. CARGO_TARGET_DIR is the build folder, whose dependencies are reused.
# PLANTED_CONFIG replaces the configuration of `make test`.
# Usage: crates/check/plant.sh SOURCES LIST TEST FILTERS [NAME...], as in planted/run.sh of coscan-datafusion and coscan-tier.
# TEST is a test of a package, or lib for the unit tests of all packages.
set -u
src=$1 faults=$2 test=$3
read -ra filters <<<"$4"
shift 4
only=" $* "
top=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$top/target}"
# The scratch checkout stays, and only changed files are written, so that the next run compiles only these.
scratch=$CARGO_TARGET_DIR/planted/$test
mkdir -p "$scratch"
# Otherwise builds of the checkout would use the results of the scratch checkout.
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

#!/bin/bash
# Plants faults in operators that work chunk by chunk, which the tests `ordered*` and `clustered` have to find, and in what
# makes queries and parts of a query equal, for the tests `shared_results` and `shared_subplans`, and in filters of joins,
# for `key_filters` and `dynamic_filters`: see crates/check/plant.sh.
# Usage: planted/run.sh [faults | shared_results | shared_subplans | key_filters [NAME]]
here=$(cd "$(dirname "$0")" && pwd)
plant() {
    local list=$1 tests=$2
    shift 2
    "$here/../../../check/plant.sh" crates/datafusion/src "crates/datafusion/tests/planted/$list.txt" sql "$tests" "$@"
}
lists=${1:-faults shared_results shared_subplans key_filters}
[ $# -gt 0 ] && shift
missed=0
for list in $lists; do
    case $list in
        faults) tests="ordered clustered" ;;
        shared_results | shared_subplans) tests=$list ;;
        key_filters) tests="key_filters dynamic_filters" ;;
        *) echo "there is no list $list" >&2; exit 2 ;;
    esac
    plant "$list" "$tests" "$@" || missed=1
done
exit $missed

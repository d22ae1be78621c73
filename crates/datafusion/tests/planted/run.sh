#!/bin/bash
# Plants faults in the code, each of which the named tests must find; see crates/check/plant.sh:
# - operators by chunks and limits over an order: `ordered*`, `clustered` and `first_rows`;
# - equality of queries, subplans and slice aggregates: `shared_results`, `shared_subplans` and `shared_aggregates`;
# - filters of joins: `key_filters` and `dynamic_filters`;
# - plans of many files: `many_files`;
# - filters and groups over strings: `text_filters` and `aggregates`;
# - range conditions on integers: the unit tests of `ranges` and `row_filter`;
# - odd stores and foreign tables: `odd_stores` and `foreign`.
# Usage: planted/run.sh [faults | shared_results | shared_subplans | shared_aggregates | key_filters | many_files | text_filters |
#                        text_groups | ranges | stores | store_marks [NAME]]
here=$(cd "$(dirname "$0")" && pwd)
plant() {
    local list=$1 test=$2 tests=$3 sources=$4
    shift 4
    "$here/../../../check/plant.sh" "crates/$sources/src" "crates/datafusion/tests/planted/$list.txt" "$test" "$tests" "$@"
}
lists=${1:-faults shared_results shared_subplans shared_aggregates key_filters many_files text_filters text_groups ranges stores store_marks}
[ $# -gt 0 ] && shift
missed=0
for list in $lists; do
    test=sql sources=datafusion
    case $list in
        faults) tests="ordered clustered first_rows" ;;
        shared_results | shared_subplans | many_files | text_filters) tests=$list ;;
        text_groups) tests="text_filters aggregates" sources=operators ;;
        shared_aggregates) tests=$list sources=operators ;;
        ranges) tests="file::ranges file::row_filter" test=lib ;;
        key_filters) tests="key_filters dynamic_filters" ;;
        stores) tests="odd_stores foreign" ;;
        store_marks) tests=odd_stores sources=engine ;;
        *) echo "there is no list $list" >&2; exit 2 ;;
    esac
    plant "$list" "$test" "$tests" "$sources" "$@" || missed=1
done
exit $missed

#!/bin/bash
# Plants faults in chunks that are pieces of row groups and in what is said of queries that run, which the tests `chunks`,
# `borders` and `traffic` have to find: see crates/check/plant.sh.
# Usage: planted/run.sh [NAME]
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../../../check/plant.sh" crates/engine/src crates/engine/tests/planted/faults.txt engine "chunks borders traffic" "$@"

#!/bin/bash
# Plants faults in chunks that are pieces of row groups, which the tests `chunks` have to find: see crates/check/plant.sh.
# Usage: planted/run.sh [NAME]
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../../../check/plant.sh" crates/engine/src crates/engine/tests/planted/faults.txt engine chunks "$@"

#!/bin/bash
# Plants faults in sharing policies that lose a lead, which the test `leads` has to find: see crates/check/plant.sh.
# Usage: planted/run.sh [NAME...]
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../../check/plant.sh" crates/core/src crates/sim/planted/faults.txt leads "" "$@"

#!/bin/bash
# Plants faults in sharing policies that reduce a lead. The test `leads` must find them: see crates/check/plant.sh.
# Usage: planted/run.sh [NAME...]
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../../check/plant.sh" crates/core/src crates/sim/planted/faults.txt leads "" "$@"

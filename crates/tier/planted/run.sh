#!/bin/bash
# Plants faults in the rewrite of plans, which tests against plain DataFusion must find: see crates/check/plant.sh.
# Usage: planted/run.sh [NAME]
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../../check/plant.sh" crates/tier/src crates/tier/planted/faults.txt tier "random:: plans:: pauses::" "$@"

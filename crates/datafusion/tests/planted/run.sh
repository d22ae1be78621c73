#!/bin/bash
# Plants faults in operators that work chunk by chunk, which the tests `ordered*` have to find: see crates/check/plant.sh.
# Usage: planted/run.sh [NAME]
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../../../check/plant.sh" crates/datafusion/src crates/datafusion/tests/planted/faults.txt sql ordered "$@"

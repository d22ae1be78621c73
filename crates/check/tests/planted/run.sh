#!/bin/bash
# Plants faults in matching chunks of the buffer manager. Random worlds must find them: see crates/check/plant.sh.
# Usage: planted/run.sh [NAME]
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../../plant.sh" crates/core/src crates/check/tests/planted/faults.txt fuzz "a_bounded_number" "$@"

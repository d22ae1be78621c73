#!/bin/bash
# Plants faults in the limits and cancellation of statements and in PostgreSQL's SQL, which the tests `postgres` of `server` must
# find: see crates/check/plant.sh. Usage: planted/run.sh [NAME...]
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../../check/plant.sh" crates/server/src "$here/faults.txt" server "made:: dialect:: parameters:: stopped cancel fetch" "$@"

"""The clients of a dashboard on a server, with sharing and without: `make serve-demo`.

Every client sends one query with a parameter of its own, like the panels of a board that is opened. The page of
the server shows the chunks while they run.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from pathlib import Path

from .server import Server, client_packages

PANEL = (
    "SELECT l_returnflag, sum(l_quantity), sum(l_extendedprice * (1 - l_discount)), count(*) FROM lineitem "
    "WHERE l_shipdate >= DATE '1992-01-01' + INTERVAL '{} days' GROUP BY l_returnflag ORDER BY 1"
)


def board(port: int, clients: int, cooperative: bool) -> tuple[float, list[float], list[object]]:
    """Returns the seconds until all panels are drawn, the seconds of each panel, and their rows."""
    import psycopg

    times, rows = [0.0] * clients, [None] * clients
    start = threading.Barrier(clients + 1)

    def panel(number: int) -> None:
        with psycopg.connect(host="127.0.0.1", port=port, user="coscan", dbname="demo", autocommit=True) as connection:
            connection.execute(f"SET coscan.enabled = {str(cooperative).lower()}")
            start.wait()
            begun = time.monotonic()
            rows[number] = connection.execute(PANEL.format(number * 20)).fetchall()
            times[number] = time.monotonic() - begun

    threads = [threading.Thread(target=panel, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    start.wait()
    begun = time.monotonic()
    for thread in threads:
        thread.join()
    return time.monotonic() - begun, times, rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with lineitem")
    parser.add_argument("--clients", type=int, default=32)
    options = parser.parse_args()
    client_packages()
    server = Server(data=options.data)
    print(f"page: http://127.0.0.1:{server.port}/   {options.clients} clients")
    try:
        shared, times, answers = board(server.port, options.clients, cooperative=True)
        print(f"coscan.enabled = true   board {shared:6.1f} s   median panel {statistics.median(times):6.1f} s")
        alone, times, others = board(server.port, options.clients, cooperative=False)
        print(f"coscan.enabled = false  board {alone:6.1f} s   median panel {statistics.median(times):6.1f} s")
        print(f"answers {'are the same' if answers == others else 'DIFFER'}; {alone / shared:.1f} times as fast")
    finally:
        server.stop()


if __name__ == "__main__":
    main()

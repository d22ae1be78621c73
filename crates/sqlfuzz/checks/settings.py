"""The settings of a seed's queries. No setting changes the result of a query."""

from __future__ import annotations

import random
from dataclasses import dataclass

#: Options of `coscan serve` with their values; "" omits the option.
SERVER = {
    "--policy": ["relevance", "normal", "attach", "elevator", "", ""],
    # A column of a row group needs up to 523,297 bytes.
    "--buffer": ["64MB", "64MB", "2MB", "600KB"],
    "--small-table-bytes": ["0", "0", "0", ""],
    "--chunk-size": ["0", "1KB", "8KB", "", ""],
    "--slice-rows": ["16", "500", "", "", ""],
    "--point-threshold": ["0", "2", "", ""],
    "--order-aware": ["always", "never", "", ""],
    "--share-results": ["false", "", ""],
    "--share-aggregates": ["false", "", ""],
}

#: Settings of a session with their values; "" keeps the default.
SESSION = {
    "datafusion.execution.target_partitions": ["1", "2", "3", ""],
    "datafusion.execution.batch_size": ["100", "1000", "", "", ""],
    "datafusion.execution.parquet.pushdown_filters": ["true", "true", ""],
    "datafusion.execution.parquet.reorder_filters": ["true", "", ""],
    "datafusion.execution.collect_statistics": ["false", "", ""],
    "datafusion.optimizer.hash_join_single_partition_threshold_rows": ["0", "", ""],
    "datafusion.optimizer.repartition_joins": ["false", "", ""],
    "datafusion.optimizer.prefer_hash_join": ["false", "", ""],
    "datafusion.optimizer.prefer_existing_sort": ["true", "", ""],
}


@dataclass(frozen=True)
class Settings:
    server: list[str]
    session: list[str]


def draw_settings(draw: random.Random) -> Settings:
    server, session = drawn(draw, SERVER), drawn(draw, SESSION)
    return Settings(
        [word for option, value in server.items() for word in (option, value)],
        [f"{name} = {value}" for name, value in session.items()],
    )


def drawn(draw: random.Random, choices: dict[str, list[str]]) -> dict[str, str]:
    picked = {name: draw.choice(values) for name, values in choices.items()}
    return {name: value for name, value in picked.items() if value}

"""The settings of an engine. make_settings.py writes this file."""

from __future__ import annotations

from typing import TypedDict


class Settings(TypedDict, total=False):
    """The settings that `coscan.connect` takes by name. Bytes may have a unit, as in `"4GB"`."""

    policy: int | float | str | None
    """Sharing policy: which chunk next, and for whom; `coscan policies` says what each does. Default: relevance."""

    buffer: int | str | None
    """Bytes for everything held in memory: encoded, decoded, being read, being consumed. Default: half of the memory
    that the machine and its cgroup allow, less 48 MiB; more while operators leave theirs."""

    buffer_start: int | str | None
    """Bytes of the buffer that are in use at first; more, while data are read or decoded again. Default: 256 MiB per
    processor."""

    read_limit: int | str | None
    """Bytes per second that all reads together may take; 0 or 'none' for no limit. Default: none."""

    read_latency_ms: int | float | str | None
    """Milliseconds added to every read request, to try out slow storage. Default: 0."""

    loads_in_flight: int | None
    """Loads that may be in progress at once from each store. Default: 4; as many as its requests need for a store
    that is not on this machine."""

    io_threads: int | None
    """Requests in progress at once from each store. Default: as many as loads_in_flight; found while it is read for a
    store that is not on this machine."""

    coalesce_gap: int | str | None
    """Parts of one load that lie no further apart are read by one request. Default: 64 KiB, or what the device's
    profile or the store's answers say."""

    device_profile: int | float | str | None
    """Profiles of devices by `coscan device probe`, separated by commas: they decide how those are read. Default:
    none."""

    store_prices: int | float | str | None
    """Dollars that stores take for a million reads, a million lists and a gigabyte: `s3://=0.4/5/0.09`, separated by
    commas. Default: none."""

    device_probe_ms: int | float | str | None
    """Milliseconds for which a device without a profile may be measured when it is first read; 0: never. Default:
    0."""

    read_deadline_ms: int | float | str | None
    """Milliseconds after which a read fails, all attempts included. Default: 60000."""

    direct_io: bool | None
    """Read local files past the page cache where the file system can. Default: true."""

    page_cache: int | str | None
    """Reads of this many bytes leave in the page cache what is there, and it is decoded from there; 0 for none.
    Default: 256 KiB."""

    decoded_share: int | float | str | None
    """Percent of the buffer that decoded arrays may have. Default: 25, but no more than 256 MiB per processor."""

    point_share: int | float | str | None
    """Percent of the buffer that point reads may have; 0 for no point reads. Default: 10."""

    point_latency_ms: int | float | str | None
    """Milliseconds that a point read may wait before loads are delayed for it; 0 for never. Default: 20."""

    stall_ms: int | float | str | None
    """Milliseconds after which a chunk is asked back from a consumer that does not read. Default: 1000."""

    idle_release_ms: int | float | str | None
    """Milliseconds without a query that reads, after which the buffer's memory is given back; 0: never. Default:
    300000."""

    chunk_size: int | str | None
    """Encoded bytes of a chunk: larger row groups are cut between pages, small ones are read together; 0 for neither.
    Default: 16 MiB."""

    slice_rows: int | None
    """Rows decoded at a time. Default: 8192."""

    enabled: bool | None
    """Read Parquet files cooperatively; false leaves plans as DataFusion makes them. Default: true."""

    small_table_bytes: int | str | None
    """Tables with fewer bytes of files are read by DataFusion's own scan, unless a join filters them. Default: 4
    MiB."""

    point_threshold: int | None
    """A row group is read by single pages if these are at most 1/N of its bytes; 0 for never. Default: 8."""

    order_aware: int | float | str | None
    """Operators work chunk by chunk where tables are clustered by their key: auto (where it is worth it), always
    (where it is right) or never. Default: auto."""

    share_results: bool | None
    """Equal queries that run at the same time over the same versions of the same files run once, and so do equal
    aggregations and windows of one query. Default: true."""

    share_aggregates: bool | None
    """Queries that run at the same time and aggregate in the same way, with any filters, add up slices of a table
    once. Default: true."""

    share_filters: bool | None
    """Queries that run at the same time and filter by the same condition on strings evaluate it once. Default:
    true."""

    load_control: bool | None
    """Queries wait for each other's memory and run again when it was refused them. Default: true."""

    queue_timeout_s: int | None
    """Seconds after which a query that waits for memory fails; 0 for never. Default: 3600."""

    query_memory: int | str | None
    """Memory for the operators of all queries together; auto for what the buffer leaves of three quarters of the
    memory less 128 MiB, a tenth at least. Default: auto."""

//! The table of settings of the engine, one row each. Functions on them are in `settings.rs`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use coscan_core::PolicyName;

use super::values::{BYTES_MAX, bytes, milliseconds, number, truth};
use super::{EngineSetting, Scope, Setting};
use crate::config::{EngineConfig, ReadLimit};

/// Every setting of the engine.
pub const ENGINE_SETTINGS: &[EngineSetting] = &[
    EngineSetting {
        about: Setting {
            name: "policy",
            scope: Scope::Engine,
            value: "NAME",
            summary: "sharing policy: which chunk next, and for whom; `coscan policies` says what each does",
            default: "relevance",
        },
        set: |config, value| {
            let name = PolicyName::from_str(&value.to_lowercase());
            config.policy = name.map_err(|error| format!("a sharing policy: {error}"))?.into();
            Ok(())
        },
        show: |config| config.policy.to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "buffer",
            scope: Scope::Engine,
            value: "BYTES",
            summary: "bytes for everything held in memory: encoded, decoded, being read, being consumed",
            default: "half of the memory that the machine and its cgroup allow, less 48 MiB; more while operators leave theirs",
        },
        set: |config, value| {
            config.buffer_bytes = bytes(value, 1..=BYTES_MAX)?;
            Ok(())
        },
        show: |config| config.buffer_bytes.to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "buffer_start",
            scope: Scope::Startup,
            value: "BYTES",
            summary: "bytes of the buffer that are in use at first; more, while data are read or decoded again",
            default: "256 MiB per processor",
        },
        set: |config, value| {
            config.buffer_start_bytes = bytes(value, 1..=BYTES_MAX)?;
            Ok(())
        },
        show: |config| config.buffer_start_bytes.to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "read_limit",
            scope: Scope::Engine,
            value: "BYTES",
            summary: "bytes per second that all reads together may take; 0 or 'none' for no limit",
            default: "none",
        },
        set: |config, value| {
            let none = ["none", "off"].iter().any(|none| value.eq_ignore_ascii_case(none));
            let bytes_per_s = if none { 0 } else { bytes(value.trim_end_matches("/s"), 0..=BYTES_MAX)? };
            limit_reads(config, |limit| limit.bytes_per_s = bytes_per_s);
            Ok(())
        },
        show: |config| match config.read_limit.map_or(0, |limit| limit.bytes_per_s) {
            0 => "none".to_owned(),
            bytes_per_s => bytes_per_s.to_string(),
        },
    },
    EngineSetting {
        about: Setting {
            name: "read_latency_ms",
            scope: Scope::Engine,
            value: "MS",
            summary: "milliseconds added to every read request, to try out slow storage",
            default: "0",
        },
        set: |config, value| {
            let latency = milliseconds(value)?;
            limit_reads(config, |limit| limit.latency = latency);
            Ok(())
        },
        show: |config| config.read_limit.map_or(0, |limit| limit.latency.as_millis()).to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "loads_in_flight",
            scope: Scope::Startup,
            value: "N",
            summary: "loads that may be in progress at once from each store",
            default: "4; as many as its requests need for a store that is not on this machine",
        },
        set: |config, value| {
            config.loads_in_flight = number(value, 1..=1024)?;
            Ok(())
        },
        show: |config| config.loads_in_flight.to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "io_threads",
            scope: Scope::Startup,
            value: "N",
            summary: "requests in progress at once from each store",
            default: "as many as loads_in_flight; found while it is read for a store that is not on this machine",
        },
        set: |config, value| {
            config.io_threads = number(value, 1..=1024)?;
            Ok(())
        },
        show: |config| config.io_threads.to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "coalesce_gap",
            scope: Scope::Startup,
            value: "BYTES",
            summary: "parts of one load that lie no further apart are read by one request",
            default: "64 KiB, or what the device's profile or the store's answers say",
        },
        set: |config, value| {
            config.coalesce_gap_bytes = bytes(value, 0..=16 << 20)?;
            Ok(())
        },
        show: |config| config.coalesce_gap_bytes.to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "device_profile",
            scope: Scope::Startup,
            value: "FILES",
            summary: "profiles of devices by `coscan device probe`, separated by commas: they decide how those are read",
            default: "none",
        },
        set: |config, value| {
            let none = value.is_empty() || value.eq_ignore_ascii_case("none");
            let files = value.split(',').map(str::trim).filter(|file| !none && !file.is_empty());
            config.device_profiles = files.map(PathBuf::from).collect();
            Ok(())
        },
        show: |config| match config.device_profiles.as_slice() {
            [] => "none".to_owned(),
            files => files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(","),
        },
    },
    EngineSetting {
        about: Setting {
            name: "store_prices",
            scope: Scope::Startup,
            value: "PRICES",
            summary: "dollars that stores take for a million reads, a million lists and a gigabyte: `s3://=0.4/5/0.09`, separated by commas",
            default: "none",
        },
        set: |config, value| {
            config.store_prices = value.parse()?;
            Ok(())
        },
        show: |config| config.store_prices.to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "device_probe_ms",
            scope: Scope::Startup,
            value: "MS",
            summary: "milliseconds for which a device without a profile may be measured when it is first read; 0: never",
            default: "0",
        },
        set: |config, value| {
            config.device_probe = milliseconds(value)?;
            Ok(())
        },
        show: |config| config.device_probe.as_millis().to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "read_deadline_ms",
            scope: Scope::Startup,
            value: "MS",
            summary: "milliseconds after which a read fails, all attempts included",
            default: "60000",
        },
        set: |config, value| {
            config.read_deadline = milliseconds(value)?;
            Ok(())
        },
        show: |config| config.read_deadline.as_millis().to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "direct_io",
            scope: Scope::Startup,
            value: "BOOL",
            summary: "read local files past the page cache where the file system can",
            default: "true",
        },
        set: |config, value| {
            config.direct_io = truth(value)?;
            Ok(())
        },
        show: |config| config.direct_io.to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "page_cache",
            scope: Scope::Startup,
            value: "BYTES",
            summary: "reads of this many bytes leave in the page cache what is there, and it is decoded from there; 0 for none",
            default: "256 KiB",
        },
        set: |config, value| {
            config.page_cache_bytes = bytes(value, 0..=BYTES_MAX)?;
            Ok(())
        },
        show: |config| config.page_cache_bytes.to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "decoded_share",
            scope: Scope::Startup,
            value: "PERCENT",
            summary: "percent of the buffer that decoded arrays may have",
            default: "25, but no more than 256 MiB per processor",
        },
        set: |config, value| {
            config.decoded_share_percent = number(value, 0..=100)?;
            Ok(())
        },
        show: |config| config.decoded_share_percent.to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "point_share",
            scope: Scope::Startup,
            value: "PERCENT",
            summary: "percent of the buffer that point reads may have; 0 for no point reads",
            default: "10",
        },
        set: |config, value| {
            config.point_share_percent = number(value, 0..=100)?;
            Ok(())
        },
        show: |config| config.point_share_percent.to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "point_latency_ms",
            scope: Scope::Startup,
            value: "MS",
            summary: "milliseconds that a point read may wait before loads are delayed for it; 0 for never",
            default: "20",
        },
        set: |config, value| {
            config.point_latency = milliseconds(value)?;
            Ok(())
        },
        show: |config| config.point_latency.as_millis().to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "stall_ms",
            scope: Scope::Startup,
            value: "MS",
            summary: "milliseconds after which a chunk is asked back from a consumer that does not read",
            default: "1000",
        },
        set: |config, value| {
            config.stall_after = milliseconds(value)?;
            Ok(())
        },
        show: |config| config.stall_after.as_millis().to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "idle_release_ms",
            scope: Scope::Startup,
            value: "MS",
            summary: "milliseconds without a query that reads, after which the buffer's memory is given back; 0: never",
            default: "300000",
        },
        set: |config, value| {
            config.idle_release = milliseconds(value)?;
            Ok(())
        },
        show: |config| config.idle_release.as_millis().to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "chunk_size",
            scope: Scope::Startup,
            value: "BYTES",
            summary: "encoded bytes of a chunk: larger row groups are cut between pages, small ones are read together; 0 for neither",
            default: "16 MiB",
        },
        set: |config, value| {
            config.chunk_bytes = bytes(value, 0..=BYTES_MAX)?;
            Ok(())
        },
        show: |config| config.chunk_bytes.to_string(),
    },
    EngineSetting {
        about: Setting {
            name: "slice_rows",
            scope: Scope::Startup,
            value: "N",
            summary: "rows decoded at a time",
            default: "8192",
        },
        set: |config, value| {
            config.slice_rows = number(value, 1..=1 << 20)?;
            Ok(())
        },
        show: |config| config.slice_rows.to_string(),
    },
];

/// Changes the limit on reads. A limit of nothing is `None`.
fn limit_reads(config: &mut EngineConfig, change: impl FnOnce(&mut ReadLimit)) {
    let mut limit = config.read_limit.unwrap_or(ReadLimit { bytes_per_s: 0, latency: Duration::ZERO });
    change(&mut limit);
    config.read_limit = (limit.bytes_per_s > 0 || !limit.latency.is_zero()).then_some(limit);
}

//! The C interface; `pg/manager.h` declares the same.
//!
//! Every function catches panics and returns [`PANICKED`]. The panic's message is then on standard error,
//! which is the server's log. A host that panicked is not used again: the fetcher exits, and the server
//! starts a new one.

use std::ffi::OsStr;
use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::OnceLock;

use coscan_core::{PolicyName, registry};

use crate::commands::{Announcement, Command, RelKey};
use crate::host::Host;

/// Success.
pub const OK: i32 = 0;
/// Success with a result: a command.
pub const SOME: i32 = 1;
/// A panic was caught.
pub const PANICKED: i32 = -1;

/// A [`Command`] for C: its kind, and the numbers of this kind.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawCommand {
    /// 1 open, 2 close, 3 load, 4 evict, 5 deliver, 6 finish, 7 fail, 8 revoked.
    pub kind: u32,
    /// The slot of a scan.
    pub slot: u32,
    /// The mailbox.
    pub mailbox: u32,
    /// The table's handle.
    pub table: u32,
    /// The chunk.
    pub chunk: u32,
    /// The frame.
    pub frame: u32,
    /// The origin of a delivered chunk: 0 read, 1 cached, 2 shared.
    pub source: u32,
    /// The file of an opened table.
    pub key: [u32; 3],
    /// The load.
    pub load: u64,
}

impl From<Command> for RawCommand {
    fn from(command: Command) -> Self {
        let raw = RawCommand::default();
        match command {
            Command::OpenTable { table, key } => {
                RawCommand { kind: 1, table, key: [key.tablespace, key.database, key.relation], ..raw }
            }
            Command::CloseTable { table } => RawCommand { kind: 2, table, ..raw },
            Command::Load { load, table, chunk, frame } => {
                RawCommand { kind: 3, load, table, chunk, frame, ..raw }
            }
            Command::Evict { frame } => RawCommand { kind: 4, frame, ..raw },
            Command::Deliver { slot, mailbox, chunk, frame, source } => {
                RawCommand { kind: 5, slot, mailbox, chunk, frame, source: source as u32, ..raw }
            }
            Command::Finish { slot } => RawCommand { kind: 6, slot, ..raw },
            Command::Fail { slot } => RawCommand { kind: 7, slot, ..raw },
            Command::Revoked { slot } => RawCommand { kind: 8, slot, ..raw },
        }
    }
}

/// Runs `body` on the host at a point in time; a panic becomes [`PANICKED`].
///
/// # Safety
/// `host` comes from [`coscan_host_new`].
unsafe fn on_host(host: *mut Host, now_ns: u64, body: impl FnOnce(&mut Host) -> i32) -> i32 {
    // SAFETY: the fetcher has one host and one thread.
    let host = unsafe { &mut *host };
    catch_unwind(AssertUnwindSafe(|| body(host.at(now_ns)))).unwrap_or(PANICKED)
}

fn policy_at(index: u32) -> Option<PolicyName> {
    registry::sharing().nth(index as usize)
}

/// The name of the policy with this number, counted from zero in the registry's order; null after the last.
#[unsafe(no_mangle)]
pub extern "C" fn coscan_policy_name(index: u32) -> *const c_char {
    static NAMES: OnceLock<Vec<CString>> = OnceLock::new();
    let names = || registry::sharing().filter_map(|policy| CString::new(policy.as_str()).ok()).collect();
    let found = catch_unwind(|| NAMES.get_or_init(names).get(index as usize).map(|name| name.as_ptr()));
    found.ok().flatten().unwrap_or(ptr::null())
}

/// A host with a budget and chunks of these sizes in bytes; null after a panic. `traces` is the prefix of the
/// names of traces, or empty.
///
/// # Safety
/// `traces` is a string that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coscan_host_new(
    budget_bytes: u64,
    chunk_bytes: u64,
    loads_in_flight: u32,
    traces: *const c_char,
) -> *mut Host {
    // SAFETY: as the caller promises.
    let traces = unsafe { CStr::from_ptr(traces) };
    let build = || {
        let mut host = Host::new(budget_bytes, chunk_bytes, loads_in_flight);
        if !traces.is_empty() {
            host.record(OsStr::from_bytes(traces.to_bytes()).into());
        }
        Box::into_raw(Box::new(host))
    };
    catch_unwind(build).unwrap_or(ptr::null_mut())
}

/// See [`Host::register`]. `policy` is a number as in [`coscan_policy_name`].
///
/// # Safety
/// `host` comes from [`coscan_host_new`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coscan_host_register(
    host: *mut Host,
    now_ns: u64,
    slot: u32,
    policy: u32,
    key: RelKey,
    chunks: u32,
    first: u32,
    mailboxes: u32,
) -> i32 {
    // SAFETY: as the caller promises.
    unsafe {
        on_host(host, now_ns, |host| {
            let policy = policy_at(policy).expect("the setting knows the registry's policies only");
            host.register(slot, Announcement { policy, key, chunks, first, mailboxes });
            OK
        })
    }
}

/// See [`Host::done`].
///
/// # Safety
/// `host` comes from [`coscan_host_new`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coscan_host_done(host: *mut Host, now_ns: u64, slot: u32, mailbox: u32) -> i32 {
    // SAFETY: as the caller promises.
    unsafe {
        on_host(host, now_ns, |host| {
            host.done(slot, mailbox);
            OK
        })
    }
}

/// See [`Host::gone`].
///
/// # Safety
/// `host` comes from [`coscan_host_new`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coscan_host_gone(host: *mut Host, now_ns: u64, slot: u32) -> i32 {
    // SAFETY: as the caller promises.
    unsafe {
        on_host(host, now_ns, |host| {
            host.gone(slot);
            OK
        })
    }
}

/// See [`Host::loaded`].
///
/// # Safety
/// `host` comes from [`coscan_host_new`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coscan_host_loaded(host: *mut Host, now_ns: u64, load: u64, read: bool) -> i32 {
    // SAFETY: as the caller promises.
    unsafe {
        on_host(host, now_ns, |host| {
            host.loaded(load, read);
            OK
        })
    }
}

/// See [`Host::time_passed`].
///
/// # Safety
/// `host` comes from [`coscan_host_new`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coscan_host_time_passed(host: *mut Host, now_ns: u64) -> i32 {
    // SAFETY: as the caller promises.
    unsafe {
        on_host(host, now_ns, |host| {
            host.time_passed();
            OK
        })
    }
}

/// See [`Host::set_budget`].
///
/// # Safety
/// `host` comes from [`coscan_host_new`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coscan_host_set_budget(host: *mut Host, now_ns: u64, bytes: u64) -> i32 {
    // SAFETY: as the caller promises.
    unsafe {
        on_host(host, now_ns, |host| {
            host.set_budget(bytes);
            OK
        })
    }
}

/// See [`Host::force_policy`]; a number after the last policy means none.
///
/// # Safety
/// `host` comes from [`coscan_host_new`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coscan_host_force_policy(host: *mut Host, now_ns: u64, policy: u32) -> i32 {
    // SAFETY: as the caller promises.
    unsafe {
        on_host(host, now_ns, |host| {
            host.force_policy(policy_at(policy));
            OK
        })
    }
}

/// Takes the next command: [`SOME`] if there was one.
///
/// # Safety
/// `host` comes from [`coscan_host_new`], `command` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coscan_host_next_command(host: *mut Host, command: *mut RawCommand) -> i32 {
    // SAFETY: as the caller promises.
    unsafe {
        on_host(host, 0, |host| match host.next_command() {
            Some(next) => {
                *command = next.into();
                SOME
            }
            None => OK,
        })
    }
}

/// The time at which [`coscan_host_time_passed`] is due, in nanoseconds; the largest number if never.
///
/// # Safety
/// `host` comes from [`coscan_host_new`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coscan_host_next_deadline(host: *const Host) -> u64 {
    // SAFETY: as the caller promises.
    let host = unsafe { &*host };
    catch_unwind(AssertUnwindSafe(|| host.next_deadline())).ok().flatten().unwrap_or(u64::MAX)
}

/// Panics, to test that the server survives a panic.
#[unsafe(no_mangle)]
pub extern "C" fn coscan_panic() -> i32 {
    catch_unwind(|| panic!("a panic was asked for")).map_or(PANICKED, |()| OK)
}

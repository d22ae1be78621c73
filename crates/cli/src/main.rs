//! The binary `coscan`.

use std::process::ExitCode;

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    coscan_cli::set_up_allocator();
    coscan_cli::run(std::env::args_os())
}

//! The binary `coscan`.

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() {
    coscan_cli::set_up_allocator();
    let status = coscan_cli::run(std::env::args_os());
    coscan_cli::exit(status)
}

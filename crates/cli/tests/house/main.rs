//! Rules for the repository's own code: dependencies between crates, circles between modules, unsafe code.

mod architecture;
mod import_cycles;
mod unsafe_code;

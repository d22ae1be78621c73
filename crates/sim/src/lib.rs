//! The simulator: the active buffer manager of `coscan-core` in virtual time.

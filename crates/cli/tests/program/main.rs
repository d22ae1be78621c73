//! The program from outside: its commands, its output, its files, and its exit codes.

mod cache;
mod commands;
mod declared;
mod lake;
mod recordings;
mod settings;
mod support;
mod tier;

//! Connections below every protocol: limits on their number, encryption, and sockets.

mod connections;
mod over;
mod tls;
mod wire;

pub use connections::Connections;
pub(crate) use connections::{Admission, Counted};
pub(crate) use over::Over;
pub(crate) use tls::Tls;
pub(crate) use wire::{Channel, Wire};

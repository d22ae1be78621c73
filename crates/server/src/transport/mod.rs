//! Connections below every protocol: limits on their number, encryption, and sockets.

mod connections;
mod tls;
mod wire;

pub(crate) use connections::Admission;
pub use connections::Connections;
pub(crate) use tls::Tls;
pub(crate) use wire::{Channel, Wire};

//! The NBD protocol, as far as a server needs it: fixed newstyle handshake, structured replies, and what a command asks for.
//!
//! Nothing here knows the drive. A connection turns bytes into commands and replies into bytes, and never blocks.

mod connection;
mod handshake;
mod stream;
pub(super) mod wire;

pub use connection::Connection;
pub use handshake::Export;
pub use stream::Listener;
pub use wire::{Context, Extent, NbdError};

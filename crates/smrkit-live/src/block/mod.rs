//! A simulated drive, or an array of them, as a block device: timing beside data. The bytes are in a plain image by LBA, the time is the
//! simulator's, the frontend an NBD server or a block device of this machine's kernel.
//!
//! One thread owns the model, the image, the queue and the connections: when a request completes depends on what came before it and
//! on nothing else, so that the log of a run can be replayed in the simulator.

pub mod attached;
pub mod control;
pub mod drive;
pub mod image;
pub mod log;
pub mod metrics;
pub mod model;
mod nbd;
pub mod pace;
pub mod server;
mod ublk;

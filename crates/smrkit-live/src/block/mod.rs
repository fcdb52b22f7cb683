//! A simulated drive, or an array of them, as a block device: its bytes in an image, its time the simulator's, its door an NBD server.
//!
//! One thread owns the disk, its layer, the queue and the connections: what a request finds depends on what was served before it, and
//! on nothing else, so that the log of a run can be replayed in the simulator.

pub mod attached;
mod backing;
pub mod control;
pub mod device;
#[cfg(test)]
mod device_tests;
pub mod fault;
pub mod image;
mod journal;
pub mod log;
mod nbd;
mod notes;
pub mod pace;
pub mod replay;
mod report;
pub mod server;
mod simulated;
pub mod storage;
mod store;
#[cfg(test)]
mod store_tests;
mod unsettled;
mod watchdog;
pub mod wish;
mod write_cache;
mod written;

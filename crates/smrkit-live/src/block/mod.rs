//! A simulated drive or array as a block device. Timing and data are separate: the simulator says when a request completes, and the data is
//! in a raw image by LBA. Clients reach it by NBD, or as a block device or file of this machine's kernel.
//!
//! One thread owns the model, the image, the queue and the connections. The time at which a request completes depends only on earlier
//! requests, so that the simulator can replay the log of a run.

pub mod attached;
pub mod control;
pub mod drive;
pub mod image;
pub mod log;
pub mod metrics;
pub mod model;
mod nbd;
pub mod pace;
pub mod report;
pub mod server;
mod ublk;

//! Disks in memory and power cuts, for tests of this crate and of others.

pub mod memory;
pub mod shingled;
pub mod stamped;

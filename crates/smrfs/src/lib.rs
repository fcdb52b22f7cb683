//! SMRfs, a file system for host-managed shingled disks, without FUSE and without an operating system.
//!
//! The systems of Kadekodi, Pimpale and Gibson, "Caveat-Scriptor: Write Anywhere Shingled Disks" (2015): both models of a
//! host-managed disk, and the file system on both. The same code runs mounted and on the model's clock. The modules stand
//! in the order of their dependencies: each uses only those above it.

pub mod units;
pub mod error;
pub mod power;
pub mod data;
pub mod device;
pub mod meta;
pub mod map;
pub mod safety;
pub mod superblock;
pub mod space;
pub mod fs;
pub mod fsck;
pub mod workload;
pub mod bench;
pub mod age;

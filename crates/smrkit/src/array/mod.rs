//! Arrays of disks: where their sectors lie, what parity restores, how they are described.

pub mod address;
pub mod level;
pub mod parity;
pub mod spec;

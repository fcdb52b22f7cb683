//! A shingled disk that can be simulated and checked.
//!
//! The modules stand in the order of their dependencies: each uses only those above it. `docs/architecture.md` tells
//! the way of a request through them.

pub mod units;
pub mod error;
pub mod partial;
pub mod quantity;
pub mod random;
pub mod request;
pub mod pack;
pub mod geometry;
pub mod pages;
pub mod medium;
pub mod drive;
pub mod tally;
pub mod power;
pub mod disk;
pub mod extent_map;
pub mod layer;
pub mod device;
pub mod queue;
pub mod shadow;
pub mod trace;
pub mod workload;
pub mod interleave;
pub mod stats;
pub mod array;
pub mod engine;

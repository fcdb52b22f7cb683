//! A shingled disk that can be simulated and checked.
//!
//! ```
//! use smrkit::experiment::{Experiment, demand::GeneratedDemand, system::System};
//! use smrkit::workload::Workload;
//!
//! # fn main() -> Result<(), smrkit::error::Error> {
//! let system = System::drive("tiny").layer("rmw").layer("vguard").set("rmw.region_sectors", "300,600");
//! let demand = GeneratedDemand::from(Workload::parse("random-write:count=1k")?);
//! for outcome in Experiment::new(system, demand).compare()? {
//!     println!("{} {:?}: {}", outcome.layer, outcome.parameters, outcome.verdict.text);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! `examples/own_layer.rs` is a layer of one's own, compared with published ones.
//!
//! The modules are listed in the order of their dependencies: each uses only those above it. `docs/design/architecture.md` follows a
//! request through them. Private modules are no part of the interface.

pub mod units;
pub mod message;
pub mod error;
pub mod names;
pub mod quantity;
mod toml_file;
pub mod schema;
pub mod record;
mod random;
pub mod dice;
pub mod request;
pub mod edit;
pub mod interleave;
pub mod geometry;
mod state;
mod extent_map;
mod pages;
pub mod ranges;
pub mod medium;
pub mod drive;
pub mod tally;
pub mod disk;
pub mod layer;
pub mod workload;
pub mod settings;
pub mod stats;
pub mod device;
pub mod engine;
pub mod experiment;

/// The version of this crate, as outcomes have it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The programs of the guide and of the tutorial, which run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/embedders.md")]
#[doc = include_str!("../../../docs/tutorials/rust-layer.md")]
struct Programs;

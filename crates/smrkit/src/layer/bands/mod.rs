//! Static bands with a persistent cache at the outer edge, and how a band is cleaned: what `vguard` and `drive-managed`
//! share. Both are described in Shafaei & Desnoyers, "Virtual Guard", HotStorage 2017.
//!
//! Left out here: what lies in the cache and when cleaning is due; that is each layer's own.

mod clean;
mod episode;
mod home;
mod pads;
mod reserve;
#[cfg(test)]
mod tests;

pub(super) use clean::{Cleaner, PhaseResult};
pub(super) use episode::Episode;
pub(super) use home::{Home, HomeLocation};
pub(super) use reserve::{BandKeys, BufferKeys, Reserve};

//! The parameters, and what they decide.

use crate::keys;
use crate::layer::idle::IdleKeys;
use crate::schema::{Count, Switch, Word, percent};

keys! {
    /// The parameters.
    #[derive(Clone)]
    pub struct SBlockKeys {
        /// Sectors of an S-block.
        pub sblock_sectors: u64 = Count(8, 1 << 20), "2000";
        /// Share of the disk for cached sectors; headers and the room for copying come on top.
        pub cache_percent: f64 = percent(0.001, 50.0), "1";
        /// Share of the disk for spare S-blocks.
        pub spare_percent: f64 = percent(0.001, 50.0), "1";
        /// Ranges of LBAs, each with buffers of its own.
        pub sections: u64 = Count(1, 100_000), "1";
        /// S-block that is destaged: nearest the S-block buffer's tail, with most cached sectors, of the oldest cached
        /// ones, or by weights.
        policy: DestagePolicy = POLICY, "closest-to-tail";
        /// Weight of being near the S-block buffer's tail, for the policy weighted.
        weight_tail: u64 = WEIGHT, "1";
        /// Weight of many cached sectors, for the policy weighted.
        weight_largest: u64 = WEIGHT, "1";
        /// Weight of being near the cache buffer's tail, for the policy weighted.
        weight_cache_tail: u64 = WEIGHT, "1";
        /// When a write that finds no room destages: while too little is invalid, or (algorithm V.2) only when nothing
        /// is.
        rule: bool = Word(&[("ahead", false), ("literal", true)]), "ahead";
        /// Share of the cache buffer that is to be invalid, for the rule ahead.
        destage_ahead_percent: f64 = percent(0.0, 50.0), "1";
        /// S-blocks that such a write destages.
        destage_at_once: u64 = Count(1, 10_000), "1";
        /// Share of the cache buffer and of the spare S-blocks that cleaning leaves free; 0 is what the write needs.
        reclaim_ahead_percent: f64 = percent(0.0, 50.0), "0";
        /// Way in which valid entries move from the cache buffer's tail to its head: runs as one read and one write, or singly.
        copy: bool = Word(&[("runs", false), ("entries", true)]), "runs";
        /// True if writes of whole S-blocks go to the S-block buffer directly.
        bypass: bool = Switch, "on";
        /// Idle time.
        pub idle: IdleKeys;
    }
}

const WEIGHT: Count = Count(0, 1000);
/// Weights are parameters of their own.
const POLICY: Word<DestagePolicy> = Word(&[
    ("closest-to-tail", DestagePolicy::ClosestToTail),
    ("largest", DestagePolicy::Largest),
    ("cache-tail", DestagePolicy::CacheTail),
    ("weighted", DestagePolicy::Weighted([0.0; 3])),
]);

/// Policy by which an S-block is destaged.
#[derive(Clone, Copy, PartialEq)]
pub enum DestagePolicy {
    ClosestToTail,
    Largest,
    CacheTail,
    /// Weights of the three, in this order.
    Weighted([f64; 3]),
}

/// Rules for a write that finds no room.
pub struct Rules {
    pub policy: DestagePolicy,
    /// Algorithm V.2 to the letter.
    pub literal: bool,
    /// The share of the cache buffer that is to be invalid.
    pub destage_ahead: f64,
    pub destage_at_once: u64,
    /// The share of the buffers that cleaning leaves free.
    pub reclaim_ahead: f64,
    pub single_copies: bool,
    pub bypass: bool,
}

impl Rules {
    pub fn new(keys: &SBlockKeys) -> Rules {
        let weights = [keys.weight_tail, keys.weight_largest, keys.weight_cache_tail];
        Rules {
            policy: match keys.policy {
                DestagePolicy::Weighted(_) => DestagePolicy::Weighted(weights.map(|weight| weight as f64)),
                other => other,
            },
            literal: keys.rule,
            destage_ahead: keys.destage_ahead_percent / 100.0,
            destage_at_once: keys.destage_at_once,
            reclaim_ahead: keys.reclaim_ahead_percent / 100.0,
            single_copies: keys.copy,
            bypass: keys.bypass,
        }
    }

    /// True if the S-block with most cached sectors must be known at any time.
    pub fn needs_largest(&self) -> bool {
        matches!(self.policy, DestagePolicy::Largest | DestagePolicy::Weighted(_))
    }
}

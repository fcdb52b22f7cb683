//! The parameters, and what they decide.

use super::SBlock;
use super::layout::Layout;
use crate::layer::{Kind, LayerSpec, Parameter, Parameters};
use crate::medium::interference::Form;

pub const SPEC: LayerSpec = LayerSpec {
    name: "s-block",
    summary: "A cache buffer and a buffer of movable S-blocks in each section, both circular logs; S-blocks are destaged one by one.",
    paper: "Cassuto et al. 2010, section V",
    parameters: &[
        Parameter {
            key: "sblock_sectors",
            kind: Kind::Count(8, 1 << 20),
            default: "2000",
            summary: "Sectors of an S-block.",
        },
        Parameter {
            key: "cache_percent",
            kind: Kind::Percent(0.001, 50.0),
            default: "1",
            summary: "Share of the disk for cached sectors; headers and the room for copying come on top.",
        },
        Parameter {
            key: "spare_percent",
            kind: Kind::Percent(0.001, 50.0),
            default: "1",
            summary: "Share of the disk for spare S-blocks.",
        },
        Parameter {
            key: "sections",
            kind: Kind::Count(1, 100_000),
            default: "1",
            summary: "Ranges of LBAs, each with buffers of its own.",
        },
        Parameter {
            key: "policy",
            kind: Kind::Word(&["closest-to-tail", "largest", "cache-tail", "weighted"]),
            default: "closest-to-tail",
            summary: "Which S-block is destaged: nearest the S-block buffer's tail, with most cached sectors, of the oldest cached ones, or by weights.",
        },
        Parameter {
            key: "weight_tail",
            kind: Kind::Count(0, 1000),
            default: "1",
            summary: "Weight of being near the S-block buffer's tail, for the policy weighted.",
        },
        Parameter {
            key: "weight_largest",
            kind: Kind::Count(0, 1000),
            default: "1",
            summary: "Weight of many cached sectors, for the policy weighted.",
        },
        Parameter {
            key: "weight_cache_tail",
            kind: Kind::Count(0, 1000),
            default: "1",
            summary: "Weight of being near the cache buffer's tail, for the policy weighted.",
        },
        Parameter {
            key: "rule",
            kind: Kind::Word(&["ahead", "literal"]),
            default: "ahead",
            summary: "When a write that finds no room destages: while too little is invalid, or (algorithm V.2) only when nothing is.",
        },
        Parameter {
            key: "destage_ahead_percent",
            kind: Kind::Percent(0.0, 50.0),
            default: "1",
            summary: "Share of the cache buffer that is to be invalid, for the rule ahead.",
        },
        Parameter {
            key: "destage_at_once",
            kind: Kind::Count(1, 10_000),
            default: "1",
            summary: "S-blocks that such a write destages.",
        },
        Parameter {
            key: "reclaim_ahead_percent",
            kind: Kind::Percent(0.0, 50.0),
            default: "0",
            summary: "Share of the cache buffer and of the spare S-blocks that cleaning leaves free; 0 is what the write needs.",
        },
        Parameter {
            key: "copy",
            kind: Kind::Word(&["runs", "entries"]),
            default: "runs",
            summary: "How valid entries move from the cache buffer's tail to its head: runs as one read and one write, or singly.",
        },
        Parameter {
            key: "bypass",
            kind: Kind::Switch,
            default: "on",
            summary: "Whether writes of whole S-blocks go to the S-block buffer directly.",
        },
    ],
    copes_with: &Form::ALL,
    capacity: |drive, parameters| Ok(Layout::new(drive, parameters)?.capacity),
    settled: crate::layer::as_asked,
    build: |drive, parameters| Ok(Box::new(SBlock::new(drive, parameters)?)),
};

/// Which S-block is destaged.
#[derive(Clone, Copy, PartialEq)]
pub enum Policy {
    ClosestToTail,
    Largest,
    CacheTail,
    /// Weights of the three, in this order.
    Weighted([f64; 3]),
}

/// What is decided when a write finds no room.
pub struct Rules {
    pub policy: Policy,
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
    pub fn new(parameters: &Parameters) -> Rules {
        let weight = |key| parameters.int(key) as f64;
        Rules {
            policy: match parameters.word("policy") {
                "largest" => Policy::Largest,
                "cache-tail" => Policy::CacheTail,
                "weighted" => {
                    Policy::Weighted([weight("weight_tail"), weight("weight_largest"), weight("weight_cache_tail")])
                }
                _ => Policy::ClosestToTail,
            },
            literal: parameters.word("rule") == "literal",
            destage_ahead: parameters.percent("destage_ahead_percent") / 100.0,
            destage_at_once: parameters.int("destage_at_once"),
            reclaim_ahead: parameters.percent("reclaim_ahead_percent") / 100.0,
            single_copies: parameters.word("copy") == "entries",
            bypass: parameters.is_on("bypass"),
        }
    }

    /// Whether the S-block with most cached sectors must be known at any time.
    pub fn needs_largest(&self) -> bool {
        matches!(self.policy, Policy::Largest | Policy::Weighted(_))
    }
}

//! Papers reproduced: each figure or table is an item, whose rows stand next to the paper's own numbers.
//!
//! To add a paper, write its items in a folder of its own and add a line to [`REPRODUCTIONS`].

/// A list of texts, of literals and of strings.
macro_rules! texts {
    ($($text:expr),* $(,)?) => {
        vec![$(String::from($text)),*]
    };
}

pub mod ageing;
mod requests;
mod row;
mod bars;
mod small_drive;
#[cfg(test)]
mod tests;
pub mod traces;
pub mod validation;
mod lab;
mod item;
mod filled_reads;
mod cassuto_cache;
mod cassuto_sblocks;
mod compare;
mod he_du;
mod arrays;
mod caveat;
mod drives;
pub mod study;
mod vguard;

use smrkit::error::Error;
use smrkit::names::nearest;

use item::{Item, Shown, number};
pub use item::{Reproduction, Scale};
use lab::{JobResult, Maker, Plan, Planned, Requests, Work};
use row::{Agreement, Basis, Row, SeedSpread, Value};

/// Every reproduction.
pub const REPRODUCTIONS: &[Reproduction] = &[
    cassuto_cache::REPRODUCTION,
    cassuto_sblocks::REPRODUCTION,
    vguard::REPRODUCTION,
    he_du::REPRODUCTION,
    caveat::REPRODUCTION,
    arrays::REPRODUCTION,
    compare::REPRODUCTION,
    drives::REPRODUCTION,
];

/// The reproductions that `name` stands for: one, or `all` papers.
pub fn find(name: &str) -> Result<Vec<&'static Reproduction>, Error> {
    let found: Vec<_> = REPRODUCTIONS
        .iter()
        .filter(|r| r.name == name || name == "all" && r.name != compare::REPRODUCTION.name)
        .collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let known: String = REPRODUCTIONS.iter().map(|r| format!("\n  {}: {}; {}", r.name, r.paper, r.summary)).collect();
    let near = nearest(name, REPRODUCTIONS.iter().map(|r| r.name));
    let near = near.map_or_else(|| "there".into(), |near| format!("did you mean `{near}`? There"));
    Err(Error::Usage(format!("nothing to reproduce is called '{name}': {near} are{known}\n  all: those of a paper")))
}

//! The command `smrkit`.

// The commands that use it arrive with the engine.
#[allow(dead_code)]
mod report;

fn main() {}

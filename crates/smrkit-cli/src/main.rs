//! The command `smrkit`.

fn main() {}

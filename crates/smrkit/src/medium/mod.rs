//! What is on the platters: interference, and the three contents of a sector.

pub mod interference;

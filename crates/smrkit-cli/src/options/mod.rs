//! Options that several commands share: what is served with, what is asked for, and how.

pub mod conditions;
pub mod demand;
pub mod system;
pub mod value;

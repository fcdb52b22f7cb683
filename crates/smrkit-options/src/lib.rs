//! Options of a run, and the experiment that follows from them: one parser for the command line, Python and sweeps.
//!
//! `run` has the options, `value` reads single values, and `pairs` reads options that are given as names and values instead of words
//! of a command line.

pub mod value;
pub mod run;
pub mod pairs;

/// The commit this was built from.
pub const COMMIT: Option<&str> = option_env!("SMRKIT_COMMIT");

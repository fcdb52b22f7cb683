//! Options of a run, and the experiment that follows from them: one parser for the command line, Python and sweeps.
//!
//! `run` has the options, `value` reads single values, and `pairs` reads options that are given as names and values instead of words
//! of a command line.

pub mod value;
pub mod run;
pub mod pairs;

/// The commit this was built from, with `-changed` behind it if the simulator's sources differed from it.
pub const COMMIT: Option<&str> = option_env!("SMRKIT_COMMIT");

/// A hash of the simulator's sources; `None` in a crate that was published, whose version says as much.
pub const SOURCES: Option<&str> = option_env!("SMRKIT_SOURCES");

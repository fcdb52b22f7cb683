//! The disks that a trace names.

use serde::{Deserialize, Serialize};

/// One of a trace's volumes; a request holds its index in the trace's table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// The number that the trace gives it.
    pub number: u64,
    /// The host or volume name that the trace gives it; may be empty.
    pub name: String,
}

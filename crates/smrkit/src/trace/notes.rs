//! What had to be mended or left out while a trace was read.

use serde::{Deserialize, Serialize};

/// Rows of a trace that needed attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceNotes {
    /// Malformed rows left out (`--skip-bad-rows`).
    pub skipped_rows: u64,
    /// Rows whose offset or size was not a multiple of 512 bytes: the offset was rounded down, the end up.
    pub unaligned_rows: u64,
    /// Rows whose time lies before the row above.
    pub out_of_order_rows: u64,
}

//! stub
use crate::{request::Op, units::Lba};
/// One answered request.
#[allow(missing_docs)]
pub struct RequestRow {
    pub index: u64,
    pub source: u8,
    pub op: Op,
    pub lba: Lba,
    pub sectors: u32,
    pub arrival_ns: u64,
    pub start_ns: u64,
    pub end_ns: u64,
}

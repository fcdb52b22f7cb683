//! CloudPhysics vscsi traces, versions 1 and 2: fixed little-endian records of SCSI commands (layout as libCacheSim's
//! reader describes it).
//!
//! Version 1 has 32 bytes: serial number, length in bytes, segments (32 bits each), command, version (16), LBA in sectors,
//! time in µs (64). Version 2 has 40: command, version, serial number, length, segments, LBA, time, response time. The
//! upper byte of the version field is the version. Commands other than reads, writes and SYNCHRONIZE CACHE are no requests;
//! UNMAP is none either, since its ranges aren't in the record.

use crate::number::{u16_at, u32_at, u64_at};
use crate::reader::{RecordFormat, Step};
use crate::row::{BYTES_MAX, Bad, Field, Problem, TraceRow, Volumes, scsi};
use smrkit::request::Op;

/// The reader of version `V`.
#[derive(Debug, Default)]
pub(crate) struct Vscsi<const V: u8>;

/// LBAs of a vscsi disk stay below this: 62 TB is the largest virtual disk, 2^40 sectors are 512 TiB.
const LBA_MAX: u64 = 1 << 40;

impl<const V: u8> Vscsi<V> {
    const BYTES: usize = if V == 1 { 32 } else { 40 };
}

impl<const V: u8> RecordFormat for Vscsi<V> {
    fn tick_ns(&self) -> u64 {
        1000
    }

    fn plausible(head: &[u8]) -> bool {
        // Text has no zero bytes, and such records have many.
        head.len() >= Self::BYTES && head[..Self::BYTES].contains(&0)
    }

    fn next(&mut self, bytes: &[u8], volumes: &mut Volumes) -> Result<Step, (Bad, usize)> {
        let Some(record) = bytes.get(..Self::BYTES) else {
            return Ok(Step::More);
        };
        let bad = |name, problem| Err((Bad { at: 0, len: 0, name, problem }, Self::BYTES));
        // The bytes at which the fields begin.
        let (command, version, length, lba, time) = match V {
            1 => (12, 14, 4, 16, 24),
            _ => (0, 2, 8, 16, 24),
        };
        if u16_at(record, version) >> 8 != u16::from(V) {
            return bad("the version field", Problem::Expected("the trace's own version in its upper byte"));
        }
        let command = u16_at(record, command);
        if command > 0xff {
            return bad("the command", Problem::Expected("a SCSI operation code of one byte"));
        }
        let (lba, bytes, ticks) = (u64_at(record, lba), u64::from(u32_at(record, length)), u64_at(record, time));
        let Some(op) = scsi(command) else {
            return Ok(Step::Skip(Self::BYTES));
        };
        let (offset, bytes) = match op {
            Op::Flush => (0, 0),
            _ if bytes == 0 => return bad("the length", Problem::Zero),
            _ if bytes > BYTES_MAX => return bad("the length", Problem::TooLong),
            _ if lba >= LBA_MAX => return bad("the LBA", Problem::Overflow),
            _ => (lba * 512, bytes),
        };
        let field = Field::named("the volume");
        let volume = volumes.numbered(0, field, || "vscsi".into()).map_err(|bad| (bad, 0))?;
        Ok(Step::Row(TraceRow { ticks, offset, bytes, volume, op }, Self::BYTES))
    }
}

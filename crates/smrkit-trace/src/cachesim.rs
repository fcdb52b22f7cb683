//! libCacheSim's binary traces (layout as its `lcs.h` describes it): little-endian records, in oracleGeneral from the first byte on, in
//! lcs after a heading that says their version.
//!
//! A record begins with the time in seconds (32 bits), an object's id (64) and its size in bytes (32; from version 3 on 64). Then come,
//! from version 2 on, an operation of key-value stores, which is not used, and the number of the record that has the object next. The id of
//! a block device's trace is a sector. Records do not say whether they read or write: the name of the format does.

use smrkit::error::Error;
use smrkit::request::Op;

use crate::number::{u32_at, u64_at};
use crate::reader::{RecordFormat, Records, Rows, Step};
use crate::row::{BYTES_MAX, Bad, Field, Problem, TraceRow, Volumes};

/// The reader of lcs, or of oracleGeneral.
#[derive(Debug, Default)]
pub(crate) struct Cachesim<const IS_LCS: bool> {
    /// True if its requests are writes, and not reads.
    writes: bool,
    /// The version of the records; 0 until the heading has been read, and always for oracleGeneral.
    version: usize,
}

/// Stands at both ends of a heading.
const MAGIC: u64 = 0x1234_5678_9abc_def0;
/// The sizes that headings have had.
const HEADINGS: [usize; 2] = [1024, 8192];
/// The bytes of a record, by its version; oracleGeneral's is the first.
const RECORDS: [usize; 9] = [0, 24, 28, 36, 40, 44, 52, 68, 100];
/// Sectors stay below this, as those of vscsi. A larger number is the hash of a key.
const LBA_MAX: u64 = 1 << 40;
/// Records that are looked at to recognise oracleGeneral.
const LOOKED_AT: usize = 64;

/// Why a trace of either format is refused unless the operation is given.
pub(crate) const LCS_DOUBT: &str = "a trace of libCacheSim, which does not say whether its records read or write: give {format} lcs:op=write or lcs:op=read";
pub(crate) const ORACLE_DOUBT: &str = "looks like libCacheSim's oracleGeneral, which does not say whether its records read or write: give {format} \
     oracle-general:op=write or oracle-general:op=read";

/// The reader of a format by its name and, as `argument`, the operation of its records.
pub(crate) fn named(name: &str, argument: Option<&str>) -> Result<Box<dyn Rows>, Error> {
    let writes = match argument {
        Some("op=read") => false,
        Some("op=write") => true,
        _ => {
            let message = format!("{name} does not say what its requests do: choose {name}:op=read or {name}:op=write");
            return Err(Error::Usage(message));
        }
    };
    Ok(match name {
        "lcs" => Box::new(Records(Cachesim::<true> { writes, version: 0 })),
        _ => Box::new(Records(Cachesim::<false> { writes, version: 0 })),
    })
}

impl<const IS_LCS: bool> RecordFormat for Cachesim<IS_LCS> {
    fn tick_ns(&self) -> u64 {
        1_000_000_000
    }

    fn plausible(head: &[u8]) -> bool {
        if IS_LCS {
            return u64_at(head, 0) == MAGIC;
        }
        // Times ascend, and an object's next record, if any, comes later in the file.
        let (mut before, mut records) = (0, head.chunks_exact(RECORDS[1]).take(LOOKED_AT).enumerate());
        records.len() > 0
            && records.all(|(at, record)| {
                let (time, next) = (u32_at(record, 0), u64_at(record, 16).cast_signed());
                let ascends = before <= time;
                before = time;
                ascends && (next == -1 || next == i64::MAX || (next > at as i64 && next < 1 << 40))
            })
    }

    fn next(&mut self, bytes: &[u8], volumes: &mut Volumes) -> Result<Step, (Bad, usize)> {
        let bad = |name, problem, used| Err((Bad { at: 0, len: 0, name, problem }, used));
        if IS_LCS && self.version == 0 {
            if bytes.len() >= 8 && u64_at(bytes, 0) != MAGIC {
                return bad("the heading", Problem::Expected("the magic number of lcs"), 0);
            }
            // The heading does not say how long it is: the magic number at its end does.
            let Some(heading) = HEADINGS.into_iter().find(|end| bytes.len() >= *end && u64_at(bytes, end - 8) == MAGIC)
            else {
                return match bytes.len() < HEADINGS[1] {
                    true => Ok(Step::More),
                    false => bad("the heading", Problem::Expected("the magic number at its end, too"), 0),
                };
            };
            let version = u64_at(bytes, 8);
            if !(1..RECORDS.len() as u64).contains(&version) {
                return bad("the version", Problem::Expected("1 to 8"), 0);
            }
            self.version = version as usize;
            return Ok(Step::Heading(heading));
        }
        // oracleGeneral has the records of version 1.
        let size = RECORDS[self.version.max(1)];
        let Some(record) = bytes.get(..size) else { return Ok(Step::More) };
        let (lba, has_long_size) = (u64_at(record, 4), self.version >= 3);
        let bytes = if has_long_size { u64_at(record, 12) } else { u64::from(u32_at(record, 12)) };
        if bytes == 0 {
            return bad("the size", Problem::Zero, size);
        }
        if bytes > BYTES_MAX {
            return bad("the size", Problem::TooLong, size);
        }
        if lba >= LBA_MAX {
            return bad("the id", Problem::Expected("a sector of a disk, and no key of a store"), size);
        }
        let field = Field::named("the volume");
        let volume = volumes.numbered(0, field, || "libcachesim".into()).map_err(|bad| (bad, 0))?;
        let op = if self.writes { Op::Write } else { Op::Read };
        Ok(Step::Row(TraceRow { ticks: u32_at(record, 0).into(), offset: lba * 512, bytes, volume, op }, size))
    }
}

//! FIU traces (SNIA IOTTA 390): time, process id, process, LBA, size, W or R, major, minor, MD5 of the content.
//!
//! Times are in nanoseconds, the LBA and size in sectors of 512 bytes; the columns stand between spaces. A process name
//! may hold spaces, so columns are counted from both ends. The MD5 is optional and isn't used.

use crate::row::{Bad, Field, LineColumns, Problem, TraceRow, extent};
use crate::text::TextFormat;
use crate::volumes::Volumes;

/// The most columns of a row, the words of a process name included.
const COLUMNS: usize = 24;

/// The reader; it needs no state.
#[derive(Debug, Default)]
pub(crate) struct Fiu;

impl TextFormat for Fiu {
    fn parse(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Option<TraceRow>, Bad> {
        let mut columns = LineColumns::spaces(line);
        let ticks = columns.next("column 1 (time)")?.integer()?;
        columns.next("column 2 (process id)")?.integer()?;
        let process = columns.next("column 3 (process)")?;
        let mut tail = [process; COLUMNS];
        let mut count = 0;
        while let Some(field) = columns.optional("column 4 (LBA)") {
            *tail.get_mut(count).ok_or_else(|| field.bad(Problem::Surplus))? = field;
            count += 1;
        }
        let digest = |f: &Field| f.text.len() == 32 && f.text.iter().all(u8::is_ascii_hexdigit);
        count -= usize::from(count > 0 && digest(&tail[count - 1]));
        let Some(first) = count.checked_sub(5) else {
            let name = ["LBA", "size", "W or R", "major", "minor"][count];
            return Err(Bad { at: line.len(), len: 0, name, problem: Problem::Missing });
        };
        let field = |n: usize, name| Field { name, ..tail[first + n] };
        let (lba, size) = (field(0, "column 4 (LBA)"), field(1, "column 5 (size)"));
        let op = field(2, "column 6 (W or R)").letter()?;
        let (major, minor) = (field(3, "column 7 (major)"), field(4, "column 8 (minor)"));
        let (offset, bytes) = extent(lba, 512, size, 512)?;
        let volume = device(volumes, major, minor)?;
        Ok(Some(TraceRow { ticks, offset, bytes, volume, op }))
    }
}

/// The volume of a Linux device: its number is major × 2^20 + minor, as in `dev_t`, its name `major,minor`.
pub(crate) fn device(volumes: &mut Volumes, major: Field, minor: Field) -> Result<u16, Bad> {
    let (high, low) = (major.integer()?, minor.integer()?);
    if high >= 1 << 12 {
        return Err(major.expected("a device number below 4096"));
    }
    if low >= 1 << 20 {
        return Err(minor.expected("a device number below 1048576"));
    }
    volumes.numbered(high << 20 | low, major, || format!("{high},{low}"))
}

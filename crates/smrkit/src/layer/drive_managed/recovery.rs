//! After a power cut: the newest map copy, then the entries that the chain of headers leads to from there.
//!
//! Only the last entry can be torn, since each is written after the one before it; its digest tells. A request of two
//! entries counts when both are whole. A new map copy ends the recovery, so that the torn entry is never met again.

use super::log::{CacheLog, HEADER, LogEntry, LogHeader};
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::extent_map::ExtentMap;
use crate::tally::Cause;

/// Follows the chain from where `log` goes on, and puts what it finds of `host_sectors` LBAs into `map`.
pub(super) fn follow(disk: &mut Disk, log: &mut CacheLog, map: &mut ExtentMap, host_sectors: u64) -> DiskResult {
    let mut found: Vec<(LogHeader, u64)> = Vec::new();
    while let Some(header) = log.read_header(disk, host_sectors)? {
        let data = log.next().head - header.data_sectors();
        found.push((header, data));
    }
    if let Some((header, data)) = found.last()
        && !is_whole(disk, log, header, *data)?
    {
        found.pop();
    }
    while found.last().is_some_and(|(header, _)| header.to_come > 0) {
        found.pop();
    }
    for (header, mut data) in found {
        if header.drops {
            map.remove(header.lba, header.sectors);
            continue;
        }
        for (number, (lba, sectors)) in header.extents().enumerate() {
            map.insert(lba, sectors, log.pba(data));
            log.push(LogEntry { data, lba, sectors, leads: number == 0 });
            data += sectors;
        }
    }
    Ok(())
}

/// True if an entry's data are what its header says.
fn is_whole(disk: &mut Disk, log: &CacheLog, header: &LogHeader, data: u64) -> DiskResult<bool> {
    debug_assert!(data >= HEADER);
    let n = header.data_sectors();
    if n == 0 {
        return Ok(true);
    }
    let mut buf = disk.buf(n);
    disk.read(log.pba(data), n, Cause::Map, &mut buf, 0)?;
    Ok(buf.digest(0, n)? == header.digest)
}

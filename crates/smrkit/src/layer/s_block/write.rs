//! Algorithms V.1 and V.4: writes go to the cache buffer, whole S-blocks to the S-block buffer.
//!
//! Room for all parts of a request is made first: a drive that finds its maps in the headers can tell then whether all of a request was
//! written. A request larger than a buffer is cut into several such.

use smallvec::SmallVec;

use super::SBlock;
use super::cache::HeaderEntry;
use super::clean::RESERVE_COPIES;
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::geometry::pieces_by_divisor;
use crate::medium::Buf;
use crate::tally::Cause;
use crate::units::Lba;

/// A part of a request.
#[derive(Clone, Copy)]
enum RequestPart {
    /// Sectors of one section for its cache buffer, in as many entries as it takes.
    Cached(Lba, u64),
    /// A whole S-block.
    Whole(u64),
}

type Parts = SmallVec<[RequestPart; 8]>;

impl SBlock {
    /// The most sectors that an entry holds.
    fn entry_sectors_max(&self) -> u64 {
        self.layout.reserve / RESERVE_COPIES - 1
    }

    /// True if a request is one entry of one section.
    #[inline]
    pub(super) fn is_one_entry(&self, lba: Lba, n: u64) -> bool {
        let whole_possible = self.rules.bypass && n >= self.size.value();
        !whole_possible && n <= self.entry_sectors_max() && self.section(lba) == self.section(lba + (n - 1))
    }

    #[inline]
    pub(super) fn write_entry(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        let section = self.section(lba);
        self.make_room(disk, section, n + 1)?;
        self.append(disk, section, lba, n, data, 0)
    }

    /// Appends sectors of one section, those of `data` from sector `at` on, in one access: as many entries as it takes.
    #[inline]
    fn append(&mut self, disk: &mut Disk, section: usize, lba: Lba, n: u64, data: &Buf, at: u64) -> DiskResult {
        let most = self.entry_sectors_max();
        let mut position = self.caches[section].head;
        // Of each entry the header comes first.
        let of_entry = |i: u64| (position + i * (most + 1) + 1, most.min(n - i * most), at + i * most);
        let entries = n.div_ceil(most);
        self.caches[section].append(disk, Cause::Host, n + entries, data, (0..entries).map(of_entry))?;
        let mut done = 0;
        while done < n {
            let sectors = most.min(n - done);
            self.map_entry(section, position, lba + done, sectors);
            position += sectors + 1;
            done += sectors;
        }
        Ok(())
    }

    /// Enters an entry that was appended at a position.
    #[inline]
    fn map_entry(&mut self, section: usize, position: u64, lba: Lba, n: u64) {
        self.caches[section].push(HeaderEntry::new(lba, n));
        let mut at = lba;
        for (sblock, _, count) in pieces_by_divisor(lba.0, n, self.size) {
            let known: u64 = self.map.mapped(at, count).map(|(_, n, _)| n).sum();
            if known < count {
                self.count_cached(section, sblock, (count - known) as i64);
            }
            at += count;
        }
        for (run, pba, count) in self.caches[section].runs(position + 1, n) {
            self.map.insert(lba + (run - position - 1), count, pba);
        }
    }

    /// A request over several sections, with whole S-blocks, or long.
    #[cold]
    pub(super) fn write_parts(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        let (mut first, mut left) = (lba, n);
        while left > 0 {
            let (sectors, parts) = self.plan(first, left);
            self.write_planned(disk, first, &parts, data, first - lba)?;
            first += sectors;
            left -= sectors;
        }
        Ok(())
    }

    /// As much of a request as can be found whole or not at all, and its parts.
    fn plan(&self, lba: Lba, n: u64) -> (u64, Parts) {
        let spares = self.layout.spares * self.size.value();
        let half = self.layout.limit / 2;
        for (sectors, bypass) in [(n, self.rules.bypass), (n, false), (spares, self.rules.bypass)] {
            if sectors <= n
                && let Some(parts) = self.parts(lba, sectors, bypass)
            {
                return (sectors, parts);
            }
        }
        let sectors = half.min(n);
        (sectors, self.parts(lba, sectors, false).expect("half a buffer fits into one"))
    }

    /// The parts of a request; `None` if they don't fit into their buffers at once.
    fn parts(&self, lba: Lba, n: u64, bypass: bool) -> Option<Parts> {
        let mut parts = Parts::new();
        let mut at = lba;
        for (_, _, count) in pieces_by_divisor(lba.0, n, self.section_size) {
            let (end, size) = (at + count, self.size.value());
            let (first, last) = (at.0.div_ceil(size), end.0 / size);
            let before = parts.len();
            if bypass && first < last {
                self.add_cached(&mut parts, at, first * size - at.0);
                parts.extend((first..last).map(RequestPart::Whole));
                self.add_cached(&mut parts, Lba(last * size), end.0 - last * size);
            } else {
                self.add_cached(&mut parts, at, count);
            }
            let whole = if bypass { last.saturating_sub(first) } else { 0 };
            let length: u64 = parts[before..].iter().map(|part| self.length(*part)).sum();
            if whole > self.layout.spares || length > self.layout.limit {
                return None;
            }
            at = end;
        }
        Some(parts)
    }

    fn add_cached(&self, parts: &mut Parts, lba: Lba, n: u64) {
        if n > 0 {
            parts.push(RequestPart::Cached(lba, n));
        }
    }

    /// Sectors of a cache buffer that a part takes.
    fn length(&self, part: RequestPart) -> u64 {
        match part {
            RequestPart::Cached(_, n) => n + n.div_ceil(self.entry_sectors_max()),
            RequestPart::Whole(_) => 0,
        }
    }

    fn write_planned(&mut self, disk: &mut Disk, lba: Lba, parts: &[RequestPart], data: &Buf, at: u64) -> DiskResult {
        self.make_all_room(disk, parts)?;
        for part in parts {
            match *part {
                RequestPart::Cached(first, n) => {
                    self.append(disk, self.section(first), first, n, data, at + (first - lba))?;
                }
                RequestPart::Whole(sblock) => {
                    let (section, local, first) = self.of_sblock(sblock);
                    self.slots[section].write(disk, Cause::Host, local, data, at + (first - lba))?;
                    self.drop_cached(section, sblock);
                    self.counts.bypassed += 1;
                }
            }
        }
        Ok(())
    }

    /// Nothing is cleaned between the parts of a request, so that an incomplete one has replaced nothing.
    fn make_all_room(&mut self, disk: &mut Disk, parts: &[RequestPart]) -> DiskResult {
        let mut at = 0;
        while at < parts.len() {
            let section = self.section_of(parts[at]);
            let own = parts[at..].iter().take_while(|part| self.section_of(**part) == section);
            let (mut count, mut length, mut whole) = (0, 0, 0);
            for part in own {
                count += 1;
                length += self.length(*part);
                whole += u64::from(matches!(part, RequestPart::Whole(_)));
            }
            if length > 0 {
                self.make_room(disk, section, length)?;
            }
            self.defrag_slots(disk, section, whole)?;
            at += count;
        }
        Ok(())
    }

    fn section_of(&self, part: RequestPart) -> usize {
        match part {
            RequestPart::Cached(lba, _) => self.section(lba),
            RequestPart::Whole(sblock) => self.of_sblock(sblock).0,
        }
    }
}

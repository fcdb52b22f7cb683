//! The parameters, the rules that they set, and the size and place of each buffer: sections one after another, each with a cache buffer and
//! an S-block buffer, and the drive's guard after each.
//!
//! Space that the paper does not count (headers, reserves for copying, guards inside the circular buffers) comes on top of its percentages.

use crate::geometry::{Geometry, Guard};
use crate::layer::TABLES_BYTES_MAX;
use crate::layer::interface::IdleKeys;
use crate::layer::prelude::*;
use crate::medium::interference::Interference;
use crate::quantity::Bytes;
use crate::schema::Word;

keys! {
    #[derive(Clone)]
    pub struct SBlockKeys {
        /// Number of sectors in an S-block.
        pub sblock_sectors: u64 = Count(8, 1 << 20), "2000";
        /// Share of the disk for cached data; the space for headers and for copying is added to it.
        pub cache_percent: f64 = percent(0.001, 50.0), "1";
        /// Share of the disk for spare S-blocks.
        pub spare_percent: f64 = percent(0.001, 50.0), "1";
        /// Number of sections, which are ranges of LBAs with buffers of their own.
        pub sections: u64 = Count(1, 100_000), "1";
        /// Which S-block is destaged: the one nearest the tail of the S-block buffer (closest-to-tail), the one with
        /// the most cached sectors (largest), the one with the oldest cached sectors (cache-tail), or the best by these
        /// three criteria with equal weights (weighted).
        policy: DestagePolicy = DestagePolicy::WORDS, "closest-to-tail";
        /// When a write that finds no space destages S-blocks: while too little of the cache buffer is invalid (ahead),
        /// or only when nothing is invalid (literal, as in algorithm V.2).
        rule: bool = Word(&[("ahead", false), ("literal", true)]), "ahead";
        /// With `rule=ahead`, the share of the cache buffer that should be invalid.
        destage_ahead_percent: f64 = percent(0.0, 50.0), "1";
        /// With `rule=ahead`, the number of S-blocks that one write destages.
        destage_at_once: u64 = Count(1, 10_000), "1";
        /// How valid entries are moved from the cache buffer's tail to its head: a run at a time, with one read and one
        /// write (runs), or entry by entry (entries).
        copy: bool = Word(&[("runs", false), ("entries", true)]), "runs";
        /// When valid S-blocks are moved from the tail of the S-block buffer to its head: some with each write that
        /// cleans (spread), or as many as needed once the buffer is full (literal, as in algorithm V.5).
        moves: bool = Word(&[("spread", false), ("literal", true)]), "spread";
        /// Whether writes of whole S-blocks go directly to the S-block buffer.
        bypass: bool = Switch, "on";
        /// Idle time.
        pub idle: IdleKeys;
    }
}

words! {
    /// Policy by which an S-block is destaged.
    pub enum DestagePolicy {
        ClosestToTail = "closest-to-tail",
        Largest = "largest",
        CacheTail = "cache-tail",
        /// By the three, weighted alike.
        Weighted = "weighted",
    }
}

/// How room is made, and which writes bypass the cache buffer.
pub struct Rules {
    pub policy: DestagePolicy,
    /// Follows algorithm V.2 literally: destages only when nothing in the cache buffer is invalid.
    pub literal: bool,
    /// Otherwise, the share of the cache buffer that should be invalid.
    pub destage_ahead: f64,
    pub destage_at_once: u64,
    pub single_copies: bool,
    /// Follows algorithm V.5 literally: the tail of an S-block buffer advances only when the buffer is full.
    pub moves_when_full: bool,
    pub bypass: bool,
}

impl Rules {
    pub fn new(keys: &SBlockKeys) -> Rules {
        Rules {
            policy: keys.policy,
            literal: keys.rule,
            destage_ahead: keys.destage_ahead_percent / 100.0,
            destage_at_once: keys.destage_at_once,
            single_copies: keys.copy,
            moves_when_full: keys.moves,
            bypass: keys.bypass,
        }
    }

    /// True if the S-block with most cached sectors must be known at any time.
    pub fn needs_largest(&self) -> bool {
        matches!(self.policy, DestagePolicy::Largest | DestagePolicy::Weighted)
    }
}

/// Sectors of the smallest cache buffer, so that usual requests (256 KiB) fit whole (assumption).
const CACHE_LEAST_SECTORS: u64 = 512;
/// The header space allows for one header per this many cached sectors (4 KB, as in the paper); smaller writes fill the buffer sooner
/// (assumption).
const ENTRY_SECTORS: u64 = 8;
/// The largest page of a cache buffer, the unit in which it is released (assumption).
const PAGE_SECTORS_MAX: u64 = 1024;
/// The largest reserve for copying runs, of which one copy takes a quarter: 8 MB (assumption: a drive's memory).
const RESERVE_SECTORS_MAX: u64 = 65_536;
const RESERVE_SECTORS_MIN: u64 = 256;
/// Bytes of memory for an S-block: its slot, the slot's owner, its cached sectors, and its place in the tree of the largest.
const SBLOCK_TABLE_BYTES: u64 = 24;
/// Slots beyond the spare ones: one for a new S-block, one for a copy, one torn by a power cut.
const SLOTS_KEPT: u64 = 3;
/// Bounds of the slots kept besides for torn writes, else a quarter of all. They are needed where rewriting a sector may damage sectors
/// upstream (DPID), because each power cut then costs a slot until the tail passes it.
const SLOTS_KEPT_UPSTREAM_MIN: u64 = 8;
const SLOTS_KEPT_UPSTREAM_MAX: u64 = 64;

/// Sizes of the sections, and where each begins.
pub struct SBlockLayout {
    pub sblock_sectors: u64,
    /// S-blocks of each section.
    pub natives: u64,
    /// Spare S-blocks of each section.
    pub spares: u64,
    /// Slots of each section's S-block buffer.
    pub slots: u64,
    /// Slots that a write may damage downstream.
    pub guard_slots: u64,
    /// Sectors of a page of the cache buffer, including its record.
    pub page_sectors: u64,
    /// Pages of each cache buffer.
    pub pages: u64,
    /// Pages that a write may damage downstream.
    pub guard_pages: u64,
    /// The most sectors that entries of a cache buffer take, with headers.
    pub limit: u64,
    /// Sectors of a cache buffer beyond the limit, for copying.
    pub reserve: u64,
    /// True if rewriting a sector may damage sectors upstream of it (DPID).
    pub damages_upstream: bool,
    /// Where each section's cache buffer and S-block buffer begin.
    pub starts: Vec<(Pba, Pba)>,
    pub capacity: Capacity,
}

impl SBlockLayout {
    /// A layout with the most S-blocks that fit. Errors name what is too small, and the parameter to change.
    pub fn new(drive: &Drive, keys: &SBlockKeys) -> Result<SBlockLayout, Error> {
        let geometry = &drive.geometry;
        let (raw, sections) = (geometry.sectors, keys.sections);
        let sblock_sectors = keys.sblock_sectors;
        let share = |percent: f64| raw as f64 * percent / 100.0 / sections as f64;
        let cache = share(keys.cache_percent).round() as u64;
        let spares = (share(keys.spare_percent) / sblock_sectors as f64).round() as u64;
        if cache < CACHE_LEAST_SECTORS {
            return Err(Error::Impossible(format!(
                "each section's cache buffer would have {cache} sectors, less than {CACHE_LEAST_SECTORS}: raise \
                 s-block.cache_percent or lower s-block.sections"
            )));
        }
        if spares == 0 {
            return Err(Error::Impossible(format!(
                "each section would have no spare S-block of {sblock_sectors} sectors: raise \
                 s-block.spare_percent, or lower s-block.sections or s-block.sblock_sectors"
            )));
        }
        let reach = reach_sectors(geometry, &drive.interference);
        let stride = sblock_sectors + 1;
        let limit = cache + cache.div_ceil(ENTRY_SECTORS);
        let reserve = (limit / 8).clamp(RESERVE_SECTORS_MIN, RESERVE_SECTORS_MAX);
        let page_sectors = (limit / 32).clamp(16, PAGE_SECTORS_MAX);
        let guard_pages = reach.div_ceil(page_sectors);
        let pages = (limit + reserve).div_ceil(page_sectors - 1) + guard_pages + 2;
        let guard_slots = reach.div_ceil(stride);
        let quarter = (raw / sections / stride / 4).clamp(SLOTS_KEPT_UPSTREAM_MIN, SLOTS_KEPT_UPSTREAM_MAX);
        let kept = SLOTS_KEPT + if drive.interference.upstream() > 0 { quarter } else { 0 };
        let mut layout = SBlockLayout {
            sblock_sectors,
            natives: 0,
            spares,
            slots: spares + kept + guard_slots,
            guard_slots,
            page_sectors,
            pages,
            guard_pages,
            limit,
            reserve,
            damages_upstream: drive.interference.upstream() > 0,
            starts: Vec::new(),
            capacity: Capacity::default(),
        };
        let natives = layout.most_natives(drive, sections);
        if natives == 0 || natives + layout.slots >= u64::from(u32::MAX) {
            return Err(Error::Impossible(format!(
                "{sections} sections of this drive hold {natives} S-blocks each next to their cache, spare and guard: \
                 change s-block.sblock_sectors or s-block.sections, or take another drive"
            )));
        }
        let tables = sections * (natives + layout.slots) * SBLOCK_TABLE_BYTES;
        if tables > TABLES_BYTES_MAX {
            return Err(Error::Impossible(format!(
                "{} S-blocks take {} of memory, and tables may take {}: raise s-block.sblock_sectors, or take a smaller drive",
                sections * natives,
                Bytes(tables),
                Bytes(TABLES_BYTES_MAX)
            )));
        }
        layout.natives = natives;
        layout.slots += natives;
        let (starts, end, gaps) = layout.place(drive, sections, layout.slots);
        let inside = guard_pages * page_sectors + guard_slots * stride;
        let host_sectors = sections * natives * sblock_sectors;
        let guard_sectors = gaps + (raw - end) + sections * inside;
        let cache_sectors = sections * cache;
        let spare_sectors = raw - host_sectors - guard_sectors - cache_sectors;
        layout.starts = starts;
        layout.capacity = Capacity { raw_sectors: raw, host_sectors, cache_sectors, guard_sectors, spare_sectors };
        Ok(layout)
    }

    /// The most S-blocks that each section has room for, next to its other slots.
    fn most_natives(&self, drive: &Drive, sections: u64) -> u64 {
        let raw = drive.geometry.sectors;
        let (mut low, mut high) = (0, raw / (self.sblock_sectors + 1) / sections + 1);
        while low + 1 < high {
            let middle = (low + high) / 2;
            let (_, end, _) = self.place(drive, sections, self.slots + middle);
            if end <= raw { low = middle } else { high = middle }
        }
        low
    }

    /// Lays out sections of `slots` slots. Returns where their buffers begin, the end of the last one (past the disk's end if they don't
    /// fit), and the guard sectors between buffers.
    fn place(&self, drive: &Drive, sections: u64, slots: u64) -> (Vec<(Pba, Pba)>, u64, u64) {
        let raw = drive.geometry.sectors;
        let guard = drive.interference.guard(&drive.geometry);
        let sizes = [self.pages * self.page_sectors, slots * (self.sblock_sectors + 1)];
        let (mut starts, mut next, mut end, mut gaps) = (Vec::new(), 0u64, 0u64, 0u64);
        for _ in 0..sections {
            let mut buffers = [Pba(0); 2];
            for (buffer, size) in buffers.iter_mut().zip(sizes) {
                *buffer = Pba(next);
                gaps += next - end;
                end = next.saturating_add(size);
                if end > raw {
                    return (starts, u64::MAX, gaps);
                }
                next = after_guard(&drive.geometry, guard, end);
            }
            starts.push((buffers[0], buffers[1]));
        }
        (starts, end, gaps)
    }
}

/// The first sector that a buffer may use after one that ends before `end`.
fn after_guard(geometry: &Geometry, guard: Guard, end: u64) -> u64 {
    match guard {
        Guard::Sectors(sectors) => end + sectors,
        Guard::Tracks(tracks) => geometry.track_start(geometry.track_of(Pba(end - 1)) + 1 + tracks).0,
    }
}

/// The most sectors that a write may damage downstream, wherever on the disk it is.
fn reach_sectors(geometry: &Geometry, law: &Interference) -> u64 {
    match *law {
        Interference::None => 0,
        Interference::Blocks { reach } => reach.saturating_sub(1),
        Interference::Distances { did, .. } => did,
        Interference::Tracks { width, .. } if width <= 1 => 0,
        Interference::Tracks { width, .. } => width.saturating_mul(geometry.longest_track()),
        Interference::Physical(profile) if profile.width() <= 1 => 0,
        Interference::Physical(profile) => profile.width() * geometry.longest_track(),
        Interference::Interlaced => 2 * geometry.longest_track(),
    }
}

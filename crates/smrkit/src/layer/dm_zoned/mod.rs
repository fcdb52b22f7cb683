//! The device mapper's target dm-zoned: a host-managed disk that takes any write (Linux,
//! Documentation/admin-guide/device-mapper/dm-zoned.rst; le Moal).
//!
//! LBAs are divided into chunks as large as a zone. A chunk has a data zone, which is conventional or sequential. If it is sequential, blocks
//! that were not written at its write pointer are in a conventional zone, the chunk's buffer. Bitmaps say which blocks of a zone are valid; a
//! block of a chunk is valid in at most one of the two.
//!
//! Differences from the kernel: a request that is not whole blocks of 4 KiB is completed by reading (the kernel refuses it), and a freed zone
//! is reused only after the next commit, so that no committed block is overwritten.
//!
//! # Reclaim
//!
//! Reclaim frees the conventional zone used longest ago, by moving valid blocks:
//!
//! - If it is a data zone, its blocks move to an empty sequential zone.
//! - If it is a buffer and all its blocks are at or after the write pointer of the chunk's sequential zone, they are appended there.
//! - If it is another buffer, the blocks of the sequential zone move to it, and it becomes the chunk's data zone. This frees the sequential
//!   zone, into which the next job can move a data zone.
//!
//! The map changes only at the end of a job, with a commit that makes it durable. A write to the chunk before that drops the job.

mod maps;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::layer::prelude::*;
use crate::layer::zones::{ZoneKeys, ZoneLayout};
use crate::schema::Time;
use maps::{BLOCK, ChunkZones, DmMaps, MetadataShape, NONE, UNMAPPED, UnusedZones};

pub(super) const SPEC: LayerSpec = LayerSpec::new::<DmZonedKeys>(
    "dm-zoned",
    "Linux's dm-zoned: writes that are not at a write pointer go to conventional zones, and later to sequential ones.",
    "Linux, dm-zoned.rst",
    &Form::ALL,
)
.putting_rewriting_off();

/// Memory of the kernel for a zone (`struct dm_zone`; recalled).
const KERNEL_ZONE_BYTES: u64 = 56;

impl LayerKeys for DmZonedKeys {
    fn settled(self, drive: &Drive) -> DmZonedKeys {
        let Ok(layout) = self.layout(drive) else { return self };
        let zones = self.zones.clone().settled(drive).with_conventional(&layout.zones);
        DmZonedKeys { zones, reserved_zones: Some(layout.reserved), ..self }
    }

    fn build(&self, drive: &Drive) -> Result<Box<dyn Layer>, Error> {
        Ok(Box::new(DmZoned::new(drive, self)?))
    }
}

struct DmZoned {
    keys: DmZonedKeys,
    layout: DmLayout,
    capacity: Capacity,
    maps: DmMaps,
    /// Write pointer of each sequential zone.
    pointers: Vec<u32>,
    unused: UnusedZones,
    /// When each conventional zone for data was used last, by a counter of uses.
    last_used: Vec<u64>,
    uses: u64,
    job: Option<ReclaimJob>,
    /// True from when few conventional zones are free until enough are.
    reclaiming: bool,
    /// True if the last search found no job, until a zone is taken or freed.
    nothing_to_reclaim: bool,
    /// When the metadata was first found dirty after the last commit.
    dirty_since: Option<Nanos>,
    counts: DmCounts,
}

state! {
    DmZoned {
        parts: maps;
        sized: pointers, last_used;
        values: unused, uses, job, reclaiming, nothing_to_reclaim, dirty_since, counts;
        built: keys, layout, capacity;
    }
}

counts! { DmCounts { zones_reclaimed, reclaims_dropped, writes_waited, completed_by_reading } }

impl DmZoned {
    fn new(drive: &Drive, keys: &DmZonedKeys) -> Result<DmZoned, Error> {
        let layout = keys.layout(drive)?;
        let mut new = DmZoned {
            maps: DmMaps::new(&layout),
            capacity: layout.zones.capacity(drive, layout.chunks * layout.zones.size()),
            pointers: vec![0; layout.zones.count() as usize],
            unused: UnusedZones::default(),
            last_used: vec![0; layout.randoms() as usize],
            uses: 0,
            job: None,
            reclaiming: false,
            nothing_to_reclaim: false,
            dirty_since: None,
            counts: DmCounts::default(),
            layout,
            keys: keys.clone(),
        };
        new.unused.find(&new.layout, &new.maps.owners);
        Ok(new)
    }

    /// Notes a use of a conventional zone.
    fn touch(&mut self, zone: u32) {
        if self.layout.is_random(zone) {
            self.uses += 1;
            self.last_used[(zone - self.layout.first_data()) as usize] = self.uses;
        }
    }

    /// Clears a zone that no chunk is mapped to any more. It is free after the next commit.
    fn release(&mut self, zone: u32) {
        self.maps.clear(zone, self.layout.blocks());
        self.unused.freed.push(zone);
        self.nothing_to_reclaim = false;
    }

    /// Makes the metadata durable, and released zones free.
    fn commit(&mut self, disk: &mut Disk) -> DiskResult {
        self.maps.commit(disk)?;
        self.dirty_since = None;
        // Until now the durable map may have named these zones, so nothing could be written to them. Free zones may make another job
        // possible.
        self.nothing_to_reclaim &= self.unused.freed.is_empty();
        for zone in std::mem::take(&mut self.unused.freed) {
            if self.layout.is_random(zone) {
                self.unused.random.push_back(zone);
            } else {
                self.pointers[zone as usize] = 0;
                self.unused.sequential.push_back(zone);
            }
        }
        Ok(())
    }

    /// Takes a free conventional zone. If there is none, the host waits until reclaiming frees one.
    fn take_random(&mut self, disk: &mut Disk) -> DiskResult<u32> {
        let mut waited = false;
        loop {
            if let Some(zone) = self.unused.random.pop_front() {
                self.nothing_to_reclaim = false;
                self.counts.writes_waited += u64::from(waited);
                return Ok(zone);
            }
            waited = true;
            self.counts.first_cleaning_request.get_or_insert(disk.requests());
            ensure!(self.reclaim_stage(disk)?, "no conventional zone is free, and none can be");
        }
    }

    fn write_blocks(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        let mut at = 0;
        for (chunk, first, n) in self.layout.zones.pieces(lba, n) {
            self.write_chunk(disk, chunk as u32, ((first / BLOCK) as u32, (n / BLOCK) as u32), data, at)?;
            at += n;
        }
        Ok(())
    }

    /// Writes the blocks `part` (first, count) of a chunk to its data zone if that is conventional or its write pointer is there, else to the
    /// chunk's buffer. The other zone's copy becomes invalid.
    fn write_chunk(&mut self, disk: &mut Disk, chunk: u32, part: (u32, u32), data: &Buf, at: u64) -> DiskResult {
        let (first, n) = part;
        self.drop_job_of(chunk);
        if self.maps.zones_of(chunk).data == NONE {
            let zone = self.take_random(disk)?;
            self.maps.map(chunk, ChunkZones { data: zone, buffer: NONE });
        }
        let ChunkZones { data: data_zone, buffer } = self.maps.zones_of(chunk);
        let (to, other) = if self.layout.is_random(data_zone) {
            (data_zone, NONE)
        } else if self.pointers[data_zone as usize] == first {
            // The pointer moves before the write, because the drive moves its own even if the write is torn (assumption).
            self.pointers[data_zone as usize] = first + n;
            (data_zone, buffer)
        } else if buffer != NONE {
            (buffer, data_zone)
        } else {
            let zone = self.take_random(disk)?;
            self.maps.map(chunk, ChunkZones { data: data_zone, buffer: zone });
            (zone, data_zone)
        };
        disk.write(self.layout.place(to, first), u64::from(n) * BLOCK, Cause::Host, data, at)?;
        // Bits are changed in memory, so a bitmap block that was evicted is read first.
        self.maps.metadata.need(disk, to, first, n)?;
        self.maps.set_valid(to, first, n, true);
        self.touch(to);
        if other != NONE {
            self.maps.metadata.need(disk, other, first, n)?;
            self.maps.set_valid(other, first, n, false);
            self.drop_empty(chunk);
        }
        Ok(())
    }

    /// Unmaps those zones of a chunk that have no valid blocks.
    fn drop_empty(&mut self, chunk: u32) {
        let ChunkZones { data, buffer } = self.maps.zones_of(chunk);
        if buffer != NONE && self.maps.valid[buffer as usize].count() == 0 {
            self.maps.map(chunk, ChunkZones { data, buffer: NONE });
            self.release(buffer);
        }
        if data != NONE && self.maps.valid[data as usize].count() == 0 && self.maps.zones_of(chunk).buffer == NONE {
            self.maps.map(chunk, UNMAPPED);
            self.release(data);
        }
    }

    /// Reads the sectors `part` (first, count) of a chunk. Invalid blocks are zeros, and take no time.
    fn read_chunk(&mut self, disk: &mut Disk, chunk: u32, part: (u64, u64), out: &mut Buf, at: u64) -> DiskResult {
        let (first, n) = part;
        let (mut sector, end) = (first, first + n);
        let end_block = end.div_ceil(BLOCK) as u32;
        for zone in self.maps.zones_of(chunk).each() {
            let block = (first / BLOCK) as u32;
            self.maps.metadata.need(disk, zone, block, end_block - block)?;
            self.touch(zone);
        }
        while sector < end {
            let block = (sector / BLOCK) as u32;
            let (zone, blocks) = self.maps.source(chunk, block, end_block);
            let stop = end.min(u64::from(block + blocks) * BLOCK);
            let (to, n) = (at + (sector - first), stop - sector);
            if zone == NONE {
                out.put(to, &disk.buf(n), 0, n);
            } else {
                disk.read(self.layout.place(zone, 0) + sector, n, Cause::Host, out, to)?;
            }
            sector = stop;
        }
        Ok(())
    }

    fn read_sectors(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf, mut at: u64) -> DiskResult {
        for (chunk, first, n) in self.layout.zones.pieces(lba, n) {
            self.read_chunk(disk, chunk as u32, (first, n), out, at)?;
            at += n;
        }
        Ok(())
    }

    /// Writes sectors that are not whole blocks, after reading the rest of the first and the last block.
    fn complete(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        let (start, stop) = (lba.0 / BLOCK * BLOCK, (lba.0 + n).next_multiple_of(BLOCK));
        let mut whole = disk.buf(stop - start);
        if lba.0 > start {
            self.read_sectors(disk, Lba(start), BLOCK, &mut whole, 0)?;
        }
        if lba.0 + n < stop && (lba.0 == start || stop - start > BLOCK) {
            self.read_sectors(disk, Lba(stop - BLOCK), BLOCK, &mut whole, stop - BLOCK - start)?;
        }
        whole.put(lba.0 - start, data, 0, n);
        self.counts.completed_by_reading += 1;
        self.write_blocks(disk, Lba(start), stop - start, &whole)
    }
}

impl Layer for DmZoned {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn conventional_end(&self) -> Pba {
        self.layout.zones.conventional_end()
    }

    fn read(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        self.read_sectors(disk, lba, n, out, 0)
    }

    fn write(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        match (lba.0 | n) % BLOCK {
            0 => self.write_blocks(disk, lba, n, data),
            _ => self.complete(disk, lba, n, data),
        }
    }

    /// Makes whole blocks invalid.
    fn discard(&mut self, disk: &mut Disk, lba: Lba, n: u64) -> DiskResult {
        for (chunk, first, n) in self.layout.zones.pieces(lba, n) {
            let (start, end) = (first.div_ceil(BLOCK) as u32, ((first + n) / BLOCK) as u32);
            let zones = self.maps.zones_of(chunk as u32);
            if start < end && zones.data != NONE {
                self.drop_job_of(chunk as u32);
                for zone in zones.each() {
                    self.maps.metadata.need(disk, zone, start, end - start)?;
                    self.maps.set_valid(zone, start, end - start, false);
                }
                self.drop_empty(chunk as u32);
            }
        }
        Ok(())
    }

    fn flush(&mut self, disk: &mut Disk) -> DiskResult {
        self.commit(disk)?;
        disk.flush()
    }

    fn step(&mut self, disk: &mut Disk, need: Need) -> DiskResult<bool> {
        let period = self.keys.commit_period;
        if !self.maps.metadata.dirty.is_empty() && period > Nanos::ZERO {
            let since = *self.dirty_since.get_or_insert(disk.now());
            if disk.now().since(since) >= period {
                self.commit(disk)?;
                return Ok(true);
            }
        }
        match need {
            Need::Must => Ok(self.reclaim_is_due() && !self.nothing_to_reclaim && self.reclaim_stage(disk)?),
            Need::Spare => {
                let in_use = (self.unused.random.len() as u64) < self.layout.randoms();
                Ok(in_use && !self.nothing_to_reclaim && self.reclaim_stage(disk)?)
            }
        }
    }

    fn idle_delay(&self) -> Option<Nanos> {
        self.keys.idle_clean.then_some(self.keys.idle_delay)
    }

    /// Fills every chunk, in the order of the zones. As many of the first conventional zones stay free as are reserved.
    fn fill(&mut self) -> Arc<dyn Placement> {
        let blocks = self.layout.blocks();
        let used = self.maps.fill(self.layout.first_of_full(), blocks);
        self.pointers[used.start as usize..used.end as usize].fill(blocks);
        self.unused.find(&self.layout, &self.maps.owners);
        let (zones, first) = (self.layout.zones.clone(), u64::from(self.layout.first_of_full()));
        Arc::new(Ascending::new(self.capacity.host_sectors, move |lba| {
            let (chunk, at) = zones.locate(lba);
            zones.start(first + chunk) + at
        }))
    }

    fn commits(&self) -> u64 {
        self.maps.metadata.commits
    }

    /// Loses changes since the last commit. Write pointers are the drive's own, and stay.
    fn power_cut(&mut self) {
        self.maps.power_cut();
        (self.job, self.dirty_since) = (None, None);
        (self.reclaiming, self.nothing_to_reclaim) = (false, false);
        self.last_used.fill(0);
        self.uses = 0;
        self.unused = UnusedZones::default();
        // Zones that no committed map names count as reset.
        for zone in self.layout.first_sequential()..self.pointers.len() as u32 {
            if self.maps.owners[zone as usize] == NONE {
                self.pointers[zone as usize] = 0;
            }
        }
        self.unused.find(&self.layout, &self.maps.owners);
    }

    layer_state!();

    fn locate(&self, lba: Lba) -> Pba {
        let (chunk, at) = self.layout.zones.locate(lba);
        let block = (at / BLOCK) as u32;
        match self.maps.source(chunk as u32, block, block + 1).0 {
            NONE => self.layout.zones.start(0),
            zone => self.layout.place(zone, 0) + at,
        }
    }

    /// Checks that every zone has one use, and that a block is valid in at most one zone of its chunk; in a sequential zone, before the
    /// write pointer.
    fn check(&self) -> DiskResult {
        let (layout, maps, owners) = (&self.layout, &self.maps, &self.maps.owners);
        let mut uses = vec![0; owners.len()];
        for (chunk, zones) in (0..).zip(&maps.chunks) {
            for zone in zones.each() {
                let is_own = zone >= layout.first_data() && owners[zone as usize] == chunk;
                ensure!(is_own, "chunk {chunk} is mapped to zone {zone}, which is not its own");
                uses[zone as usize] += 1;
            }
            if zones.buffer != NONE {
                let is_paired = layout.is_random(zones.buffer) && zones.data != NONE && !layout.is_random(zones.data);
                ensure!(is_paired, "chunk {chunk} has a buffer but no sequential zone: {zones:?}");
                let mut at = 0;
                while let Some((first, n)) = maps.valid[zones.buffer as usize].next_valid(at, layout.blocks()) {
                    at = first + n;
                    let (is_valid, alike) = maps.valid[zones.data as usize].run(first, at);
                    ensure!(
                        !is_valid && alike == n,
                        "zones {} and {} both hold block {first} or one soon after",
                        zones.data,
                        zones.buffer
                    );
                }
            }
        }
        // No chunk is mapped yet to a new zone to which a job copies.
        let target = self.job.as_ref().filter(|job| job.to_is_new).map(|job| job.to);
        let UnusedZones { random, sequential, freed } = &self.unused;
        for &zone in random.iter().chain(sequential).chain(freed).chain(&target) {
            uses[zone as usize] += 1;
            let valid = maps.valid[zone as usize].count();
            let is_empty = owners[zone as usize] == NONE && valid == 0;
            ensure!(is_empty, "zone {zone} is free, and {valid} blocks are valid");
        }
        for (zone, uses) in uses.iter().enumerate().skip(layout.first_data() as usize) {
            ensure!(*uses == 1, "zone {zone} has {uses} uses");
        }
        for zone in layout.first_sequential() as usize..owners.len() {
            let is_written = maps.valid[zone].end() <= self.pointers[zone];
            ensure!(is_written, "zone {zone} has valid blocks behind its write pointer");
        }
        Ok(())
    }

    /// The most memory that the kernel takes: the state of zones, and metadata blocks.
    fn map_bytes(&self) -> u64 {
        self.layout.zones.count() * KERNEL_ZONE_BYTES
            + self.layout.metadata.cached() * BLOCK * crate::units::SECTOR_BYTES
    }

    fn gauges(&self) -> Gauges {
        let free = self.unused.random.len() as f64 / self.layout.randoms() as f64;
        Gauges { cache_fill: None, others: vec![Gauge::share("free_conventional_share", free)] }
    }

    fn stats(&self) -> LayerStats {
        let metadata = &self.maps.metadata;
        let all = self.counts.stats().with("commits", Scalar::Int(metadata.commits));
        all.with("metadata_reads", Scalar::Int(metadata.reads))
    }

    fn bands_moved(&self) -> u64 {
        self.counts.zones_reclaimed
    }

    fn reset_stats(&mut self) {
        self.counts = DmCounts::default();
        (self.maps.metadata.reads, self.maps.metadata.commits) = (0, 0);
    }
}

keys! {
    #[derive(Clone)]
    struct DmZonedKeys {
        /// The zones.
        pub zones: ZoneKeys;
        /// Sequential zones that are kept free for reclaim; auto is 16 (the default of dmzadm), or 1/64 of the zones if
        /// that is less.
        pub reserved_zones: Option<u64> = Or("auto", Count(1, 1 << 20)), "auto";
        /// Whether conventional zones are reclaimed in idle time, until all of them are free.
        pub idle_clean: bool = Switch, "on";
        /// Time without a command before `idle_clean` begins.
        pub idle_delay: Nanos = Time(0), "10s";
        /// Interval at which changed metadata is committed without a flush; 0 means never.
        pub commit_period: Nanos = Time(0), "10s";
    }
}

/// Zones that stay free, as dmzadm formats (recalled).
const USUAL_RESERVED: u64 = 16;
/// By default, at most one zone in 64 is reserved (assumption).
const RESERVED_PART: u64 = 64;
/// By default, the fewest conventional zones for data for each reserved zone (assumption).
const CONVENTIONAL_A_RESERVED: u64 = 2;

/// The zones by their use.
struct DmLayout {
    pub zones: ZoneLayout,
    pub metadata: MetadataShape,
    pub reserved: u64,
    /// Chunks offered to the host.
    pub chunks: u64,
}

impl DmZonedKeys {
    /// Use of the zones. Errors: too few zones.
    pub fn layout(&self, drive: &Drive) -> Result<DmLayout, Error> {
        let zones = ZoneLayout::new(drive, &self.zones, BYTES_A_ZONE)?;
        if !zones.size().is_multiple_of(BLOCK) {
            return Err(Error::Usage("dm-zoned takes blocks of 4 KiB: give zone_bytes as a multiple of them".into()));
        }
        let metadata = MetadataShape::new(zones.count(), zones.size() / BLOCK);
        let reserved = self.reserved_zones.unwrap_or(USUAL_RESERVED.min(zones.count() / RESERVED_PART).max(1));
        let zones = match self.zones.leaves_conventional_open() {
            true => {
                let least = metadata.all_zones() + CONVENTIONAL_A_RESERVED * reserved;
                let conventional = zones.conventional.max(least);
                zones.with_conventional(drive, &self.zones, conventional)
            }
            false => zones,
        };
        let (conventional, all) = (zones.conventional, zones.count());
        if conventional <= metadata.all_zones() || all.saturating_sub(conventional) <= reserved {
            return Err(Error::Impossible(format!(
                "of {all} zones {conventional} are conventional: dm-zoned needs more than {} of these for its metadata, and more \
                 than {reserved} others; change conventional_percent, lower zone_bytes or reserved_zones, or take a larger drive",
                metadata.all_zones(),
            )));
        }
        Ok(DmLayout { chunks: all - metadata.all_zones() - reserved, zones, metadata, reserved })
    }
}

/// Memory of a zone's state.
const BYTES_A_ZONE: u64 = 64;

impl DmLayout {
    /// The first zone for data. Zones before it hold metadata; zones up to [`DmLayout::first_sequential`] are conventional ("random").
    pub fn first_data(&self) -> u32 {
        self.metadata.all_zones() as u32
    }

    pub fn first_sequential(&self) -> u32 {
        self.zones.conventional as u32
    }

    /// Number of conventional zones for data.
    pub fn randoms(&self) -> u64 {
        u64::from(self.first_sequential() - self.first_data())
    }

    pub fn is_random(&self, zone: u32) -> bool {
        zone < self.first_sequential()
    }

    pub fn blocks(&self) -> u32 {
        (self.zones.size() / BLOCK) as u32
    }

    pub fn place(&self, zone: u32, block: u32) -> Pba {
        self.zones.start(u64::from(zone)) + u64::from(block) * BLOCK
    }

    /// The first used zone of a disk that was written in order and reclaimed: the reserved zones before it are free.
    pub fn first_of_full(&self) -> u32 {
        self.first_data() + self.reserved.min(self.randoms()) as u32
    }
}

/// Shares of free conventional zones at which reclaim begins and ends (dm-zoned-reclaim.c; recalled).
const RECLAIM_LOW_PERCENT: u64 = 30;
const RECLAIM_HIGH_PERCENT: u64 = 50;
/// Blocks of a copy: 512 KiB (assumption).
const COPY_BLOCKS: u32 = 128;

/// A reclaim job: copies a chunk's blocks from one zone to another.
#[derive(Serialize, Deserialize)]
struct ReclaimJob {
    chunk: u32,
    from: u32,
    to: u32,
    /// True if `to` is a zone that was free, so that no chunk is mapped to it before the end.
    to_is_new: bool,
    /// The next block to look at.
    next: u32,
}

impl DmZoned {
    /// True if reclaim is due: from the lower share of free conventional zones on, until the higher share is reached.
    fn reclaim_is_due(&mut self) -> bool {
        let (free, all) = (100 * self.unused.random.len() as u64, self.layout.randoms());
        if free <= RECLAIM_LOW_PERCENT * all {
            self.reclaiming = true;
        }
        if free >= RECLAIM_HIGH_PERCENT * all {
            self.reclaiming = false;
        }
        self.reclaiming
    }

    /// Does one stage of reclaim: a copy, or the end of a job. Returns `false` if nothing can be reclaimed.
    fn reclaim_stage(&mut self, disk: &mut Disk) -> DiskResult<bool> {
        let Some(job) = self.job.take().or_else(|| self.next_job()) else {
            self.nothing_to_reclaim = true;
            // A commit may make zones free, which is progress.
            let commits = !self.unused.freed.is_empty();
            self.commit(disk)?;
            return Ok(commits);
        };
        let Some((first, n)) = self.maps.valid[job.from as usize].next_valid(job.next, COPY_BLOCKS) else {
            self.finish(disk, &job)?;
            return Ok(true);
        };
        let pointer = self.pointers[job.to as usize];
        if !self.layout.is_random(job.to) && pointer < first {
            // A sequential zone has to be written without gaps, so a gap is filled with zeros.
            let gap = (first - pointer).min(COPY_BLOCKS);
            let buf = disk.buf(u64::from(gap) * BLOCK);
            // The pointer moves before the write, because a power cut during the write must not leave it below the drive's own. Nothing there
            // is valid until `finish`.
            self.pointers[job.to as usize] += gap;
            disk.write(self.layout.place(job.to, pointer), u64::from(gap) * BLOCK, Cause::Clean, &buf, 0)?;
            self.job = Some(ReclaimJob { next: first, ..job });
            return Ok(true);
        }
        let mut buf = disk.buf(u64::from(n) * BLOCK);
        disk.read(self.layout.place(job.from, first), u64::from(n) * BLOCK, Cause::Clean, &mut buf, 0)?;
        if !self.layout.is_random(job.to) {
            // Before the write, as above.
            self.pointers[job.to as usize] = first + n;
        }
        disk.write(self.layout.place(job.to, first), u64::from(n) * BLOCK, Cause::Clean, &buf, 0)?;
        self.job = Some(ReclaimJob { next: first + n, ..job });
        Ok(true)
    }

    /// The job for the conventional zone used longest ago that can be reclaimed.
    fn next_job(&mut self) -> Option<ReclaimJob> {
        if self.nothing_to_reclaim {
            return None;
        }
        let has_free_sequential = !self.unused.sequential.is_empty();
        let can_be_reclaimed = |&zone: &u32| {
            let chunk = self.maps.owners[zone as usize];
            // A zone that is no buffer holds the chunk's only data, which take a zone of their own.
            chunk != NONE && (has_free_sequential || self.maps.zones_of(chunk).data != zone)
        };
        let first_data = self.layout.first_data();
        let zones = (first_data..self.layout.first_sequential()).filter(can_be_reclaimed);
        let zone = zones.min_by_key(|&zone| self.last_used[(zone - first_data) as usize])?;
        let chunk = self.maps.owners[zone as usize];
        let data = self.maps.zones_of(chunk).data;
        let job = |from, to, to_is_new| ReclaimJob { chunk, from, to, to_is_new, next: 0 };
        if data == zone {
            return self.unused.sequential.pop_front().map(|to| job(zone, to, true));
        }
        // A buffer can be appended to the sequential zone if its first valid block is not before the write pointer.
        let first_valid = self.maps.valid[zone as usize].next_valid(0, 1).map_or(u32::MAX, |(first, _)| first);
        let can_be_appended = first_valid >= self.pointers[data as usize];
        Some(if can_be_appended { job(zone, data, false) } else { job(data, zone, false) })
    }

    /// Ends a job: makes the copy valid, frees the old zone, and commits both.
    fn finish(&mut self, disk: &mut Disk, job: &ReclaimJob) -> DiskResult {
        let blocks = self.layout.blocks();
        // Bits are changed in memory, so all of their blocks are read first.
        self.maps.metadata.need(disk, job.from, 0, blocks)?;
        self.maps.metadata.need(disk, job.to, 0, blocks)?;
        let mut at = 0;
        while let Some((first, n)) = self.maps.valid[job.from as usize].next_valid(at, blocks) {
            self.maps.set_valid(job.to, first, n, true);
            at = first + n;
        }
        self.release(job.from);
        self.maps.map(job.chunk, ChunkZones { data: job.to, buffer: NONE });
        self.touch(job.to);
        self.counts.zones_reclaimed += 1;
        self.commit(disk)
    }

    /// Drops the job if it copies `chunk`, whose data the host is about to change.
    fn drop_job_of(&mut self, chunk: u32) {
        let Some(job) = self.job.take_if(|job| job.chunk == chunk) else { return };
        if job.to_is_new {
            self.pointers[job.to as usize] = 0;
            // It holds nothing valid, so it is the next to be used.
            self.unused.sequential.push_front(job.to);
        }
        self.counts.reclaims_dropped += 1;
    }
}

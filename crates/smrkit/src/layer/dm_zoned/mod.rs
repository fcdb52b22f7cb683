//! The device mapper's target dm-zoned: a host-managed disk that takes any write (Linux,
//! Documentation/admin-guide/device-mapper/dm-zoned.rst; le Moal).
//!
//! LBAs are cut into chunks as large as a zone. A chunk lies in a conventional zone, or in a sequential one and, what was not
//! written at the write pointer, in a conventional zone next to it, the buffer. Bitmaps say which blocks of a zone are valid, and a
//! block is valid in one of both. Differences: a request that is not whole blocks of 4 KiB is completed by reading (the kernel
//! refuses it), and a zone that is freed is used again after the next commit, so that no committed block is overwritten.

mod access;
mod blocks;
mod check;
mod keys;
mod metadata;
mod reclaim;
mod recovery;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::zones::ZoneLayout;
use super::{Capacity, Gauge, Gauges, Layer, LayerKeys, LayerSpec, Need, Scalar, stats_of};
use crate::disk::Disk;
use crate::drive::Drive;
use crate::error::{DiskResult, Error};
use crate::medium::interference::Form;
use crate::medium::{Ascending, Buf, Placement};
use crate::units::{Lba, Nanos, Pba};
use blocks::ValidBlocks;
use keys::{DmLayout, DmZonedKeys};
use metadata::{BLOCK_WORDS, BlockContents, Metadata};
use reclaim::ReclaimJob;

pub(super) const SPEC: LayerSpec = LayerSpec::new::<DmZonedKeys>(
    "dm-zoned",
    "Linux's dm-zoned: conventional zones take what does not come at a write pointer, until it is copied to sequential ones.",
    "Linux, dm-zoned.rst",
    &Form::ALL,
);

/// Sectors of a block.
const BLOCK: u64 = 8;
/// No zone, or no chunk.
const NONE: u32 = u32::MAX;
/// Memory of the kernel for a zone (`struct dm_zone`; recalled).
const KERNEL_ZONE_BYTES: u64 = 56;

/// The zones of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChunkZones {
    data: u32,
    buffer: u32,
}

const UNMAPPED: ChunkZones = ChunkZones { data: NONE, buffer: NONE };

impl LayerKeys for DmZonedKeys {
    fn capacity(&self, drive: &Drive) -> Result<Capacity, Error> {
        Ok(self.layout(drive)?.capacity(drive))
    }

    fn settled(self, drive: &Drive) -> DmZonedKeys {
        self.clone().settled_on(drive).unwrap_or(self)
    }

    fn build(&self, drive: &Drive) -> Result<Box<dyn Layer>, Error> {
        let layout = self.layout(drive)?;
        Ok(Box::new(DmZoned::new(&layout, layout.capacity(drive), self.clone())))
    }
}

struct DmZoned {
    keys: DmZonedKeys,
    layout: ZoneLayout,
    capacity: Capacity,
    metadata: Metadata,
    /// Zones before it hold metadata, those up to `first_sequential` are conventional.
    first_data: u32,
    first_sequential: u32,
    /// Conventional zones for data.
    randoms: u64,
    reserved: u64,
    /// Blocks of a zone.
    blocks: u32,
    chunks: Vec<ChunkZones>,
    /// Valid blocks of each zone.
    valid: Vec<ValidBlocks>,
    /// Chunk mapped to each zone.
    owners: Vec<u32>,
    /// Write pointer of each sequential zone.
    pointers: Vec<u32>,
    /// Of each conventional zone for data, when it was used last, by the counter `uses`.
    used: Vec<u64>,
    uses: u64,
    free_random: VecDeque<u32>,
    free_sequential: VecDeque<u32>,
    /// Zones that are free after the next commit.
    freed: Vec<u32>,
    job: Option<ReclaimJob>,
    reclaiming: bool,
    nothing_to_reclaim: bool,
    /// When the metadata was first seen to differ from the platters, since the last commit.
    dirty_since: Option<Nanos>,
    /// The disk began full.
    began_full: bool,
    counts: DmCounts,
}

#[derive(Default)]
struct DmCounts {
    requests: u64,
    zones_reclaimed: u64,
    jobs_dropped: u64,
    writes_waited: u64,
    completed_by_reading: u64,
    first_cleaning_request: Option<u64>,
}

impl DmZoned {
    fn new(layout: &DmLayout, capacity: Capacity, keys: DmZonedKeys) -> DmZoned {
        let zones = layout.zones.clone();
        let (count, blocks) = (zones.count() as usize, (zones.size() / BLOCK) as u32);
        let (first_data, first_sequential) = (layout.metadata.all_zones() as u32, zones.conventional() as u32);
        let mut new = DmZoned {
            metadata: Metadata::new(layout.metadata, zones.clone()),
            capacity,
            first_data,
            first_sequential,
            randoms: u64::from(first_sequential - first_data),
            reserved: layout.reserved,
            blocks,
            chunks: vec![UNMAPPED; layout.chunks as usize],
            valid: vec![ValidBlocks::none(blocks); count],
            owners: vec![NONE; count],
            pointers: vec![0; count],
            used: vec![0; (first_sequential - first_data) as usize],
            uses: 0,
            free_random: VecDeque::new(),
            free_sequential: VecDeque::new(),
            freed: Vec::new(),
            job: None,
            reclaiming: false,
            nothing_to_reclaim: false,
            dirty_since: None,
            began_full: false,
            counts: DmCounts::default(),
            layout: zones,
            keys,
        };
        new.find_free();
        new
    }

    #[inline]
    fn is_random(&self, zone: u32) -> bool {
        zone < self.first_sequential
    }

    /// Place of a zone's block.
    #[inline]
    fn place(&self, zone: u32, block: u32) -> Pba {
        self.layout.start(u64::from(zone)) + u64::from(block) * BLOCK
    }

    /// Every zone for data that no chunk is mapped to is free.
    fn find_free(&mut self) {
        let free = |&zone: &u32| self.owners[zone as usize] == NONE;
        self.free_random = (self.first_data..self.first_sequential).filter(free).collect();
        self.free_sequential = (self.first_sequential..self.owners.len() as u32).filter(free).collect();
    }

    /// The first zone of a disk that was written in order and reclaimed: the reserved ones before it are free.
    fn first_of_full(&self) -> u32 {
        self.first_data + self.reserved.min(self.randoms) as u32
    }

    fn map(&mut self, chunk: u32, zones: ChunkZones) {
        self.chunks[chunk as usize] = zones;
        for zone in [zones.data, zones.buffer].into_iter().filter(|&zone| zone != NONE) {
            self.owners[zone as usize] = chunk;
        }
        self.metadata.entry_changed(chunk);
    }

    #[inline]
    fn set_valid(&mut self, zone: u32, first: u32, n: u32, valid: bool) {
        if self.valid[zone as usize].put(first, n, valid) {
            self.metadata.bits_changed(zone, first, n);
        }
    }

    /// A conventional zone has been used.
    #[inline]
    fn touch(&mut self, zone: u32) {
        if self.is_random(zone) {
            self.uses += 1;
            self.used[(zone - self.first_data) as usize] = self.uses;
        }
    }

    /// A zone holds nothing any more: it is free after the next commit.
    fn release(&mut self, zone: u32) {
        self.set_valid(zone, 0, self.blocks, false);
        self.owners[zone as usize] = NONE;
        self.freed.push(zone);
        self.nothing_to_reclaim = false;
    }

    /// Makes the metadata durable; what was freed can be used from now on.
    fn commit(&mut self, disk: &mut Disk) -> DiskResult {
        let DmZoned { metadata, chunks, valid, .. } = self;
        let shape = metadata.shape();
        metadata.commit(disk, |block| block_words(shape.contents(block), chunks, valid))?;
        self.dirty_since = None;
        self.nothing_to_reclaim &= self.freed.is_empty();
        for zone in std::mem::take(&mut self.freed) {
            disk.discard(self.place(zone, 0), u64::from(self.blocks) * BLOCK)?;
            if self.is_random(zone) {
                self.free_random.push_back(zone);
            } else {
                self.pointers[zone as usize] = 0;
                self.free_sequential.push_back(zone);
            }
        }
        Ok(())
    }

    /// A free conventional zone; the host waits until there is one.
    fn take_random(&mut self, disk: &mut Disk) -> DiskResult<u32> {
        let mut waited = false;
        loop {
            if let Some(zone) = self.free_random.pop_front() {
                self.nothing_to_reclaim = false;
                self.counts.writes_waited += u64::from(waited);
                return Ok(zone);
            }
            waited = true;
            self.counts.first_cleaning_request.get_or_insert(self.counts.requests);
            if !self.reclaim_stage(disk)? {
                super::inconsistent("no conventional zone is free, and none can be".into())?;
            }
        }
    }
}

/// Words of a metadata block, from the maps.
fn block_words(contents: BlockContents, chunks: &[ChunkZones], valid: &[ValidBlocks]) -> Vec<u64> {
    match contents {
        BlockContents::Map { first } => {
            let entries = chunks.iter().skip(first as usize).take(BLOCK_WORDS);
            entries.map(|zones| u64::from(zones.data) << 32 | u64::from(zones.buffer)).collect()
        }
        BlockContents::Bitmap { zone, word } => {
            let valid = &valid[zone as usize];
            (word..valid.words().min(word + BLOCK_WORDS)).map(|index| valid.word(index)).collect()
        }
    }
}

impl Layer for DmZoned {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn conventional_end(&self) -> Pba {
        self.layout.conventional_end()
    }

    fn read(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        self.counts.requests += 1;
        self.read_sectors(disk, lba, n, out, 0)
    }

    fn write(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        match (lba.0 | n) % BLOCK {
            0 => self.write_blocks(disk, lba, n, data)?,
            _ => self.complete(disk, lba, n, data)?,
        }
        self.counts.requests += 1;
        Ok(())
    }

    /// Whole blocks are invalid from then on.
    fn discard(&mut self, disk: &mut Disk, lba: Lba, n: u64) -> DiskResult {
        self.counts.requests += 1;
        for (chunk, first, n) in self.layout.pieces(lba, n) {
            let (start, end) = (first.div_ceil(BLOCK) as u32, ((first + n) / BLOCK) as u32);
            let ChunkZones { data, buffer } = self.chunks[chunk as usize];
            if start < end && data != NONE {
                self.drop_job_of(chunk as u32);
                for zone in [data, buffer].into_iter().filter(|&zone| zone != NONE) {
                    self.metadata.need(disk, zone, start, end - start)?;
                    self.set_valid(zone, start, end - start, false);
                    disk.discard(self.place(zone, start), u64::from(end - start) * BLOCK)?;
                }
                self.drop_empty(chunk as u32);
            }
        }
        Ok(())
    }

    /// A flush is a commit.
    fn flush(&mut self, disk: &mut Disk) -> DiskResult {
        self.counts.requests += 1;
        self.commit(disk)?;
        disk.flush()
    }

    fn step(&mut self, disk: &mut Disk, need: Need) -> DiskResult<bool> {
        let period = self.keys.commit_period;
        if self.metadata.is_dirty() && period > Nanos::ZERO {
            let since = *self.dirty_since.get_or_insert(disk.now());
            if disk.now().since(since) >= period {
                self.commit(disk)?;
                return Ok(true);
            }
        }
        match need {
            Need::Must => Ok(self.reclaim_is_due() && !self.nothing_to_reclaim && self.reclaim_stage(disk)?),
            Need::Spare => {
                let in_use = (self.free_random.len() as u64) < self.randoms;
                Ok(in_use && !self.nothing_to_reclaim && self.reclaim_stage(disk)?)
            }
        }
    }

    fn idle_delay(&self) -> Option<Nanos> {
        self.keys.idle_clean.then_some(self.keys.idle_delay)
    }

    fn fill(&mut self) -> Arc<dyn Placement> {
        self.begin_full();
        let (zones, first) = (self.layout.clone(), u64::from(self.first_of_full()));
        Arc::new(Ascending::new(self.capacity.host_sectors, move |lba| {
            let (chunk, at) = zones.of(lba);
            zones.start(first + chunk) + at
        }))
    }

    fn recover(&mut self, disk: &mut Disk) -> DiskResult {
        self.rebuild(disk)
    }

    fn books(&self) -> Option<Vec<u64>> {
        Some(self.all_state())
    }

    fn take_books(&mut self, books: &[u64]) -> DiskResult {
        self.take_state(books)
    }

    /// A word that says if the disk began full, and the write pointers.
    fn nonvolatile(&self) -> Option<Vec<u64>> {
        Some(self.drive_state())
    }

    fn locate(&self, lba: Lba) -> Pba {
        let (chunk, at) = self.layout.of(lba);
        let block = (at / BLOCK) as u32;
        match self.source(chunk as u32, block, block + 1).0 {
            NONE => self.layout.start(0),
            zone => self.place(zone, 0) + at,
        }
    }

    fn check(&self, _disk: &Disk) -> DiskResult {
        self.check_maps()
    }

    /// Memory that the kernel takes at most: the state of zones, and metadata blocks.
    fn map_bytes(&self) -> u64 {
        self.layout.count() * KERNEL_ZONE_BYTES + self.metadata.shape().cached() * BLOCK * crate::units::SECTOR_BYTES
    }

    fn gauges(&self) -> Gauges {
        let free = self.free_random.len() as f64 / self.randoms as f64;
        Gauges { cache_fill: None, others: vec![Gauge::share("free_conventional_share", free)] }
    }

    fn stats(&self) -> BTreeMap<String, Scalar> {
        let counts = &self.counts;
        let all = [
            ("zones_reclaimed", counts.zones_reclaimed),
            ("reclaims_dropped", counts.jobs_dropped),
            ("writes_waited", counts.writes_waited),
            ("completed_by_reading", counts.completed_by_reading),
            ("commits", self.metadata.commits),
            ("metadata_reads", self.metadata.reads),
        ];
        stats_of(all, counts.first_cleaning_request)
    }

    fn bands_moved(&self) -> u64 {
        self.counts.zones_reclaimed
    }

    fn reset_stats(&mut self) {
        self.counts = DmCounts::default();
        (self.metadata.reads, self.metadata.commits) = (0, 0);
    }
}

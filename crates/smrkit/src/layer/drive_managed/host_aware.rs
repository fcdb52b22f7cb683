//! A host-aware disk: zones with write pointers, and any write is allowed (ZBC, INCITS 536: sequential write preferred zones).
//!
//! A write at the pointer goes to its place in the zone. Any other write is appended to a persistent cache, whose log, map and costs are those
//! of [`drive-managed`](super). The zone then counts as written out of order until it is rewritten: it is read up to its pointer, merged with
//! its cached data, and written to a spare zone of the platters, which takes its place. The old place is the next spare, so that one of the
//! two is intact after a power cut. No vendor says what its disks do, so all of this is an assumption.
//!
//! A write past the pointer moves the pointer to the write's end, and leaves a gap that reads as zeros. Until the zone is rewritten, writes
//! at its pointer are cached, too.
//!
//! # Layout
//!
//! Zones from PBA 0 on: the conventional ones, the persistent cache, two copies of its map, a note on the last zone rewritten, then the
//! sequential zones, of which the last is the first spare.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::cache::{CacheLog, CachedDisk, CostKeys, Costs, Limits, PersistentCache};
use super::cleaning::{MergedPiece, overlay};
use crate::extent_map::joined;
use crate::layer::HOST_AWARE;
use crate::layer::bands::BufferKeys;
use crate::layer::interface::DelayKeys;
use crate::layer::prelude::*;
use crate::layer::zones::{ZoneKeys, ZoneLayout};
use crate::units::SECTOR_BYTES;

pub(in crate::layer) const SPEC: LayerSpec = LayerSpec::new::<HostAwareKeys>(
    HOST_AWARE,
    "A host-aware disk: writes at a zone's pointer go to their place, others to a persistent cache until the zone is rewritten.",
    "none (ZBC, INCITS 536)",
    &Form::ALL,
);

keys! {
    struct HostAwareKeys {
        /// The zones.
        zones: ZoneKeys;
        /// Share of the zones that form the persistent cache.
        cache_percent: f64 = percent(0.001, 50.0), "0.35";
        /// Most zones that may be out of order at once; when there are more, the zone with the oldest cached data is
        /// rewritten. 0 means no limit.
        max_non_seq: u64 = Count(0, 1 << 20), "0";
        /// Number of map entries, and of log entries, above which zones are rewritten; auto is 5/3 · (tracks of the
        /// cache) + 1, and for map entries `shared_writes` times as many.
        alpha: Option<u64> = Or("auto", Count(1, 1 << 24)), "auto";
        /// Costs of the cache.
        costs: CostKeys;
        /// Most waiting writes that share a log entry.
        shared_writes: u64 = Count(1, 64), "8";
        /// Memory.
        buffer: BufferKeys;
        /// Whether zones are rewritten in idle time.
        idle_clean: bool = Switch, "on";
        /// When.
        delay: DelayKeys;
    }
}

/// Memory for a zone: its place, its pointer, and the end of its data.
const BYTES_A_ZONE: u64 = 20;

impl LayerKeys for HostAwareKeys {
    fn settled(self, drive: &Drive) -> HostAwareKeys {
        // A drive that is too small is refused when the layer is built.
        let alpha = HostAware::new(drive, &self).map_or(self.alpha, |layer| Some(layer.cache.limits.alpha));
        HostAwareKeys { zones: self.zones.settled(drive), alpha, ..self }
    }

    fn build(&self, drive: &Drive) -> Result<Box<dyn Layer>, Error> {
        Ok(Box::new(HostAware::new(drive, self)?))
    }
}

struct HostAware {
    zones: ZoneLayout,
    /// Zones that the drive uses itself, after the conventional ones.
    own: u64,
    capacity: Capacity,
    cache: PersistentCache,
    /// The platter zone in which each of the host's zones is, and the spare one.
    places: Vec<u32>,
    spare: u32,
    /// Place of the note on the last zone rewritten.
    note: Pba,
    /// The write pointer of each zone, in sectors from its start; a conventional zone counts as full.
    pointers: Vec<u64>,
    /// End of the data at each zone's place, in sectors. The pointer is past it if data at the zone's end is only cached.
    home_ends: Vec<u64>,
    /// Zones written out of order: those with cached data.
    non_seq: BTreeSet<u64>,
    rewrite: Option<ZoneRewrite>,
    max_non_seq: u64,
    stage_sectors: u64,
    shared_writes: usize,
    idle_delay: Option<Nanos>,
    counts: HostAwareCounts,
}

/// A zone that is being rewritten to the spare one.
#[derive(Serialize, Deserialize)]
struct ZoneRewrite {
    zone: u64,
    /// Sectors written to the spare zone.
    done: u64,
    /// Cached pieces that were merged into them, by LBA.
    merged: Vec<MergedPiece>,
}

counts! { HostAwareCounts { zones_rewritten, out_of_order_writes, resets } }

state! {
    HostAware {
        parts: cache;
        sized: places, pointers, home_ends;
        values: spare, non_seq, rewrite, counts;
        built: zones, own, capacity, note, max_non_seq, stage_sectors, shared_writes, idle_delay;
    }
}

/// The platter zone that holds one of the host's zones on a new disk. The zones that the drive uses itself come after the conventional ones.
fn platter_zone(zone: u64, conventional: u64, own: u64) -> u64 {
    if zone < conventional { zone } else { zone + own }
}

impl HostAware {
    fn new(drive: &Drive, keys: &HostAwareKeys) -> Result<HostAware, Error> {
        let zones = ZoneLayout::new(drive, &keys.zones, BYTES_A_ZONE)?;
        let (size, conventional) = (zones.size(), zones.conventional);
        let sequential = zones.count() - conventional;
        let cache = ((zones.count() as f64 * keys.cache_percent / 100.0).round() as u64).clamp(1, sequential);
        let (start, end) = (zones.start(conventional), zones.start(conventional + cache - 1) + size);
        // The thresholds of `drive-managed`. Each write that shares a log entry takes a map entry of its own.
        let auto_beta = (end - start) / drive.geometry.longest_track() * 5 / 3 + 1;
        let alpha = keys.alpha.unwrap_or(auto_beta * keys.shared_writes);
        let beta = keys.alpha.unwrap_or(auto_beta);
        let costs = Costs::new(drive, &keys.costs);
        let limits = Limits::new((alpha, beta), keys.shared_writes, &costs, end - start);
        // Zones of each of the two map copies; the note takes as many.
        let copy = limits.copy_sectors().div_ceil(size);
        let own = cache + 3 * copy;
        // Beside the spare zone, at least one has to be left for the host.
        if sequential <= own + 1 {
            return Err(Error::Impossible(format!(
                "of {sequential} zones that are not conventional {own} are for the persistent cache and its map, and one is spare: \
                 lower host-aware.cache_percent, conventional_percent or zone_bytes, or take a larger drive",
            )));
        }
        let count = zones.count() - own - 1;
        let capacity = Capacity::new(drive, count * size, end - start, (3 * copy + 1) * size);
        let log = CacheLog::new(drive, costs, start, end);
        let [first, second, note] = [0, 1, 2].map(|number| zones.start(conventional + cache + number * copy));
        let mut pointers = vec![0; count as usize];
        pointers[..conventional as usize].fill(size);
        Ok(HostAware {
            cache: PersistentCache::new(limits, log, [first, second], false),
            places: (0..count).map(|zone| platter_zone(zone, conventional, own) as u32).collect(),
            spare: zones.count() as u32 - 1,
            note,
            home_ends: pointers.clone(),
            pointers,
            non_seq: BTreeSet::new(),
            rewrite: None,
            max_non_seq: keys.max_non_seq,
            stage_sectors: (keys.buffer.buffer_bytes / SECTOR_BYTES).max(1),
            shared_writes: keys.shared_writes as usize,
            idle_delay: keys.delay.when(keys.idle_clean),
            counts: HostAwareCounts::default(),
            zones,
            capacity,
            own,
        })
    }

    fn place(&self, zone: u64) -> Pba {
        self.zones.start(self.places[zone as usize].into())
    }

    fn lba(&self, zone: u64, at: u64) -> Lba {
        Lba(zone * self.zones.size() + at)
    }

    /// True if a write goes to its place: in a conventional zone, or at the pointer if all data before it is at its place, too.
    #[inline]
    fn goes_home(&self, zone: u64, at: u64) -> bool {
        let (pointer, home_end) = (self.pointers[zone as usize], self.home_ends[zone as usize]);
        zone < self.zones.conventional || at == pointer && at == home_end
    }

    /// Writes `n` sectors to the place of a zone, from sector `at` of it on.
    fn write_home(&mut self, disk: &mut Disk, (zone, at, n): (u64, u64, u64), data: &Buf, from: u64) -> DiskResult {
        if zone >= self.zones.conventional {
            // Before the write, so that a torn write moves the pointer, too. The next write there is then cached, because rewriting these
            // sectors may damage sectors upstream (DPID).
            self.pointers[zone as usize] = at + n;
        }
        disk.write(self.place(zone) + at, n, Cause::Host, data, from)?;
        if zone >= self.zones.conventional {
            self.home_ends[zone as usize] = at + n;
        }
        Ok(())
    }

    /// True if a zone has to be rewritten before the next request.
    fn is_due(&mut self) -> bool {
        if self.max_non_seq > 0 && self.non_seq.len() as u64 > self.max_non_seq {
            return true;
        }
        // Trimming frees entries without valid data, after which nothing may be in excess any more.
        self.cache.excess() > 0 && self.cache.trim() && self.cache.excess() > 0
    }

    /// Does one stage of the rewrite in progress, or of the next one; returns `false` if nothing is cached.
    fn rewrite_stage(&mut self, disk: &mut Disk) -> DiskResult<bool> {
        // The next one is of the zone with the oldest cached data.
        let next_rewrite = |cache: &mut PersistentCache| {
            cache.trim();
            let (lba, ..) = cache.valid(cache.log.entries.front()?).next()?;
            Some(ZoneRewrite { zone: self.zones.locate(lba).0, done: 0, merged: Vec::new() })
        };
        // Taken, so that an access that fails by a power cut leaves no rewrite in progress, and the zone where it was.
        let work = self.rewrite.take().or_else(|| next_rewrite(&mut self.cache));
        let Some(mut work) = work else { return Ok(false) };
        let (zone, at) = (work.zone, work.done);
        let n = self.stage_sectors.min(self.pointers[zone as usize] - at);
        if n == 0 {
            // All up to the pointer has been written to the spare zone.
            self.finish_rewrite(disk, &work)?;
            return Ok(true);
        }
        let first = self.lba(zone, at);
        let mut cached: Vec<MergedPiece> = self.cache.map.mapped(first, n).collect();
        let is_wholly_cached = cached.iter().map(|piece| piece.1).sum::<u64>() == n;
        let mut buf = disk.buf(n);
        // Sectors of this stage that the zone has at its place.
        let at_home = self.home_ends[zone as usize].saturating_sub(at).min(n);
        if at_home > 0 && !is_wholly_cached {
            disk.read(self.place(zone) + at, at_home, Cause::Clean, &mut buf, 0)?;
        }
        work.merged.extend_from_slice(&cached);
        overlay(disk, &mut cached, first, &mut buf, 0)?;
        disk.write(self.zones.start(self.spare.into()) + at, n, Cause::Clean, &buf, 0)?;
        work.done += n;
        self.rewrite = Some(work);
        Ok(true)
    }

    /// Puts the spare zone in the place of the rewritten one. Data that the host wrote meanwhile stays in the cache.
    fn finish_rewrite(&mut self, disk: &mut Disk, work: &ZoneRewrite) -> DiskResult {
        // First on the platters: if this is torn, the zone is still in its old place.
        disk.write_metadata(self.note, 1)?;
        let (zone, size) = (work.zone, self.zones.size());
        self.cache.forget_merged(self.lba(zone, 0), size, &work.merged);
        std::mem::swap(&mut self.places[zone as usize], &mut self.spare);
        self.home_ends[zone as usize] = work.done;
        if self.cache.map.mapped(self.lba(zone, 0), size).next().is_none() {
            self.non_seq.remove(&zone);
        }
        self.counts.zones_rewritten += 1;
        Ok(())
    }

    fn reset(&mut self, zone: u64) {
        self.rewrite = self.rewrite.take().filter(|work| work.zone != zone);
        self.cache.forget(self.lba(zone, 0), self.zones.size());
        self.non_seq.remove(&zone);
        (self.pointers[zone as usize], self.home_ends[zone as usize]) = (0, 0);
        self.counts.resets += 1;
    }

    /// Reads sectors from the places of their zones into `out`, from its sector `to` on. Past the end of a zone's data it finds zeros, which
    /// take no time.
    fn read_home(&self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf, mut to: u64) -> DiskResult {
        for (zone, at, n) in self.zones.pieces(lba, n) {
            let home = self.home_ends[zone as usize].saturating_sub(at).min(n);
            if home > 0 {
                disk.read(self.place(zone) + at, home, Cause::Host, out, to)?;
            }
            if home < n {
                out.put(to + home, &disk.buf(n - home), 0, n - home);
            }
            to += n;
        }
        Ok(())
    }
}

impl CachedDisk for HostAware {
    fn cache(&mut self) -> &mut PersistentCache {
        &mut self.cache
    }

    /// Rewrites a zone, or finishes the rewrite in progress.
    fn clean(&mut self, disk: &mut Disk) -> DiskResult {
        self.counts.first_cleaning_request.get_or_insert(disk.requests());
        while self.rewrite_stage(disk)? && self.rewrite.is_some() {}
        Ok(())
    }

    /// Notes that sectors of a zone were cached, which may move its pointer.
    fn note_cached(&mut self, lba: Lba, n: u64) {
        let (zone, at) = self.zones.locate(lba);
        self.non_seq.insert(zone);
        let pointer = &mut self.pointers[zone as usize];
        *pointer = (*pointer).max(at + n);
    }
}

impl Layer for HostAware {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn conventional_end(&self) -> Pba {
        self.zones.conventional_end()
    }

    fn read(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        joined(self.cache.map.pieces(lba, n), |piece| match piece.pba {
            Some(pba) => disk.read(pba, piece.sectors, Cause::Host, out, piece.lba - lba),
            None => self.read_home(disk, piece.lba, piece.sectors, out, piece.lba - lba),
        })
    }

    fn write(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        let mut done = 0;
        for (zone, at, sectors) in self.zones.pieces(lba, n) {
            if self.goes_home(zone, at) {
                self.write_home(disk, (zone, at, sectors), data, done)?;
            } else {
                self.put(disk, lba + done, sectors, data, done)?;
                self.counts.out_of_order_writes += 1;
            }
            done += sectors;
        }
        Ok(())
    }

    fn takes_together(&self) -> usize {
        self.shared_writes
    }

    fn joint_sectors(&self) -> u64 {
        self.cache.log.costs.entry_sectors
    }

    fn write_together(&mut self, disk: &mut Disk, writes: &[QueuedWrite]) -> DiskResult {
        let (data, n) = QueuedWrite::joined(disk, writes);
        if writes.windows(2).all(|pair| pair[0].lba + pair[0].sectors == pair[1].lba) {
            return self.write(disk, writes[0].lba, n, &data);
        }
        let pieces = writes.iter().flat_map(|one| self.zones.pieces(one.lba, one.sectors));
        let (mut extents, mut any_home) = (Vec::new(), false);
        for (zone, at, n) in pieces {
            extents.push((self.lba(zone, at), n));
            any_home |= self.goes_home(zone, at);
        }
        // Writes that go to their places can't be in an entry of the log.
        if any_home || !self.put_together(disk, &extents, n, &data)? {
            return writes.iter().try_for_each(|one| self.write(disk, one.lba, one.sectors, one.data));
        }
        self.counts.out_of_order_writes += writes.len() as u64;
        Ok(())
    }

    /// Resets every sequential zone that the discard covers completely, in no time (assumption). A discard of part of a zone, or of a
    /// conventional zone, has no effect.
    fn discard(&mut self, _disk: &mut Disk, lba: Lba, n: u64) -> DiskResult {
        for (zone, _, n) in self.zones.pieces(lba, n) {
            if n == self.zones.size() && zone >= self.zones.conventional {
                self.reset(zone);
            }
        }
        Ok(())
    }

    fn step(&mut self, disk: &mut Disk, need: Need) -> DiskResult<bool> {
        if need == Need::Spare {
            return self.rewrite_stage(disk);
        }
        let mut any = false;
        while self.is_due() {
            self.clean(disk)?;
            any = true;
        }
        Ok(any)
    }

    fn idle_delay(&self) -> Option<Nanos> {
        self.idle_delay
    }

    fn keeps_acknowledged(&self) -> bool {
        true
    }

    /// Every zone is full, and nothing is cached.
    fn fill(&mut self) -> Arc<dyn Placement> {
        self.pointers.fill(self.zones.size());
        self.home_ends.fill(self.zones.size());
        let (zones, own) = (self.zones.clone(), self.own);
        Arc::new(Ascending::new(self.capacity.host_sectors, move |lba| {
            let (zone, at) = zones.locate(lba);
            zones.start(platter_zone(zone, zones.conventional, own)) + at
        }))
    }

    /// Map, log, places and pointers survive (assumption). A rewrite in progress starts again.
    fn power_cut(&mut self) {
        self.rewrite = None;
        self.cache.log.power_cut();
        // Some entries of a request that was torn may be in the cache without having been noted.
        let cached: Vec<MergedPiece> = self.cache.map.mapped(Lba(0), self.capacity.host_sectors).collect();
        for (lba, n, _) in cached {
            self.zones.pieces(lba, n).for_each(|(zone, at, n)| self.note_cached(self.lba(zone, at), n));
        }
    }

    layer_state!();

    fn locate(&self, lba: Lba) -> Pba {
        let (zone, at) = self.zones.locate(lba);
        self.cache.map.get(lba).unwrap_or_else(|| self.place(zone) + at)
    }

    fn is_mapped(&self, lba: Lba) -> bool {
        let (zone, at) = self.zones.locate(lba);
        at < self.home_ends[zone as usize] || self.cache.map.get(lba).is_some()
    }

    /// Checks the cache; that each zone has a place of its own; and that data is before the write pointer, and cached data in zones that count
    /// as written out of order.
    fn check(&self) -> DiskResult {
        self.cache.check()?;
        let mut places: Vec<u32> = self.places.iter().copied().chain([self.spare]).collect();
        places.sort_unstable();
        for pair in places.windows(2) {
            ensure!(pair[0] != pair[1], "two zones lie at zone {} of the platters", pair[0]);
        }
        for (zone, (end, pointer)) in self.home_ends.iter().zip(&self.pointers).enumerate() {
            ensure!(end <= pointer, "zone {zone} holds data behind its write pointer");
        }
        let mut non_seq = BTreeSet::new();
        for (lba, n, _) in self.cache.map.mapped(Lba(0), self.capacity.host_sectors) {
            for (zone, at, n) in self.zones.pieces(lba, n) {
                let is_cacheable = zone >= self.zones.conventional && at + n <= self.pointers[zone as usize];
                ensure!(is_cacheable, "LBA {lba} is cached, in a conventional zone or behind a write pointer");
                non_seq.insert(zone);
            }
        }
        let counted = &self.non_seq;
        ensure!(non_seq == *counted, "zones {counted:?} count as written out of order, {non_seq:?} are");
        Ok(())
    }

    fn map_bytes(&self) -> u64 {
        self.cache.memory_bytes() + self.places.len() as u64 * BYTES_A_ZONE
    }

    fn gauges(&self) -> Gauges {
        let others = vec![
            Gauge::count("non_seq_zones", self.non_seq.len() as f64),
            Gauge::count("log_length", self.cache.log.length() as f64),
            Gauge::count("map_entries", self.cache.map.len() as f64),
        ];
        Gauges { cache_fill: Some(self.cache.fill(self.capacity.cache_sectors)), others }
    }

    fn stats(&self) -> LayerStats {
        let stats = self.counts.stats().with("map_writes", Scalar::Int(self.cache.map_writes));
        stats.with("non_seq_zones", Scalar::Int(self.non_seq.len() as u64))
    }

    fn bands_moved(&self) -> u64 {
        self.counts.zones_rewritten
    }

    fn reset_stats(&mut self) {
        self.counts = HostAwareCounts::default();
        self.cache.map_writes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::{Medium, Stamp, Stamps};
    use crate::schema::Keyed;

    /// An empty disk of zones of 128 sectors.
    fn empty() -> (HostAware, Disk) {
        let drive = Drive::load("tiny-constant").unwrap();
        let set = [("zone_bytes", "64Ki"), ("cache_percent", "5")].map(|(key, value)| (key.into(), value.into()));
        let keys = HostAwareKeys::read(&SPEC.resolve(&set).unwrap()).unwrap();
        let layer = HostAware::new(&drive, &keys).unwrap();
        (layer, Disk::new(&drive, Medium::Stamps(Stamps::new())))
    }

    fn write(layer: &mut HostAware, disk: &mut Disk, zone: u64, at: u64, n: u64) {
        let lba = layer.lba(zone, at);
        let data = Buf::Stamps((0..n).map(|sector| Stamp::new(lba + sector, 1).0).collect());
        layer.write(disk, lba, n, &data).unwrap();
        layer.check().unwrap();
    }

    /// The LBAs, from the zone's first on, whose data a read finds.
    fn found(layer: &mut HostAware, disk: &mut Disk, zone: u64) -> Vec<u64> {
        let (first, n) = (layer.lba(zone, 0), layer.zones.size());
        let mut out = disk.buf(n);
        layer.read(disk, first, n, &mut out).unwrap();
        let Buf::Stamps(stamps) = out else { unreachable!("as made above") };
        let is_there = |at: &u64| stamps[*at as usize] == Stamp::new(first + *at, 1).0;
        let there: Vec<u64> = (0..n).filter(is_there).collect();
        assert!((0..n).all(|at| there.contains(&at) || stamps[at as usize] == 0));
        there
    }

    #[test]
    fn writes_at_the_pointer_go_home_and_others_are_cached_until_the_zone_is_rewritten() {
        let (mut layer, mut disk) = empty();
        let zone = layer.zones.conventional + 3;
        write(&mut layer, &mut disk, zone, 0, 8);
        write(&mut layer, &mut disk, zone, 8, 8);
        assert!(layer.non_seq.is_empty() && layer.cache.log.entries.is_empty());
        // Over again; then past a gap, from where on the pointer is not the end of what is at home.
        write(&mut layer, &mut disk, zone, 4, 8);
        write(&mut layer, &mut disk, zone, 16, 2);
        assert_eq!((layer.home_ends[zone as usize], layer.cache.log.length()), (18, 1));
        write(&mut layer, &mut disk, zone, 24, 8);
        write(&mut layer, &mut disk, zone, 32, 8);
        assert_eq!((layer.pointers[zone as usize], layer.home_ends[zone as usize]), (40, 18));
        let there: Vec<u64> = (0..18).chain(24..40).collect();
        assert_eq!(found(&mut layer, &mut disk, zone), there);
        let before = layer.place(zone);
        layer.clean(&mut disk).unwrap();
        layer.check().unwrap();
        assert_ne!(layer.place(zone), before);
        assert_eq!((layer.home_ends[zone as usize], layer.non_seq.len(), layer.cache.map.len()), (40, 0, 0));
        assert_eq!(found(&mut layer, &mut disk, zone), there);
        write(&mut layer, &mut disk, zone, 40, 8);
        assert!(layer.non_seq.is_empty());
        let (first, size) = (layer.lba(zone, 0), layer.zones.size());
        layer.discard(&mut disk, first, size).unwrap();
        assert!(found(&mut layer, &mut disk, zone).is_empty());
    }

    #[test]
    fn what_is_written_while_a_zone_is_rewritten_stays_cached() {
        let (mut layer, mut disk) = empty();
        layer.stage_sectors = 10;
        let zone = layer.zones.conventional;
        write(&mut layer, &mut disk, zone, 0, 40);
        write(&mut layer, &mut disk, zone, 4, 4);
        layer.rewrite_stage(&mut disk).unwrap();
        // Behind, before, and at the pointer.
        for (at, n) in [(5, 2), (30, 2), (40, 8)] {
            write(&mut layer, &mut disk, zone, at, n);
        }
        layer.clean(&mut disk).unwrap();
        layer.check().unwrap();
        let cached: Vec<(Lba, u64)> =
            layer.cache.map.mapped(layer.lba(zone, 0), layer.zones.size()).map(|(lba, n, _)| (lba, n)).collect();
        assert_eq!((cached, layer.home_ends[zone as usize]), (vec![(layer.lba(zone, 5), 2)], 48));
        assert_eq!(found(&mut layer, &mut disk, zone), (0..48).collect::<Vec<_>>());
    }

    #[test]
    fn no_more_zones_than_allowed_stay_written_out_of_order() {
        let (mut layer, mut disk) = empty();
        layer.max_non_seq = 2;
        for zone in (layer.zones.conventional..).take(5) {
            write(&mut layer, &mut disk, zone, 8, 8);
            layer.step(&mut disk, Need::Must).unwrap();
        }
        assert_eq!((layer.non_seq.len(), layer.counts.zones_rewritten), (2, 3));
        assert!(layer.non_seq.iter().eq(&[layer.zones.conventional + 3, layer.zones.conventional + 4]));
    }

    #[test]
    fn a_check_finds_places_ends_and_zones_that_can_not_be() {
        type Damage = fn(&mut HostAware, usize);
        let damages: [(&str, Damage); 4] = [
            ("two zones lie at zone", |layer, zone| layer.spare = layer.places[zone]),
            ("holds data behind its write pointer", |layer, zone| layer.home_ends[zone] = 33),
            ("is cached, in a conventional zone or behind a write pointer", |layer, zone| layer.pointers[zone] = 31),
            ("count as written out of order", |layer, _| layer.non_seq.clear()),
        ];
        for (problem, damage) in damages {
            let (mut layer, mut disk) = empty();
            let zone = layer.zones.conventional;
            write(&mut layer, &mut disk, zone, 24, 8);
            damage(&mut layer, zone as usize);
            let error = layer.check().unwrap_err().to_string();
            assert!(error.contains(problem), "{problem}: {error}");
        }
    }
}

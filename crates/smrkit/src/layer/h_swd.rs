//! Hot data kept in a circular log: Lin, Park, He and Du, "H-SWD: Incorporating Hot Data Identification into Shingled Write Disks",
//! MASCOTS 2012.
//!
//! The disk is an E-region, a circular log that takes all writes, and an I-region of bands, where every LBA has a fixed place. When the log
//! is nearly full, its tail is reclaimed: hot data goes to the log's head once more, and each band that cold data belongs to is read,
//! merged with all that is cached of it, and written back.
//!
//! Assumptions, because only the abstract of the paper and what others say of it were at hand: the E-region is a run of areas as long as
//! bands, each with a guard, that are reclaimed one by one; a block of 4 KiB is hot if it was written several times in a window of the last
//! writes; at most half of an area is kept as hot, so that reclaiming always gains space; the map survives a power cut, and costs no time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::interface::{IdleKeys, check_tables};
use super::runs::{Gather, LoggedRun, RUN_SECTORS_MAX, read_cached};
use crate::extent_map::ExtentMap;
use crate::geometry::Regions;
use crate::layer::prelude::*;

pub(super) const SPEC: LayerSpec = LayerSpec::new::<HSwdKeys>(
    "h-swd",
    "Writes go to a circular log, the E-region; at its tail hot data is kept, and the bands of cold data are rewritten.",
    "Lin et al. 2012 (H-SWD)",
    &Form::ALL,
);

keys! {
    struct HSwdKeys {
        /// Share of the regions that form the E-region; at least three are taken.
        cache_percent: f64 = percent(0.001, 50.0), "3";
        /// Number of sectors in a region, without its guard: a band, or an area of the log.
        region_sectors: u64 = Count(8, 1 << 30), "50000";
        /// Number of writes to a block within the window that make it hot; 0 means that no data is treated as hot.
        hot_writes: u64 = Count(0, 1 << 20), "2";
        /// Length of the window, in written blocks of 4 KiB; auto is what the E-region holds, at most 1,048,576.
        window_blocks: Option<u64> = Or("auto", Count(1, 1 << 26)), "auto";
        /// Idle time, in which all bands with data in the log are rewritten.
        idle: IdleKeys;
    }
}

/// Sectors of a block whose writes are counted.
const BLOCK: u64 = 8;
/// The longest window if its length is `auto`: about 100 MB of memory (assumption).
const USUAL_WINDOW_MAX: u64 = 1 << 20;
/// Memory for a block of the window, and its count.
const BYTES_A_BLOCK: u64 = 64;
/// The fewest areas: the head, one that is reclaimed, and one for the hot data of that.
const AREAS_MIN: u64 = 3;
/// Cached sectors of a band are read in one access up to this distance: a good part of a track (assumption).
const GAP_SECTORS: u64 = 256;

impl HSwdKeys {
    fn regions(&self, drive: &Drive) -> Result<(Regions, u64), Error> {
        let regions = Regions::new(&drive.geometry, drive.interference.guard(&drive.geometry), self.region_sectors)?;
        let areas = ((regions.count as f64 * (self.cache_percent / 100.0)).round() as u64).max(AREAS_MIN);
        if regions.count <= areas {
            return Err(Error::Impossible(format!(
                "the drive holds {} regions of {} sectors, too few for an E-region of {areas} and bands next to it: lower \
                 h-swd.region_sectors or take a larger drive",
                regions.count, self.region_sectors
            )));
        }
        Ok((regions, areas))
    }

    fn window(&self, areas: u64) -> u64 {
        self.window_blocks.unwrap_or((areas * self.region_sectors / BLOCK).clamp(1, USUAL_WINDOW_MAX))
    }
}

impl LayerKeys for HSwdKeys {
    fn settled(self, drive: &Drive) -> HSwdKeys {
        // A drive that is too small is refused when the layer is built.
        let areas = self.regions(drive).map_or(AREAS_MIN, |(_, areas)| areas);
        HSwdKeys { window_blocks: Some(self.window(areas)), ..self }
    }

    fn build(&self, drive: &Drive) -> Result<Box<dyn Layer>, Error> {
        Ok(Box::new(HSwd::new(drive, self)?))
    }
}

/// The blocks written last, and how often each of them was written.
#[derive(Default, Serialize, Deserialize)]
struct HotWindow {
    blocks: VecDeque<u64>,
    writes: BTreeMap<u64, u64>,
}

impl HotWindow {
    /// Counts a write to each block of an extent.
    fn note(&mut self, lba: Lba, n: u64, most: u64) {
        for block in lba.0 / BLOCK..(lba.0 + n).div_ceil(BLOCK) {
            *self.writes.entry(block).or_insert(0) += 1;
            self.blocks.push_back(block);
            if self.blocks.len() as u64 > most
                && let Some(oldest) = self.blocks.pop_front()
                && let Some(writes) = self.writes.get_mut(&oldest)
            {
                *writes -= 1;
                if *writes == 0 {
                    self.writes.remove(&oldest);
                }
            }
        }
    }

    /// Writes to the first block of an extent, which stands for all of it.
    fn writes_to(&self, lba: Lba) -> u64 {
        self.writes.get(&(lba.0 / BLOCK)).copied().unwrap_or(0)
    }
}

/// A run of sectors in the log.
#[derive(Serialize, Deserialize)]
struct LogEntry {
    run: LoggedRun,
    /// If it was hot when it was appended.
    is_hot: bool,
}

/// A part of the log, as long as a band.
#[derive(Default, Serialize, Deserialize)]
struct Area {
    /// In the order of their places, from the area's start on.
    entries: Vec<LogEntry>,
    /// Sectors of the entries.
    filled: u64,
}

struct HSwd {
    regions: Regions,
    region_sectors: u64,
    capacity: Capacity,
    map: ExtentMap,
    /// The areas of the E-region, which are the first regions.
    areas: Vec<Area>,
    /// The area that is written.
    head: u64,
    /// Number of areas in use, which end with the head.
    used: u64,
    /// Entries of the area at the tail that have been dealt with, their sectors, and how many of these are kept as hot.
    scanned: usize,
    scanned_sectors: u64,
    kept_sectors: u64,
    window: HotWindow,
    window_blocks: u64,
    hot_writes: u64,
    idle_delay: Option<Nanos>,
    counts: HSwdCounts,
}

counts! { HSwdCounts { areas_reclaimed, bands_rewritten, hot_sectors_kept } }

state! {
    HSwd {
        sized: areas;
        values: map, head, used, scanned, scanned_sectors, kept_sectors, window, counts;
        built: regions, region_sectors, capacity, window_blocks, hot_writes, idle_delay;
    }
}

impl HSwd {
    fn new(drive: &Drive, keys: &HSwdKeys) -> Result<HSwd, Error> {
        let (regions, areas) = keys.regions(drive)?;
        let window_blocks = keys.window(areas);
        check_tables("the window of writes", window_blocks * BYTES_A_BLOCK, "lower h-swd.window_blocks, or ")?;
        let region_sectors = keys.region_sectors;
        let host_sectors = (regions.count - areas) * region_sectors;
        Ok(HSwd {
            capacity: Capacity::new(drive, host_sectors, areas * region_sectors, 0),
            regions,
            region_sectors,
            map: ExtentMap::new(),
            areas: (0..areas).map(|_| Area::default()).collect(),
            head: 0,
            used: 1,
            scanned: 0,
            scanned_sectors: 0,
            kept_sectors: 0,
            window: HotWindow::default(),
            window_blocks,
            hot_writes: keys.hot_writes,
            idle_delay: keys.idle.delay(),
            counts: HSwdCounts::default(),
        })
    }

    fn area_count(&self) -> u64 {
        self.areas.len() as u64
    }

    fn tail(&self) -> u64 {
        (self.head + self.area_count() + 1 - self.used) % self.area_count()
    }

    fn home(&self, lba: Lba) -> Pba {
        self.regions.place(self.area_count(), lba)
    }

    fn is_hot(&self, lba: Lba) -> bool {
        self.hot_writes > 0 && self.window.writes_to(lba) >= self.hot_writes
    }

    /// Appends runs, whose data follow each other in `data`.
    fn append(&mut self, disk: &mut Disk, runs: &[(Lba, u64)], data: &Buf, cause: Cause) -> DiskResult {
        let mut left: SmallVec<[(Lba, u64); 4]> = runs.iter().rev().copied().collect();
        let mut done = 0;
        while !left.is_empty() {
            let room = self.region_sectors - self.areas[self.head as usize].filled;
            if room == 0 {
                self.open_next(disk, cause)?;
                continue;
            }
            let (mut taken, mut sectors): (SmallVec<[(Lba, u64); 4]>, u64) = (SmallVec::new(), 0);
            while sectors < room
                && let Some((lba, n)) = left.pop()
            {
                let part = n.min(room - sectors).min(RUN_SECTORS_MAX);
                if part < n {
                    left.push((lba + part, n - part));
                }
                taken.push((lba, part));
                sectors += part;
            }
            let hot: SmallVec<[bool; 4]> = taken.iter().map(|&(lba, _)| self.is_hot(lba)).collect();
            let area = &mut self.areas[self.head as usize];
            let pba = self.regions.start(self.head) + area.filled;
            // Before the write, because what a power cut leaves of it must not be written over: that may damage sectors upstream.
            area.filled += sectors;
            let entry = |(&(lba, n), is_hot)| LogEntry { run: LoggedRun::new(lba, n), is_hot };
            area.entries.extend(taken.iter().zip(hot).map(entry));
            disk.write(pba, sectors, cause, data, done)?;
            let mut place = pba;
            for &(lba, n) in &taken {
                self.map.insert(lba, n, place);
                place += n;
            }
            done += sectors;
        }
        Ok(())
    }

    /// Makes the next area the head. The host leaves one area free, in which reclaiming puts hot data.
    fn open_next(&mut self, disk: &mut Disk, cause: Cause) -> DiskResult {
        while cause == Cause::Host && self.area_count() - self.used < 2 {
            self.counts.first_cleaning_request.get_or_insert(disk.requests());
            self.reclaim_stage(disk, true)?;
        }
        // Reclaiming for the host may have opened an area that still has room.
        if self.areas[self.head as usize].filled == self.region_sectors {
            ensure!(self.used < self.area_count(), "the log has no free area");
            self.head = (self.head + 1) % self.area_count();
            self.used += 1;
        }
        Ok(())
    }

    /// Does one stage of reclaiming the area at the tail: rewrites a band, or moves the hot data, if it is to be kept, and frees the area.
    fn reclaim_stage(&mut self, disk: &mut Disk, keeps_hot: bool) -> DiskResult {
        let tail = self.tail();
        // Appends that a power cut tore may have used up the room for hot data. Then it goes home, too.
        let free_areas = self.area_count() - self.used;
        let room = (free_areas + 1) * self.region_sectors - self.areas[self.head as usize].filled;
        let has_room = room >= self.region_sectors / 2;
        if !has_room && self.kept_sectors > 0 {
            (self.scanned, self.scanned_sectors, self.kept_sectors) = (0, 0, 0);
        }
        let keeps_hot = keeps_hot && has_room;
        while let Some(entry) = self.areas[tail as usize].entries.get(self.scanned) {
            let (sectors, place) = (entry.run.sectors(), self.regions.start(tail) + self.scanned_sectors);
            let stays = keeps_hot && entry.is_hot && self.kept_sectors + sectors <= self.region_sectors / 2;
            let band = self.valid_at(entry, place).next().map(|(lba, ..)| lba.0 / self.region_sectors);
            match band {
                // Nothing of it is left, whether it was hot or not.
                None => {}
                Some(_) if stays => self.kept_sectors += sectors,
                Some(cold) => return self.rewrite_band(disk, cold),
            }
            self.scanned += 1;
            self.scanned_sectors += sectors;
        }
        self.move_hot(disk, tail)?;
        // Only now, because until then the data at the tail was the only copy.
        self.areas[tail as usize] = Area::default();
        // In idle time the head is emptied, too, and stays the head.
        self.used = (self.used - 1).max(1);
        (self.scanned, self.scanned_sectors, self.kept_sectors) = (0, 0, 0);
        self.counts.areas_reclaimed += 1;
        Ok(())
    }

    /// The sectors of an entry at `place` to which the map points: (LBA, sectors, PBA).
    fn valid_at(&self, entry: &LogEntry, place: Pba) -> impl Iterator<Item = (Lba, u64, Pba)> + '_ {
        let first = entry.run.lba().unwrap_or(Lba(0));
        self.map.mapped(first, entry.run.sectors()).filter(move |&(lba, _, pba)| pba == place + (lba - first))
    }

    /// Appends what is valid in an area to the head.
    fn move_hot(&mut self, disk: &mut Disk, area: u64) -> DiskResult {
        let mut place = self.regions.start(area);
        let (mut runs, mut sources, mut sectors) = (Vec::new(), Vec::new(), 0);
        for entry in &self.areas[area as usize].entries {
            for (lba, n, pba) in self.valid_at(entry, place) {
                runs.push((lba, n));
                sources.push((pba, n, sectors));
                sectors += n;
            }
            place += entry.run.sectors();
        }
        let mut data = disk.buf(sectors);
        let mut gather = Gather::new(Cause::Destage, GAP_SECTORS);
        for (pba, n, at) in sources {
            gather.read(disk, pba, n, &mut data, at)?;
        }
        gather.finish(disk, &mut data)?;
        self.counts.hot_sectors_kept += sectors;
        self.append(disk, &runs, &data, Cause::Destage)
    }

    /// Reads a band, merges it with all of its sectors that are in the log, and writes it back.
    fn rewrite_band(&mut self, disk: &mut Disk, band: u64) -> DiskResult {
        let first = Lba(band * self.region_sectors);
        let home = self.home(first);
        let mut data = disk.buf(self.region_sectors);
        disk.read(home, self.region_sectors, Cause::Clean, &mut data, 0)?;
        let cached = self.map.mapped(first, self.region_sectors);
        let mut cached: Vec<(Pba, u64, u64)> = cached.map(|(lba, n, pba)| (pba, n, lba - first)).collect();
        cached.sort_unstable();
        let mut gather = Gather::new(Cause::Destage, GAP_SECTORS);
        for (pba, n, at) in cached {
            gather.read(disk, pba, n, &mut data, at)?;
        }
        gather.finish(disk, &mut data)?;
        disk.write(home, self.region_sectors, Cause::Clean, &data, 0)?;
        // Only now, because until the write is complete only the log has the newest data.
        self.map.remove(first, self.region_sectors);
        self.counts.bands_rewritten += 1;
        Ok(())
    }
}

impl Layer for HSwd {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn read(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        read_cached(disk, &self.map, (&self.regions, self.area_count()), lba, n, out)
    }

    fn write(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        self.window.note(lba, n, self.window_blocks);
        self.append(disk, &[(lba, n)], data, Cause::Host)
    }

    /// Drops sectors from the log.
    fn discard(&mut self, _disk: &mut Disk, lba: Lba, n: u64) -> DiskResult {
        self.map.remove(lba, n);
        Ok(())
    }

    fn step(&mut self, disk: &mut Disk, need: Need) -> DiskResult<bool> {
        let is_empty = self.used == 1 && self.areas[self.head as usize].filled == 0;
        if need == Need::Must || is_empty {
            return Ok(false);
        }
        // Nobody waits, and whatever is home now is not in the way when the log is full.
        self.reclaim_stage(disk, false)?;
        Ok(true)
    }

    fn idle_delay(&self) -> Option<Nanos> {
        self.idle_delay
    }

    fn fill(&mut self) -> Arc<dyn Placement> {
        let (regions, areas) = (self.regions.clone(), self.area_count());
        Arc::new(Ascending::new(self.capacity.host_sectors, move |lba| regions.place(areas, lba)))
    }

    fn rewrites_in_place(&self) -> bool {
        true
    }

    /// Forgets which data is hot, except in the log.
    fn power_cut(&mut self) {
        self.window = HotWindow::default();
    }

    layer_state!();

    fn locate(&self, lba: Lba) -> Pba {
        self.map.get(lba).unwrap_or_else(|| self.home(lba))
    }

    fn check(&self) -> DiskResult {
        let (mut mapped, tail) = (0, self.tail());
        for number in 0..self.area_count() {
            let area = &self.areas[number as usize];
            let is_used = (number + self.area_count() - tail) % self.area_count() < self.used;
            ensure!(is_used || area.entries.is_empty(), "area {number} of the log is free and has entries");
            let sectors: u64 = area.entries.iter().map(|entry| entry.run.sectors()).sum();
            let fits = sectors == area.filled && sectors <= self.region_sectors;
            ensure!(
                fits,
                "area {number} of the log is filled with {} sectors, and its entries have {sectors}",
                area.filled
            );
            let mut place = self.regions.start(number);
            for entry in &area.entries {
                mapped += self.valid_at(entry, place).map(|(_, n, _)| n).sum::<u64>();
                place += entry.run.sectors();
            }
        }
        ensure!(
            mapped == self.map.sectors(),
            "the map has {} sectors, and the entries of the log have {mapped} of them",
            self.map.sectors()
        );
        Ok(())
    }

    fn map_bytes(&self) -> u64 {
        let entries: usize = self.areas.iter().map(|area| area.entries.len()).sum();
        self.map.bytes() + (entries * size_of::<LogEntry>()) as u64 + self.window.blocks.len() as u64 * BYTES_A_BLOCK
    }

    fn gauges(&self) -> Gauges {
        // All areas in use before the head are full.
        let filled = (self.used - 1) * self.region_sectors + self.areas[self.head as usize].filled;
        Gauges { cache_fill: Some(filled as f64 / self.capacity.cache_sectors as f64), others: Vec::new() }
    }

    layer_counts!();

    fn bands_moved(&self) -> u64 {
        self.counts.bands_rewritten
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Geometry;
    use crate::medium::Medium;
    use crate::medium::interference::Interference;
    use crate::schema::Keyed;

    /// A layer with a log of four areas of 50 sectors.
    fn layer() -> (HSwd, Disk) {
        let mut drive = Drive::load("tiny-constant").unwrap();
        drive.geometry = Geometry::uniform(110, 20).unwrap();
        let drive = drive.with_interference(Interference::Tracks { width: 2, band: None }).unwrap();
        let set = [("cache_percent", "15"), ("region_sectors", "50")].map(|(key, value)| (key.into(), value.into()));
        let keys = HSwdKeys::read(&SPEC.resolve(&set).unwrap()).unwrap();
        let layer = HSwd::new(&drive, &keys).unwrap();
        assert_eq!(layer.area_count(), 4);
        (layer, Disk::new(&drive, Medium::NoData))
    }

    fn write(layer: &mut HSwd, disk: &mut Disk, lba: u64, n: u64) {
        layer.write(disk, Lba(lba), n, &Buf::NoData).unwrap();
        layer.check().unwrap();
    }

    /// The log has gone round once: what was written twice is in it, at another place, and what was written once is in its band.
    #[test]
    fn hot_data_stays_in_the_log_and_cold_data_goes_home() {
        let (mut layer, mut disk) = layer();
        write(&mut layer, &mut disk, 0, 8);
        write(&mut layer, &mut disk, 0, 8);
        (10..35).for_each(|block| write(&mut layer, &mut disk, block * 8, 8));
        assert!(layer.counts.areas_reclaimed > 0);
        let place = layer.map.get(Lba(0)).unwrap();
        assert!(place >= layer.regions.start(1) && place < layer.regions.start(4), "{place}");
        assert_eq!((layer.map.get(Lba(80)), layer.locate(Lba(80))), (None, layer.home(Lba(80))));
        assert_eq!(layer.counts.hot_sectors_kept, 8);
    }

    #[test]
    fn a_window_forgets_the_oldest_writes() {
        let mut window = HotWindow::default();
        [0, 8, 0, 16].into_iter().for_each(|lba| window.note(Lba(lba), 8, 3));
        assert_eq!([0, 8, 16, 24].map(|lba| window.writes_to(Lba(lba))), [1, 1, 1, 0]);
        assert_eq!(window.writes.len(), 3);
    }

    #[test]
    fn a_check_finds_what_can_not_be_in_the_log() {
        type Damage = fn(&mut HSwd);
        let damages: [(&str, Damage); 3] = [
            ("area 0 of the log is filled with 41 sectors", |layer| layer.areas[0].filled += 1),
            ("area 0 of the log is free and has entries", |layer| layer.head = 2),
            ("the map has 48 sectors, and the entries of the log have 40", |layer| {
                layer.map.insert(Lba(400), 8, layer.regions.start(1));
            }),
        ];
        for (problem, damage) in damages {
            let (mut layer, mut disk) = layer();
            (0..5).for_each(|block| write(&mut layer, &mut disk, block * 8, 8));
            damage(&mut layer);
            let error = layer.check().unwrap_err().to_string();
            assert!(error.contains(problem), "{problem}: {error}");
        }
    }
}

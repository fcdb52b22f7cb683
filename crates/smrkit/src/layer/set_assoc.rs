//! The set-associative disk cache: Cassuto et al., "Indirection Systems for Shingled-Recording Disk Drives", MSST 2010,
//! section IV, algorithms IV.1 to IV.3.
//!
//! The disk is divided into regions of equal size. The first M are the persistent cache; native region i is cached in cache region i mod M.
//! Writes are appended to the cache region. When a cache region is full, every native region with sectors in it is read, merged and written
//! back, one after another, while the host waits.

use std::ops::Range;
use std::sync::Arc;

use super::interface::IdleKeys;
use super::runs::read_cached;
use crate::extent_map::ExtentMap;
use crate::geometry::Regions;
use crate::layer::prelude::*;

pub(super) const SPEC: LayerSpec = LayerSpec::new::<SetAssocKeys>(
    "set-assoc",
    "A persistent cache with a fixed place for each region; when a cache region is full, all of it is merged home.",
    "Cassuto et al. 2010, section IV",
    &Form::ALL,
);

keys! {
    struct SetAssocKeys {
        /// Share of the regions that form the persistent cache.
        cache_percent: f64 = percent(0.001, 50.0), "1";
        /// Number of sectors in a region, without its guard.
        region_sectors: u64 = Count(8, 1 << 30), "50000";
        /// Idle time.
        idle: IdleKeys;
    }
}

impl LayerKeys for SetAssocKeys {
    fn build(&self, drive: &Drive) -> Result<Box<dyn Layer>, Error> {
        Ok(Box::new(SetAssoc::new(drive, self)?))
    }
}

struct SetAssoc {
    regions: Regions,
    region_sectors: u64,
    /// M, the number of cache regions, which come first.
    caches: u64,
    natives: u64,
    capacity: Capacity,
    map: ExtentMap,
    /// Sectors appended to each cache region since it was last collected.
    fill: Vec<u64>,
    filled_sectors: u64,
    idle_delay: Option<Nanos>,
    counts: SetAssocCounts,
}

counts! { SetAssocCounts { collections, bands_cleaned } }

state! {
    SetAssoc {
        sized: fill;
        values: map, filled_sectors, counts;
        built: regions, region_sectors, caches, natives, capacity, idle_delay;
    }
}

impl SetAssoc {
    fn new(drive: &Drive, keys: &SetAssocKeys) -> Result<SetAssoc, Error> {
        let region_sectors = keys.region_sectors;
        let regions = Regions::new(&drive.geometry, drive.interference.guard(&drive.geometry), region_sectors)?;
        let caches = ((regions.count as f64 * (keys.cache_percent / 100.0)).round() as u64).max(1);
        if regions.count <= caches {
            return Err(Error::Impossible(format!(
                "the drive holds {} regions of {region_sectors} sectors, too few for a cache of {caches} and data \
                 next to it: lower set-assoc.region_sectors or take a larger drive",
                regions.count
            )));
        }
        let host_sectors = (regions.count - caches) * region_sectors;
        Ok(SetAssoc {
            region_sectors,
            natives: regions.count - caches,
            fill: vec![0; caches as usize],
            filled_sectors: 0,
            idle_delay: keys.idle.delay(),
            map: ExtentMap::new(),
            counts: SetAssocCounts::default(),
            regions,
            caches,
            capacity: Capacity::new(drive, host_sectors, caches * region_sectors, 0),
        })
    }

    fn cache_of(&self, lba: Lba) -> usize {
        (self.regions.of_logical(lba).0 % self.caches) as usize
    }

    /// How many of `n` sectors from `lba` on are in the region of the first.
    fn within_region(&self, lba: Lba, n: u64) -> u64 {
        n.min(self.region_sectors - self.regions.of_logical(lba).1)
    }

    /// Merges the sectors of a cache region into their native regions, one after another (algorithm IV.2).
    fn collect(&mut self, disk: &mut Disk, cache: usize) -> DiskResult {
        self.counts.collections += 1;
        self.counts.first_cleaning_request.get_or_insert(disk.requests());
        let start = self.regions.start(cache as u64);
        let used = self.fill[cache];
        let mut cached = disk.buf(used);
        disk.read(start, used, Cause::Destage, &mut cached, 0)?;
        let mut region = disk.buf(self.region_sectors);
        for native in (cache as u64..self.natives).step_by(self.caches as usize) {
            self.merge(disk, native, start, &cached, &mut region)?;
        }
        self.empty(cache);
        Ok(())
    }

    fn empty(&mut self, cache: usize) {
        self.filled_sectors -= std::mem::take(&mut self.fill[cache]);
    }

    /// Merges one native region of the fullest cache region, or empties the cache region if all are merged. Returns `false` if nothing is
    /// cached.
    fn collect_idly(&mut self, disk: &mut Disk) -> DiskResult<bool> {
        let fullest = (0..self.fill.len()).max_by_key(|&cache| self.fill[cache]);
        let Some(cache) = fullest.filter(|&cache| self.fill[cache] > 0) else { return Ok(false) };
        let mut natives = (cache as u64..self.natives).step_by(self.caches as usize);
        let Some(native) = natives.find(|&native| self.cached(native).next().is_some()) else {
            // All of its sectors have been merged, overwritten or discarded.
            self.empty(cache);
            return Ok(true);
        };
        // Reads all extents in one access, including the gaps between them.
        let (mut start, mut end) = (Pba(u64::MAX), Pba(0));
        for (_, sectors, pba) in self.cached(native) {
            start = start.min(pba);
            end = end.max(pba + sectors);
        }
        let (mut cached, mut region) = (disk.buf(end - start), disk.buf(self.region_sectors));
        disk.read(start, end - start, Cause::Destage, &mut cached, 0)?;
        self.merge(disk, native, start, &cached, &mut region)?;
        Ok(true)
    }

    /// Cached sectors of a native region: (LBA, sectors, PBA).
    fn cached(&self, native: u64) -> impl Iterator<Item = (Lba, u64, Pba)> + '_ {
        self.map.mapped(Lba(native * self.region_sectors), self.region_sectors)
    }

    /// Merges cached sectors into a native region. `cached` was read from PBA `start` on; `region` is a buffer of a region's size.
    fn merge(&mut self, disk: &mut Disk, native: u64, start: Pba, cached: &Buf, region: &mut Buf) -> DiskResult {
        let first = Lba(native * self.region_sectors);
        let mut extents = self.cached(native).peekable();
        if extents.peek().is_none() {
            return Ok(());
        }
        let home = self.regions.start(self.caches + native);
        disk.read(home, self.region_sectors, Cause::Clean, region, 0)?;
        for (lba, n, pba) in extents {
            region.put(lba - first, cached, pba - start, n);
        }
        disk.write(home, self.region_sectors, Cause::Clean, region, 0)?;
        // Only now, because until the write is complete only the cache has the newest data.
        self.map.remove(first, self.region_sectors);
        self.counts.bands_cleaned += 1;
        Ok(())
    }
}

impl Layer for SetAssoc {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// Reads what is mapped from the cache, and the rest from the native regions (algorithm IV.3, by runs instead of sectors).
    fn read(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        read_cached(disk, &self.map, (&self.regions, self.caches), lba, n, out)
    }

    /// Appends to the cache region, after collecting it if it is full (algorithm IV.1).
    fn write(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        let mut done = 0;
        while done < n {
            let cache = self.cache_of(lba + done);
            if self.fill[cache] == self.region_sectors {
                self.collect(disk, cache)?;
            }
            // Sectors of the next native region belong to another cache region.
            let count = self.within_region(lba + done, n - done).min(self.region_sectors - self.fill[cache]);
            let pba = self.regions.start(cache as u64) + self.fill[cache];
            disk.write(pba, count, Cause::Host, data, done)?;
            self.map.insert(lba + done, count, pba);
            self.fill[cache] += count;
            self.filled_sectors += count;
            done += count;
        }
        Ok(())
    }

    /// Drops cached sectors. The next collection frees their space.
    fn discard(&mut self, _disk: &mut Disk, lba: Lba, n: u64) -> DiskResult {
        self.map.remove(lba, n);
        Ok(())
    }

    fn step(&mut self, disk: &mut Disk, need: Need) -> DiskResult<bool> {
        if need == Need::Spare { self.collect_idly(disk) } else { Ok(false) }
    }

    fn idle_delay(&self) -> Option<Nanos> {
        self.idle_delay
    }

    fn fill(&mut self) -> Arc<dyn Placement> {
        let (regions, caches) = (self.regions.clone(), self.caches);
        Arc::new(Ascending::new(self.capacity.host_sectors, move |lba| regions.place(caches, lba)))
    }

    fn rewrites_in_place(&self) -> bool {
        true
    }

    fn forgets(&self) -> Vec<Range<Lba>> {
        let cached = self.map.mapped(Lba(0), self.capacity.host_sectors);
        cached.map(|(lba, sectors, _)| lba..lba + sectors).collect()
    }

    /// The map is in memory only: without it, all cached sectors are lost.
    fn power_cut(&mut self) {
        self.map = ExtentMap::new();
        self.fill.fill(0);
        self.filled_sectors = 0;
    }

    layer_state!();

    fn locate(&self, lba: Lba) -> Pba {
        self.map.get(lba).unwrap_or_else(|| self.regions.place(self.caches, lba))
    }

    fn check(&self) -> DiskResult {
        let mut seen = Vec::with_capacity(self.map.len());
        for (lba, n, pba) in self.map.mapped(Lba(0), self.capacity.host_sectors) {
            let cache = self.cache_of(lba);
            let start = self.regions.start(cache as u64);
            let is_inside = pba >= start && pba + n <= start + self.fill[cache];
            ensure!(is_inside, "LBA {lba} is cached at PBA {pba}, outside cache region {cache}");
            seen.push((pba, n));
        }
        seen.sort_unstable();
        for pair in seen.windows(2) {
            ensure!(pair[0].0 + pair[0].1 <= pair[1].0, "two LBAs are cached at PBA {}", pair[1].0);
        }
        for (cache, &fill) in self.fill.iter().enumerate() {
            ensure!(fill <= self.region_sectors, "cache region {cache} is filled with {fill} sectors");
        }
        ensure!(self.fill.iter().sum::<u64>() == self.filled_sectors, "the sum of fills is wrong");
        Ok(())
    }

    fn map_bytes(&self) -> u64 {
        self.map.bytes()
    }

    fn gauges(&self) -> Gauges {
        let cache_fill = self.filled_sectors as f64 / self.capacity.cache_sectors as f64;
        Gauges { cache_fill: Some(cache_fill), others: Vec::new() }
    }

    layer_counts!();

    fn bands_moved(&self) -> u64 {
        self.counts.bands_cleaned
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Geometry;
    use crate::medium::Medium;
    use crate::medium::interference::Interference;
    use crate::schema::Keyed;

    /// An empty layer of regions of 50 sectors.
    fn empty() -> (SetAssoc, Disk) {
        let mut drive = Drive::load("tiny-constant").unwrap();
        drive.geometry = Geometry::uniform(110, 20).unwrap();
        let drive = drive.with_interference(Interference::Tracks { width: 2, band: None }).unwrap();
        let set = [("cache_percent", "10"), ("region_sectors", "50")].map(|(key, value)| (key.into(), value.into()));
        let keys = SetAssocKeys::read(&SPEC.resolve(&set).unwrap()).unwrap();
        (SetAssoc::new(&drive, &keys).unwrap(), Disk::new(&drive, Medium::NoData))
    }

    /// One with 5 + 15 sectors in the second cache region, and with the third one full.
    fn cached() -> SetAssoc {
        let (mut layer, mut disk) = empty();
        for (lba, n) in [(0, 10), (50, 10), (55, 10), (100, 50), (150, 5)] {
            layer.write(&mut disk, Lba(lba), n, &Buf::NoData).unwrap();
        }
        assert_eq!((layer.caches, layer.fill.as_slice()), (3, [15, 20, 50].as_slice()));
        layer.check().unwrap();
        layer
    }

    #[test]
    fn a_check_finds_what_can_not_be_in_a_cache_region() {
        type Damage = fn(&mut SetAssoc);
        let damages: [(&str, Damage); 6] = [
            ("outside cache region 1", |layer| layer.map.insert(Lba(50), 1, layer.regions.start(0) + 30)),
            ("outside cache region 1", |layer| layer.map.insert(Lba(50), 1, layer.regions.start(1) + 20)),
            ("outside cache region 1", |layer| layer.map.insert(Lba(50), 2, layer.regions.start(1) + 19)),
            ("two LBAs are cached at PBA", |layer| layer.map.insert(Lba(90), 1, layer.regions.start(1) + 1)),
            ("cache region 2 is filled with 51 sectors", |layer| layer.fill[2] += 1),
            ("the sum of fills is wrong", |layer| layer.filled_sectors += 1),
        ];
        for (problem, damage) in damages {
            let mut layer = cached();
            damage(&mut layer);
            let error = layer.check().unwrap_err().to_string();
            assert!(error.contains(problem), "{problem}: {error}");
        }
    }
}

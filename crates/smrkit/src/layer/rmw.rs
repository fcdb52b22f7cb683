//! Pure read-modify-write: Cassuto et al., MSST 2010, section II.B.
//!
//! LBAs fill guarded regions in order. A write that would destroy valid data reads a portion of the region, merges, and writes the portion
//! back: the smallest one that protects valid data, the region's tail, or the whole region.
//!
//! Under the law of distances, rewriting a sector may damage valid data up to the DPID upstream. A rewrite therefore includes this data, and
//! then the data upstream of that, and so on. The layer does not record the order of writes, so it assumes that a single rewrite does the
//! damage (U = 1).
//!
//! With `hold`, that many regions stay open in memory, and are rewritten when another takes their place (the array study's "band held
//! open"). A power cut loses what they hold.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::geometry::Regions;
use crate::layer::prelude::*;
use crate::pages::LbaSet;
use crate::ranges::RangeMap;

pub(super) const SPEC: LayerSpec = LayerSpec::new::<RmwKeys>(
    "rmw",
    "Regions are updated in place: data that a write would destroy is read first, and written back with it.",
    "Cassuto et al. 2010, section II.B",
    &Form::ALL,
);

keys! {
    struct RmwKeys {
        /// Number of sectors in a region, without its guard.
        region_sectors: u64 = Count(8, 1 << 30), "50000";
        /// Which sectors a write rewrites: as few as protect valid data (smallest), all up to the end of the region
        /// (tail), or the whole region (region).
        portion: Portion = Portion::WORDS, "smallest";
        /// Number of regions that are kept in memory while they are written; a region is rewritten when another one
        /// takes its place, or on a flush.
        hold: u64 = Count(0, 1024), "0";
    }
}

words! {
    enum Portion {
        Smallest = "smallest",
        Tail = "tail",
        Region = "region",
    }
}

impl LayerKeys for RmwKeys {
    fn build(&self, drive: &Drive) -> Result<Box<dyn Layer>, Error> {
        Ok(Box::new(Rmw::new(drive, self)?))
    }
}

struct Rmw {
    regions: Regions,
    portion: Portion,
    capacity: Capacity,
    /// LBAs that hold data of the host.
    valid: LbaSet,
    /// LBAs ever written. Only writing one again may damage sectors upstream.
    written: LbaSet,
    hold: usize,
    /// Regions open in memory, the least recently used first.
    open_regions: Vec<OpenRegion>,
    counts: RmwCounts,
}

counts! { RmwCounts { rewrites, rewritten_sectors } }

/// A region that is open in memory, with writes that are not on the platters yet.
#[derive(Serialize, Deserialize)]
struct OpenRegion {
    region: u64,
    #[serde(skip)]
    data: Buf,
    /// Sectors of the region that `data` holds.
    dirty: RangeMap<()>,
}

state! {
    Rmw {
        values: valid, written, open_regions, counts;
        built: regions, portion, capacity, hold;
    }
}

impl Rmw {
    fn new(drive: &Drive, keys: &RmwKeys) -> Result<Rmw, Error> {
        let guard = drive.interference.guard(&drive.geometry);
        let regions = Regions::new(&drive.geometry, guard, keys.region_sectors)?;
        Ok(Rmw {
            capacity: Capacity::new(drive, regions.count * keys.region_sectors, 0, 0),
            regions,
            portion: keys.portion,
            valid: LbaSet::default(),
            written: LbaSet::default(),
            hold: keys.hold as usize,
            open_regions: Vec::new(),
            counts: RmwCounts::default(),
        })
    }

    /// The sectors that must be rewritten together with `first..end`. All are counted from the region's start, which is LBA `base` at PBA
    /// `start`.
    fn portion(&self, disk: &Disk, (base, start): (Lba, Pba), first: u64, end: u64) -> (u64, u64) {
        if self.portion == Portion::Region {
            return (0, self.regions.region_sectors());
        }
        let (mut from, mut to) = (first, end);
        // Sectors added at one end may require more at the other.
        loop {
            let before = (from, to);
            to = self.reach_downstream(disk, (base, start), from, to);
            from = self.reach_upstream(disk, base, from, to);
            if (from, to) == before {
                return before;
            }
        }
    }

    /// The sector from which to rewrite, so that no valid sector upstream is damaged.
    fn reach_upstream(&self, disk: &Disk, base: Lba, first: u64, end: u64) -> u64 {
        let reach = disk.interference().upstream();
        // A first write damages nothing upstream.
        if reach == 0 || self.written.runs(base + first, end - first).next().is_none() {
            return first;
        }
        let mut from = first;
        while from > 0 {
            let window = from.saturating_sub(reach);
            match self.valid.runs(base + window, from - window).next() {
                Some((lba, _)) => from = lba - base,
                None => break,
            }
        }
        from
    }

    /// End of a rewrite that includes all valid data that it destroys.
    fn reach_downstream(&self, disk: &Disk, (base, start): (Lba, Pba), first: u64, mut end: u64) -> u64 {
        let law = disk.interference();
        loop {
            let (destroyed_from, destroyed_to) = law.downstream(disk.geometry(), start + first, end - first);
            let to = (destroyed_to - start).min(self.regions.region_sectors());
            let from = (destroyed_from - start).max(end);
            if from >= to {
                return end;
            }
            let Some((lba, _)) = self.valid.runs(base + from, to - from).last() else { return end };
            // Any damage means that all of the region's tail is rewritten.
            if self.portion == Portion::Tail {
                return self.regions.region_sectors();
            }
            // The added sectors, up to the end of their run of valid data, destroy sectors downstream in turn.
            end = lba - base;
            for (first, n) in self.valid.runs(lba, self.regions.region_sectors() - end) {
                if first != base + end {
                    break;
                }
                end += n;
            }
        }
    }

    /// Writes the runs `dirty` (first sector, end) of a region, the first of which begins at sector `at` of `data`.
    fn rewrite(&mut self, disk: &mut Disk, region: u64, dirty: &[(u64, u64)], data: &Buf, at: u64) -> DiskResult {
        let (Some(&(first, _)), Some(&(_, end))) = (dirty.first(), dirty.last()) else { return Ok(()) };
        let base = Lba(region * self.regions.region_sectors());
        let pba = self.regions.start(region);
        let (from, to) = self.portion(disk, (base, pba), first, end);
        // If nothing valid is destroyed, or overwritten between the dirty runs, nothing has to be read.
        if (from, to) == (first, end) && self.holes_are_empty(base, dirty) {
            disk.write(pba + first, end - first, Cause::Host, data, at)?;
        } else {
            let mut buf = disk.buf(to - from);
            disk.read(pba + from, to - from, Cause::Clean, &mut buf, 0)?;
            for &(a, b) in dirty {
                buf.put(a - from, data, at + (a - first), b - a);
            }
            disk.write(pba + from, to - from, Cause::Clean, &buf, 0)?;
            self.counts.rewrites += 1;
            self.counts.rewritten_sectors += to - from;
            self.counts.first_cleaning_request.get_or_insert(disk.requests());
        }
        // Gaps between valid runs were written, too.
        self.written.insert(base + from, to - from);
        for &(a, b) in dirty {
            self.valid.insert(base + a, b - a);
        }
        Ok(())
    }

    fn holes_are_empty(&self, base: Lba, dirty: &[(u64, u64)]) -> bool {
        dirty.windows(2).all(|pair| {
            let (from, to) = (pair[0].1, pair[1].0);
            self.valid.runs(base + from, to - from).next().is_none()
        })
    }

    /// Opens a region in memory, as the most recently used one. If there are too many, closes the least recently used.
    fn open(&mut self, disk: &mut Disk, region: u64) -> DiskResult<&mut OpenRegion> {
        let open = match self.open_regions.iter().position(|open| open.region == region) {
            Some(at) => self.open_regions.remove(at),
            None => {
                if self.open_regions.len() == self.hold {
                    self.close_oldest(disk)?;
                }
                OpenRegion { region, data: disk.buf(self.regions.region_sectors()), dirty: RangeMap::default() }
            }
        };
        self.open_regions.push(open);
        Ok(self.open_regions.last_mut().expect("just pushed"))
    }

    fn close_oldest(&mut self, disk: &mut Disk) -> DiskResult {
        let open = self.open_regions.remove(0);
        let dirty: Vec<(u64, u64)> = open.dirty.iter().map(|(run, ())| (run.start, run.end)).collect();
        // The buffer begins with the region, not with its first dirty sector.
        let at = dirty.first().map_or(0, |&(first, _)| first);
        self.rewrite(disk, open.region, &dirty, &open.data, at)
    }
}

impl Layer for Rmw {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn read(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        for (region, first, count, at) in self.regions.pieces(lba, n) {
            let pba = self.regions.start(region);
            let Some(open) = self.open_regions.iter().find(|open| open.region == region) else {
                disk.read(pba + first, count, Cause::Host, out, at)?;
                continue;
            };
            for (Range { start, end }, in_memory) in open.dirty.parts(first..first + count) {
                match in_memory {
                    Some(()) => out.put(at + (start - first), &open.data, start, end - start),
                    None => disk.read(pba + start, end - start, Cause::Host, out, at + (start - first))?,
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        for (region, first, count, at) in self.regions.pieces(lba, n) {
            if self.hold > 0 {
                let open = self.open(disk, region)?;
                open.data.put(first, data, at, count);
                open.dirty.cover(first..first + count, ());
            } else {
                self.rewrite(disk, region, &[(first, first + count)], data, at)?;
            }
        }
        Ok(())
    }

    fn discard(&mut self, _disk: &mut Disk, lba: Lba, n: u64) -> DiskResult {
        self.valid.remove(lba, n);
        for (region, first, count, _) in self.regions.pieces(lba, n) {
            if let Some(open) = self.open_regions.iter_mut().find(|open| open.region == region) {
                open.dirty.uncover(first..first + count);
            }
        }
        Ok(())
    }

    fn flush(&mut self, disk: &mut Disk) -> DiskResult {
        while !self.open_regions.is_empty() {
            self.close_oldest(disk)?;
        }
        disk.flush()
    }

    fn fill(&mut self) -> Arc<dyn Placement> {
        (self.valid, self.written) = (LbaSet::all(), LbaSet::all());
        let regions = self.regions.clone();
        Arc::new(Ascending::new(self.capacity.host_sectors, move |lba| regions.place(0, lba)))
    }

    fn rewrites_in_place(&self) -> bool {
        true
    }

    /// Loses the writes held in memory, and data that a torn rewrite destroyed. All sectors count as valid and written from then on.
    fn power_cut(&mut self) {
        self.open_regions.clear();
        (self.valid, self.written) = (LbaSet::all(), LbaSet::all());
    }

    layer_state!();

    fn locate(&self, lba: Lba) -> Pba {
        self.regions.place(0, lba)
    }

    fn check(&self) -> DiskResult {
        for (lba, n) in self.valid.runs(Lba(0), self.capacity.host_sectors) {
            ensure!(self.written.contains_all(lba, n), "LBA {lba} is valid but was never written");
        }
        ensure!(self.open_regions.len() <= self.hold, "{} regions are held", self.open_regions.len());
        Ok(())
    }

    fn map_bytes(&self) -> u64 {
        self.valid.bytes() + self.written.bytes()
    }

    layer_counts!();

    fn bands_moved(&self) -> u64 {
        self.counts.rewrites
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Keyed;

    fn layer(hold: &str) -> Rmw {
        let drive = Drive::load("tiny-constant").unwrap();
        let set = [("hold", hold), ("region_sectors", "50")].map(|(key, value)| (key.into(), value.into()));
        let keys = RmwKeys::read(&SPEC.resolve(&set).unwrap()).unwrap();
        Rmw::new(&drive, &keys).unwrap()
    }

    #[test]
    fn a_check_finds_regions_held_in_a_way_that_can_not_be() {
        let held = |regions: u64| {
            let mut layer = layer("1");
            let open = |region| OpenRegion { region, data: Buf::NoData, dirty: RangeMap::default() };
            layer.open_regions = (0..regions).map(open).collect();
            layer.check().map_err(|fault| fault.to_string())
        };
        assert_eq!(held(1), Ok(()));
        assert!(held(2).unwrap_err().contains("2 regions are held"));
        let mut layer = layer("0");
        layer.valid.insert(Lba(3), 4);
        layer.written.insert(Lba(3), 3);
        assert!(layer.check().unwrap_err().to_string().contains("LBA 3 is valid but was never written"));
    }
}

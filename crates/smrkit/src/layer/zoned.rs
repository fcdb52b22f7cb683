//! A host-managed disk: zones that the host has to write in order. Its rules are checked, and nothing is translated.
//!
//! The rules are those of ZBC (INCITS 536) and, with `max_active`, of NVMe's zoned namespaces: a sequential zone is written at
//! its write pointer, no write crosses into another zone, and a discard that covers a whole zone resets it. What breaks them is
//! counted and carried out in place, or refused. Left out: opening, closing and finishing a zone by command, since no request
//! carries them, and the time of a reset (none: assumption).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::zones::{ZoneKeys, ZoneLayout};
use super::{Capacity, Gauge, Gauges, Layer, LayerKeys, LayerSpec, LayerStats, Scalar, ZoneViolations, inconsistent};
use crate::disk::Disk;
use crate::drive::Drive;
use crate::error::{DiskResult, Error, Fault};
use crate::keys;
use crate::medium::{Buf, Placement};
use crate::request::Op;
use crate::schema::{Count, Word};
use crate::state::{layer_state, state};
use crate::tally::Cause;
use crate::units::{Lba, Pba};

pub(super) const SPEC: LayerSpec = LayerSpec::new::<ZonedKeys>(
    "zoned",
    "A host-managed disk: checks that the host writes each zone in order, and counts or refuses what breaks the rules.",
    "none (ZBC, INCITS 536; zoned namespaces of NVMe)",
    &[],
);

keys! {
    /// The parameters.
    #[derive(Clone)]
    struct ZonedKeys {
        /// The zones.
        zones: ZoneKeys;
        /// Zones that the drive holds open; beyond them it closes the one written longest ago; 0 is no limit.
        max_open: u64 = Count(0, 1 << 20), "128";
        /// Zones that may be begun and not full; one more is a violation; 0 is no limit.
        max_active: u64 = Count(0, 1 << 20), "0";
        /// A request that breaks a rule is counted and carried out in place, or refused: an error, which ends a run.
        violations: OnViolation = ON_VIOLATION, "count";
    }
}

const ON_VIOLATION: Word<OnViolation> = Word(&[("count", OnViolation::Count), ("refuse", OnViolation::Refuse)]);

#[derive(Clone, Copy, PartialEq)]
enum OnViolation {
    Count,
    Refuse,
}

impl ZonedKeys {
    fn layout(&self, drive: &Drive) -> Result<ZoneLayout, Error> {
        ZoneLayout::new(drive, &self.zones, size_of::<u64>() as u64)
    }
}

impl LayerKeys for ZonedKeys {
    fn capacity(&self, drive: &Drive) -> Result<Capacity, Error> {
        Ok(self.layout(drive)?.capacity(drive))
    }

    fn settled(self, drive: &Drive) -> ZonedKeys {
        ZonedKeys { zones: self.zones.settled(drive), ..self }
    }

    fn build(&self, drive: &Drive) -> Result<Box<dyn Layer>, Error> {
        Ok(Box::new(Zoned::new(drive, self)?))
    }
}

/// Broken rules that a result describes; all are counted.
const DESCRIBED: usize = 8;

/// A rule that a request can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// A sequential zone is written at its write pointer.
    AtPointer,
    /// A full zone is reset before it is written again.
    Full,
    /// No write crosses from or into a sequential zone.
    AcrossZones,
    /// No more zones are active than the limit allows.
    Active,
    /// Nothing is read past a write pointer.
    ReadPast,
}

/// A rule that was broken, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BrokenRule {
    rule: Rule,
    zone: u64,
    /// The write pointer as an LBA, the other zone, or the number of active zones.
    limit: u64,
}

impl BrokenRule {
    fn describe(&self, request: u64, op: Op, lba: Lba, n: u64) -> String {
        let BrokenRule { rule, zone, limit } = self;
        let problem = match rule {
            Rule::AtPointer => format!("zone {zone} has its write pointer at LBA {limit}"),
            Rule::Full => format!("zone {zone} is full and was not reset"),
            Rule::AcrossZones => format!("it crosses from zone {zone} into zone {limit}"),
            Rule::Active => format!("zone {zone} would be active with {limit} others, the limit"),
            Rule::ReadPast => format!("zone {zone} is written up to LBA {limit} only"),
        };
        format!("request {request}, a {} of {n} sectors at LBA {lba}: {problem}", op.name())
    }

    /// Error of a disk that refuses the request.
    fn fault(&self, request: u64, op: Op, lba: Lba, n: u64) -> Box<Fault> {
        Box::new(Fault::ZoneRule(self.describe(request, op, lba, n)))
    }
}

/// The requests that broke a rule since counting began.
#[derive(Default, Serialize, Deserialize)]
struct Violations {
    /// Of each rule, in their order.
    counts: [u64; 5],
    described: Vec<String>,
}

impl Violations {
    fn count(&mut self, request: u64, op: Op, lba: Lba, n: u64, broken: BrokenRule) {
        self.counts[broken.rule as usize] += 1;
        if self.described.len() < DESCRIBED {
            self.described.push(broken.describe(request, op, lba, n));
        }
    }

    fn stats(&self) -> LayerStats {
        let [off_pointer, to_full_zones, across_zones, beyond, reads] = self.counts;
        let others = [
            ("writes_off_pointer", off_pointer),
            ("writes_across_zones", across_zones),
            ("zones_beyond_max_active", beyond),
            ("reads_past_pointer", reads),
        ];
        let violations = ZoneViolations { all: self.counts.iter().sum(), to_full_zones, first: self.described.clone() };
        LayerStats::new(others, None).with_violations(&violations)
    }
}

struct Zoned {
    layout: ZoneLayout,
    capacity: Capacity,
    /// The write pointer of each zone, in sectors from its start; a conventional zone counts as full.
    pointers: Vec<u64>,
    /// The open zones, the one written last at the end.
    open: Vec<u64>,
    /// Zones begun and not full.
    active: u64,
    /// The zone written last, and its first sector.
    latest: (u64, Pba),
    max_open: usize,
    max_active: u64,
    refuses: bool,
    violations: Violations,
    counts: ZonedCounts,
}

state! {
    Zoned {
        sized: pointers;
        values: open, active, latest, violations, counts;
        built: layout, capacity, max_open, max_active, refuses;
    }
}

#[derive(Default, Serialize, Deserialize)]
struct ZonedCounts {
    resets: u64,
    closed: u64,
}

impl Zoned {
    /// An empty disk.
    fn new(drive: &Drive, keys: &ZonedKeys) -> Result<Zoned, Error> {
        let layout = keys.layout(drive)?;
        let mut pointers = vec![0; layout.count() as usize];
        pointers[..layout.conventional as usize].fill(layout.size());
        Ok(Zoned {
            capacity: layout.capacity(drive),
            pointers,
            open: Vec::new(),
            active: 0,
            latest: (0, layout.start(0)),
            max_open: keys.max_open as usize,
            max_active: keys.max_active,
            refuses: keys.violations == OnViolation::Refuse,
            violations: Violations::default(),
            counts: ZonedCounts::default(),
            layout,
        })
    }

    #[inline]
    fn is_sequential(&self, zone: u64) -> bool {
        zone >= self.layout.conventional
    }

    /// The rule that a write breaks, if it does.
    #[inline]
    fn broken_by_write(&self, lba: Lba, n: u64) -> Option<BrokenRule> {
        let (zone, at) = self.layout.of(lba);
        let is_sequential = self.is_sequential(zone);
        if at + n > self.layout.size() {
            // Conventional zones come first, so that some zone of the write is sequential exactly if its last one is.
            let (last, _) = self.layout.of(lba + (n - 1));
            return self.is_sequential(last).then_some(BrokenRule { rule: Rule::AcrossZones, zone, limit: last });
        }
        let pointer = self.pointers[zone as usize];
        if !is_sequential {
            None
        } else if at != pointer {
            let rule = if pointer == self.layout.size() { Rule::Full } else { Rule::AtPointer };
            Some(BrokenRule { rule, zone, limit: zone * self.layout.size() + pointer })
        } else if at == 0 && self.max_active > 0 && self.active >= self.max_active {
            Some(BrokenRule { rule: Rule::Active, zone, limit: self.max_active })
        } else {
            None
        }
    }

    /// Counts a broken rule, or refuses the request.
    #[cold]
    fn violated(&mut self, disk: &Disk, op: Op, lba: Lba, n: u64, broken: BrokenRule) -> DiskResult {
        // The request under way is counted when it ends.
        let request = disk.requests() + 1;
        match self.refuses {
            true => Err(broken.fault(request, op, lba, n)),
            false => {
                self.violations.count(request, op, lba, n, broken);
                Ok(())
            }
        }
    }

    /// The write pointer of a zone moves to `pointer`, with what that means for open and active zones.
    #[inline]
    fn advance(&mut self, zone: u64, pointer: u64) {
        let before = std::mem::replace(&mut self.pointers[zone as usize], pointer);
        self.active += u64::from(before == 0);
        if self.open.last() != Some(&zone) {
            self.open_again(zone);
        }
        if pointer == self.layout.size() {
            self.active -= 1;
            // It is the last one, by what was done above.
            self.open.pop();
        }
    }

    /// A zone becomes the one written last of those that are open.
    fn open_again(&mut self, zone: u64) {
        if let Some(at) = self.open.iter().position(|&open| open == zone) {
            self.open.remove(at);
        } else if self.max_open > 0 && self.open.len() == self.max_open {
            self.open.remove(0);
            self.counts.closed += 1;
        }
        self.open.push(zone);
    }

    fn reset(&mut self, zone: u64) {
        let pointer = std::mem::take(&mut self.pointers[zone as usize]);
        self.active -= u64::from(pointer > 0 && pointer < self.layout.size());
        self.open.retain(|&open| open != zone);
        self.counts.resets += 1;
    }

    /// Writes a piece that lies in one zone.
    #[inline]
    fn write_piece(&mut self, disk: &mut Disk, (zone, at, n): (u64, u64, u64), data: &Buf, from: u64) -> DiskResult {
        if zone != self.latest.0 {
            self.latest = (zone, self.layout.start(zone));
        }
        // A write that the power cuts moves no pointer (assumption).
        disk.write(self.latest.1 + at, n, Cause::Host, data, from)?;
        if self.pointers[zone as usize] < at + n {
            self.advance(zone, at + n);
        }
        Ok(())
    }
}

impl Layer for Zoned {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn conventional_end(&self) -> Pba {
        self.layout.conventional_end()
    }

    /// Reads; sectors past a write pointer are zeros, after the time that reading them takes (assumption).
    fn read(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        let past = |&(zone, at, n): &(u64, u64, u64)| at + n > self.pointers[zone as usize];
        if let Some((zone, ..)) = self.layout.pieces(lba, n).find(past) {
            let limit = zone * self.layout.size() + self.pointers[zone as usize];
            self.violated(disk, Op::Read, lba, n, BrokenRule { rule: Rule::ReadPast, zone, limit })?;
        }
        let mut done = 0;
        for (zone, at, n) in self.layout.pieces(lba, n) {
            disk.read(self.layout.start(zone) + at, n, Cause::Host, out, done)?;
            let written = self.pointers[zone as usize].saturating_sub(at).min(n);
            if written < n {
                out.put(done + written, &disk.buf(n - written), 0, n - written);
            }
            done += n;
        }
        Ok(())
    }

    #[inline]
    fn write(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        if let Some(broken) = self.broken_by_write(lba, n) {
            self.violated(disk, Op::Write, lba, n, broken)?;
        }
        let mut done = 0;
        for piece in self.layout.pieces(lba, n) {
            self.write_piece(disk, piece, data, done)?;
            done += piece.2;
        }
        Ok(())
    }

    /// A sequential zone that it covers is reset; of any other it means nothing.
    fn discard(&mut self, _disk: &mut Disk, lba: Lba, n: u64) -> DiskResult {
        for (zone, _, n) in self.layout.pieces(lba, n) {
            if n == self.layout.size() && self.is_sequential(zone) {
                self.reset(zone);
            }
        }
        Ok(())
    }

    /// Every zone is full.
    fn fill(&mut self) -> Arc<dyn Placement> {
        self.pointers.fill(self.layout.size());
        Arc::new(self.layout.placement())
    }

    /// Write pointers are the drive's own and stay (assumption); open zones are closed.
    fn power_cut(&mut self) {
        self.open.clear();
    }

    layer_state!();

    fn locate(&self, lba: Lba) -> Pba {
        let (zone, at) = self.layout.of(lba);
        self.layout.start(zone) + at
    }

    fn check(&self) -> DiskResult {
        let size = self.layout.size();
        let begun = self.pointers.iter().filter(|&&pointer| pointer > 0 && pointer < size).count() as u64;
        if begun != self.active {
            return inconsistent(format!("{} zones count as active, {begun} are begun and not full", self.active));
        }
        if self.max_open > 0 && self.open.len() > self.max_open {
            return inconsistent(format!("{} zones are open, and {} may be", self.open.len(), self.max_open));
        }
        match self.open.iter().find(|&&zone| !(1..size).contains(&self.pointers[zone as usize])) {
            Some(zone) => inconsistent(format!("zone {zone} is open, and empty or full")),
            None => Ok(()),
        }
    }

    fn map_bytes(&self) -> u64 {
        size_of_val(self.pointers.as_slice()) as u64
    }

    fn gauges(&self) -> Gauges {
        let others =
            vec![Gauge::count("open_zones", self.open.len() as f64), Gauge::count("active_zones", self.active as f64)];
        Gauges { cache_fill: None, others }
    }

    fn stats(&self) -> LayerStats {
        let stats = self.violations.stats();
        stats.with("resets", Scalar::Int(self.counts.resets)).with("zones_closed", Scalar::Int(self.counts.closed))
    }

    fn reset_stats(&mut self) {
        self.counts = ZonedCounts::default();
        self.violations = Violations::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::interference::Interference;
    use crate::schema::Keyed;

    /// A disk of zones of 128 sectors with at most two open ones.
    fn zoned() -> Zoned {
        let drive = Drive::load("tiny-constant").unwrap().with_interference(Interference::None).unwrap();
        let set = [("zone_bytes", "64Ki"), ("max_open", "2")].map(|(key, value)| (key.into(), value.into()));
        let keys = ZonedKeys::read(&SPEC.resolve(&set).unwrap()).unwrap();
        Zoned::new(&drive, &keys).unwrap()
    }

    #[test]
    fn a_check_finds_wrong_counts_and_zones_that_can_not_be_open() {
        let size = 128;
        let found = |pointers: [u64; 3], open: &[u64], active: u64| {
            let mut zoned = zoned();
            let first = zoned.layout.conventional;
            zoned.pointers[first as usize..][..3].copy_from_slice(&pointers);
            (zoned.open, zoned.active) = (open.iter().map(|zone| first + zone).collect(), active);
            zoned.check().map_err(|fault| fault.to_string())
        };
        assert_eq!(found([1, size - 1, size], &[0, 1], 2), Ok(()));
        assert!(found([1, size - 1, size], &[0, 1], 3).unwrap_err().contains("3 zones count as active, 2 are"));
        assert!(found([1, 2, 3], &[0, 1, 2], 3).unwrap_err().contains("3 zones are open, and 2 may be"));
        assert!(found([1, size, 0], &[1], 1).unwrap_err().contains("is open, and empty or full"));
        assert!(found([1, size, 0], &[2], 1).unwrap_err().contains("is open, and empty or full"));
    }
}

//! A host-managed disk: zones that the host has to write in order. Its rules are checked, and nothing is translated.
//!
//! The rules are those of ZBC (INCITS 536) and, with `max_active`, of NVMe's zoned namespaces: a sequential zone is written at
//! its write pointer, no write crosses into another zone, and a discard that covers a whole zone resets it. A request that breaks a rule is
//! counted and carried out in place, or refused. Commands that open, close and finish zones ([`HostZones`]) come only from a host that is
//! served, because the requests of a run do not include them. They take no time, nor does a reset (assumption).
//!
//! The surface of a drive with realms can be converted. The command for this, ZONE ACTIVATE, is in no format of traces, so the discard of a
//! whole inactive zone stands for it, which is an error on a real drive.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::realms::{RealmKeys, Realms, ZoneUse};
use super::zones::{ZoneKeys, ZoneLayout};
use super::{HostZones, ZoneAction, ZoneCondition, ZoneLimits, ZoneReport, ZoneViolations};
use crate::error::Fault;
use crate::layer::prelude::*;
use crate::pages::LbaSet;
use crate::request::{Op, Request};

pub(super) const SPEC: LayerSpec = LayerSpec::new::<ZonedKeys>(
    "zoned",
    "A host-managed disk: checks that the host writes each zone in order, and counts or refuses what breaks the rules.",
    "none (ZBC, INCITS 536; zoned namespaces of NVMe)",
    &[],
);

keys! {
    struct ZonedKeys {
        /// The zones.
        zones: ZoneKeys;
        /// Realms of zones that can be converted.
        realms: RealmKeys;
        /// Type of the zones that are not shingled: conventional zones can be written anywhere, sobr zones (ZBC-2:
        /// sequential or before required) at or before their write pointer. Neither counts towards the limits of open
        /// and active zones.
        conventional_type: ConventionalType = ConventionalType::WORDS, "conventional";
        /// Most zones that are open at once; opening one more closes the zone that was written longest ago. 0 means no
        /// limit.
        max_open: u64 = Count(0, 1 << 20), "128";
        /// Most zones that may be partly written; one more is a violation. 0 means no limit.
        max_active: u64 = Count(0, 1 << 20), "0";
        /// What happens to a request that breaks a rule: it is counted and carried out in place (count), or refused
        /// with an error, which ends a run (refuse).
        violations: OnViolation = OnViolation::WORDS, "count";
    }
}

words! {
    enum ConventionalType {
        Conventional = "conventional",
        SequentialOrBefore = "sobr",
    }
}

words! {
    enum OnViolation {
        Count = "count",
        Refuse = "refuse",
    }
}

impl LayerKeys for ZonedKeys {
    fn settled(self, drive: &Drive) -> ZonedKeys {
        ZonedKeys { zones: self.zones.settled(drive), ..self }
    }

    fn build(&self, drive: &Drive) -> Result<Box<dyn Layer>, Error> {
        Ok(Box::new(Zoned::new(drive, self)?))
    }
}

/// How many broken rules a result describes. All are counted.
const DESCRIBED: usize = 8;

/// A rule that a request can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// A sequential zone is written at its write pointer; one that is sequential or before required, at or before it.
    AtPointer,
    /// A full zone is reset before it is written again.
    Full,
    /// No write crosses from or into a sequential zone.
    AcrossZones,
    /// No more zones are active than the limit allows.
    Active,
    /// Nothing is read past a write pointer.
    ReadPast,
    /// Only active zones are read and written.
    Inactive,
    /// A gap zone holds nothing.
    Gap,
    /// The zones with pointers of a realm are reset before it is converted.
    NotEmpty,
    /// A zone can be opened only if the drive may close another one for it.
    Open,
    /// A conventional zone has no state that a command could change.
    Conventional,
}

/// A rule that was broken, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BrokenRule {
    rule: Rule,
    zone: u64,
    /// What the message of the rule names: the write pointer as an LBA, the other zone, or the number of active or open zones.
    limit: u64,
}

impl BrokenRule {
    fn problem(&self) -> String {
        let BrokenRule { rule, zone, limit } = self;
        match rule {
            Rule::AtPointer => format!("zone {zone} has its write pointer at LBA {limit}"),
            Rule::Full => format!("zone {zone} is full and was not reset"),
            Rule::AcrossZones => format!("it crosses from zone {zone} into zone {limit}"),
            Rule::Active => format!("zone {zone} would be active with {limit} others, the limit"),
            Rule::ReadPast => format!("zone {zone} is written up to LBA {limit} only"),
            Rule::Inactive => format!("zone {zone} is inactive"),
            Rule::Gap => format!("zone {zone} is a gap zone"),
            Rule::NotEmpty => format!("zone {zone} of the realm is written up to LBA {limit} and was not reset"),
            Rule::Open => format!("zone {zone} would be open with {limit} others that commands keep open, the limit"),
            Rule::Conventional => format!("zone {zone} is conventional"),
        }
    }
}

/// Counts since counting began.
#[derive(Default, Serialize, Deserialize)]
struct ZonedCounts {
    /// By rule, for the first eight. The others can be broken only by a served host, whose requests are refused and not counted.
    violations: [u64; 8],
    described: Vec<String>,
    resets: u64,
    closed: u64,
    conversions: u64,
}

impl ZonedCounts {
    fn stats(&self) -> LayerStats {
        // In the order of `Rule`.
        let [off_pointer, to_full_zones, across_zones, beyond, reads, ..] = self.violations;
        let others = [
            ("writes_off_pointer", off_pointer),
            ("writes_across_zones", across_zones),
            ("zones_beyond_max_active", beyond),
            ("reads_past_pointer", reads),
            ("resets", self.resets),
            ("zones_closed", self.closed),
        ];
        let violations =
            ZoneViolations { all: self.violations.iter().sum(), to_full_zones, first: self.described.clone() };
        LayerStats::new(others, None).with_violations(&violations)
    }
}

struct Zoned {
    layout: ZoneLayout,
    realms: Realms,
    activate_time: Nanos,
    capacity: Capacity,
    /// The write pointer of each zone, in sectors from its start; a conventional zone counts as full, an inactive one as empty.
    pointers: Vec<u64>,
    /// LBAs of conventional zones of converted realms that were written since.
    written: LbaSet,
    /// True if the zones that are not shingled have pointers too, and take writes up to them.
    has_before: bool,
    /// The zone written last is at the end.
    opened_by_write: Vec<u64>,
    /// The drive does not close them by itself.
    opened_by_command: Vec<u64>,
    /// Number of zones that are partly written, or empty and opened by a command.
    active: u64,
    /// The zone written last, and its first sector, which is not computed anew for each write.
    last_zone: u64,
    last_start: Pba,
    max_open: usize,
    max_active: u64,
    refuses: bool,
    counts: ZonedCounts,
}

state! {
    Zoned {
        parts: realms;
        sized: pointers;
        values: written, opened_by_write, opened_by_command, active, last_zone, last_start, counts;
        built: layout, activate_time, capacity, has_before, max_open, max_active, refuses;
    }
}

impl Zoned {
    fn new(drive: &Drive, keys: &ZonedKeys) -> Result<Zoned, Error> {
        let pointer_bytes = size_of::<u64>() as u64;
        let layout = ZoneLayout::new(drive, &keys.zones, pointer_bytes)?;
        let realms = Realms::new(&layout, &keys.realms, keys.zones.conventional_density_percent)?;
        let zones = layout.count() + realms.domain_zones();
        let mut pointers = vec![0; zones as usize];
        let has_before = keys.conventional_type == ConventionalType::SequentialOrBefore;
        if !has_before {
            pointers[..layout.conventional as usize].fill(layout.size());
        }
        Ok(Zoned {
            // Both domains have addresses, though only the zones of one have sectors.
            capacity: Capacity {
                host_sectors: zones * layout.size(),
                ..layout.capacity(drive, layout.count() * layout.size())
            },
            realms,
            activate_time: keys.realms.activate_time,
            pointers,
            written: LbaSet::default(),
            has_before,
            opened_by_write: Vec::new(),
            opened_by_command: Vec::new(),
            active: 0,
            last_zone: 0,
            last_start: layout.start(0),
            max_open: keys.max_open as usize,
            max_active: keys.max_active,
            refuses: keys.violations == OnViolation::Refuse,
            counts: ZonedCounts::default(),
            layout,
        })
    }

    fn is_sequential(&self, zone: u64) -> bool {
        zone >= self.layout.conventional && !self.realms.is_in_domain(zone)
    }

    fn start(&self, zone: u64) -> Pba {
        self.realms.start(&self.layout, zone)
    }

    /// The rule that any access breaks, if a zone of it is not active.
    fn broken_by_access(&self, lba: Lba, n: u64) -> Option<BrokenRule> {
        if self.realms.count() == 0 {
            return None;
        }
        let broken = |(zone, ..): (u64, u64, u64)| match self.realms.use_of(zone) {
            ZoneUse::Active => None,
            ZoneUse::Inactive => Some(BrokenRule { rule: Rule::Inactive, zone, limit: 0 }),
            ZoneUse::Gap => Some(BrokenRule { rule: Rule::Gap, zone, limit: 0 }),
        };
        self.layout.pieces(lba, n).find_map(broken)
    }

    /// True if the zone has a write pointer, and can be reset.
    fn has_pointer(&self, zone: u64) -> bool {
        self.has_before || self.is_sequential(zone)
    }

    /// The rule that a write breaks, if it does.
    #[inline]
    fn broken_by_write(&self, lba: Lba, n: u64) -> Option<BrokenRule> {
        let broken = self.broken_by_access(lba, n);
        if broken.is_some() {
            return broken;
        }
        let (zone, at) = self.layout.locate(lba);
        let is_sequential = self.is_sequential(zone);
        if at + n > self.layout.size() {
            // Sequential zones follow each other, so that if any zone of the write is one, its first or its last is.
            let (last, _) = self.layout.locate(lba + (n - 1));
            return (self.has_pointer(zone) || self.has_pointer(last)).then_some(BrokenRule {
                rule: Rule::AcrossZones,
                zone,
                limit: last,
            });
        }
        let pointer = self.pointers[zone as usize];
        let may_overwrite = !is_sequential && at <= pointer;
        if may_overwrite {
            None
        } else if at != pointer {
            let rule = if pointer == self.layout.size() { Rule::Full } else { Rule::AtPointer };
            Some(BrokenRule { rule, zone, limit: zone * self.layout.size() + pointer })
        } else if at == 0 && !self.opened_by_command.contains(&zone) {
            self.broken_by_begin(zone)
        } else {
            None
        }
    }

    /// The rule that making an empty zone an active one breaks, if it does.
    fn broken_by_begin(&self, zone: u64) -> Option<BrokenRule> {
        let is_limit_reached = self.max_active > 0 && self.active >= self.max_active;
        is_limit_reached.then_some(BrokenRule { rule: Rule::Active, zone, limit: self.max_active })
    }

    /// The rule that opening a zone breaks, if it does: the limit is reached by zones that commands keep open.
    fn broken_by_open(&self, zone: u64) -> Option<BrokenRule> {
        let is_limit_reached = self.max_open > 0
            && self.opened_by_command.len() >= self.max_open
            && !self.opened_by_command.contains(&zone);
        is_limit_reached.then_some(BrokenRule { rule: Rule::Open, zone, limit: self.max_open as u64 })
    }

    /// The rule that a read breaks, if it does.
    fn broken_by_read(&self, lba: Lba, n: u64) -> Option<BrokenRule> {
        let broken = self.broken_by_access(lba, n);
        if broken.is_some() {
            return broken;
        }
        let past = |&(zone, at, n): &(u64, u64, u64)| at + n > self.pointers[zone as usize];
        let (zone, ..) = self.layout.pieces(lba, n).find(past)?;
        let limit = zone * self.layout.size() + self.pointers[zone as usize];
        Some(BrokenRule { rule: Rule::ReadPast, zone, limit })
    }

    /// Counts a broken rule, or refuses the request.
    #[cold]
    fn violated(&mut self, disk: &Disk, op: Op, lba: Lba, n: u64, broken: BrokenRule) -> DiskResult {
        // The request under way is counted when it ends.
        let request = disk.requests() + 1;
        let describe =
            || format!("request {request}, a {} of {n} sectors at LBA {lba}: {}", op.name(), broken.problem());
        if self.refuses {
            return Err(Box::new(Fault::ZoneRule(describe())));
        }
        self.counts.violations[broken.rule as usize] += 1;
        if self.counts.described.len() < DESCRIBED {
            self.counts.described.push(describe());
        }
        Ok(())
    }

    /// Moves the write pointer of a zone to `pointer`, and updates which zones are open and active.
    #[inline]
    fn advance(&mut self, zone: u64, pointer: u64) {
        let before = std::mem::replace(&mut self.pointers[zone as usize], pointer);
        let is_opened = self.opened_by_command.contains(&zone);
        // A zone that a command opened is active already.
        self.active += u64::from(before == 0 && !is_opened);
        if !is_opened && self.opened_by_write.last() != Some(&zone) {
            match self.opened_by_write.iter().position(|&open| open == zone) {
                Some(at) => _ = self.opened_by_write.remove(at),
                None => self.make_room(),
            }
            self.opened_by_write.push(zone);
        }
        if pointer == self.layout.size() {
            self.active -= 1;
            self.shut(zone);
        }
    }

    /// Notes that a zone is no longer open.
    fn shut(&mut self, zone: u64) {
        self.opened_by_write.retain(|&open| open != zone);
        self.opened_by_command.retain(|&opened| opened != zone);
    }

    /// If as many zones are open as may be, closes the one written longest ago of those that writes have opened.
    fn make_room(&mut self) {
        if self.max_open > 0
            && self.opened_by_write.len() + self.opened_by_command.len() >= self.max_open
            && !self.opened_by_write.is_empty()
        {
            self.opened_by_write.remove(0);
            self.counts.closed += 1;
        }
    }

    fn is_active(&self, zone: u64) -> bool {
        let is_begun = (1..self.layout.size()).contains(&self.pointers[zone as usize]);
        self.is_sequential(zone) && is_begun || self.opened_by_command.contains(&zone)
    }

    fn reset(&mut self, zone: u64) {
        self.active -= u64::from(self.is_active(zone));
        self.pointers[zone as usize] = 0;
        self.shut(zone);
        self.counts.resets += 1;
    }

    /// Converts the realm of an inactive zone, so that the zone becomes active (ZONE ACTIVATE). Zones with pointers have to be empty; what
    /// conventional zones hold is lost.
    fn activate(&mut self, disk: &mut Disk, zone: u64) -> DiskResult {
        let Some((realm, _)) = self.realms.of(zone) else { return Ok(()) };
        let (to_domain, size) = (self.realms.is_in_domain(zone), self.layout.size());
        let (new, old) = (self.realms.zones_of(realm, to_domain), self.realms.zones_of(realm, !to_domain));
        let is_written = |&zone: &u64| self.has_pointer(zone) && self.pointers[zone as usize] > 0;
        if let Some(zone) = old.clone().find(is_written) {
            let limit = zone * size + self.pointers[zone as usize];
            let broken = BrokenRule { rule: Rule::NotEmpty, zone, limit };
            self.violated(disk, Op::Discard, Lba(new.start * size), (new.end - new.start) * size, broken)?;
        }
        for zone in old.clone() {
            self.active -= u64::from(self.is_active(zone));
            self.shut(zone);
            self.pointers[zone as usize] = 0;
        }
        let is_full = to_domain && !self.has_before;
        self.pointers[new.start as usize..new.end as usize].fill(if is_full { size } else { 0 });
        self.written.remove(Lba(old.start * size), (old.end - old.start) * size);
        self.realms.activate(disk, &self.layout, realm, to_domain);
        self.counts.conversions += 1;
        disk.wait_until(disk.now() + self.activate_time);
        Ok(())
    }

    /// Overwrites with zeros what a read found beside the sectors that were written to a conventional zone of a converted realm.
    fn blank_unwritten(&self, disk: &Disk, lba: Lba, n: u64, out: &mut Buf, at: u64) {
        let mut blank = |from: Lba, to: Lba| {
            if from < to {
                out.put(at + (from - lba), &disk.buf(to - from), 0, to - from);
            }
        };
        let mut from = lba;
        for (first, sectors) in self.written.runs(lba, n) {
            blank(from, first);
            from = first + sectors;
        }
        blank(from, lba + n);
    }

    /// Writes a piece that lies in one zone.
    #[inline]
    fn write_piece(&mut self, disk: &mut Disk, (zone, at, n): (u64, u64, u64), data: &Buf, from: u64) -> DiskResult {
        if zone != self.last_zone {
            (self.last_zone, self.last_start) = (zone, self.start(zone));
        }
        if self.realms.is_in_domain(zone) && !self.has_before {
            // Before the write: what a power cut leaves of it can be read.
            self.written.insert(Lba(zone * self.layout.size() + at), n);
        }
        // A write torn by a power cut moves no pointer (assumption).
        disk.write(self.last_start + at, n, Cause::Host, data, from)?;
        if self.pointers[zone as usize] < at + n {
            match self.is_sequential(zone) {
                true => self.advance(zone, at + n),
                false => self.pointers[zone as usize] = at + n,
            }
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
        if let Some(broken) = self.broken_by_read(lba, n) {
            self.violated(disk, Op::Read, lba, n, broken)?;
        }
        let mut done = 0;
        for (zone, at, n) in self.layout.pieces(lba, n) {
            // An inactive zone holds nothing, which takes no time to find out.
            if self.realms.use_of(zone) == ZoneUse::Active {
                disk.read(self.start(zone) + at, n, Cause::Host, out, done)?;
            }
            let written = self.pointers[zone as usize].saturating_sub(at).min(n);
            if written < n {
                out.put(done + written, &disk.buf(n - written), 0, n - written);
            } else if self.realms.is_in_domain(zone) && !self.has_before {
                self.blank_unwritten(disk, Lba(zone * self.layout.size() + at), n, out, done);
            }
            done += n;
        }
        Ok(())
    }

    fn write(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        if let Some(broken) = self.broken_by_write(lba, n) {
            self.violated(disk, Op::Write, lba, n, broken)?;
        }
        let mut done = 0;
        for piece in self.layout.pieces(lba, n) {
            // If such a write is only counted, it has no effect.
            if self.realms.use_of(piece.0) == ZoneUse::Active {
                self.write_piece(disk, piece, data, done)?;
            }
            done += piece.2;
        }
        Ok(())
    }

    /// Resets every zone with a pointer that the discard covers completely; if it is inactive, converts its realm. A discard of part of a
    /// zone, or of a conventional zone, has no effect.
    fn discard(&mut self, disk: &mut Disk, lba: Lba, n: u64) -> DiskResult {
        for (zone, _, n) in self.layout.pieces(lba, n) {
            if n < self.layout.size() {
                continue;
            }
            match self.realms.use_of(zone) {
                ZoneUse::Active if self.has_pointer(zone) => self.reset(zone),
                ZoneUse::Inactive => self.activate(disk, zone)?,
                ZoneUse::Active | ZoneUse::Gap => {}
            }
        }
        Ok(())
    }

    /// Every active zone is full; all realms are shingled.
    fn fill(&mut self) -> Arc<dyn Placement> {
        self.pointers[..self.layout.count() as usize].fill(self.layout.size());
        Arc::new(self.layout.placement())
    }

    /// Closes open zones. Write pointers survive, because the drive keeps them itself (assumption).
    fn power_cut(&mut self) {
        self.opened_by_write.clear();
        // An empty zone was active only because a command had opened it.
        let pointers = &self.pointers;
        self.active -= self.opened_by_command.drain(..).filter(|&zone| pointers[zone as usize] == 0).count() as u64;
    }

    fn zones(&self) -> Option<&dyn HostZones> {
        Some(self)
    }

    fn zones_mut(&mut self) -> Option<&mut dyn HostZones> {
        Some(self)
    }

    layer_state!();

    fn locate(&self, lba: Lba) -> Pba {
        let (zone, at) = self.layout.locate(lba);
        self.start(zone) + at
    }

    fn is_mapped(&self, lba: Lba) -> bool {
        let (zone, _) = self.layout.locate(lba);
        let is_erased = self.realms.is_in_domain(zone) && !self.has_before && !self.written.contains(lba);
        self.realms.use_of(zone) == ZoneUse::Active && !is_erased
    }

    fn check(&self) -> DiskResult {
        let size = self.layout.size();
        let begun = (0..self.pointers.len() as u64).filter(|&zone| self.is_active(zone)).count() as u64;
        ensure!(begun == self.active, "{} zones count as active, {begun} are begun and not full", self.active);
        let open = self.opened_by_write.len() + self.opened_by_command.len();
        ensure!(self.max_open == 0 || open <= self.max_open, "{open} zones are open, and {} may be", self.max_open);
        for &zone in &self.opened_by_command {
            ensure!(self.pointers[zone as usize] != size, "zone {zone} is open, and full");
        }
        for &zone in &self.opened_by_write {
            ensure!((1..size).contains(&self.pointers[zone as usize]), "zone {zone} is open, and empty or full");
        }
        Ok(())
    }

    fn map_bytes(&self) -> u64 {
        size_of_val(self.pointers.as_slice()) as u64 + self.written.bytes()
    }

    fn gauges(&self) -> Gauges {
        let others = vec![
            Gauge::count("open_zones", (self.opened_by_write.len() + self.opened_by_command.len()) as f64),
            Gauge::count("active_zones", self.active as f64),
        ];
        Gauges { cache_fill: None, others }
    }

    fn stats(&self) -> LayerStats {
        let stats = self.counts.stats();
        if self.realms.count() == 0 {
            return stats;
        }
        let [.., inactive, gap, not_empty] = self.counts.violations;
        let first = self.layout.count() * self.layout.size();
        let realms = [
            ("realms", self.realms.count()),
            ("conventional_realms", self.realms.converted()),
            ("first_lba_of_conventional_domain", first),
            ("conversions", self.counts.conversions),
            ("accesses_to_inactive_zones", inactive),
            ("accesses_to_gap_zones", gap),
            ("conversions_of_written_zones", not_empty),
        ];
        realms.into_iter().fold(stats, |stats, (name, value)| stats.with(name, Scalar::Int(value)))
    }

    fn reset_stats(&mut self) {
        self.counts = ZonedCounts::default();
    }
}

impl HostZones for Zoned {
    fn limits(&self) -> ZoneLimits {
        ZoneLimits {
            zone_sectors: self.layout.size(),
            zones: self.pointers.len() as u64,
            conventional: self.layout.conventional,
            max_open: self.max_open as u64,
            max_active: self.max_active,
        }
    }

    fn report(&self, zone: u64) -> ZoneReport {
        let pointer = self.pointers[zone as usize];
        let condition = match pointer {
            // Linux knows no type for zones that are sequential or before required.
            _ if !self.is_sequential(zone) => ZoneCondition::Conventional,
            _ if self.opened_by_command.contains(&zone) => ZoneCondition::OpenedByCommand,
            0 => ZoneCondition::Empty,
            _ if pointer == self.layout.size() => ZoneCondition::Full,
            _ if self.opened_by_write.contains(&zone) => ZoneCondition::OpenedByWrite,
            _ => ZoneCondition::Closed,
        };
        ZoneReport { condition, pointer }
    }

    fn check_request(&self, request: &Request) -> Result<(), String> {
        let (lba, n) = (request.lba, u64::from(request.sectors));
        let broken = match request.op {
            // Zones are opened by commands only if the disk is served, so `write` does not look at this limit.
            Op::Write => self.broken_by_write(lba, n).or_else(|| {
                let zone = self.layout.locate(lba).0;
                self.broken_by_open(zone).filter(|_| self.is_sequential(zone))
            }),
            // Unless the disk refuses to read past a write pointer, it reads zeros there.
            Op::Read if !self.refuses => self.broken_by_access(lba, n),
            Op::Read => self.broken_by_read(lba, n),
            // The host resets zones by a discard. It can't reset a conventional zone, nor an inactive one, whose realm `discard` would
            // convert: no command of a served host stands for ZONE ACTIVATE.
            Op::Discard => self.broken_by_access(lba, n).or_else(|| {
                let zone = self.layout.locate(lba).0;
                (!self.has_pointer(zone)).then_some(BrokenRule { rule: Rule::Conventional, zone, limit: 0 })
            }),
            Op::Flush => None,
        };
        broken.map_or(Ok(()), |broken| Err(broken.problem()))
    }

    fn act(&mut self, action: ZoneAction, zone: u64) -> Result<(), String> {
        let (pointer, size) = (self.pointers[zone as usize], self.layout.size());
        let refused = |broken: BrokenRule| Err(broken.problem());
        if !self.is_sequential(zone) {
            return refused(BrokenRule { rule: Rule::Conventional, zone, limit: 0 });
        }
        if let Some(broken) = self.broken_by_access(Lba(zone * size), size) {
            return refused(broken);
        }
        // As in ZBC, a command has no effect, and is no error, if the zone is in that condition already.
        match action {
            ZoneAction::Open if pointer < size && !self.opened_by_command.contains(&zone) => {
                let begin = if self.is_active(zone) { None } else { self.broken_by_begin(zone) };
                if let Some(broken) = begin.or_else(|| self.broken_by_open(zone)) {
                    return refused(broken);
                }
                self.active += u64::from(!self.is_active(zone));
                self.shut(zone);
                self.make_room();
                self.opened_by_command.push(zone);
            }
            ZoneAction::Close => {
                // An empty zone is active only because a command has opened it.
                self.active -= u64::from(pointer == 0 && self.opened_by_command.contains(&zone));
                self.shut(zone);
            }
            ZoneAction::Finish if pointer < size => {
                self.active -= u64::from(self.is_active(zone));
                self.shut(zone);
                self.pointers[zone as usize] = size;
            }
            ZoneAction::Open | ZoneAction::Finish => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::interference::Interference;
    use crate::schema::Keyed;

    /// A disk of zones of 128 sectors with at most two open ones.
    fn zoned() -> Zoned {
        zoned_with(&[])
    }

    fn zoned_with(more: &[(&str, &str)]) -> Zoned {
        let drive = Drive::load("tiny-constant").unwrap().with_interference(Interference::None).unwrap();
        let set = [("zone_bytes", "64Ki"), ("max_open", "2")].iter().chain(more);
        let set: Vec<_> = set.map(|&(key, value)| (key.into(), value.into())).collect();
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
            (zoned.opened_by_write, zoned.active) = (open.iter().map(|zone| first + zone).collect(), active);
            zoned.check().map_err(|fault| fault.to_string())
        };
        assert_eq!(found([1, size - 1, size], &[0, 1], 2), Ok(()));
        assert!(found([1, size - 1, size], &[0, 1], 3).unwrap_err().contains("3 zones count as active, 2 are"));
        assert!(found([1, 2, 3], &[0, 1, 2], 3).unwrap_err().contains("3 zones are open, and 2 may be"));
        assert!(found([1, size, 0], &[1], 1).unwrap_err().contains("is open, and empty or full"));
        assert!(found([1, size, 0], &[2], 1).unwrap_err().contains("is open, and empty or full"));
    }

    #[test]
    fn zones_that_are_sequential_or_before_take_writes_up_to_their_pointers() {
        let mut zoned = zoned();
        let size = zoned.layout.size();
        assert!(zoned.layout.conventional > 0);
        zoned.has_before = true;
        zoned.pointers[0] = 40;
        let rule = |zoned: &Zoned, at, n| zoned.broken_by_write(Lba(at), n).map(|broken| broken.rule);
        assert_eq!([(0, 8), (8, 40), (40, 8), (40, size - 40)].map(|(at, n)| rule(&zoned, at, n)), [None; 4]);
        assert_eq!((rule(&zoned, 48, 8), rule(&zoned, size - 8, 16)), (Some(Rule::AtPointer), Some(Rule::AcrossZones)));
        let drive = Drive::load("tiny-constant").unwrap();
        let mut disk = Disk::new(&drive, crate::medium::Medium::NoData);
        zoned.write(&mut disk, Lba(36), 8, &Buf::NoData).unwrap();
        assert_eq!((zoned.pointers[0], zoned.active, zoned.opened_by_write.len()), (44, 0, 0));
        zoned.check().unwrap();
        assert_eq!(zoned.broken_by_read(Lba(40), 8).map(|broken| broken.rule), Some(Rule::ReadPast));
        zoned.discard(&mut disk, Lba(0), size).unwrap();
        assert_eq!((zoned.pointers[0], zoned.active), (0, 0));
    }

    #[test]
    fn a_served_host_neither_converts_a_realm_nor_changes_an_inactive_zone() {
        for kind in ["conventional", "sobr"] {
            let realms = [("realm_zones", "4"), ("conventional_density_percent", "75"), ("conventional_type", kind)];
            let mut zoned = zoned_with(&realms);
            let size = zoned.layout.size();
            let (shingled, own) = (zoned.layout.conventional, zoned.layout.count());
            let reset = |zoned: &Zoned, from: u64, to: u64| {
                zoned.check_request(&Request::new(Op::Discard, Lba(from * size), ((to - from) * size) as u32))
            };
            let is_inactive = |refused: Result<(), String>| refused.unwrap_err().contains("is inactive");
            reset(&zoned, shingled, own).unwrap();
            assert!(
                is_inactive(reset(&zoned, own, own + 1)) && is_inactive(reset(&zoned, shingled, own + 1)),
                "{kind}"
            );
            let mut disk = Disk::new(&Drive::load("tiny-constant").unwrap(), crate::medium::Medium::NoData);
            zoned.discard(&mut disk, Lba(own * size), size).unwrap();
            assert!(is_inactive(reset(&zoned, shingled, shingled + 1)), "{kind}");
            assert!(is_inactive(zoned.act(ZoneAction::Open, shingled)) && zoned.active == 0, "{kind}");
        }
    }

    /// Whatever commands and writes come, a zone is in one condition, and no more are open than may be.
    #[test]
    fn zones_are_opened_closed_and_finished_by_command() {
        use ZoneAction::{Close, Finish, Open};
        let mut zoned = zoned();
        let (first, size) = (zoned.layout.conventional, zoned.layout.size());
        let condition = |zoned: &Zoned, at: u64| zoned.report(first + at).condition;
        assert!(first == 0 || zoned.act(Open, 0).unwrap_err().contains("conventional"));
        zoned.act(Open, first).unwrap();
        zoned.advance(first + 1, 8);
        assert_eq!(
            (condition(&zoned, 0), condition(&zoned, 1)),
            (ZoneCondition::OpenedByCommand, ZoneCondition::OpenedByWrite)
        );
        // The second of two that may be open: what a write has opened is closed.
        zoned.act(Open, first + 2).unwrap();
        assert_eq!(condition(&zoned, 1), ZoneCondition::Closed);
        assert!(zoned.act(Open, first + 3).unwrap_err().contains("open with 2 others"));
        let write = |at: u64| Request::new(Op::Write, Lba((first + at) * size), 8);
        assert!(zoned.check_request(&write(3)).unwrap_err().contains("open with 2 others"));
        zoned.check_request(&write(0)).unwrap();
        zoned.check().unwrap();
        zoned.act(Close, first).unwrap();
        assert_eq!(condition(&zoned, 0), ZoneCondition::Empty);
        zoned.act(Finish, first + 1).unwrap();
        zoned.act(Finish, first + 3).unwrap();
        assert_eq!([1, 3].map(|at| condition(&zoned, at)), [ZoneCondition::Full; 2]);
        assert!(zoned.check_request(&write(1)).unwrap_err().contains("is full"));
        zoned.check().unwrap();
        zoned.reset(first + 2);
        zoned.reset(first + 3);
        assert_eq!(
            (zoned.active, condition(&zoned, 2), condition(&zoned, 3)),
            (0, ZoneCondition::Empty, ZoneCondition::Empty)
        );
        zoned.act(Open, first).unwrap();
        zoned.power_cut();
        assert_eq!(condition(&zoned, 0), ZoneCondition::Empty);
        zoned.check().unwrap();
    }
}

//! Stamps of sectors in check mode: what a command reads and writes on each member, worked out from what it has read.

use std::borrow::Cow;

use super::address::{ArrayLayout, Role, Unit};
use super::parity;
use super::plan::Sub;
use crate::error::{DiskResult, Fault};
use crate::units::Lba;

/// Consecutive sectors whose stamps are all known, or all unknown.
#[derive(Clone, Copy)]
struct StampRun<'a> {
    stamps: Option<&'a [u64]>,
    sectors: u64,
}

impl<'a> StampRun<'a> {
    /// The stamps of its first sectors.
    fn first(self, sectors: u64) -> Option<&'a [u64]> {
        self.stamps.map(|stamps| &stamps[..sectors as usize])
    }
}

/// Stamps that a command has read: runs that do not overlap, sorted by member and first sector.
#[derive(Debug, Default)]
pub(super) struct KnownSectors(Vec<KnownRun>);

#[derive(Debug)]
struct KnownRun {
    disk: u32,
    at: Lba,
    sectors: u64,
    stamps: Vec<u64>,
}

impl KnownSectors {
    /// Takes note of what a member's command has read; of sectors that are known already, nothing.
    pub fn note(&mut self, sub: &Sub, stamps: Vec<u64>) {
        let place = self.after(sub.disk, sub.at);
        if matches!(self.run(sub.disk, sub.at, sub.sectors), StampRun { stamps: None, sectors } if sectors == sub.sectors)
        {
            return self.0.insert(place, KnownRun { disk: sub.disk, at: sub.at, sectors: sub.sectors, stamps });
        }
        let mut done = 0;
        while done < sub.sectors {
            let (disk, at) = (sub.disk, sub.at + done);
            let StampRun { stamps: known, sectors } = self.run(disk, at, sub.sectors - done);
            if known.is_none() {
                let (first, place) = (done as usize, self.after(disk, at));
                let stamps = stamps[first..first + sectors as usize].to_vec();
                self.0.insert(place, KnownRun { disk, at, sectors, stamps });
            }
            done += sectors;
        }
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The place of the first run that begins after a member's sector.
    fn after(&self, disk: u32, at: Lba) -> usize {
        self.0.partition_point(|run| (run.disk, run.at) <= (disk, at))
    }

    /// Stamps of a member's sectors from `at` on: of `most` at most, all known or all unknown.
    fn run(&self, disk: u32, at: Lba, most: u64) -> StampRun<'_> {
        let (before, after) = self.0.split_at(self.after(disk, at));
        if let Some(run) = before.last().filter(|run| run.disk == disk && at < run.at + run.sectors) {
            let skipped = at - run.at;
            let sectors = most.min(run.sectors - skipped);
            let first = skipped as usize;
            return StampRun { stamps: Some(&run.stamps[first..first + sectors as usize]), sectors };
        }
        let gap = after.first().filter(|run| run.disk == disk).map_or(most, |run| run.at - at);
        StampRun { stamps: None, sectors: most.min(gap) }
    }
}

/// Stamps that a command writes, from its first sector on. Empty for what writes nothing of its own.
#[derive(Clone, Copy)]
pub(super) struct WrittenSectors<'a> {
    pub lba: Lba,
    pub stamps: &'a [u64],
}

impl<'a> WrittenSectors<'a> {
    /// The stamps written to the array's sectors from one on, of `most` at most.
    fn run(&self, lba: Lba, most: u64) -> StampRun<'a> {
        let Some(skipped) = lba.0.checked_sub(self.lba.0) else {
            return StampRun { stamps: None, sectors: most.min(self.lba - lba) };
        };
        let stamps = self.stamps.get(skipped as usize..).filter(|stamps| !stamps.is_empty());
        let sectors = stamps.map_or(most, |stamps| most.min(stamps.len() as u64));
        StampRun { stamps: stamps.map(|stamps| &stamps[..sectors as usize]), sectors }
    }
}

/// Stamps that the host reads.
pub(super) fn assemble(layout: &ArrayLayout, known: &KnownSectors, lba: Lba, sectors: u64) -> Vec<u64> {
    let mut stamps = Vec::new();
    for piece in layout.pieces(lba, sectors) {
        let mut done = 0;
        while done < piece.sectors {
            let (next, sectors) = stamps_of(layout, known, piece.lba + done, piece.sectors - done);
            stamps.extend_from_slice(&next);
            done += sectors;
        }
    }
    stamps
}

/// Stamps of the array's sectors from `lba` on, read or recovered, and how many sectors' they are; `most` lie in one chunk.
fn stamps_of<'a>(layout: &ArrayLayout, known: &'a KnownSectors, lba: Lba, most: u64) -> (Cow<'a, [u64]>, u64) {
    let mut copies = (0..layout.copies()).map(|copy| layout.copy(lba, copy));
    let read = copies.find_map(|(disk, at)| {
        let run = known.run(disk, at, most);
        run.stamps.map(|stamps| (stamps.into(), run.sectors))
    });
    read.unwrap_or_else(|| {
        let Unit { stripe, index, offset } = layout.unit(lba);
        let row = row_runs(layout, known, stripe, offset, most);
        let sectors = shortest(&row);
        (recovered(layout, &row, sectors).swap_remove(index as usize).into(), sectors)
    })
}

/// The stamps known of the units of a stripe, data and then parities, from an offset on.
fn row_runs<'a>(
    layout: &ArrayLayout,
    known: &'a KnownSectors,
    stripe: u64,
    offset: u64,
    most: u64,
) -> Vec<StampRun<'a>> {
    let units = (layout.data_disks() + layout.parities()) as u32;
    let at = layout.at(stripe, offset);
    (0..units).map(|unit| known.run(layout.member_of(stripe, unit), at, most)).collect()
}

/// Length of the shortest run, in sectors.
fn shortest<'a>(runs: impl IntoIterator<Item = &'a StampRun<'a>>) -> u64 {
    runs.into_iter().map(|run| run.sectors).min().expect("an array has members")
}

/// The first sectors of all units of a row, recovered from those that were read.
fn recovered(layout: &ArrayLayout, row: &[StampRun], sectors: u64) -> Vec<Vec<u64>> {
    let mut units: Vec<Option<Vec<u64>>> = row.iter().map(|unit| unit.first(sectors).map(<[u64]>::to_vec)).collect();
    parity::recover(layout.data_disks(), &mut units).expect("a plan reads as much as is needed");
    units.into_iter().map(Option::unwrap_or_default).collect()
}

/// Stamps that a member's command writes.
pub(super) fn written(layout: &ArrayLayout, known: &KnownSectors, own: &WrittenSectors, sub: &Sub) -> Vec<u64> {
    let mut stamps = Vec::with_capacity(sub.sectors as usize);
    while (stamps.len() as u64) < sub.sectors {
        let done = stamps.len() as u64;
        stamps.extend_from_slice(&written_stamps(layout, known, own, (sub.disk, sub.at + done), sub.sectors - done));
    }
    stamps
}

/// Number of sectors of a member from `at` on that have one role and follow each other in the array too.
fn of_one_role(layout: &ArrayLayout, disk: u32, at: Lba) -> u64 {
    let in_chunk = layout.chunk_sectors() - at.0 % layout.chunk_sectors();
    match layout.member_sectors(disk).checked_sub(at.0) {
        None | Some(0) => u64::MAX,
        Some(left) => left.min(in_chunk),
    }
}

/// Stamps that are written to a member from a sector on: of one sector or more, `most` at most.
fn written_stamps<'a>(
    layout: &ArrayLayout,
    known: &'a KnownSectors,
    own: &WrittenSectors<'a>,
    (disk, at): (u32, Lba),
    most: u64,
) -> Cow<'a, [u64]> {
    let most = most.min(of_one_role(layout, disk, at));
    match layout.inverse(disk, at) {
        Role::Data(lba) | Role::Copy(lba, _) => {
            let own = own.run(lba, most);
            own.stamps.map_or_else(|| stamps_of(layout, known, lba, own.sectors).0, Cow::Borrowed)
        }
        Role::Parity { number, stripe, offset } => {
            new_parity(layout, own, (stripe, offset), &row_runs(layout, known, stripe, offset, most), number).into()
        }
        Role::Unused => vec![0; most as usize].into(),
    }
}

/// The new parity `number` of a row, of as many sectors as are known or unknown alike in each unit.
fn new_parity(
    layout: &ArrayLayout,
    own: &WrittenSectors,
    (stripe, offset): (u64, u64),
    row: &[StampRun],
    number: usize,
) -> Vec<u64> {
    let data = layout.data_disks();
    let most = shortest(row);
    let lba = |unit: usize| layout.lba_of(Unit { stripe, index: unit as u32, offset });
    let own_row: Vec<StampRun> = (0..data).map(|unit| own.run(lba(unit), most)).collect();
    let sectors = shortest(&own_row);
    let (old, new) = (|unit: usize| row[unit].first(sectors), |unit: usize| own_row[unit].first(sectors));
    let of = |units: Vec<&[u64]>| parity::parity(number, sectors as usize, units);
    let whole: Option<Vec<&[u64]>> = (0..data).map(|unit| new(unit).or_else(|| old(unit))).collect();
    if let Some(units) = whole {
        return of(units);
    }
    let change = |unit: usize| -> Option<Vec<u64>> {
        let Some(new) = new(unit) else { return Some(vec![0; sectors as usize]) };
        let mut change = old(unit)?.to_vec();
        parity::add(&mut change, new);
        Some(change)
    };
    let changes: Option<Vec<Vec<u64>>> = (0..data).map(change).collect();
    match (changes, old(data + number)) {
        (Some(changes), Some(old)) => {
            let mut parity = of(changes.iter().map(Vec::as_slice).collect());
            parity::add(&mut parity, old);
            parity
        }
        _ => {
            let old = recovered(layout, row, sectors);
            of((0..data).map(|unit| new(unit).unwrap_or(&old[unit])).collect())
        }
    }
}

/// The stamp of a member's sector in an array that began full: `host` tells those of the array's sectors.
pub(super) fn first_stamp(layout: &ArrayLayout, disk: u32, at: Lba, host: impl Fn(Lba) -> u64) -> u64 {
    match layout.inverse(disk, at) {
        Role::Data(lba) | Role::Copy(lba, _) => host(lba),
        Role::Parity { number, stripe, offset } => {
            let stamp = |index: usize| host(layout.lba_of(Unit { stripe, index: index as u32, offset }));
            let stamps: Vec<u64> = (0..layout.data_disks()).map(stamp).collect();
            parity::parity(number, 1, stamps.iter().map(std::slice::from_ref))[0]
        }
        Role::Unused => 0,
    }
}

/// Compares copies with each other, and parity with data, in some sectors of all members that were read.
pub(super) fn compare(layout: &ArrayLayout, known: &KnownSectors, at: Lba, sectors: u64) -> DiskResult {
    for disk in 0..layout.disks() as u32 {
        let mut done = 0;
        while done < sectors {
            let at = at + done;
            let found = known.run(disk, at, (sectors - done).min(of_one_role(layout, disk, at)));
            if found.stamps.is_none() {
                done += found.sectors;
                continue;
            }
            let (should, same) = expected(layout, known, disk, at, found.sectors);
            if let (Some(found), Some(should)) = (found.first(same), should)
                && let Some(stamp) = found.iter().zip(&*should).position(|(found, should)| found != should)
            {
                let at = at + stamp as u64;
                let message = format!("sector {at} of member {disk} is not what the other members say");
                return Err(Box::new(Fault::Inconsistent(message)));
            }
            done += same;
        }
    }
    Ok(())
}

/// Stamps that a member's sectors should have according to the others, if those were read; and of how many sectors.
fn expected<'a>(
    layout: &ArrayLayout,
    known: &'a KnownSectors,
    disk: u32,
    at: Lba,
    most: u64,
) -> (Option<Cow<'a, [u64]>>, u64) {
    match layout.inverse(disk, at) {
        Role::Parity { number, stripe, offset } => {
            let row = row_runs(layout, known, stripe, offset, most);
            let sectors = shortest(&row);
            let data: Option<Vec<&[u64]>> = row[..layout.data_disks()].iter().map(|unit| unit.first(sectors)).collect();
            (data.map(|data| parity::parity(number, data[0].len(), data).into()), sectors)
        }
        Role::Copy(lba, _) => {
            let (first, place) = layout.copy(lba, 0);
            let run = known.run(first, place, most);
            (run.stamps.map(Cow::Borrowed), run.sectors)
        }
        Role::Data(_) | Role::Unused => (None, most),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::device::level::Level;
    use crate::request::Op;

    /// Sectors that were read by commands of `most` sectors at most.
    fn known(stamps: &BTreeMap<(u32, u64), u64>, most: usize) -> KnownSectors {
        let mut known = KnownSectors::default();
        let sectors: Vec<_> = stamps.iter().collect();
        for run in sectors.chunk_by(|(a, _), (b, _)| a.0 == b.0 && a.1 + 1 == b.1).flat_map(|run| run.chunks(most)) {
            let &(disk, at) = run[0].0;
            let stamps = run.iter().map(|&(_, &stamp)| stamp).collect();
            known.note(&Sub { disk, op: Op::Read, at: Lba(at), sectors: run.len() as u64 }, stamps);
        }
        known
    }

    #[test]
    fn copies_and_parity_that_differ_are_told() {
        for level in [Level::Raid1, Level::Raid10 { copies: 2 }, Level::Raid5, Level::Raid6] {
            let layout = ArrayLayout::new(level, 4, &[16; 4]).unwrap();
            let stamp = |lba: Lba| 1 + lba.0 * 7;
            let at = |disk: u32, at: u64| first_stamp(&layout, disk, Lba(at), stamp);
            let all: BTreeMap<(u32, u64), u64> =
                (0..4).flat_map(|disk| (0..16).map(move |place| ((disk, place), at(disk, place)))).collect();
            for most in [1, 5, 16] {
                let known = |stamps: &BTreeMap<(u32, u64), u64>| known(stamps, most);
                compare(&layout, &known(&all), Lba(0), 16).unwrap();
                for (disk, place) in [(0, 0), (1, 5), (3, 15)] {
                    let said = format!("{level:?}: {place} of member {disk}, {most} at once");
                    let mut damaged = all.clone();
                    damaged.insert((disk, place), at(disk, place) ^ 1);
                    let error = compare(&layout, &known(&damaged), Lba(0), 16).expect_err(&said);
                    assert!(error.to_string().contains(&format!("sector {place} of member")), "{said}: {error}");
                    assert!(compare(&layout, &known(&damaged), Lba(place + 1), 15 - place).is_ok(), "{said}");
                    // What was not read is not compared.
                    damaged.retain(|&(of, at), _| of == disk || at != place);
                    assert!(compare(&layout, &known(&damaged), Lba(0), 16).is_ok(), "{said}");
                }
            }
        }
    }

    #[test]
    fn stamps_do_not_depend_on_how_much_was_read_at_once() {
        for level in [Level::Raid0, Level::Raid1, Level::Raid10 { copies: 2 }, Level::Raid5, Level::Raid6] {
            let layout = ArrayLayout::new(level, 4, &[16; 4]).unwrap();
            let all = |disk: u32, at: u64| first_stamp(&layout, disk, Lba(at), |lba| 1 + lba.0 * 7);
            let lost = if level.parities() > 0 || level.copies(4) > 1 { 2 } else { 4 };
            let stamps: BTreeMap<(u32, u64), u64> = (0..4)
                .filter(|&disk| disk != lost)
                .flat_map(|disk| (0..16).map(move |at| ((disk, at), all(disk, at))))
                .collect();
            let host: Vec<u64> = (0..layout.host_sectors()).map(|lba| 1 + lba * 7).collect();
            for most in [1, 3, 16] {
                let known = known(&stamps, most);
                assert_eq!(assemble(&layout, &known, Lba(0), layout.host_sectors()), host, "{level:?}, {most}");
                // A write of what lies there changes nothing, parity included.
                for (first, count) in [(0, 0), (1, 1), (2, 7), (0, host.len())] {
                    let own = WrittenSectors { lba: Lba(first as u64), stamps: &host[first..first + count] };
                    for disk in 0..4 {
                        let sub = Sub { disk, op: Op::Write, at: Lba(0), sectors: 16 };
                        let expected: Vec<u64> = (0..16).map(|at| all(disk, at)).collect();
                        assert_eq!(
                            written(&layout, &known, &own, &sub),
                            expected,
                            "{level:?}, {most}, {first}, {disk}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn what_was_read_twice_is_known_once() {
        let mut known = KnownSectors::default();
        let read = |disk, at, sectors| Sub { disk, op: Op::Read, at: Lba(at), sectors };
        known.note(&read(1, 10, 2), vec![1, 3]);
        known.note(&read(1, 14, 1), vec![9]);
        known.note(&read(1, 8, 8), vec![0, 5, 6, 7, 8, 10, 11, 12]);
        let stamps = |at, most| {
            let StampRun { stamps, sectors } = known.run(1, Lba(at), most);
            (stamps.map(<[u64]>::to_vec), sectors)
        };
        assert_eq!(stamps(5, 9), (None, 3));
        assert_eq!(stamps(8, 9), (Some(vec![0, 5]), 2));
        assert_eq!(stamps(11, 9), (Some(vec![3]), 1));
        assert_eq!(stamps(12, 1), (Some(vec![8]), 1));
        assert_eq!(stamps(14, 9), (Some(vec![9]), 1));
        assert_eq!((stamps(15, 9), stamps(16, 9)), ((Some(vec![12]), 1), (None, 9)));
        assert_eq!(known.run(0, Lba(12), 9).stamps, None);
        assert_eq!(known.run(2, Lba(12), 9).sectors, 9);
    }
}

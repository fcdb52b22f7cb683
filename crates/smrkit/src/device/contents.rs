//! Contents of sectors: what a command reads and writes on each member, worked out from what it has read.

use std::borrow::Cow;

use super::address::{ArrayLayout, Role, Unit};
use super::command::SectorWords;
use super::parity;
use super::plan::Sub;
use crate::error::{DiskResult, Fault};
use crate::medium::Buf;
use crate::units::{Lba, SECTOR_BYTES};

/// Contents of sectors that an array's commands carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// None: time is all that is asked for.
    None,
    /// A stamp for each sector, as in check mode.
    Stamps,
    /// The bytes of each sector.
    Bytes,
}

impl Contents {
    /// Words of a sector.
    pub fn words(self) -> usize {
        match self {
            Contents::None => 0,
            Contents::Stamps => 1,
            Contents::Bytes => SECTOR_BYTES as usize / size_of::<u64>(),
        }
    }

    /// The contents of a command with these words.
    pub(super) fn buf(self, words: SectorWords) -> Buf {
        match self {
            Contents::None => Buf::NoData,
            Contents::Stamps => Buf::Stamps(words),
            Contents::Bytes => Buf::Bytes(words.iter().flat_map(|word| word.to_le_bytes()).collect()),
        }
    }
}

/// The words of what a command writes, `most` at most; they take the place of its bytes.
pub(super) fn own_words(data: &mut Buf, most: usize) -> &[u64] {
    if matches!(data, Buf::Bytes(_)) {
        *data = Buf::Stamps(into_words(std::mem::replace(data, Buf::NoData), most));
    }
    if let Buf::Stamps(words) = data { words } else { &[] }
}

/// The words of a command, `most` at most of its bytes.
pub(super) fn into_words(data: Buf, most: usize) -> SectorWords {
    match data {
        Buf::Bytes(bytes) => {
            let words = bytes.chunks_exact(size_of::<u64>()).take(most);
            words.map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())).collect()
        }
        Buf::Stamps(stamps) => stamps,
        _ => SectorWords::new(),
    }
}

/// Consecutive sectors whose words are all known, or all unknown.
#[derive(Clone, Copy)]
struct WordRun<'a> {
    words: Option<&'a [u64]>,
    sectors: u64,
}

impl<'a> WordRun<'a> {
    /// The words of its first sectors.
    fn first(self, sectors: u64) -> Option<&'a [u64]> {
        self.words.map(|words| &words[..words.len() / self.sectors as usize * sectors as usize])
    }
}

/// Words that a command has read: runs that do not overlap, sorted by member and first sector.
#[derive(Debug, Default)]
pub(super) struct KnownSectors(Vec<KnownRun>);

#[derive(Debug)]
struct KnownRun {
    disk: u32,
    at: Lba,
    sectors: u64,
    words: SectorWords,
}

impl KnownSectors {
    /// Takes note of what a member's command has read; of sectors that are known already, nothing.
    pub fn note(&mut self, sub: &Sub, words: SectorWords) {
        let width = words.len() / sub.sectors as usize;
        let place = self.after(sub.disk, sub.at);
        if matches!(self.run(sub.disk, sub.at, sub.sectors), WordRun { words: None, sectors } if sectors == sub.sectors)
        {
            return self.0.insert(place, KnownRun { disk: sub.disk, at: sub.at, sectors: sub.sectors, words });
        }
        let mut done = 0;
        while done < sub.sectors {
            let (disk, at) = (sub.disk, sub.at + done);
            let WordRun { words: known, sectors } = self.run(disk, at, sub.sectors - done);
            if known.is_none() {
                let (first, place) = (done as usize * width, self.after(disk, at));
                let words = words[first..first + sectors as usize * width].to_vec();
                self.0.insert(place, KnownRun { disk, at, sectors, words });
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

    /// Words of a member's sectors from `at` on: of `most` at most, all known or all unknown.
    fn run(&self, disk: u32, at: Lba, most: u64) -> WordRun<'_> {
        let (before, after) = self.0.split_at(self.after(disk, at));
        if let Some(run) = before.last().filter(|run| run.disk == disk && at < run.at + run.sectors) {
            let (skipped, width) = (at - run.at, run.words.len() / run.sectors as usize);
            let sectors = most.min(run.sectors - skipped);
            let first = skipped as usize * width;
            return WordRun { words: Some(&run.words[first..first + sectors as usize * width]), sectors };
        }
        let gap = after.first().filter(|run| run.disk == disk).map_or(most, |run| run.at - at);
        WordRun { words: None, sectors: most.min(gap) }
    }
}

/// Words that a command writes, from its first sector on: `width` to a sector. Empty for what writes nothing of its own.
#[derive(Clone, Copy)]
pub(super) struct WrittenSectors<'a> {
    pub lba: Lba,
    pub words: &'a [u64],
    pub width: usize,
}

impl<'a> WrittenSectors<'a> {
    /// The words written to the array's sectors from one on, of `most` at most.
    fn run(&self, lba: Lba, most: u64) -> WordRun<'a> {
        let Some(skipped) = lba.0.checked_sub(self.lba.0) else {
            return WordRun { words: None, sectors: most.min(self.lba - lba) };
        };
        let words = self.words.get(skipped as usize * self.width..).filter(|words| !words.is_empty());
        let sectors = words.map_or(most, |words| most.min((words.len() / self.width) as u64));
        WordRun { words: words.map(|words| &words[..sectors as usize * self.width]), sectors }
    }
}

/// Words that the host reads.
pub(super) fn assemble(layout: &ArrayLayout, known: &KnownSectors, lba: Lba, sectors: u64) -> SectorWords {
    let mut words = SectorWords::new();
    for piece in layout.pieces(lba, sectors) {
        let mut done = 0;
        while done < piece.sectors {
            let (next, sectors) = words_of(layout, known, piece.lba + done, piece.sectors - done);
            words.extend_from_slice(&next);
            done += sectors;
        }
    }
    words
}

/// Words of the array's sectors from `lba` on, read or recovered, and how many sectors' they are; `most` lie in one chunk.
fn words_of<'a>(layout: &ArrayLayout, known: &'a KnownSectors, lba: Lba, most: u64) -> (Cow<'a, [u64]>, u64) {
    let mut copies = (0..layout.copies()).map(|copy| layout.copy(lba, copy));
    let read = copies.find_map(|(disk, at)| {
        let run = known.run(disk, at, most);
        run.words.map(|words| (words.into(), run.sectors))
    });
    read.unwrap_or_else(|| {
        let Unit { stripe, index, offset } = layout.unit(lba);
        let row = row_runs(layout, known, stripe, offset, most);
        let sectors = shortest(&row);
        (recovered(layout, &row, sectors).swap_remove(index as usize).into(), sectors)
    })
}

/// The words known of the units of a stripe, data and then parities, from an offset on.
fn row_runs<'a>(
    layout: &ArrayLayout,
    known: &'a KnownSectors,
    stripe: u64,
    offset: u64,
    most: u64,
) -> Vec<WordRun<'a>> {
    let units = (layout.data_disks() + layout.parities()) as u32;
    let at = layout.at(stripe, offset);
    (0..units).map(|unit| known.run(layout.member_of(stripe, unit), at, most)).collect()
}

/// Length of the shortest run, in sectors.
fn shortest<'a>(runs: impl IntoIterator<Item = &'a WordRun<'a>>) -> u64 {
    runs.into_iter().map(|run| run.sectors).min().expect("an array has members")
}

/// The first sectors of all units of a row, recovered from those that were read.
fn recovered(layout: &ArrayLayout, row: &[WordRun], sectors: u64) -> Vec<SectorWords> {
    let mut units: Vec<Option<SectorWords>> = row.iter().map(|unit| unit.first(sectors).map(<[u64]>::to_vec)).collect();
    parity::recover(layout.data_disks(), &mut units).expect("a plan reads as much as is needed");
    units.into_iter().map(Option::unwrap_or_default).collect()
}

/// Words that a member's command writes.
pub(super) fn written(layout: &ArrayLayout, known: &KnownSectors, own: &WrittenSectors, sub: &Sub) -> SectorWords {
    let mut words = SectorWords::with_capacity(sub.sectors as usize * own.width);
    while words.len() < sub.sectors as usize * own.width {
        let done = (words.len() / own.width) as u64;
        words.extend_from_slice(&written_words(layout, known, own, (sub.disk, sub.at + done), sub.sectors - done));
    }
    words
}

/// Number of sectors of a member from `at` on that have one role and follow each other in the array too.
fn of_one_role(layout: &ArrayLayout, disk: u32, at: Lba) -> u64 {
    let in_chunk = layout.chunk_sectors() - at.0 % layout.chunk_sectors();
    match layout.member_sectors(disk).checked_sub(at.0) {
        None | Some(0) => u64::MAX,
        Some(left) => left.min(in_chunk),
    }
}

/// Words that are written to a member from a sector on: of one sector or more, `most` at most.
fn written_words<'a>(
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
            own.words.map_or_else(|| words_of(layout, known, lba, own.sectors).0, Cow::Borrowed)
        }
        Role::Parity { number, stripe, offset } => {
            new_parity(layout, own, (stripe, offset), &row_runs(layout, known, stripe, offset, most), number).into()
        }
        Role::Unused => vec![0; most as usize * own.width].into(),
    }
}

/// The new parity `number` of a row, of as many sectors as are known or unknown alike in each unit.
fn new_parity(
    layout: &ArrayLayout,
    own: &WrittenSectors,
    (stripe, offset): (u64, u64),
    row: &[WordRun],
    number: usize,
) -> SectorWords {
    let data = layout.data_disks();
    let most = shortest(row);
    let lba = |unit: usize| layout.lba_of(Unit { stripe, index: unit as u32, offset });
    let own_row: Vec<WordRun> = (0..data).map(|unit| own.run(lba(unit), most)).collect();
    let sectors = shortest(&own_row);
    let (old, new) = (|unit: usize| row[unit].first(sectors), |unit: usize| own_row[unit].first(sectors));
    let words = sectors as usize * own.width;
    let of = |units: Vec<&[u64]>| parity::parity(number, words, units);
    let whole: Option<Vec<&[u64]>> = (0..data).map(|unit| new(unit).or_else(|| old(unit))).collect();
    if let Some(units) = whole {
        return of(units);
    }
    let change = |unit: usize| -> Option<SectorWords> {
        let Some(new) = new(unit) else { return Some(vec![0; words]) };
        let mut change = old(unit)?.to_vec();
        parity::add(&mut change, new);
        Some(change)
    };
    let changes: Option<Vec<SectorWords>> = (0..data).map(change).collect();
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

/// The word of a member's sector in an array that began full: `host` tells those of the array's sectors.
pub(super) fn first_word(layout: &ArrayLayout, disk: u32, at: Lba, host: impl Fn(Lba) -> u64) -> u64 {
    match layout.inverse(disk, at) {
        Role::Data(lba) | Role::Copy(lba, _) => host(lba),
        Role::Parity { number, stripe, offset } => {
            let word = |index: usize| host(layout.lba_of(Unit { stripe, index: index as u32, offset }));
            let words: Vec<u64> = (0..layout.data_disks()).map(word).collect();
            parity::parity(number, 1, words.iter().map(std::slice::from_ref))[0]
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
            if found.words.is_none() {
                done += found.sectors;
                continue;
            }
            let (should, same) = expected(layout, known, disk, at, found.sectors);
            if let (Some(found), Some(should)) = (found.first(same), should)
                && let Some(word) = found.iter().zip(&*should).position(|(found, should)| found != should)
            {
                let at = at + word as u64 * same / found.len() as u64;
                let message = format!("sector {at} of member {disk} is not what the other members say");
                return Err(Box::new(Fault::Inconsistent(message)));
            }
            done += same;
        }
    }
    Ok(())
}

/// Words that a member's sectors should have according to the others, if those were read; and of how many sectors.
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
            (run.words.map(Cow::Borrowed), run.sectors)
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

    /// Sectors that were read by commands of `most` sectors at most: `width` words each, all of them one.
    fn known(words: &BTreeMap<(u32, u64), u64>, most: usize, width: usize) -> KnownSectors {
        let mut known = KnownSectors::default();
        let sectors: Vec<_> = words.iter().collect();
        for run in sectors.chunk_by(|(a, _), (b, _)| a.0 == b.0 && a.1 + 1 == b.1).flat_map(|run| run.chunks(most)) {
            let &(disk, at) = run[0].0;
            let words = run.iter().flat_map(|&(_, &word)| vec![word; width]).collect();
            known.note(&Sub { disk, op: Op::Read, at: Lba(at), sectors: run.len() as u64 }, words);
        }
        known
    }

    #[test]
    fn a_sector_has_a_word_or_512_bytes_of_them() {
        assert_eq!([Contents::None, Contents::Stamps, Contents::Bytes].map(Contents::words), [0, 1, 64]);
    }

    #[test]
    fn copies_and_parity_that_differ_are_told() {
        for level in [Level::Raid1, Level::Raid10 { copies: 2 }, Level::Raid5, Level::Raid6] {
            let layout = ArrayLayout::new(level, 4, &[16; 4]).unwrap();
            let word = |lba: Lba| 1 + lba.0 * 7;
            let at = |disk: u32, at: u64| first_word(&layout, disk, Lba(at), word);
            let all: BTreeMap<(u32, u64), u64> =
                (0..4).flat_map(|disk| (0..16).map(move |place| ((disk, place), at(disk, place)))).collect();
            for (most, width) in [(1, 1), (5, 1), (16, 64)] {
                let known = |words: &BTreeMap<(u32, u64), u64>| known(words, most, width);
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
    fn words_do_not_depend_on_how_much_was_read_at_once() {
        for level in [Level::Raid0, Level::Raid1, Level::Raid10 { copies: 2 }, Level::Raid5, Level::Raid6] {
            let layout = ArrayLayout::new(level, 4, &[16; 4]).unwrap();
            let all = |disk: u32, at: u64| first_word(&layout, disk, Lba(at), |lba| 1 + lba.0 * 7);
            let lost = if level.parities() > 0 || level.copies(4) > 1 { 2 } else { 4 };
            let words: BTreeMap<(u32, u64), u64> = (0..4)
                .filter(|&disk| disk != lost)
                .flat_map(|disk| (0..16).map(move |at| ((disk, at), all(disk, at))))
                .collect();
            let host: Vec<u64> = (0..layout.host_sectors()).map(|lba| 1 + lba * 7).collect();
            for most in [1, 3, 16] {
                let known = known(&words, most, 1);
                assert_eq!(assemble(&layout, &known, Lba(0), layout.host_sectors()), host, "{level:?}, {most}");
                // A write of what lies there changes nothing, parity included.
                for (first, count) in [(0, 0), (1, 1), (2, 7), (0, host.len())] {
                    let own = WrittenSectors { lba: Lba(first as u64), words: &host[first..first + count], width: 1 };
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
        known.note(&read(1, 10, 2), vec![1, 2, 3, 4]);
        known.note(&read(1, 14, 1), vec![9, 9]);
        known.note(&read(1, 8, 8), vec![0, 0, 5, 5, 6, 6, 7, 7, 8, 8, 10, 10, 11, 11, 12, 12]);
        let words = |at, most| {
            let WordRun { words, sectors } = known.run(1, Lba(at), most);
            (words.map(<[u64]>::to_vec), sectors)
        };
        assert_eq!(words(5, 9), (None, 3));
        assert_eq!(words(8, 9), (Some(vec![0, 0, 5, 5]), 2));
        assert_eq!(words(11, 9), (Some(vec![3, 4]), 1));
        assert_eq!(words(12, 1), (Some(vec![8, 8]), 1));
        assert_eq!(words(14, 9), (Some(vec![9, 9]), 1));
        assert_eq!((words(15, 9), words(16, 9)), ((Some(vec![12, 12]), 1), (None, 9)));
        assert_eq!(known.run(0, Lba(12), 9).words, None);
        assert_eq!(known.run(2, Lba(12), 9).sectors, 9);
    }
}

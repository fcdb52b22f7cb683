use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::device::level::{LEVELS, LevelSpec};

/// Every level over 1 to 24 members of different size, the chunk and the smallest member anything.
fn layouts() -> impl Strategy<Value = (ArrayLayout, Vec<u64>)> {
    let sizes = prop::collection::vec(0u64..40, 24);
    (0..LEVELS.len(), 1usize..=24, 1u64..20, 1u64..60, sizes).prop_map(|(level, disks, chunk, least, more)| {
        let LevelSpec { level, disks_min, .. } = LEVELS[level];
        let disks = disks.max(disks_min);
        let least = if level.is_striped() { least.max(chunk) } else { least };
        let members: Vec<u64> = more[..disks].iter().map(|more| least + more).collect();
        (ArrayLayout::new(level, chunk, &members).unwrap(), members)
    })
}

/// Sectors that members of these sizes give.
fn capacity(level: Level, chunk: u64, members: &[u64]) -> u64 {
    let (disks, smallest) = (members.len() as u64, members.iter().min().unwrap());
    let chunks = smallest / chunk;
    match level {
        Level::Span | Level::Dedicated => members.iter().sum(),
        Level::Raid0 => disks * chunks * chunk,
        Level::Raid1 => *smallest,
        Level::Raid10 => disks * chunks / 2 * chunk,
        Level::Raid4 | Level::Raid5 => (disks - 1) * chunks * chunk,
        Level::Raid6 => (disks - 2) * chunks * chunk,
        Level::Raidz3 => (disks - 3) * chunks * chunk,
    }
}

proptest! {
    #[test]
    fn every_sector_has_its_own_places_and_all_room_is_accounted_for((layout, members) in layouts(), chunk in 1u64..20) {
        let layout = if layout.level.is_striped() { layout } else { ArrayLayout::new(layout.level, chunk, &members).unwrap() };
        let (chunk, host) = (layout.chunk_sectors(), layout.host_sectors);
        let chunk = if layout.level.is_striped() { chunk } else { 1 };
        prop_assert_eq!(host, capacity(layout.level, chunk, &members));
        let mut taken = HashSet::new();
        for lba in (0..host).map(Lba) {
            for number in 0..layout.copies() {
                let (disk, at) = layout.copy(lba, number);
                prop_assert!(at.0 < layout.member_sectors(disk), "{} lies beyond member {}", lba, disk);
                prop_assert!(taken.insert((disk, at)), "{} shares its place", lba);
                let role = if number == 0 { Role::Data(lba) } else { Role::Copy(lba, number) };
                prop_assert_eq!(layout.inverse(disk, at), role);
            }
            let disks: HashSet<u32> = (0..layout.copies()).map(|number| layout.copy(lba, number).0).collect();
            prop_assert_eq!(disks.len(), layout.copies() as usize, "two copies on one member");
        }
        let (mut held, mut parity) = (0, 0);
        for (disk, &sectors) in members.iter().enumerate() {
            for at in (0..sectors + 5).map(Lba) {
                let unit = match layout.inverse(disk as u32, at) {
                    Role::Data(_) | Role::Copy(..) => {
                        prop_assert!(taken.contains(&(disk as u32, at)));
                        held += 1;
                        continue;
                    }
                    Role::Unused => continue,
                    Role::Parity { number, stripe, offset } => (stripe, offset, layout.data_disks() + number),
                };
                prop_assert!(!taken.contains(&(disk as u32, at)), "a parity lies on data");
                prop_assert_eq!(layout.at(unit.0, unit.1), at);
                prop_assert_eq!(layout.member_of(unit.0, unit.2 as u32), disk as u32);
                parity += 1;
            }
        }
        prop_assert_eq!(held, taken.len());
        prop_assert_eq!(parity, layout.parities() as u64 * stripes(&layout) * chunk * u64::from(layout.parities() > 0));
    }

    #[test]
    fn pieces_cover_an_extent_once_in_order((layout, _) in layouts(), lba: u64, sectors in 0u64..300) {
        let lba = lba % layout.host_sectors;
        let mut next = lba;
        for piece in layout.pieces(Lba(lba), sectors) {
            prop_assert_eq!(piece.lba.0, next);
            prop_assert!(piece.sectors > 0);
            for i in 0..piece.sectors {
                prop_assert_eq!(layout.copy(piece.lba + i, 0), (piece.disk, piece.at + i));
                for copy in 0..layout.copies() {
                    let (disk, at) = layout.copy(piece.lba, copy);
                    prop_assert_eq!(layout.copy(piece.lba + i, copy), (disk, at + i));
                }
            }
            next += piece.sectors;
        }
        prop_assert_eq!(next, (lba + sectors).min(layout.host_sectors));
        prop_assert_eq!(layout.pieces(Lba(layout.host_sectors), 1).count(), 0);
        prop_assert_eq!(layout.pieces(Lba(u64::MAX), u64::MAX).count(), 0);
    }

    #[test]
    fn pieces_are_as_long_as_the_chunk_or_the_member_lets_them((layout, _) in layouts()) {
        let pieces: Vec<MemberPiece> = layout.pieces(Lba(0), u64::MAX).collect();
        let expected = match layout.level {
            Level::Raid1 => 1,
            Level::Span | Level::Dedicated => layout.disks() as u64,
            _ => layout.host_sectors / layout.chunk_sectors(),
        };
        prop_assert_eq!(pieces.len() as u64, expected);
        if matches!(layout.level, Level::Span | Level::Dedicated) {
            for (disk, piece) in pieces.iter().enumerate() {
                prop_assert_eq!(layout.member_start(disk as u32), piece.lba);
            }
        }
    }

    #[test]
    fn units_of_stripes_agree_with_places((layout, _) in layouts()) {
        prop_assume!(layout.parities() > 0);
        prop_assert_eq!(layout.stripe_sectors() * stripes(&layout), layout.host_sectors);
        for lba in (0..layout.host_sectors).map(Lba) {
            let unit = layout.unit(lba);
            let place = (layout.member_of(unit.stripe, unit.index), layout.at(unit.stripe, unit.offset));
            prop_assert_eq!(place, layout.copy(lba, 0));
            prop_assert_eq!(layout.lba_of(unit), lba);
        }
        for stripe in 0..stripes(&layout) {
            let members: HashSet<u32> = (0..layout.disks() as u32).map(|unit| layout.member_of(stripe, unit)).collect();
            prop_assert_eq!(members.len(), layout.disks(), "a member has two units of a stripe");
        }
    }

    #[test]
    fn parities_go_round_all_members_evenly(disks in 5usize..=24, first in 0u64..1000) {
        for (level, kinds) in [(Level::Raid5, 1), (Level::Raid6, 2), (Level::Raidz3, 3)] {
            let layout = ArrayLayout::new(level, 3, &vec![1 << 20; disks]).unwrap();
            for kind in 0..kinds {
                let unit = (layout.data_disks() + kind) as u32;
                let turn = (first..first + disks as u64).map(|stripe| layout.member_of(stripe, unit));
                prop_assert_eq!(turn.collect::<HashSet<u32>>().len(), disks);
            }
        }
    }

    #[test]
    fn addresses_of_large_drives_lead_back(
        level in 0..LEVELS.len(), disks in 5usize..=24, chunk in 1u64..1 << 21, size in 1u64 << 22..1 << 40, lba: u64,
    ) {
        let layout = ArrayLayout::new(LEVELS[level].level, chunk, &vec![size; disks]).unwrap();
        for lba in [lba % layout.host_sectors, layout.host_sectors - 1].map(Lba) {
            let (disk, at) = layout.copy(lba, 0);
            prop_assert_eq!(layout.inverse(disk, at), Role::Data(lba));
        }
    }

    #[test]
    fn no_numbers_panic(
        level in 0..LEVELS.len(), chunk: u64, shift in 0u32..64, members in prop::collection::vec(any::<u64>(), 0..6),
        lba: u64,
    ) {
        let members: Vec<u64> = members.iter().map(|n| n >> shift).collect();
        let Ok(layout) = ArrayLayout::new(LEVELS[level].level, chunk >> shift, &members) else { return Ok(()) };
        let _ = (layout.stripe_sectors(), stripes(&layout), layout.pieces(Lba(lba), 1).count());
        let (disk, at) = layout.copy(Lba(lba % layout.host_sectors), 0);
        prop_assert!(at.0 < layout.member_sectors(disk));
    }
}

/// Stripes of an array: chunks on its smallest member.
fn stripes(layout: &ArrayLayout) -> u64 {
    layout.used.iter().min().map_or(0, |&sectors| sectors / layout.chunk_sectors())
}

/// First chunks of each member: one text a row, `0` to `9` for data chunks.
fn rows(level: Level, disks: usize, rows: u64) -> Vec<String> {
    let layout = ArrayLayout::new(level, 1, &vec![rows; disks]).unwrap();
    let cell = |disk: usize, row: u64| match layout.inverse(disk as u32, Lba(row)) {
        Role::Data(lba) | Role::Copy(lba, _) => lba.to_string(),
        Role::Parity { number, .. } => ["P", "Q", "R"][number].into(),
        Role::Unused => "-".into(),
    };
    (0..rows).map(|row| (0..disks).map(|disk| cell(disk, row)).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn the_layouts_are_those_of_the_tables_in_the_docs() {
    assert_eq!(rows(Level::Raid0, 4, 2), ["0 1 2 3", "4 5 6 7"]);
    assert_eq!(rows(Level::Raid10, 3, 3), ["0 0 1", "1 2 2", "3 3 -"]);
    assert_eq!(rows(Level::Raid4, 4, 2), ["0 1 2 P", "3 4 5 P"]);
    assert_eq!(rows(Level::Raid5, 4, 4), ["0 1 2 P", "4 5 P 3", "8 P 6 7", "P 9 10 11"]);
    assert_eq!(rows(Level::Raid6, 4, 4), ["Q 0 1 P", "2 3 P Q", "5 P Q 4", "P Q 6 7"]);
    assert_eq!(rows(Level::Raidz3, 5, 5), ["Q R 0 1 P", "R 2 3 P Q", "4 5 P Q R", "7 P Q R 6", "P Q R 8 9"]);
}

#[test]
fn what_no_array_could_be_is_refused_with_its_remedy() {
    for (level, chunk, members, message) in [
        (Level::Raid5, 8, vec![99, 99], "raid5 of 2 disks: raise disks to 3 or more, or use raid1"),
        (Level::Raid6, 8, vec![99; 3], "raid6 of 3 disks: raise disks to 4 or more, or use raid5"),
        (Level::Raid6, 8, vec![99; 258], "lower disks to 257"),
        (Level::Raidz3, 8, vec![99; 4], "raidz3 of 4 disks: raise disks to 5 or more, or use raid6"),
        (Level::Raidz3, 8, vec![99; 259], "lower disks to 258"),
        (Level::Raid10, 8, vec![99], "raid10 of 1 disks: raise disks to 2 or more"),
        (Level::Raid0, 8, vec![], "raise disks to 1"),
        (Level::Raid0, 0, vec![99, 99], "give a chunk of 512 bytes or more"),
        (Level::Raid0, 8, vec![99, 7], "the smallest member has 7 sectors, less than a chunk of 8: lower chunk"),
        (Level::Span, 8, vec![99, 0], "a member has no sectors"),
        (Level::Span, 8, vec![u64::MAX, u64::MAX], "fewer or smaller ones"),
    ] {
        let error = ArrayLayout::new(level, chunk, &members).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_source_finds_its_own_member_or_the_whole_array() {
    let sources = |level| ArrayLayout::new(level, 8, &[99, 70]).unwrap().sectors_for_all();
    assert_eq!([Level::Dedicated, Level::Span, Level::Raid0].map(sources), [70, 169, 128]);
}

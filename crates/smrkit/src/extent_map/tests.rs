use super::*;
use proptest::prelude::*;

/// Place of each LBA.
type Model = Vec<Option<u64>>;

/// LBAs of a model: as many as three runs of the longest have.
const MODEL_LBAS: u64 = 27_000;

fn of_model(model: &mut Model, lba: u64, n: u64) -> &mut [Option<u64>] {
    &mut model[lba as usize..(lba + n) as usize]
}

fn model_pieces(model: &mut Model, lba: u64, n: u64) -> Vec<MappedPiece> {
    let mut out: Vec<MappedPiece> = Vec::new();
    for (l, pba) in (lba..).zip(of_model(model, lba, n)) {
        let pba = pba.map(Pba);
        match out.last_mut() {
            Some(last) if last.pba.map(|p| p + last.sectors) == pba => last.sectors += 1,
            _ => out.push(MappedPiece { lba: Lba(l), sectors: 1, pba }),
        }
    }
    out
}

proptest! {
    #[test]
    fn agrees_with_a_map_sector_by_sector(
        runs in prop::collection::vec((0u64..30_000, 1u64..9000), 0..4),
        ops in prop::collection::vec((0u64..9000, 1u64..5000, prop::option::of(0u64..20_000)), 1..60),
        asks in prop::collection::vec((0u64..9000, 1u64..9000), 1..10),
    ) {
        let mut map = ExtentMap::of_runs(runs.iter().map(|&(pba, n)| (Pba(pba), n)));
        let mut model: Model = runs.iter().flat_map(|&(pba, n)| pba..pba + n).map(Some).collect();
        model.resize(MODEL_LBAS as usize, None);
        let put = |model: &mut Model, lba, n, pba| {
            of_model(model, lba, n).iter_mut().zip(pba..).for_each(|(place, pba)| *place = Some(pba));
        };
        for (lba, n, pba) in ops {
            match pba {
                Some(pba) => {
                    map.insert(Lba(lba), n, Pba(pba));
                    put(&mut model, lba, n, pba);
                }
                None => {
                    map.remove(Lba(lba), n);
                    of_model(&mut model, lba, n).fill(None);
                }
            }
            // An extent may move as a whole.
            if let Some(MappedPiece { lba, sectors, pba: Some(from) }) = map.pieces(Lba(lba), n).next()
                && map.relocate(lba, sectors, from, from + 50_000)
            {
                put(&mut model, lba.0, sectors, from.0 + 50_000);
            }
        }
        let mut saved = Vec::new();
        crate::state::write(&map, &mut saved);
        let restored: ExtentMap = crate::state::read(&mut saved.as_slice()).unwrap();
        prop_assert_eq!((restored.len(), restored.sectors(), restored.bytes()), (map.len(), map.sectors(), map.bytes()));
        let map = restored;
        for (lba, n) in asks {
            let mut ours = Vec::new();
            joined(map.pieces(Lba(lba), n), |piece| { ours.push(piece); Ok::<_, ()>(()) }).unwrap();
            prop_assert_eq!(ours, model_pieces(&mut model, lba, n));
        }
        let held: usize = map.leaves.iter().flatten().flat_map(|leaf| leaf.iter()).map(|chunk| chunk.0.len()).sum();
        prop_assert_eq!(held, map.len());
        let mapped = model.iter().flatten().count() as u64;
        prop_assert_eq!(map.mapped(Lba(0), 40_000).map(|(_, n, _)| n).sum::<u64>(), mapped);
        prop_assert_eq!(map.sectors(), mapped);
    }
}

#[test]
fn only_an_extent_that_stays_one_by_itself_is_relocated() {
    // In one chunk that is short, and in one that is not.
    for extents in [3, 40] {
        let map = || {
            let mut map = ExtentMap::new();
            (0..extents).for_each(|i| map.insert(Lba(10 * i), 10, Pba(1000 + 100 * i)));
            map
        };
        let relocated = |lba, n, from, to| {
            let mut map = map();
            let is_done = map.relocate(Lba(lba), n, Pba(from), Pba(to));
            assert_eq!(map.get(Lba(lba)), Some(Pba(if is_done { to } else { 1000 + 10 * lba })));
            assert_eq!((map.len() as u64, map.sectors()), (extents, 10 * extents));
            is_done
        };
        assert!(relocated(10, 10, 1100, 7000) && relocated(0, 10, 1000, 7000));
        assert!(!relocated(10, 0, 1100, 7000) && !relocated(10, 9, 1100, 7000) && !relocated(10, 10, 1101, 7000));
        assert!(!relocated(10, 10, 1100, 1010), "it joins the one before");
        assert!(!relocated(10, 10, 1100, 1190), "it joins the one after");
        assert!(relocated(10, 10, 1100, 1011) && relocated(10, 10, 1100, 1191));
    }
    assert!(!ExtentMap::new().relocate(Lba(0), 1, Pba(0), Pba(1)));
    let mut whole = ExtentMap::new();
    whole.insert(Lba(0), CHUNK, Pba(0));
    assert!(whole.relocate(Lba(0), CHUNK, Pba(0), Pba(9)) && !whole.relocate(Lba(1), CHUNK, Pba(9), Pba(0)));
}

#[test]
fn appended_writes_stay_one_extent_a_chunk() {
    let mut map = ExtentMap::new();
    for i in 0..1024 {
        map.insert(Lba(i * 8), 8, Pba(500 + i * 8));
    }
    assert_eq!(map.len(), 2);
}

#[test]
fn scattered_extents_take_little_memory() {
    let mut map = ExtentMap::new();
    for i in 0..100_000u64 {
        map.insert(Lba(i.wrapping_mul(0x9E37_79B9) % 40_000_000), 8, Pba(i * 8));
    }
    assert!(map.bytes() / map.len() as u64 <= 40, "{} bytes an extent", map.bytes() / map.len() as u64);
}

#[test]
fn what_was_not_changed_stays_one_run() {
    // Each write is in a chunk of its own; all of them are in a leaf.
    let mut map = ExtentMap::of_runs(std::iter::once((Pba(5), CHUNK * 1000)));
    (0..3).for_each(|at| map.insert(Lba(CHUNK * (7 + 10 * at) + 9), 8, Pba(0)));
    let (pieces, mut saved) = (map.pieces(Lba(0), CHUNK * 1000).count(), Vec::new());
    crate::state::write(&map, &mut saved);
    // Of each of these chunks three, and what is between them.
    assert!(map.len() == 9 && pieces == 13 && saved.len() < 150, "{} {pieces} {}", map.len(), saved.len());
}

#[test]
fn every_leaf_in_use_counts_as_memory() {
    let mut map = ExtentMap::new();
    let sectors_of_leaf = (LEAF as u64) << CHUNK_BITS;
    for leaf in 0..3 {
        map.insert(Lba(leaf * sectors_of_leaf), 8, Pba(leaf * 8));
        assert!(map.bytes() >= (leaf + 1) * (LEAF * size_of::<Chunk>()) as u64, "{} bytes", map.bytes());
    }
}

/// Chunks of any length, those that are halved among them, and every sector of a chunk.
#[test]
fn the_first_entry_behind_a_sector_is_found_among_any_number() {
    for len in (0..=COUNTED as u64 + 20).step_by(3) {
        let step = CHUNK / (len + 1);
        let entries: Vec<PackedExtent> =
            (1..=len).map(|i| PackedExtent::new(i * step, i * step + 1 + i % step.min(17), i * 1000)).collect();
        for start in 0..CHUNK {
            assert_eq!(first_behind(&entries, start), entries.partition_point(|entry| entry.end() <= start));
        }
    }
}

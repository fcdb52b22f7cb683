use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use super::{Area, data_part, granules};
use crate::data::{Data, ReadBuffer};
use crate::device::Platters;
use crate::device::strict::StrictAppend;
use crate::device::{Bands, HostManaged, Model};
use crate::testing::memory::Power;
use crate::testing::memory::{Memory, WriteLoss};
use crate::testing::shingled::{Destructible, Shingled, WriteHistory};
use crate::units::{Granule, Span};
use smrkit::tally::Cause;

fn shape(model: Model, did: u64, dpid: u64) -> Shape {
    let bands = match model {
        Model::StrictAppend => Bands { count: 6, granules: 3, gap_granules: did.max(dpid), max_open: 3 },
        Model::Caveat => Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 },
    };
    Shape { model, granule_bytes: 512, granules: 200, did, dpid, bands }
}

fn superblock(shape: &Shape) -> Superblock {
    Superblock {
        uuid: Uuid::random([7; 16]),
        metadata: Uuid::random([9; 16]),
        shape: *shape,
        sequence: 0,
        mounts: 0,
        is_clean: true,
        key: VolumeKey([5; 16]),
        path: b"/srv/meta".to_vec(),
    }
}

fn disk(memory: Arc<Memory>, shape: &Shape, past: WriteHistory) -> Arc<dyn HostManaged> {
    match shape.model {
        Model::Caveat => Arc::new(Shingled::new(memory, *shape, past).expect("a shape")),
        Model::StrictAppend => {
            let cursors = memory.cursors();
            Arc::new(StrictAppend::new(memory, *shape, &cursors).expect("a shape"))
        }
    }
}

/// A power cut at any moment leaves the superblock that was stored last, or the one that was being stored.
#[test]
fn a_power_cut_while_it_is_stored_leaves_the_old_one_or_the_new_one() {
    for (model, did, dpid) in [(Model::Caveat, 3, 1), (Model::Caveat, 0, 4), (Model::StrictAppend, 2, 1)] {
        let shape = shape(model, did, dpid);
        let power = Arc::new(Power::new());
        let memory = Arc::new(Memory::recording(&shape, Arc::clone(&power)));
        let mut area =
            Area::format(disk(Arc::clone(&memory), &shape, WriteHistory::Blank), superblock(&shape)).unwrap();
        let mut stored = vec![(power.operations(), 0)];
        for mounts in 1..12 {
            let next = Superblock { mounts, is_clean: mounts % 2 == 0, ..area.newest.clone() };
            area.store(next).unwrap();
            stored.push((power.operations(), mounts));
        }
        for cut in stored[0].0 + 1..=power.operations() {
            let kept = stored.iter().rev().find(|(at, _)| *at < cut).unwrap().1;
            for (seed, loss) in WriteLoss::ALL.into_iter().enumerate() {
                let after = Arc::new(memory.survivor(cut, loss, seed as u64, Arc::new(Power::new()), false));
                let area = Area::load(disk(after, &shape, WriteHistory::Unknown)).unwrap();
                let found = area.newest.mounts;
                assert!(found == kept || found == kept + 1, "{model:?} cut {cut}: {found} instead of {kept}");
            }
        }
    }
}

/// The data next to the superblocks is not touched by any number of new ones, and theirs not by data.
#[test]
fn superblocks_and_data_do_not_damage_each_other() {
    for (did, dpid) in [(0, 0), (1, 0), (0, 1), (5, 2), (2, 5), (8, 8)] {
        let shape = shape(Model::Caveat, did, dpid);
        let memory = Arc::new(Memory::new(&shape, Arc::new(Power::new())));
        let mut area = Area::format(disk(memory, &shape, WriteHistory::Blank), superblock(&shape)).unwrap();
        let data = data_part(&area.device);
        assert_eq!(data.shape().granules, shape.granules - granules(&shape));
        let bytes = [1; 512];
        // Three superblocks a round, so that each place is written before the data as well as after.
        for round in 0..6 {
            area.store(area.newest.clone()).unwrap();
            // The first granule of the data, twice: as near as data comes.
            for _ in 0..2 {
                data.write(Granule(0), Data::Bytes(&bytes), Cause::Host).unwrap();
            }
            let reopened = Area::load(Arc::clone(&area.device)).unwrap();
            assert_eq!(reopened.newest.sequence, 3 * round + 2, "DID {did} DPID {dpid}");
            for copy in [0, did.max(dpid) + 1] {
                area.device.read(Granule(copy), ReadBuffer::Bytes(&mut [0; 512]), Cause::Map).unwrap();
            }
            for _ in 0..2 {
                area.store(area.newest.clone()).unwrap();
                data.read(Granule(0), ReadBuffer::Bytes(&mut [0; 512]), Cause::Host).unwrap();
            }
        }
    }
}

/// A write that the power cuts off may leave a granule that can't be read.
#[test]
fn either_place_alone_has_one_of_the_two_newest_superblocks() {
    let shape = shape(Model::Caveat, 3, 1);
    for stores in 1..5 {
        for lost in [0, 4] {
            let memory = Arc::new(Memory::new(&shape, Arc::new(Power::new())));
            let device = disk(Arc::clone(&memory), &shape, WriteHistory::Blank);
            let mut area = Area::format(device, superblock(&shape)).unwrap();
            for _ in 0..stores {
                area.store(area.newest.clone()).unwrap();
            }
            memory.write(Granule(lost), Data::Blank(512), Cause::Map).unwrap();
            memory.destroy(Span::new(lost, 1), Granule(lost)).unwrap();
            let found = Area::load(Arc::clone(&area.device)).unwrap().newest.sequence;
            assert!(found + 1 >= area.newest.sequence, "{found} of {} without {lost}", area.newest.sequence);
        }
    }
}

#[test]
fn what_is_no_superblock_is_said_to_be_none() {
    let shape = shape(Model::Caveat, 1, 1);
    let bytes = superblock(&shape).encode().unwrap();
    assert_eq!(Superblock::decode(&[]), Err(SuperblockError::Foreign));
    assert_eq!(Superblock::decode(&[0; 512]), Err(SuperblockError::Foreign));
    for (version, remedy) in [(1, "new volume (smrkit mkfs)"), (3, "newer smrkit")] {
        let mut other = bytes.clone();
        other[8] = version;
        assert_eq!(Superblock::decode(&other), Err(SuperblockError::Checksum), "damage, whatever the version says");
        let sum = crate::map::checksum(&other[..508]).to_le_bytes();
        other[508..].copy_from_slice(&sum);
        let error = Superblock::decode(&other).unwrap_err();
        assert_eq!(error, SuperblockError::Version(u32::from(version)));
        assert!(error.to_string().contains(remedy), "{error}");
    }
    let zero_in_path = Superblock { path: b"/srv/\0".to_vec(), ..superblock(&shape) }.encode().unwrap();
    assert_eq!(Superblock::decode(&zero_in_path), Err(SuperblockError::Malformed("its path")));
    assert_eq!(Superblock::decode(&bytes[..511]), Err(SuperblockError::Checksum));
    let too_long = Superblock { path: vec![b'x'; 400], ..superblock(&shape) };
    assert!(matches!(too_long.encode(), Err(SuperblockError::Malformed(_))));
    // A right checksum over fields that make no sense.
    for at in 44..46 {
        let mut odd = bytes.clone();
        odd[at] = 9;
        let sum = crate::map::checksum(&odd[..508]).to_le_bytes();
        odd[508..].copy_from_slice(&sum);
        assert_eq!(Superblock::decode(&odd).is_ok(), at == 45, "byte {at}");
    }
}

/// On strict-append: the last granule of the newest band can't be read.
#[test]
fn an_unreadable_superblock_gives_way_to_the_one_before() {
    let shape = shape(Model::StrictAppend, 2, 1);
    let memory = Arc::new(Memory::new(&shape, Arc::new(Power::new())));
    let mut area = Area::format(disk(Arc::clone(&memory), &shape, WriteHistory::Blank), superblock(&shape)).unwrap();
    area.store(area.newest.clone()).unwrap();
    memory.write(Granule(1), Data::Blank(512), Cause::Map).unwrap();
    memory.destroy(Span::new(1, 1), Granule(0)).unwrap();
    let reopened = Area::load(Arc::clone(&area.device)).unwrap();
    assert_eq!(reopened.newest.sequence, 1);
}

#[test]
fn a_superblock_whose_bands_exceed_the_disk_is_refused() {
    let mut odd = superblock(&shape(Model::StrictAppend, 2, 3));
    odd.shape.bands.count = 1;
    odd.shape.bands.gap_granules = u64::MAX - odd.shape.bands.granules;
    assert_eq!(Superblock::decode(&odd.encode().unwrap()), Err(SuperblockError::Malformed("its shape")));
}

#[test]
fn a_key_is_not_shown() {
    let shown = format!("{:?}", Superblock { key: VolumeKey([0xab; 16]), ..superblock(&shape(Model::Caveat, 1, 1)) });
    assert!(!shown.contains("171") && !shown.to_lowercase().contains("ab,"), "{shown}");
}

proptest! {
    #[test]
    fn any_damage_is_noticed_and_nothing_panics(at in 0_usize..512, bit in 0_u8..8, cut in 0_usize..512) {
        let shape = shape(Model::StrictAppend, 2, 3);
        let whole = superblock(&shape);
        let bytes = whole.encode().unwrap();
        prop_assert_eq!(Superblock::decode(&bytes).unwrap(), whole);
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << bit;
        prop_assert!(Superblock::decode(&damaged).is_err());
        prop_assert!(Superblock::decode(&bytes[..cut]).is_err());
    }

    #[test]
    fn a_uuid_is_read_as_it_was_written(bytes: [u8; 16], text in "\\PC{0,40}") {
        let uuid = Uuid::random(bytes);
        prop_assert_eq!(uuid.to_string().parse::<Uuid>().unwrap(), uuid);
        let _ = text.parse::<Uuid>();
    }
}

#[test]
fn a_path_fills_the_granule_at_most() {
    let of = |length| Superblock { path: vec![b'p'; length], ..superblock(&shape(Model::Caveat, 1, 1)) };
    let longest = of(512 - HEAD_BYTES - 4);
    let bytes = longest.encode().unwrap();
    assert_eq!((bytes.len(), Superblock::decode(&bytes)), (512, Ok(longest.clone())));
    assert!(of(longest.path.len() + 1).encode().is_err());
}

#[test]
fn a_uuid_is_32_hexadecimal_digits() {
    let uuid = Uuid([0xab; 16]);
    assert_eq!(uuid.to_string().len(), 36);
    let is_read = |digits: &str| digits.parse::<Uuid>().is_ok();
    assert!(is_read(&"ab".repeat(16)) && is_read(&uuid.to_string().to_uppercase()));
    for wrong in ["a".repeat(31), "a".repeat(33), "a".repeat(34), "+f".repeat(16), "g".repeat(32), String::new()] {
        assert!(!is_read(&wrong), "{wrong}");
    }
}

mod part {
    use super::super::*;
    use crate::device::{Bands, Model};

    #[test]
    fn what_is_taken_from_the_front_opens_a_band_only_if_it_has_one() {
        let bands = Bands { count: 8, granules: 10, gap_granules: 2, max_open: 4 };
        let whole = Shape { model: Model::StrictAppend, granule_bytes: 4096, granules: 96, did: 2, dpid: 1, bands };
        let of = |granules, bands| {
            let shape = Part::shape_of(&whole, granules, bands);
            (shape.granules, shape.bands.count, shape.bands.max_open)
        };
        assert_eq!([of(0, 0), of(5, 0), of(12, 1), of(24, 2)], [(96, 8, 4), (91, 8, 4), (84, 7, 3), (72, 6, 3)]);
    }
}

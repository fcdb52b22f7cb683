//! Damaged maps, found by the check.

use super::maps::ValidBlocks;
use super::*;
use crate::drive::Drive;
use crate::medium::interference::Interference;
use crate::schema::Keyed;

/// A layer with small zones, none of which is in use.
pub(super) fn unmapped() -> DmZoned {
    let drive = Drive::load("tiny-constant").unwrap().with_interference(Interference::None).unwrap();
    let keys = [("zone_bytes", "64Ki")].map(|(key, value)| (key.to_string(), value.to_string()));
    let keys = DmZonedKeys::read(&SPEC.resolve(&keys).unwrap()).unwrap();
    DmZoned::new(&drive, &keys).unwrap()
}

/// The maps of chunks, valid blocks and owners, to be damaged.
fn chunks(layer: &mut DmZoned) -> &mut [ChunkZones] {
    &mut layer.maps.chunks
}

fn valid(layer: &mut DmZoned, zone: usize) -> &mut ValidBlocks {
    &mut layer.maps.valid[zone]
}

/// A chunk in a conventional zone, and one in a sequential zone with a buffer.
fn mapped() -> DmZoned {
    let mut layer = unmapped();
    let (random, sequential) = (layer.layout.first_data(), layer.layout.first_sequential());
    assert!(random > 0 && sequential > random + 2, "{random} {sequential}");
    layer.maps.map(0, ChunkZones { data: random, buffer: NONE });
    layer.maps.map(1, ChunkZones { data: sequential, buffer: random + 1 });
    valid(&mut layer, random as usize).put(1, 1, true);
    valid(&mut layer, sequential as usize).put(0, 4, true);
    layer.pointers[sequential as usize] = 4;
    valid(&mut layer, random as usize + 1).put(4, 2, true);
    layer.unused.find(&layer.layout, &layer.maps.owners);
    layer.check().unwrap();
    layer
}

#[test]
fn a_check_finds_zones_and_blocks_that_can_not_be() {
    type Damage = fn(&mut DmZoned, usize, usize);
    let damages: [(&str, Damage); 16] = [
        ("chunk 0 is mapped to zone 0, which is not its own", |layer, _, _| {
            layer.maps.map(0, ChunkZones { data: 0, buffer: NONE });
        }),
        ("which is not its own", |layer, random, _| chunks(layer)[0].data = random as u32 + 2),
        ("chunk 1 has a buffer", |layer, _, sequential| {
            layer.maps.map(1, ChunkZones { buffer: sequential as u32 + 1, ..layer.maps.zones_of(1) });
        }),
        ("chunk 1 has a buffer", |layer, _, _| chunks(layer)[1].data = NONE),
        ("chunk 1 has a buffer", |layer, random, _| {
            layer.maps.map(1, ChunkZones { data: random as u32 + 2, ..layer.maps.zones_of(1) });
        }),
        ("both hold block 4", |layer, _, sequential| {
            valid(layer, sequential).put(5, 1, true);
            layer.pointers[sequential] = 6;
        }),
        ("both hold block 4", |layer, _, sequential| {
            valid(layer, sequential).put(4, 2, true);
            layer.pointers[sequential] = 6;
        }),
        ("both hold block 9", |layer, random, sequential| {
            valid(layer, random + 1).put(9, 1, true);
            valid(layer, sequential).put(9, 1, true);
            layer.pointers[sequential] = 10;
        }),
        ("is free, and 0 blocks are valid", |layer, random, _| layer.maps.owners[random + 2] = 0),
        ("is free, and 1 blocks are valid", |layer, _, sequential| {
            valid(layer, sequential + 1).put(0, 1, true);
        }),
        ("is free, and 4 blocks are valid", |layer, _, sequential| layer.unused.freed.push(sequential as u32)),
        ("has 2 uses", |layer, random, _| layer.unused.random.push_back(random as u32 + 2)),
        ("has 2 uses", |layer, random, _| layer.unused.freed.push(random as u32 + 2)),
        ("has 0 uses", |layer, _, _| {
            layer.unused.sequential.pop_front();
        }),
        ("has 0 uses", |layer, _, _| chunks(layer)[0] = UNMAPPED),
        ("has valid blocks behind its write pointer", |layer, _, sequential| layer.pointers[sequential] = 3),
    ];
    for (number, (problem, damage)) in damages.into_iter().enumerate() {
        let mut layer = mapped();
        let (random, sequential) = (layer.layout.first_data() as usize, layer.layout.first_sequential() as usize);
        damage(&mut layer, random, sequential);
        let error = layer.check().unwrap_err().to_string();
        assert!(error.contains(problem), "{number}, {problem}: {error}");
    }
}

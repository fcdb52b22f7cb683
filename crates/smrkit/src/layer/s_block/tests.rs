//! Damaged books of both buffers, and the parts of requests.

use super::*;
use crate::geometry::Geometry;
use crate::medium::Medium;
use crate::medium::interference::Interference;
use crate::schema::Keyed;

/// An empty layer of S-blocks of 20 sectors in two sections.
fn layer() -> (SBlock, Drive) {
    let mut drive = Drive::load("tiny-constant").unwrap();
    drive.geometry = Geometry::uniform(1000, 20).unwrap();
    let drive = drive.with_interference(Interference::Tracks { width: 2, band: None }).unwrap();
    let set = [
        ("sblock_sectors", "20"),
        ("cache_percent", "6"),
        ("spare_percent", "6"),
        ("sections", "2"),
        ("policy", "largest"),
    ];
    let set = set.map(|(key, value)| (key.into(), value.into()));
    let keys = SBlockKeys::read(&SPEC.resolve(&set).unwrap()).unwrap();
    (SBlock::new(&drive, &keys).unwrap(), drive)
}

/// One with something cached and some S-blocks moved in the first section.
fn busy() -> (SBlock, Disk) {
    let (mut layer, drive) = layer();
    let mut disk = Disk::new(&drive, Medium::NoData);
    // Whole S-blocks leave slots without an owner behind.
    for lba in [0, 3, 40, 41, 47, 90, 200, 205, 300] {
        layer.write(&mut disk, Lba(lba), 5, &Buf::NoData).unwrap();
    }
    for lba in [400, 440, 460] {
        layer.write(&mut disk, Lba(lba), 20, &Buf::NoData).unwrap();
    }
    layer.check().unwrap();
    (layer, disk)
}

/// Which slots hold nothing valid, after a change.
fn find_invalid(slots: &mut SlotBuffer) {
    for slot in 0..slots.slots() {
        let is_invalid = slots.distance(slot) < slots.used() && slots.is_unowned(slot);
        if is_invalid { slots.invalid.insert(slot) } else { slots.invalid.remove(slot) }
    }
}

fn assert_found(number: usize, problem: &str, layer: &SBlock) {
    let error = layer.check().unwrap_err().to_string();
    assert!(error.contains(problem), "{number}, {problem}: {error}");
}

#[test]
fn a_check_finds_wrong_sums_of_a_cache_buffer() {
    type Damage = fn(&mut SBlock);
    let damages: [(&str, Damage); 6] = [
        ("its entries end at", |layer| layer.caches[0].head += 1),
        ("its entries end at", |layer| layer.caches[0].tail += 1),
        ("the sums of its entries are wrong", |layer| layer.caches[0].valid += 1),
        ("the sums of its entries are wrong", |layer| layer.caches[0].entry_sectors += 1),
        ("the sums of its entries are wrong", |layer| layer.caches[0].data += 1),
        ("sectors are mapped, and", |layer| {
            layer.map.insert(Lba(60), 1, layer.native(Lba(60)));
            layer.count_cached(0, 3, 1);
            layer.caches[0].valid -= 1;
        }),
    ];
    for (number, (problem, damage)) in damages.into_iter().enumerate() {
        let mut layer = busy().0;
        damage(&mut layer);
        assert_found(number, problem, &layer);
    }
}

#[test]
fn a_cache_buffers_head_keeps_its_guard_from_the_tail() {
    for is_given_up in [false, true] {
        for more in [0, 1] {
            let mut layer = busy().0;
            if is_given_up {
                layer.forget(Lba(0), layer.section_size.value);
                while layer.caches[0].pop().is_some() {}
            }
            let cache = &mut layer.caches[0];
            let length = cache.room() + more;
            cache.entries.push_back(LoggedRun::skipped(length - 1));
            cache.head += length;
            let near = layer.check().err().map(|fault| fault.to_string().contains("has come too near"));
            assert_eq!(near, (more > 0).then_some(true));
        }
    }
}

#[test]
fn a_check_finds_slots_that_can_not_be() {
    type Damage = fn(&mut SBlock);
    let damages: [(&str, Damage); 11] = [
        ("slots are in use of", |layer| {
            let slots = &mut layer.slots[0];
            slots.head = slots.tail + slots.slots() - layer.layout.guard_slots + 1;
        }),
        ("it is not known which slots", |layer| layer.slots[0].head += 1),
        ("slots have owners, of", |layer| {
            let slots = &mut layer.slots[0];
            let unowned = slots.owner.iter().position(|&owner| owner == NONE).unwrap();
            slots.owner[unowned] = 0;
            find_invalid(slots);
        }),
        ("S-block 0 is not the owner of its slot", |layer| layer.slots[0].slot_of.swap(0, 1)),
        ("which is not in use", |layer| {
            let slots = &mut layer.slots[0];
            let (old, new) = (slots.slot_of[5] as usize, slots.slot(slots.head) as usize);
            slots.owner[old] = NONE;
            slots.owner[new] = 5;
            slots.slot_of[5] = new as u32;
            find_invalid(slots);
        }),
        ("S-block 0 has 8 sectors cached, not as many", |layer| layer.cached[0] += 1),
        ("S-block 0 has 8 sectors cached, not as many", |layer| layer.slots[0].mark_cached(0, false)),
        ("S-block 1 has 0 sectors cached, not as many", |layer| layer.slots[0].mark_cached(1, true)),
        ("S-block 2 stands at a wrong place among the largest", |layer| layer.largest[0].set(2, 1)),
        ("is marked as cached and has no S-block", |layer| {
            let slots = &mut layer.slots[0];
            let unowned = slots.owner.iter().position(|&owner| owner == NONE).unwrap();
            slots.cached.insert(unowned as u64);
        }),
        ("is marked as cached and has no S-block", |layer| {
            let slots = &mut layer.slots[0];
            let unowned = slots.owner.iter().rposition(|&owner| owner == NONE).unwrap();
            slots.cached.insert(unowned as u64);
        }),
    ];
    for (number, (problem, damage)) in damages.into_iter().enumerate() {
        let mut layer = busy().0;
        damage(&mut layer);
        assert_found(number, problem, &layer);
    }
    let mut layer = busy().0;
    let slots = &mut layer.slots[0];
    slots.head = slots.tail + slots.slots() - layer.layout.guard_slots;
    find_invalid(slots);
    layer.check().unwrap();
}

#[test]
fn a_second_sections_s_blocks_are_checked_by_their_own_numbers() {
    let (mut layer, mut disk) = busy();
    let first = layer.layout.natives * 20;
    layer.write(&mut disk, Lba(first + 24), 3, &Buf::NoData).unwrap();
    layer.check().unwrap();
    layer.cached[layer.layout.natives as usize + 1] += 1;
    assert_found(0, "S-block buffer 1: S-block 1 has 3 sectors cached", &layer);
}

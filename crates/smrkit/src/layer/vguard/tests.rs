//! Damaged books, and copies of the map that are of another drive.

use super::copy::CopyHead;
use super::*;
use crate::layer::COUNT_MAX;
use crate::schema::Keyed;

/// A layer on the drive `tiny-constant` with 24 slots.
fn vguard() -> (Vguard, Disk) {
    let drive = Drive::load("tiny-constant").unwrap();
    let set = [("cache_tracks", "24"), ("band_tracks", "4")].map(|(key, value)| (key.into(), value.into()));
    let keys = VguardKeys::read(&SPEC.resolve(&set).unwrap()).unwrap();
    (Vguard::new(&drive, &keys).unwrap(), Disk::new(&drive, crate::medium::Medium::NoData))
}

/// Verdict of the check on a log with these (home track, position, slots) and this head.
fn checked(entries: &[(u32, u64, u64)], head: u64) -> Result<(), String> {
    let (mut layer, disk) = vguard();
    entries.iter().for_each(|&(track, position, slots)| layer.log.push(track, position, slots));
    layer.log.head = head;
    layer.check(&disk).map_err(|fault| fault.to_string())
}

#[test]
fn a_check_finds_entries_that_overlap_and_a_head_without_guard() {
    let (layer, disk) = vguard();
    let (slots, reach) = (layer.log.slots(), layer.home.reach());
    layer.check(&disk).unwrap();
    assert_eq!(checked(&[(5, 1, 2), (7, 3, 2)], 5), Ok(()));
    assert_eq!(checked(&[(5, 1, 2), (7, 3, 2), (5, 6, 2)], 8), Ok(()), "a track moved");
    assert!(
        checked(&[(5, 1, 2), (7, 2, 2)], 4).unwrap_err().contains("the cached track 7 begins inside the one before")
    );
    assert!(checked(&[(5, 1, 2), (7, 3, 2)], 4).unwrap_err().contains("the log's head 4 lies before its end 5"));
    assert!(reach > 0);
    assert_eq!(checked(&[(5, 1, 2)], slots - reach), Ok(()));
    assert!(checked(&[(5, 1, 2)], slots - reach + 1).unwrap_err().contains("no guard between the log's head"));
}

#[test]
fn a_check_counts_as_many_cached_tracks_as_a_copy_of_the_map_holds() {
    let (mut layer, disk) = vguard();
    (0..3).for_each(|track| layer.log.push(track, u64::from(track), 1));
    layer.settings.entries_max = 3;
    layer.check(&disk).unwrap();
    layer.settings.entries_max = 2;
    assert!(layer.check(&disk).unwrap_err().to_string().contains("3 tracks are cached, more than"));
}

#[test]
fn a_copy_of_the_map_is_read_back_and_another_drives_is_not() {
    let (mut layer, _) = vguard();
    [(5, 1), (7, 3), (2, 6)].iter().for_each(|&(track, position)| layer.log.push(track, position, 2));
    layer.log.drop(7);
    let head = CopyHead { sequence: 9, number: 3, position: 6, head: 8, track: 2, note: Some((4, true)) };
    let words = layer.format.words(&head, &layer.log, None);
    let parsed = |change: &dyn Fn(&mut Vec<u64>)| {
        let mut words = words.clone();
        change(&mut words);
        layer.format.parse(&words, &layer.home)
    };
    assert_eq!(parsed(&|_| ()), Some((head, vec![(1, 5), (6, 2)])));
    assert_eq!(parsed(&|words| words[6] = 0).unwrap().0.note, None);
    assert_eq!(parsed(&|words| words[7] = 0).unwrap().0.note, Some((4, false)));
    // Kind, sequence, number, position, head, track, note, whether rewritten, count; slots by a bit each; tracks.
    let tracks = u64::from(layer.home.tracks());
    assert!(parsed(&|words| words[0] += 1).is_none());
    for counter in [1, 2, 3, 4, 6] {
        assert!(parsed(&|words| words[counter] = COUNT_MAX - 1).is_some());
        assert!(parsed(&|words| words[counter] = COUNT_MAX).is_none());
    }
    assert!(parsed(&|words| words[5] = tracks - 1).is_some() && parsed(&|words| words[5] = tracks).is_none());
    // No more entries than were ever written, and one for each slot that is named.
    assert!(parsed(&|words| words[2] = 1).is_some() && parsed(&|words| words[2] = 0).is_none());
    assert!(parsed(&|words| words[8] = 3).is_none() && parsed(&|words| words[9] = 1 << 6).is_none());
    assert_eq!(parsed(&|words| words[8] = 1).map(|copy| copy.1), Some(vec![(1, 5)]));
    assert!(parsed(&|words| words.truncate(11)).is_some() && parsed(&|words| words.truncate(10)).is_none());
    assert!(parsed(&|words| words.truncate(9)).is_none() && parsed(&|words| words.truncate(8)).is_none());
    // The first track is the lowest bits of the last word.
    assert!(parsed(&|words| words[10] |= tracks).is_none());
    assert!(parsed(&|words| words[8] = u64::MAX).is_none());
}

#[test]
fn a_copy_holds_as_many_entries_as_it_has_room_for() {
    let (mut layer, _) = vguard();
    let slots = layer.log.slots();
    (0..slots as u32).for_each(|track| layer.log.push(3 * track, u64::from(track), 1));
    let head = CopyHead { number: slots, head: slots, ..CopyHead::default() };
    let words = layer.format.words(&head, &layer.log, None);
    let all: Vec<(u64, u32)> = (0..slots).map(|slot| (slot, 3 * slot as u32)).collect();
    assert_eq!(layer.format.parse(&words, &layer.home), Some((head, all)));
}

//! Damaged books.

use super::*;
use crate::schema::Keyed;

/// A layer on the drive `tiny-constant` with 24 slots.
fn vguard() -> Vguard {
    let drive = Drive::load("tiny-constant").unwrap();
    let set = [("cache_tracks", "24"), ("band_tracks", "4")].map(|(key, value)| (key.into(), value.into()));
    let keys = VguardKeys::read(&SPEC.resolve(&set).unwrap()).unwrap();
    Vguard::new(&drive, &keys).unwrap()
}

/// Verdict of the check on a log with these (home track, position, slots) and this head.
fn checked(entries: &[(u32, u64, u64)], head: u64) -> Result<(), String> {
    let mut layer = vguard();
    entries.iter().for_each(|&(track, position, slots)| layer.log.push(track, position, slots));
    layer.log.head = head;
    layer.check().map_err(|fault| fault.to_string())
}

#[test]
fn a_check_finds_entries_that_overlap_and_a_head_without_guard() {
    let layer = vguard();
    let (slots, reach) = (layer.log.slots.value, layer.home.reach);
    layer.check().unwrap();
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
    let mut layer = vguard();
    (0..3).for_each(|track| layer.log.push(track, u64::from(track), 1));
    layer.entries_max = 3;
    layer.check().unwrap();
    layer.entries_max = 2;
    assert!(layer.check().unwrap_err().to_string().contains("3 tracks are cached, more than"));
}

#[test]
fn as_many_bits_as_tell_tracks_apart() {
    assert_eq!([0, 1, 2, 3, 4, 5, 1 << 20, (1 << 20) + 1].map(bits), [1, 1, 1, 2, 2, 3, 20, 21]);
}

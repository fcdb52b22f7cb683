use super::*;

#[test]
fn the_longest_seek_has_a_bar_of_fifty() {
    let expected = format!(
        "\nSeek time by distance (share of the stroke):\n     0.000 %   0.00 ms\n    25.000 %  {} 5.00 ms\n   100.000 %  {} 10.00 ms\n",
        "█".repeat(25),
        "█".repeat(50)
    );
    assert_eq!(curve(&[(0.0, 0.0), (0.25, 5.0), (1.0, 10.0)]), expected);
    assert!(curve(&[(0.5, 0.0)]).ends_with("    50.000 %   0.00 ms\n"));
}

#[test]
fn a_drive_without_mechanics_has_no_seek_curve() {
    assert!(!show(&Drive::load("tiny-constant").unwrap()).contains("Seek time by distance"));
    let text = show(&Drive::load("tiny").unwrap());
    assert!(text.contains("Seek over a third of the stroke") && text.contains("Seek time by distance"), "{text}");
}

#[test]
fn sizes_are_told_in_units_that_a_person_reads() {
    let zoned = show(&Drive::load("hc620").unwrap());
    for told in ["256 MiB", "32 MiB", "600.0 MB/s", "As sold, under zoned, it offers 15 TB"] {
        assert!(zoned.contains(told), "{told}: {zoned}");
    }
    let cached = show(&Drive::load("st8000dm004").unwrap());
    for told in ["64 MiB (8 MiB to 256 MiB)", "2 MiB", "60.0 MB (15.0 MB to 60.0 MB)", "a persistent cache of 39"] {
        assert!(cached.contains(told), "{told}: {cached}");
    }
    assert!(!zoned.contains("268435456") && !cached.contains("67108864"));
}

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
    let (folder, constant) = (tempfile::tempdir().unwrap(), Drive::load("tiny-constant").unwrap());
    let path = folder.path().join("seek.svg");
    let error = draw_seek_curve(&constant, &path).unwrap_err().to_string();
    assert!(error.contains("no seek curve to draw") && !path.exists(), "{error}");
    assert!(!show(&constant).contains("Seek time by distance"));
    let drive = Drive::load("tiny").unwrap();
    draw_seek_curve(&drive, &path).unwrap();
    let (picture, text) = (std::fs::read_to_string(&path).unwrap(), show(&drive));
    assert!(picture.contains("Seek curve of tiny") && picture.contains("polyline"));
    assert!(text.contains("Seek over a third of the stroke") && text.contains("Seek time by distance"), "{text}");
}

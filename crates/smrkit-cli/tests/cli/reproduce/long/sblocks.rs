//! S-blocks: what drops and rises, and the policies of destaging.

use super::study;

/// The rows that differ, whatever the seed; each says why.
const DIFFERS: [&str; 8] = [
    "Algorithm V.2 to the letter / entries copied one by one",
    "Algorithm V.2 to the letter / literal rule, 1 section: plateau of about 80 without windows of 0",
    "Algorithm V.2 to the letter / literal rule, 100 sections: plateau of about 80 without windows of 0",
    "Figures 12 and 13: random writes, closest to the tail / IOPS from the drop on: rank correlation with time",
    "Figures 13 and 14: destage policies / largest: longest write",
    "Figures 13 and 14: destage policies / longest write, largest to closest-to-tail",
    "Figures 13 and 14: destage policies / which policy has the shorter longest write",
    "The size of S-blocks / IOPS in the last 200 s",
];

#[test]
fn s_blocks_drop_and_rise_and_the_policies_are_far_apart() {
    let study = study("cassuto-sblocks");
    let rows = study.rows();
    let of = |verdict: &str| {
        let wanted = rows.iter().filter(|row| row["verdict"] == verdict);
        let mut items: Vec<&str> = wanted.map(|row| row["item"].as_str().unwrap()).collect();
        items.sort_unstable();
        items
    };
    assert_eq!(of("differs"), DIFFERS);
    assert!(of("agree").len() >= 12, "{:?}", of("agree"));
    assert!((75.0..=95.0).contains(&study.ours("/ plateau, the last 40 s")));
    assert_eq!(study.ours("windows of 0 IOPS after the drop"), 0.0);
    assert!(study.ours("longest write, largest to closest-to-tail") >= 10.0);
    let figures = ["figure-12", "figures-13-and-14", "literal-rule", "destaging-ahead", "figure-9"];
    study.has_lines_in(&figures.map(|name| format!("cassuto-sblocks-{name}")));
}

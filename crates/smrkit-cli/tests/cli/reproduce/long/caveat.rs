//! Caveat-Scriptor and strict-append: what must hold on every seed does.

use super::study;

#[test]
fn the_papers_figures_and_what_must_hold_on_every_seed() {
    let study = study("caveat");
    let rows = study.rows();
    let verdicts = |part: &str| {
        let of = rows.iter().filter(|row| row["item"].as_str().unwrap().contains(part));
        of.map(|row| row["verdict"].as_str().unwrap()).collect::<Vec<_>>()
    };
    for (part, count) in [
        ("figure 2, row", 6),
        ("figure 3", 3),
        ("strict-append's first cleaning", 1),
        ("Caveat-Scriptor needs cleaning up to B", 1),
        ("NW at B", 1),
        ("longest event", 2),
        ("user data that the benchmarks leave", 1),
    ] {
        assert_eq!(verdicts(part), vec!["agree"; count], "{part}");
    }
    assert_eq!(verdicts("writes that wait for cleaning"), ["differs"], "the cleaner keeps ahead of the host here");
    assert_eq!(verdicts("space over time / C"), ["not-comparable"], "the run ends at B, before which C may not be");
    let derived = |part: &str| {
        let of = rows.iter().filter(|row| row["item"].as_str().unwrap().contains(part));
        of.map(|row| row["basis"] == "derived").collect::<Vec<_>>()
    };
    assert_eq!(derived("figure 2, row"), [true; 6], "the figures have no numbers");
    assert_eq!(derived("longest event"), [false; 2]);
    for name in ["caveat-figure-4", "caveat-figures-4-b-and-c", "caveat-figure-5"] {
        let picture = study.file(&format!("figures/{name}.svg"));
        assert!(picture.contains("<svg") && !picture.contains("NaN"), "{name}");
    }
}

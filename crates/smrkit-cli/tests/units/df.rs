use smrfs::device::{Model, Shape};
use smrfs::fs::statistics::Usage;
use smrfs::safety::Counts;

use super::*;

/// A disk of a thousand granules of 1 MB.
fn disk(bands: Option<Fill>) -> Survey {
    let own = smrfs::device::Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 };
    Survey {
        shape: Shape { model: Model::Caveat, granule_bytes: 1_000_000, granules: 1000, did: 8, dpid: 4, bands: own },
        usage: Usage {
            usable: 900,
            live: 300,
            promised: 100,
            counts: Counts {
                readable: 310,
                not_writable: 90,
                write_once: 40,
                writable: 560,
                garbage: 50,
                ..Counts::default()
            },
            nodes: 5000,
            free_nodes: 3766,
            ..Usage::default()
        },
        bands,
        files: 1234,
        damaged_maps: 0,
        extents: 2345,
    }
}

fn some_bands(lost: u64) -> Fill {
    Fill { empty: 7, dead: 0, by_tenth_live: [1, 0, 0, 0, 2, 0, 0, 0, 0, 3000], open: 4, lost }
}

#[test]
fn what_is_neither_live_nor_promised_is_free() {
    let free_of = |usable, live, promised| {
        free(&Survey { usage: Usage { usable, live, promised, ..Usage::default() }, ..disk(None) })
    };
    assert_eq!([free_of(900, 300, 100), free_of(900, 800, 100), free_of(900, 850, 100)], [500, 0, 0]);
}

#[test]
fn a_disk_is_shown_as_a_line_and_a_table() {
    let expected = "\
x: 500 MB of 900 MB free; 1,234 files with data in 2,345 extents; room for 3,766 more files

disk                           bytes   share
────────────────────────────────────────────
all of it, without superblocks  1 GB   100 %
R: may be read                310 MB    31 %
NW: must not be written        90 MB     9 %
WO: may be written once        40 MB     4 %
W: may be written             560 MB    56 %
garbage (in NW)                50 MB     5 %
for files                     900 MB    90 %
promised                      100 MB    10 %
";
    let shown = text("x", &disk(None));
    let words = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    let rule = |line: &&String| !line.starts_with('─');
    let (shown, expected) = (words(&shown), words(expected));
    assert!(shown.iter().filter(rule).eq(expected.iter().filter(rule)), "{shown:#?}");
}

#[test]
fn bands_are_counted_by_fill_and_empty_classes_left_out() {
    let rows = |bands: Fill| fill(&bands).rows.iter().map(|row| row.join(" ")).collect::<Vec<_>>();
    let known = ["empty 7", "up to 10 % live 1", "up to 50 % live 2", "up to 100 % live 3,000"];
    assert_eq!(rows(some_bands(0)), [&known[..], &["(of these open) 4"]].concat());
    assert_eq!(rows(some_bands(5)), [&known[..], &["lost 5", "(of these open) 4"]].concat());
    assert!(text("x", &disk(Some(some_bands(0)))).contains("(of these open)"));
}

use proptest::prelude::*;

use super::*;
use crate::device::level::{LEVELS, LevelSpec};

fn drive() -> impl Strategy<Value = DriveSpec> {
    let word = || "[a-z][a-z0-9-]{0,8}|[ -~]{0,6}|[\"(),= ]{1,4}";
    let set = prop::collection::vec((word(), word()), 0..3);
    let capacity = prop::option::of(1u64..1 << 40);
    (prop::option::of(word()), prop::option::of(word()), capacity, set)
        .prop_map(|(layer, drive, capacity_sectors, set)| DriveSpec { layer, drive, capacity_sectors, set })
}

fn specs() -> impl Strategy<Value = ArraySpec> {
    let alike = (drive(), 1usize..9).prop_map(|(member, n)| vec![member; n]);
    let members = prop_oneof![alike, prop::collection::vec(drive(), 1..6)];
    (0..LEVELS.len(), 1u64..5000, members).prop_map(|(level, chunk_sectors, mut members)| {
        let LevelSpec { level, disks_min, .. } = LEVELS[level];
        let first = members[0].clone();
        members.resize_with(members.len().max(disks_min), || first.clone());
        ArraySpec { chunk_sectors, ..ArraySpec::new(level, members) }
    })
}

proptest! {
    #[test]
    fn the_canonical_text_reads_back_as_the_same_array(spec in specs()) {
        let text = spec.to_string();
        prop_assert_eq!(&ArraySpec::parse(&text).unwrap(), &spec, "{}", text);
    }

    #[test]
    fn no_text_panics(text in "\\PC*|(raid[0-9]{1,2}|span)?[:(),=\" a-z0-9é]{0,40}", keys in "[a-z]{1,3}") {
        let _ = ArraySpec::parse(&text);
        let _ = ArraySpec::parse(&format!("raid0:disks=2,member=({text}),{keys}=1"));
    }
}

fn parse(text: &str) -> ArraySpec {
    ArraySpec::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn the_short_form_reads_as_people_write_it() {
    for (text, canonical) in [
        ("raid5:disks=4,chunk=512KiB,layer=drive-managed", "raid5:disks=4,chunk=512Ki,layer=drive-managed"),
        (" raid1 : disks = 3 ", "raid1:disks=3,chunk=512Ki"),
        ("raidz1:disks=4", "raidz1:disks=4"),
        ("mirror:disks=2,drive=tiny", "mirror:disks=2,drive=tiny"),
        ("raidz2:disks=6,chunk=64Ki", "raidz2:disks=6,chunk=64Ki"),
        ("raid10:disks=5", "raid10:disks=5,chunk=512Ki"),
        (
            "span:layer=log,set=(segment_tracks=4,policy=fifo),disks=2",
            "span:disks=2,chunk=512Ki,layer=log,set=(segment_tracks=4,policy=fifo)",
        ),
        // Members take the array's keys; one that names its layer leaves the parameters behind.
        (
            "raid0:layer=log,set=(policy=fifo),member=(),member=(layer=rmw),member=(drive=tiny)",
            "raid0:disks=3,chunk=512Ki,member=(layer=log,set=(policy=fifo)),member=(layer=rmw),\
             member=(layer=log,drive=tiny,set=(policy=fifo))",
        ),
        ("span:disks=1,drive=\"a, b.toml\"", "span:disks=1,chunk=512Ki,drive=\"a, b.toml\""),
        ("dedicated:disks=1k,capacity=5T", "dedicated:disks=1000,chunk=512Ki,capacity=5T"),
        // A drive's whole sectors, as --capacity counts them.
        ("raid0:disks=2,capacity=1MB", "raid0:disks=2,chunk=512Ki,capacity=999936"),
    ] {
        assert_eq!(parse(text).to_string(), canonical);
    }
}

#[test]
fn mistakes_say_where_they_are_and_what_to_do() {
    for (text, message) in [
        ("", "the kind of array is missing: write raid5:disks=4"),
        ("raid7:disks=4", "no array is called `raid7`; did you mean `raid0`? Known: span, raid0, raid1, raid10"),
        (
            "raid5:disks=4,chunks=4Ki",
            "array, character 15, `chunks`: no key of this name; did you mean `chunk`? Known: disks, chunk, member, layer",
        ),
        ("raid0:disks=2,member=(disks=2)", "no key of this name; known: layer, drive, set, capacity"),
        ("raid5:disks=4,chunk=0", "character 21, `0`: `0` is out of range: expected a size from 512"),
        ("raid5:disks=4,chunk=1000", "write 512 or 1Ki"),
        ("raid5:disks=4,chunk=1", "sectors: write 512 (k is"),
        ("raid5:disks=4,chunk", "expected key=value"),
        ("raid5:disks=4,chunk=", "a value is missing"),
        ("raid5:disks=4,disks=5", "given twice"),
        ("raid5:disks=0", "`0` is out of range: expected a whole number from 1"),
        ("raid5:layer=rmw", "raid5 of how many disks? Write disks=N"),
        ("raid0:disks=3,member=(),member=()", "disks=3, but 2 members are given"),
        ("raid0:member=(layer=rmw", "the `(` is not closed: add a `)`"),
        ("raid0:disks=2)", "a `)` that nothing opened"),
        ("raid0:disks=2,member=(raid1:disks=2)", "members of an array are drives: write raid10"),
        ("raid0:disks=2,member=raid1", "expected it in parentheses"),
        ("raid0:disks=2,layer=\"log", "the quote is not closed"),
        ("raid0:disks=2,layer=a\"b\"", "put the whole value in quotes"),
        ("raid5:disks=3,write=rmw", "no key of this name"),
        ("raid0:disks=2,capacity=0", "`0` is out of range: expected a size from 512"),
        ("raid0:disks=2,capacity=511", "`511` is out of range"),
    ] {
        let error = ArraySpec::parse(text).unwrap_err();
        assert!(matches!(error, Error::Usage(_)) && error.to_string().contains(message), "{text}: {error}");
    }
    for (text, message) in [
        ("raid5:disks=2", "raid5 of 2 disks: raise disks to 3 or more, or use raid1"),
        ("span:disks=99999999999999999999k", "is too large"),
        ("span:disks=5000", "span of more than 4096 drives"),
    ] {
        let error = ArraySpec::parse(text).unwrap_err();
        assert!(error.to_string().contains(message), "{text}: {error}");
    }
}

#[test]
fn the_descriptions_in_the_docs_can_be_read() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/arrays.md")).unwrap();
    let section = page.split("## Descriptions").nth(1).unwrap().split("\n## ").next().unwrap();
    let blocks: Vec<&str> = section.split("\n```").skip(1).step_by(2).collect();
    let texts = blocks[0].trim().lines().map(parse).count();
    assert_eq!((texts, blocks.len()), (2, 1));
}

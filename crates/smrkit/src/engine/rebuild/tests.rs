//! The text of rebuilds.

use proptest::prelude::*;

use super::*;
use crate::units::Nanos;

#[test]
fn a_text_says_what_it_leaves_out() {
    for (text, canonical) in [
        ("", "disk=0,order=ascending,write=512Ki,window=32"),
        ("rebuild", "disk=0,order=ascending,write=512Ki,window=32"),
        ("rebuild: disk=1, write=64KiB", "disk=1,order=ascending,write=64Ki,window=32"),
        (
            "disk=2,failed=before,at=90s,rate=50MB",
            "disk=2,failed=before,order=ascending,write=512Ki,window=32,rate=50M,at=90s",
        ),
        (
            "order=scattered,record=44KiB,run=3MB,live=80%,window=10,after=1000",
            "disk=0,order=scattered,record=44Ki,run=2999808,live=0.8,window=10,after=1000",
        ),
        ("scrub", "scrub:order=ascending,read=512Ki,window=32"),
        ("scrub:read=1MiB,window=1", "scrub:order=ascending,read=1Mi,window=1"),
    ] {
        assert_eq!(RebuildSpec::parse(text).unwrap().to_string(), canonical, "{text}");
    }
}

#[test]
fn one_byte_a_second_may_be_written_in_larger_units() {
    for text in ["rate=1", "rate=1.0B", "rate=0.001k", "rate=0.000001 MB", "rate=0.0009765625Ki"] {
        assert_eq!(RebuildSpec::parse(text).unwrap().rate, Some(1), "{text}");
    }
}

#[test]
fn keys_follow_a_task_behind_a_colon_or_a_comma() {
    for (one, same) in [("resilver:new=full", "resilver,new=full"), ("scrub:read=4Ki", "scrub, read=4Ki")] {
        assert_eq!(RebuildSpec::parse(one).unwrap(), RebuildSpec::parse(same).unwrap());
    }
    assert!(RebuildSpec::parse("scrap,read=4Ki").is_err());
}

#[test]
fn mistakes_come_with_their_remedy() {
    for (text, part) in [
        ("disc=1", "did you mean `disk`"),
        ("disk", "expected key=value"),
        ("disk=1,disk=2", "given twice"),
        ("scrap:read=4Ki", "did you mean `scrub`"),
        ("scrub:disk=1", "known: order, read"),
        ("scrub:order=scattered", "known: ascending"),
        ("read=4Ki", "no key of this name; known: disk, failed, new, order, write, record"),
        ("live=0.5", "add that, or leave it out"),
        ("order=scatered", "did you mean `scattered`"),
        ("order=scattered,write=4Ki", "give record=SIZE"),
        ("order=scattered,run=4Ki", "raise run, or lower record"),
        ("order=scattered,live=0", "raise it"),
        ("write=1000", "write 512 or 1Ki"),
        ("write=1Gi", "from 512 to 64Mi"),
        ("window=0", "character 8, `0`: `0` is out of range: expected a whole number from 1 to 65536"),
        ("rate=0", "`0` is out of range: expected a size from 1"),
        ("after=1,at=2s", "leave one out"),
        ("failed=later", "known: then, before"),
    ] {
        let error = RebuildSpec::parse(text).unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{text}");
        assert!(error.to_string().contains(part), "{text}: {error}");
    }
}

fn specs() -> impl Strategy<Value = RebuildSpec> {
    let task = prop_oneof![
        Just(Task::Scrub),
        (any::<u32>(), any::<bool>(), any::<bool>()).prop_map(|(disk, before, used)| Task::Rebuild {
            disk,
            before,
            used
        })
    ];
    let ascending = (1u64..=1 << 17).prop_map(|sectors| RebuildOrder::Ascending { sectors });
    let scattered = (1u64..=1 << 17, 0u64..1 << 30, 1u32..=1000).prop_map(|(record, more, live)| {
        RebuildOrder::Scattered { record_sectors: record, run_sectors: record + more, live: f64::from(live) / 1000.0 }
    });
    let begin = prop_oneof![any::<u64>().prop_map(Begin::After), any::<u64>().prop_map(|ns| Begin::At(Nanos(ns)))];
    let window = 1u32..=65_536;
    (task, ascending, scattered, any::<bool>(), window, prop::option::of(1u64..), begin).prop_map(
        |(task, ascending, scattered, scatters, window, rate, begin)| RebuildSpec {
            task,
            order: if scatters && task != Task::Scrub { scattered } else { ascending },
            window,
            rate,
            begin,
        },
    )
}

proptest! {
    #[test]
    fn the_canonical_text_reads_back(spec in specs()) {
        prop_assert_eq!(RebuildSpec::parse(&spec.to_string()).unwrap(), spec);
    }

    #[test]
    fn no_text_panics(text in "\\PC*|(scrub:|rebuild:)?([a-z]{0,8}=[0-9a-zA-Z.%]{0,9},?){0,5}") {
        let _ = RebuildSpec::parse(&text);
    }
}

#[test]
fn pieces_keep_their_distance_and_a_pause_is_not_made_up_for() {
    let mut pace = Pace::new(u32::MAX, Some(3));
    let due: Vec<u64> = (0..4)
        .map(|_| {
            pace.begin(pace.due(), 1);
            pace.due().0
        })
        .collect();
    assert_eq!(due, [333_333_333, 666_666_666, 1_000_000_000, 1_333_333_333], "no rounding adds up");
    pace.begin(Nanos(5_000_000_000), 3);
    assert_eq!(pace.due(), Nanos(6_000_000_000));
    let mut pace = Pace::new(u32::MAX, None);
    pace.begin(Nanos(7), 1 << 40);
    assert_eq!(pace.due(), Nanos::ZERO);
}

#[test]
fn what_is_due_after_the_end_of_time_is_still_to_come() {
    for bytes in [1 << 35, 1 << 40, 1 << 62] {
        let mut pace = Pace::new(u32::MAX, Some(1));
        pace.begin(Nanos(7), bytes);
        assert_eq!(pace.due(), Nanos(u64::MAX - 1));
    }
}

//! A volume of a split trace is the volume of the trace.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use smrkit::experiment::demand::{Demand, Opening};

use super::*;
use crate::tests::{drain, shown};
use crate::{Laid, OpenOptions, Trace, VolumeChoice};

fn split(path: &Path, folder: &Path, buckets: usize, file_rows: u64) -> SplitTrace {
    let options = OpenOptions::default();
    let mut trace = Trace::open(path, &options).unwrap();
    let mut splitter = Splitter::create(folder, buckets).unwrap().with_file_rows(file_rows);
    assert!(splitter.split(&mut trace, |_| true).unwrap());
    splitter.finish(path, &options, &trace).unwrap()
}

/// Rows of Alibaba's format: (volume, is a write, sector, sectors, microseconds).
fn text(rows: &[(u64, bool, u64, u64, u64)]) -> String {
    let row = |&(volume, write, sector, sectors, us): &(u64, bool, u64, u64, u64)| {
        format!("{volume},{},{},{},{us}\n", if write { 'W' } else { 'R' }, sector * 512, sectors * 512)
    };
    rows.iter().map(row).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn every_volume_is_what_a_choice_of_it_gives(
        rows in prop::collection::vec((0u64..9, any::<bool>(), 0u64..5000, 1u64..50, 0u64..100_000), 1..600),
        repeats in 1usize..12,
        buckets in 1usize..8,
        file_rows in 100u64..3000,
        held_max in 0u64..400,
    ) {
        let scratch = tempfile::tempdir().unwrap();
        let (path, folder) = (scratch.path().join("trace.csv"), scratch.path().join("volumes"));
        // Numbers of volumes that are no indices.
        let rows: Vec<_> = rows.into_iter().map(|row| (row.0 * 7 + 3, row.1, row.2, row.3, row.4)).collect();
        fs::write(&path, text(&rows).repeat(repeats)).unwrap();
        let list = split(&path, &folder, buckets, file_rows);
        prop_assert_eq!(&list, &SplitTrace::open(&folder).unwrap());
        prop_assert_eq!(list.requests, (rows.len() * repeats) as u64);
        let all: Vec<usize> = (0..list.volumes.len()).collect();
        let demands = list.demands(&folder, &all, held_max).unwrap();
        for (volume, demand) in list.volumes.iter().zip(&demands) {
            let choice = VolumeChoice::Number(volume.number);
            let mut alone = Laid::open(&path, &OpenOptions::default(), choice).unwrap();
            let mut expected = drain(&mut alone).unwrap();
            expected.iter_mut().for_each(|request| request.volume = 0);
            let mut opened = demand.open(&Opening::new(0, 1)).unwrap();
            let found = drain(&mut opened).unwrap();
            prop_assert_eq!(shown(&found), shown(&expected));
            prop_assert_eq!(volume.requests, expected.len() as u64);
            prop_assert_eq!(volume.end_sectors, expected.iter().map(|request| request.end().0).max().unwrap());
            prop_assert_eq!(alone.is_out_of_order(), opened.refuse_disorder().is_err());
            // The files of a bucket are traces of their own.
            let file = folder.join(&list.buckets[volume.bucket].files[0]);
            let mut first = Laid::open(&file, &OpenOptions::default(), choice).ok();
            let of_file = first.as_mut().and_then(|first| drain(first).ok()).map_or(0, |all| all.len());
            prop_assert!(of_file == expected.len() || list.buckets[volume.bucket].files.len() > 1);
        }
    }
}

#[test]
fn a_folder_appears_whole_and_takes_nothings_place() {
    let scratch = tempfile::tempdir().unwrap();
    let (path, folder) = (scratch.path().join("trace.csv"), scratch.path().join("volumes"));
    fs::write(&path, text(&[(1, true, 0, 8, 0), (2, false, 8, 8, 5)])).unwrap();
    let names = || fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    drop(Splitter::create(&folder, 4).unwrap());
    assert_eq!(names(), ["trace.csv"], "what was begun is gone");
    // A killed process leaves its part; the next one begins anew.
    std::mem::forget(Splitter::create(&folder, 4).unwrap());
    assert_eq!(names().len(), 2);
    let list = split(&path, &folder, 4, 100);
    assert_eq!((list.buckets.len(), list.volumes.len(), names().len()), (2, 2, 2));
    let refused = Splitter::create(&folder, 4).err().unwrap().to_string();
    assert!(refused.contains("name an empty one"), "{refused}");
    let no_folder = Splitter::create(&path, 4).err().unwrap().to_string();
    assert!(no_folder.contains("trace.csv"), "{no_folder}");
    let written = |list: &SplitTrace| serde_json::to_string(list).unwrap();
    let mut astray = list.clone();
    astray.volumes[1].bucket = list.buckets.len();
    for (text, expected) in [
        ("{", "damaged"),
        (r#"{"version": 1}"#, "damaged"),
        (&written(&astray), "a volume is in no bucket"),
        (&written(&SplitTrace { version: 2, ..list }), "version 2, not 1"),
    ] {
        fs::write(folder.join(LIST), text).unwrap();
        let error = SplitTrace::open(&folder).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("split the trace again"), "{error}");
    }
    assert!(SplitTrace::open(scratch.path()).unwrap_err().to_string().contains("trace split"));
}

#[test]
fn the_list_has_the_first_time_and_the_end_of_each_volume() {
    let scratch = tempfile::tempdir().unwrap();
    let (path, folder) = (scratch.path().join("trace.csv"), scratch.path().join("volumes"));
    let rows = [
        (5, true, 0, 8, 100),
        (6, true, 80, 8, 130),
        (5, false, 40, 8, 140),
        (6, true, 8, 8, 120),
        (7, true, 0, 1, 150),
    ];
    fs::write(&path, text(&rows)).unwrap();
    let list = split(&path, &folder, 2, 100);
    let found: Vec<_> = list
        .volumes
        .iter()
        .map(|one| {
            (one.number, one.first_ns, one.end_sectors, one.requests, one.is_out_of_order, one.bucket, one.index)
        })
        .collect();
    assert_eq!(found, [(5, 0, 48, 2, false, 0, 0), (6, 30_000, 88, 2, true, 1, 0), (7, 50_000, 1, 1, false, 0, 1)]);
    let buckets: Vec<_> = list.buckets.iter().map(|one| (one.files.join(" "), one.requests)).collect();
    assert_eq!(buckets, [("bucket-000.parquet".to_string(), 3), ("bucket-001.parquet".to_string(), 2)]);
    assert_eq!((list.requests, list.trace_reading.volume.as_str()), (5, "all"));
}

#[test]
fn files_of_a_bucket_end_where_they_are_full() {
    let scratch = tempfile::tempdir().unwrap();
    let (path, folder) = (scratch.path().join("trace.csv"), scratch.path().join("volumes"));
    let rows: Vec<_> = (0..7).map(|at| (1, true, at * 8, 8, at * 10)).collect();
    fs::write(&path, text(&rows)).unwrap();
    let list = split(&path, &folder, 1, 3);
    assert_eq!(list.buckets[0].files, ["bucket-000.parquet", "bucket-000-1.parquet", "bucket-000-2.parquet"]);
    let rows = |name: &String| crate::parquet::ParquetReader::open(&folder.join(name)).unwrap().rows;
    assert_eq!(list.buckets[0].files.iter().map(rows).collect::<Vec<_>>(), [3, 3, 1]);
}

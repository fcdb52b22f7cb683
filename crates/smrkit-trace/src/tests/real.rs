//! Real traces, where they are at hand: row counts and oddities as their README tells them.

use super::*;
use crate::demand::scan;

/// Name, rows, disks, rows out of order, unaligned rows where the README speaks of them.
const TRACES: &[(&str, u64, usize, u64)] = &[
    ("bench_iozone_disksim", 100_000, 1, 0),
    ("biotracer_mobile_booting", 17_868, 1, 0),
    ("biotracer_mobile_movie", 4_781, 1, 0),
    ("blktrace_hadoop_hdd_apress", 15_524, 1, 0),
    ("blktrace_java_btrfs", 1_824, 1, 0),
    ("blktrace_java_ext4", 9_886, 1, 0),
    ("cloudphysics_sample", 113_872, 1, 0),
    ("flashsim_jpeg_copy", 47_120, 1, 0),
    ("hadoop_eternity10", 137_358, 1, 0),
    ("hp_hplajw_1week_1992", 44_519, 2, 0),
    ("msps_devtools_release", 127_043, 1, 0),
    ("msr_hm_0_cut7016", 7_016, 1, 0),
    ("msr_hm_0_first1000", 1_000, 1, 0),
    ("msr_mds_0_writes_first1000", 1_000, 1, 0),
    ("msr_proj_0_writes_first1000", 1_000, 1, 0),
    ("msr_wdev_1", 1_055, 1, 0),
    ("msr_web_3", 31_380, 1, 0),
    ("spc_financial1_first10k", 10_000, 22, 0),
    ("spc_websearch1_first25k", 24_783, 6, 0),
    ("systor17_head", 999, 1, 243),
    ("tencent_cbs_sample", 50_000, 2_038, 144),
];

#[test]
fn real_traces_have_the_rows_of_their_readme() {
    let Some(dir) = shared() else { return };
    for (name, rows, disks, back) in TRACES {
        let path = dir.join(format!("{name}.csv.zst"));
        let mut trace = Trace::open(&path, &OpenOptions::default()).unwrap();
        let requests = drain(&mut trace).unwrap().len();
        assert_eq!(trace.format, "msr", "{name}");
        assert_eq!((requests as u64, trace.volumes().len()), (*rows, *disks), "{name}");
        let notes = trace.notes();
        assert_eq!(notes.out_of_order_rows, *back, "{name}");
        assert_eq!(trace.first_out_of_order().is_some(), *back > 0, "{name}");
        if name.starts_with("msr_") {
            assert_eq!(notes.unaligned_rows, if *name == "msr_web_3" { 86 } else { 0 }, "{name}");
        }
        assert!(trace.sha256().is_some(), "{name}");
    }
}

#[test]
fn a_trace_of_two_thousand_volumes_is_laid_end_to_end() {
    let Some(dir) = shared() else { return };
    let path = dir.join("tencent_cbs_sample.csv.zst");
    let table = scan(&path, &OpenOptions::default()).unwrap();
    let end = table.end_to_end(&path).unwrap().1;
    let mut laid = LaidOutTrace::open(&path, &OpenOptions::default(), VolumeChoice::All).unwrap();
    let all = drain(&mut laid).unwrap();
    assert_eq!(all.len(), 50_000);
    assert!(all.iter().all(|request| request.end() <= end));
    let number = table.volumes[7].volume.number;
    let mut laid = LaidOutTrace::open(&path, &OpenOptions::default(), VolumeChoice::Number(number)).unwrap();
    assert_eq!(drain(&mut laid).unwrap().len() as u64, table.volumes[7].requests);
}

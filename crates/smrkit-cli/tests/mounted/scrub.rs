//! `smrkit scrub`: what the disk no longer reads is found, and its file named.

use std::fs::{self, OpenOptions};

use serde_json::Value;

use super::{Bench, MODELS};

#[test]
fn a_scrub_reads_all_data_and_names_files_that_have_lost_some() {
    for model in MODELS {
        let Some(bench) = Bench::new(model, "64MiB") else { return };
        bench.mount().done();
        let point = bench.path("mnt");
        fs::create_dir(bench.file("folder")).unwrap();
        for number in 0..20 {
            fs::write(bench.file(&format!("folder/{number}")), vec![number; 1 << 20]).unwrap();
        }
        let said = bench.smrkit(&["scrub", &point]).done();
        assert!(said.contains("nothing is wrong"), "{said}");
        let report = |code: i32| -> Value {
            let ran = bench.smrkit(&["scrub", "--json", &point]);
            assert_eq!(ran.0.status.code(), Some(code), "{}", String::from_utf8_lossy(&ran.0.stderr));
            serde_json::from_slice(&ran.0.stdout).unwrap()
        };
        let all = report(0)["read_bytes"].as_u64().unwrap();
        assert!(all >= 19 << 20, "{model}: {all} bytes");
        bench.smrkit(&["sync", &point]).done();
        // A disk that has lost its end: reading there fails.
        let image = OpenOptions::new().write(true).open(bench.path("disk.img")).unwrap();
        let length = image.metadata().unwrap().len();
        image.set_len(10 << 20).unwrap();
        let damaged = report(4);
        let (read, lost) = (damaged["read_bytes"].as_u64().unwrap(), damaged["damaged_bytes"].as_u64().unwrap());
        assert!(lost > 5 << 20 && read > 5 << 20 && read + lost >= 20 << 20, "{model}: {read} read, {lost} lost");
        let files = damaged["files"].as_array().unwrap();
        assert!(files.iter().all(|file| file["path"].as_str().unwrap().starts_with("/folder/")), "{model}");
        assert_eq!(files.iter().map(|file| file["damaged_bytes"].as_u64().unwrap()).sum::<u64>(), lost);
        let ran = bench.smrkit(&["scrub", &point]);
        let said = String::from_utf8_lossy(&ran.0.stdout).into_owned();
        assert!(said.contains("mnt/folder/19") && said.contains("from a backup"), "{model}: {said}");
        image.set_len(length).unwrap();
        bench.umount().done();
        bench.smrkit(&["scrub", &point]).says(1, &["no SMRfs mounted"]);
    }
}

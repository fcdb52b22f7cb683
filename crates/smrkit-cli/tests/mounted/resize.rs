//! `smrkit resize`: more and less of a disk, and what an interrupted one leaves.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;

use super::{Bench, MODELS, blocks, kill};

const MIB: u64 = 1 << 20;

fn content(number: usize) -> Vec<u8> {
    blocks(MIB as usize, 512, |nth| (nth * 3 + number) as u8)
}

fn write(bench: &Bench, numbers: std::ops::Range<usize>) {
    numbers.for_each(|number| fs::write(bench.file(&number.to_string()), content(number)).unwrap());
}

#[track_caller]
fn verify(bench: &Bench, numbers: std::ops::Range<usize>) {
    for number in numbers {
        assert!(fs::read(bench.file(&number.to_string())).unwrap() == content(number), "{number}");
    }
}

fn resize(bench: &Bench, size: &str) -> super::Ran {
    bench.smrkit(&["resize", &bench.path("disk.img"), size])
}

fn usable(bench: &Bench) -> u64 {
    bench.report()["usage"]["usable"].as_u64().unwrap() * 4096
}

#[test]
fn a_volume_grows_and_shrinks_with_its_data() {
    for model in MODELS {
        let Some(bench) = Bench::new(model, "64MiB") else { return };
        bench.mount().done();
        let small = usable(&bench);
        write(&bench, 0..30);
        resize(&bench, "128MiB").says(3, &["in use"]);
        bench.umount().done();
        let said = resize(&bench, "128MiB").done();
        assert!(said.contains("before"), "{said}");
        bench.is_in_order();
        bench.mount().done();
        assert!(usable(&bench) > 2 * small - 4 * MIB, "{model}: {} after {small}", usable(&bench));
        verify(&bench, 0..30);
        write(&bench, 30..95);
        bench.umount().done();
        bench.is_in_order();
        let length = || fs::metadata(bench.path("disk.img")).unwrap().len();
        let before = length();
        resize(&bench, "32MiB").says(4, &["too few for what lies in", "at least"]);
        resize(&bench, "1MiB").says(4, &["too few"]);
        assert_eq!(length(), before, "{model}: a refusal changes nothing");
        bench.mount().done();
        verify(&bench, 0..95);
        (5..90).for_each(|number| fs::remove_file(bench.file(&number.to_string())).unwrap());
        bench.umount().done();
        // What is left lies where it lay: the size that is named will do.
        let said = String::from_utf8_lossy(&resize(&bench, "32MiB").0.stderr).into_owned();
        let least = said.split("it takes ").nth(1).and_then(|rest| rest.split(" at least").next());
        resize(&bench, least.expect("a size")).done();
        assert!(length() < before, "{model}: {} after {before}", length());
        bench.is_in_order();
        bench.mount().done();
        verify(&bench, 0..5);
        verify(&bench, 90..95);
        write(&bench, 5..10);
        bench.umount().done();
        // Bands that were cut off are empty when they come back.
        resize(&bench, "128MiB").done();
        bench.mount().done();
        write(&bench, 10..90);
        bench.umount().done();
        bench.mount().done();
        verify(&bench, 0..95);
        bench.umount().done();
        bench.is_in_order();
    }
}

#[test]
fn an_interrupted_resize_is_refused_until_it_is_done_again() {
    for model in MODELS {
        let Some(bench) = Bench::new(model, "64MiB") else { return };
        bench.mount().done();
        write(&bench, 0..5);
        bench.umount().done();
        bench.smrkit(&["backup", &bench.path("disk.img"), &bench.path("saved")]).done();
        bench.smrkit(&["resize", &bench.path("saved/disk.img"), "128MiB"]).done();
        // As if only the head had been written: that of the large image before the rest of the small one, which is in use.
        let mut head = vec![0; 4096];
        File::open(bench.path("saved/disk.img")).unwrap().read_exact_at(&mut head, 0).unwrap();
        let length = fs::metadata(bench.path("saved/disk.img")).unwrap().len();
        bench.mount().done();
        kill(bench.process());
        bench.umount().done();
        let image = OpenOptions::new().write(true).open(bench.path("disk.img")).unwrap();
        image.set_len(length).unwrap();
        image.write_all_at(&head, 0).unwrap();
        bench.mount_with(&[]).says(3, &["resizing was interrupted", "smrkit resize"]);
        bench.smrkit(&["fsck", &bench.path("disk.img")]).says(3, &["smrkit resize"]);
        resize(&bench, if model == "caveat" { "128MiB" } else { "64MiB" }).done();
        bench.smrkit(&["fsck", &bench.path("disk.img")]);
        bench.is_in_order();
        bench.mount().done();
        verify(&bench, 0..5);
        write(&bench, 5..30);
        bench.umount().done();
        bench.is_in_order();
    }
}

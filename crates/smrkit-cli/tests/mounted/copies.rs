//! Copies of image and metadata directory, made as docs/reference/smrfs.md says: they mount, clean and lose nothing.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::Command;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{Bench, MODELS, blocks};
use crate::count::count_from;

pub(super) const FILES: u64 = 40;
pub(super) const PIECE: usize = 4096;
/// Pieces that are overwritten, unless SMRKIT_OVERWRITES gives another number; the files have some 14,000.
const OVERWRITES: u32 = 1500;
/// Overwrites between two synchronizations of a file.
const BETWEEN_SYNCS: u32 = 40;

/// Ways to copy both in the folder `$1` to a new one, `$2`; the first word is the program that is needed.
const WAYS: [&str; 3] = [
    "cp -a \"$1/disk.img\" \"$1/meta\" \"$2\"",
    "rsync -aX \"$1/disk.img\" \"$1/meta\" \"$2\"",
    "tar -C \"$1\" --xattrs --xattrs-include='*' -Scf - disk.img meta | tar -C \"$2\" --xattrs --xattrs-include='*' -xf -",
];

fn shell(script: &str, arguments: &[&str]) -> bool {
    Command::new("sh").args(["-c", script, "sh"]).args(arguments).status().expect("sh starts").success()
}

/// Fills a new file system to 85 % and unmounts it; tells how many pieces each file has.
pub(super) fn filled(bench: &Bench) -> u64 {
    bench.mount().done();
    let usable = bench.report()["usage"]["usable"].as_u64().unwrap();
    let pieces = usable * 85 / 100 / FILES;
    for number in 0..FILES {
        fs::write(bench.file(&number.to_string()), vec![1; pieces as usize * PIECE]).unwrap();
    }
    bench.umount().done();
    pieces
}

/// Overwrites pieces at random and synchronizes; tells what is to be in each piece.
fn overwrite(bench: &Bench, pieces: u64) -> Vec<Vec<u8>> {
    let open = |number: u64| OpenOptions::new().write(true).open(bench.file(&number.to_string())).unwrap();
    let files: Vec<File> = (0..FILES).map(open).collect();
    let mut content = vec![vec![1; pieces as usize]; FILES as usize];
    let mut random = Pcg64Mcg::seed_from_u64(3);
    let overwrites = count_from("SMRKIT_OVERWRITES", OVERWRITES);
    for count in 1..=overwrites {
        let (file, piece) = (random.random_range(0..FILES as usize), random.random_range(0..pieces as usize));
        let byte = random.random();
        files[file].write_all_at(&[byte; PIECE], (piece * PIECE) as u64).unwrap();
        content[file][piece] = byte;
        if count.is_multiple_of(BETWEEN_SYNCS) {
            files[file].sync_all().unwrap();
        }
    }
    content
}

#[test]
fn a_copy_is_in_order_and_cleans_without_losing_anything() {
    for model in MODELS {
        let Some(bench) = Bench::new(model, "64MiB") else { return };
        let pieces = filled(&bench);
        for way in WAYS {
            let program = way.split(' ').next().unwrap();
            if !shell(&format!("command -v {program} > /dev/null"), &[]) {
                println!("skipped: no copy by {program}: it is missing");
                continue;
            }
            let copy = bench.path("copy");
            fs::create_dir(&copy).unwrap();
            assert!(shell(way, &[&bench.path(""), &copy]), "{way}");
            let (image, meta) = (bench.path("copy/disk.img"), bench.path("copy/meta"));
            bench.smrkit(&["fsck", "-n", &image, "--meta", &meta]).done();
            let mount =
                || bench.smrkit(&["mount", "--log", &bench.path("log"), "--meta", &meta, &image, &bench.path("mnt")]);
            mount().done();
            let content = overwrite(&bench, pieces);
            bench.umount().done();
            bench.smrkit(&["fsck", "-n", &image]).done();
            mount().done();
            for (number, pieces) in content.iter().enumerate() {
                let expected = blocks(pieces.len() * PIECE, PIECE, |nth| pieces[nth]);
                assert!(fs::read(bench.file(&number.to_string())).unwrap() == expected, "{model}, {program}, {number}");
            }
            bench.umount().done();
            fs::remove_dir_all(&copy).unwrap();
        }
    }
}

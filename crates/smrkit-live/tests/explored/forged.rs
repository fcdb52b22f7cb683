//! State files that somebody else made or spoiled: the drive opens, with that state or a fresh one, or is refused with a reason.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrkit::settings::Queue;
use smrkit_live::block::drive::{Command, CommandKind, ServedDrive};
use smrkit_live::block::image::{DriveImage, state_path};
use tempfile::TempDir;

use crate::{LAYERS, cuts, make};

#[test]
fn a_spoilt_state_file_costs_the_state_and_no_data() {
    for (layer, set, _) in LAYERS {
        let folder = TempDir::new().unwrap();
        let image = make(folder.path(), layer, set, 0);
        let (path, run) = (image.path.to_path_buf(), image.run.clone());
        drop(image);
        let open = || DriveImage::open(&path, |_| Ok(Some(run.clone()))).map_err(|error| error.to_string());
        let mut drive = ServedDrive::open(open().unwrap(), None, Queue::Fcfs).unwrap().0;
        for at in 0..60 {
            drive.serve(Command::new(CommandKind::Write, at * 7919 % 200 * 512, 512, vec![at as u8 + 1; 512])).unwrap();
        }
        drive.flush_events();
        drop(drive);
        let data = std::fs::read(&path).unwrap();
        let whole = std::fs::read(state_path(&path)).unwrap();
        let mut random = Pcg64Mcg::seed_from_u64(layer.len() as u64);
        for _ in 0..cuts().min(200) {
            let mut spoilt = whole.clone();
            match random.random_range(0..4) {
                0 => spoilt.truncate(random.random_range(0..whole.len())),
                1 => {
                    let at = random.random_range(0..whole.len());
                    spoilt.splice(at..at, [b'7', b'\n', 0, 255][..random.random_range(1..=4)].iter().copied());
                }
                _ => {
                    for _ in 0..random.random_range(1..4) {
                        let at = random.random_range(0..whole.len());
                        spoilt[at] ^= 1 << random.random_range(0..8);
                    }
                }
            }
            std::fs::write(state_path(&path), &spoilt).unwrap();
            let opened = catch_unwind(AssertUnwindSafe(|| {
                let image = open()?;
                let served = ServedDrive::open(image, None, Queue::Fcfs).map_err(|error| error.to_string());
                let Ok((mut drive, _)) = served else { return served.map(drop) };
                let read = drive.serve(Command::new(CommandKind::Read, 0, 8192, Vec::new())).unwrap();
                assert!(matches!(read.ended, Some((_, Ok(())))) && read.data == data[..8192]);
                Ok(())
            }));
            match opened {
                Ok(Ok(())) => {}
                Ok(Err(reason)) => assert!(reason.contains(':'), "{layer}: {reason}"),
                Err(_) => panic!("{layer}: {:?}", String::from_utf8_lossy(&spoilt)),
            }
            assert!(std::fs::read(&path).unwrap() == data, "{layer}: the data is untouched");
        }
    }
}

//! Write pointers of a served drive: the events beside its image tell them alone, and are as durable as the data after a flush.

use std::sync::PoisonError;

use rand::SeedableRng;
use rand_pcg::Pcg64;
use smrkit::experiment::system::{AskedCapacity, System, Systems};
use smrkit::settings::{Queue, Settings};
use smrkit_live::block::drive::{Command, CommandKind, ServedDrive};
use smrkit_live::block::image::{self, DriveImage};

use super::host::{self, Mounted};
use super::recorder::Recorder;
use super::replay::{Loss, cut, settle};
use super::{ALONE, IMAGE_BYTES, Place};

const BLOCK: u64 = 4096;
const FLUSHES: u8 = 12;

/// Serves a command that succeeds; what it read.
fn serve(drive: &mut ServedDrive, kind: CommandKind, offset: u64, bytes: u64, fill: u8) -> Vec<u8> {
    let data = if kind == CommandKind::ZoneAppend { vec![fill; bytes as usize] } else { Vec::new() };
    let ended = drive.serve(Command::new(kind, offset, bytes, data)).unwrap();
    assert!(matches!(ended.ended, Some((_, Ok(())))), "{ended:?}");
    ended.data
}

#[test]
fn on_ext4_write_pointers_and_their_data_outlive_a_power_cut_after_a_flush() {
    let host = &host::EXT4_WITH_IMAGE;
    if let Some(reason) = host::missing(host) {
        println!("skipped: {reason}");
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Place::new();
    let (at, meta) = (place.path("recorded"), place.path("meta"));
    let image = meta.join("zoned.img");
    let open = || ServedDrive::open(DriveImage::open(&image, |_| Ok(None)).unwrap(), None, Queue::Fcfs).unwrap().0;
    let recorder = Recorder::mount(&place.path("store"), &at, [host.bytes, IMAGE_BYTES]).unwrap();
    let made = Mounted::new(host, &at.join("disk"), &meta, true).unwrap();
    let system = System::drive("hc620").layer("zoned").capacity(AskedCapacity::Sectors(2_000_000));
    let planned = Systems::new(&system).unwrap().runs(&[Settings::default()], None).unwrap().pop().unwrap();
    image::create(&image, image::complete_record(&planned), false).unwrap();
    drop(made);
    place.copy("store", "base");

    recorder.start();
    let mounted = Mounted::new(host, &at.join("disk"), &meta, false).unwrap();
    let mut drive = open();
    let limits = drive.zones().unwrap().limits();
    let zone = limits.conventional * limits.zone_sectors * 512;
    let written = |drive: &ServedDrive| drive.zones().unwrap().report(limits.conventional).pointer * 512;
    let mut promised = Vec::new();
    for fill in 1..=FLUSHES {
        serve(&mut drive, CommandKind::ZoneAppend, zone, u64::from(fill) * BLOCK, fill);
        serve(&mut drive, CommandKind::Flush, 0, 0, 0);
        promised.push((recorder.position(), written(&drive)));
    }
    drop(drive);
    let events = recorder.stop();
    drop(mounted);
    recorder.finish().unwrap();

    let (base, mut rng) = (place.open("base"), Pcg64::seed_from_u64(1));
    let (mut pending, mut settled) = (Vec::new(), 0);
    for (fill, (to, pointer)) in (1..).zip(promised) {
        for index in settled..to {
            settle(&events, &mut pending, index, &base).unwrap();
        }
        settled = to;
        place.copy("base", "scratch");
        cut(&events, &pending, to, Loss::Lost, &mut rng, &place.open("scratch")).unwrap();
        let _mounted = Mounted::new(host, &place.path("scratch").join("disk"), &meta, false).unwrap();
        let mut drive = open();
        assert_eq!(written(&drive), pointer, "after flush {fill}");
        let last = serve(&mut drive, CommandKind::Read, zone + pointer - BLOCK, BLOCK, 0);
        assert!(last.iter().all(|&byte| byte == fill), "after flush {fill}");
    }
}

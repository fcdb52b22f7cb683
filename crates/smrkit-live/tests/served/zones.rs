//! A host-managed drive that is served: its rules, and commands about its zones. Linux uses both by way of ublk, which the tests in a guest
//! try.

use std::path::Path;

use smrkit::layer::{ZoneAction, ZoneCondition};
use smrkit::settings::Queue;
use smrkit_live::block::control::InjectedFault;
use smrkit_live::block::drive::{Command, CommandError, CommandKind, ServedDrive};
use smrkit_live::block::log::{LogWriter, replay};
use tempfile::TempDir;

use super::{image, open_drive, open_image};

const BLOCK: u64 = 4096;

/// Serves a command on sectors of 4,096 bytes; the offset at which it ended.
fn serve(drive: &mut ServedDrive, kind: CommandKind, offset: u64, bytes: u64) -> Result<u64, CommandError> {
    let has_data = matches!(kind, CommandKind::Write | CommandKind::ZoneAppend);
    let data = vec![1; if has_data { bytes as usize } else { 0 }];
    let ended = drive.serve(Command::new(kind, offset, bytes, data)).unwrap();
    let Some((_, result)) = ended.ended else { panic!("{ended:?} has not ended") };
    result.map(|()| ended.offset)
}

fn read(path: &Path, offset: u64) -> u8 {
    let mut byte = [0];
    std::os::unix::fs::FileExt::read_exact_at(&std::fs::File::open(path).unwrap(), &mut byte, offset).unwrap();
    byte[0]
}

#[test]
fn what_breaks_a_rule_of_zones_fails_alone_and_commands_about_zones_are_replayed() {
    use CommandKind::{Read, Trim, Write, Zone, ZoneAppend};
    let folder = TempDir::new().unwrap();
    let (path, log) = (image(folder.path(), "zoned on hc620"), folder.path().join("log"));
    let opened = open_image(&path);
    let writer = LogWriter::open(&log, &opened.run).unwrap();
    let (mut drive, _) = ServedDrive::open(opened, Some(writer), Queue::Fcfs).unwrap();
    let limits = drive.zones().unwrap().limits();
    let zone = limits.zone_sectors * 512;
    let at = |number: u64| (limits.conventional + number) * zone;
    let refused = Err(CommandError::Io);
    let condition =
        |drive: &ServedDrive, number: u64| drive.zones().unwrap().report(limits.conventional + number).condition;

    assert_eq!(serve(&mut drive, Write, at(0), 2 * BLOCK), Ok(at(0)));
    for offset in [at(0), at(0) + 3 * BLOCK, at(1) + BLOCK] {
        assert_eq!(serve(&mut drive, Write, offset, BLOCK), refused, "{offset}");
    }
    assert_eq!(serve(&mut drive, ZoneAppend, at(0), BLOCK), Ok(at(0) + 2 * BLOCK));
    assert_eq!(serve(&mut drive, ZoneAppend, at(0), BLOCK), Ok(at(0) + 3 * BLOCK));
    assert_eq!(serve(&mut drive, ZoneAppend, at(0), zone), refused);
    assert_eq!(serve(&mut drive, Read, at(1), BLOCK), Ok(at(1)));
    assert_eq!(serve(&mut drive, Zone(ZoneAction::Open), at(1), zone), Ok(at(1)));
    assert_eq!(condition(&drive, 1), ZoneCondition::OpenedByCommand);
    assert_eq!(serve(&mut drive, Zone(ZoneAction::Finish), at(0), zone), Ok(at(0)));
    assert_eq!(serve(&mut drive, ZoneAppend, at(0), BLOCK), refused);
    let last = at(limits.zones - limits.conventional - 1);
    assert_eq!(serve(&mut drive, Zone(ZoneAction::Finish), last, zone), Ok(last));
    assert_eq!(serve(&mut drive, ZoneAppend, last, BLOCK), refused, "no zone is behind it");
    assert_eq!(serve(&mut drive, Write, at(1), BLOCK), Ok(at(1)));
    assert_eq!(serve(&mut drive, Zone(ZoneAction::Close), at(1), zone), Ok(at(1)));
    assert_eq!(condition(&drive, 1), ZoneCondition::Closed);
    if limits.conventional > 0 {
        assert_eq!(serve(&mut drive, Zone(ZoneAction::Open), 0, zone), refused);
        assert_eq!(serve(&mut drive, ZoneAppend, 0, BLOCK), refused);
        assert_eq!(serve(&mut drive, Write, 5 * BLOCK, BLOCK), Ok(5 * BLOCK));
        assert_eq!(serve(&mut drive, Trim, 0, zone), refused, "a conventional zone can't be reset");
        assert_eq!(read(&path, 5 * BLOCK), 1);
    }
    assert_eq!(read(&path, at(0) + 3 * BLOCK), 1);
    // A trim of a whole zone resets it.
    assert_eq!(serve(&mut drive, Trim, at(0), zone), Ok(at(0)));
    assert_eq!((condition(&drive, 0), read(&path, at(0) + 3 * BLOCK)), (ZoneCondition::Empty, 0));
    assert_eq!(serve(&mut drive, Write, at(0), BLOCK), Ok(at(0)));
    assert_eq!(drive.zone_violations, 6 + 3 * u64::from(limits.conventional > 0));
    assert!(drive.failure.is_none());
    drive.check().unwrap();
    drive.close().unwrap();
    let found = replay(&log).unwrap();
    assert_eq!((found.differences, found.first), (0, None));

    let mut drive = open_drive(&path);
    assert_eq!((condition(&drive, 0), condition(&drive, 1)), (ZoneCondition::OpenedByWrite, ZoneCondition::Closed));
    assert_eq!(serve(&mut drive, ZoneAppend, at(1), BLOCK), Ok(at(1) + BLOCK));
    drive.close().unwrap();
}

#[test]
fn a_power_cut_leaves_write_pointers_and_may_undo_what_was_not_flushed() {
    use CommandKind::{Flush, Write, ZoneAppend};
    let mut undone = 0;
    for seed in 0..8 {
        let folder = TempDir::new().unwrap();
        let path = image(folder.path(), "zoned on hc620");
        let mut drive = open_drive(&path);
        let limits = drive.zones().unwrap().limits();
        let at = limits.conventional * limits.zone_sectors * 512;
        serve(&mut drive, Write, at, 2 * BLOCK).unwrap();
        serve(&mut drive, Flush, 0, 0).unwrap();
        (2..6).for_each(|block| assert_eq!(serve(&mut drive, ZoneAppend, at, BLOCK), Ok(at + block * BLOCK)));
        drive.inject(InjectedFault::PowerCut(seed), drive.now()).unwrap();
        assert_eq!(serve(&mut drive, ZoneAppend, at, BLOCK), Err(CommandError::Io));
        assert_eq!(drive.power_cuts, 1);
        let report = drive.zones().unwrap().report(limits.conventional);
        assert_eq!((report.condition, report.pointer >= 6 * BLOCK / 512), (ZoneCondition::Closed, true));
        assert_eq!([0, 1].map(|block| read(&path, at + block * BLOCK)), [1, 1], "what was flushed is there");
        undone += (2..6).filter(|block| read(&path, at + block * BLOCK) == 0).count();
        let end = at + report.pointer * 512;
        assert_eq!(serve(&mut drive, ZoneAppend, at, BLOCK), Ok(end), "it goes on at the pointer");
        drive.close().unwrap();
    }
    assert!(undone > 0);
}

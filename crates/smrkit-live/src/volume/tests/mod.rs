//! Volumes: changes that survive, and refusals, after which nothing has changed.

mod forged;
mod mounted;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::data::{Data, ReadBuffer};
use smrfs::device::Model;
use smrfs::meta::Maps;
use smrfs::units::Granule;
use smrkit::tally::Cause;
use tempfile::TempDir;

use super::{Layout, MkfsOptions, Open, Volume, mkfs};
use crate::directory::MountStep;
use crate::error::LiveError;

struct Place {
    folder: TempDir,
    model: Model,
}

impl Place {
    fn new(model: Model) -> Place {
        Place { folder: TempDir::new().unwrap(), model }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn made(model: Model) -> Place {
        let place = Place::new(model);
        mkfs(&place.wanted()).unwrap();
        place
    }

    fn wanted(&self) -> MkfsOptions {
        let layout =
            Layout { model: self.model, size_bytes: 16 << 20, did_bytes: None, dpid_bytes: None, band_bytes: None };
        MkfsOptions { image: self.path("image"), meta: self.path("meta"), layout, force: false }
    }

    fn open(&self) -> Result<Volume, LiveError> {
        Volume::open(&self.path("image"), &Open::default())
    }
}

const MODELS: [Model; 2] = [Model::StrictAppend, Model::Caveat];

/// A process that is killed leaves what it had flushed; on strict-append a cursor is where it was at the last flush, or at the
/// last start of one.
#[test]
fn data_and_cursors_survive_a_process_that_ends_without_a_word() {
    for (model, starts) in MODELS.into_iter().flat_map(|model| [(model, false), (model, true)]) {
        let place = Place::made(model);
        let granule = vec![7; 4096];
        let volume = place.open().unwrap();
        let device = volume.device();
        device.write(Granule(0), Data::Bytes(&granule), Cause::Host).unwrap();
        device.flush().unwrap();
        device.write(Granule(1), Data::Bytes(&granule), Cause::Host).unwrap();
        if starts {
            device.start_flush();
        }
        drop((device, volume));
        let volume = place.open().unwrap();
        assert!(!volume.was_clean);
        let device = volume.device();
        let mut read = vec![0; 4096];
        device.read(Granule(0), ReadBuffer::Bytes(&mut read), Cause::Host).unwrap();
        assert_eq!(read, granule);
        for report in device.report(0, 1).unwrap() {
            assert_eq!(report.cursor.0, 1 + u64::from(starts), "{report:?}");
            device.write(report.cursor, Data::Bytes(&granule), Cause::Host).unwrap();
        }
    }
}

#[test]
fn a_saved_state_is_trusted_only_after_a_clean_end() {
    for model in MODELS {
        let place = Place::made(model);
        let mut mounts = 0;
        for ends_well in [true, false, true, true, false, false] {
            let mut volume = place.open().unwrap();
            volume.store().store_state("free-map", b"state").unwrap();
            if ends_well {
                volume.close().unwrap();
            }
            drop(volume);
            let look = Open { read_only: true, ..Open::default() };
            assert_eq!(Volume::open(&place.path("image"), &look).unwrap().was_clean, ends_well);
            let mut volume = place.open().unwrap();
            mounts += 2;
            assert_eq!(volume.superblock().mounts, mounts);
            assert_eq!(volume.store().load_state("free-map").unwrap().is_some(), ends_well);
            volume.close().unwrap();
        }
    }
}

#[test]
fn a_volume_in_use_is_refused_to_all_others() {
    for model in MODELS {
        let place = Place::made(model);
        let volume = place.open().unwrap();
        assert!(matches!(place.open(), Err(LiveError::InUse(_))));
        let look = Open { read_only: true, ..Open::default() };
        assert!(matches!(Volume::open(&place.path("image"), &look), Err(LiveError::InUse(_))));
        assert!(matches!(mkfs(&MkfsOptions { force: true, ..place.wanted() }), Err(LiveError::InUse(_))));
        let other = MkfsOptions { image: place.path("other"), force: true, ..place.wanted() };
        assert!(matches!(mkfs(&other), Err(LiveError::InUse(_))));
        assert!(!place.path("other").exists());
        drop(volume);
        place.open().unwrap();
    }
}

#[test]
fn an_image_remembers_its_metadata_directory_also_when_it_has_moved() {
    let place = Place::made(Model::Caveat);
    fs::rename(place.path("meta"), place.path("moved")).unwrap();
    assert!(matches!(place.open(), Err(LiveError::NoMetadata(_))));
    let how = Open { meta: Some(place.path("moved")), ..Open::default() };
    Volume::open(&place.path("image"), &how).unwrap().close().unwrap();
    assert_eq!(place.open().unwrap().meta(), fs::canonicalize(place.path("moved")).unwrap());
}

#[test]
fn an_older_image_is_noticed_however_few_mounts_older_it_is() {
    for (model, mounts) in MODELS.into_iter().flat_map(|model| [(model, 1), (model, 2), (model, 3)]) {
        let place = Place::made(model);
        fs::copy(place.path("image"), place.path("copy")).unwrap();
        for _ in 0..mounts {
            place.open().unwrap().close().unwrap();
        }
        // In place: the file is the one that was mounted, and its contents are not.
        fs::copy(place.path("copy"), place.path("image")).unwrap();
        let before = fs::read(place.path("image")).unwrap();
        for read_only in [false, true] {
            let opened = Volume::open(&place.path("image"), &Open { read_only, ..Open::default() });
            assert!(matches!(opened, Err(LiveError::OutOfStep { is_older: true, .. })), "{model:?}, {mounts} mounts");
        }
        assert!(fs::read(place.path("image")).unwrap() == before);
        let check = Open { out_of_step: true, ..Open::default() };
        let mut volume = Volume::open(&place.path("image"), &check).unwrap();
        assert!(volume.misfit().is_some() && !volume.was_clean);
        volume.close().unwrap();
        drop(volume);
        assert!(place.open().unwrap().was_clean);
    }
}

/// Image and directory are copied at random moments, before, during and after mounts, one of which ends in a crash. Two copies
/// are a volume if nobody had it open between them and while they were made.
#[test]
fn copies_are_a_volume_only_if_both_are_of_one_moment_between_mounts() {
    let mut accepted = 0;
    for seed in 0..20 {
        let mut dice = Pcg64Mcg::seed_from_u64(seed);
        let place = Place::made(MODELS[seed as usize % 2]);
        let (mut images, mut metas) = (Vec::new(), Vec::new());
        // A moment is one between two mounts, or none.
        let mut copy_some = |moment: Option<u64>, dice: &mut Pcg64Mcg| {
            let name = |what: &str, count: usize| place.path(&format!("{what}-{count}"));
            if dice.random_bool(0.5) {
                let to = name("image", images.len());
                fs::copy(place.path("image"), &to).unwrap();
                fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).unwrap();
                images.push((moment, to));
            }
            if dice.random_bool(0.5) {
                let to = name("meta", metas.len());
                crate::directory::copy(&place.path("meta"), &to, &|| true).unwrap();
                metas.push((moment, to));
            }
        };
        for mount in 0..3 {
            copy_some(Some(mount), &mut dice);
            let mut volume = place.open().unwrap();
            copy_some(None, &mut dice);
            if mount > 0 || seed % 4 > 0 {
                volume.close().unwrap();
            } else {
                drop(volume);
                copy_some(None, &mut dice);
            }
        }
        copy_some(Some(3), &mut dice);
        for (image_moment, image) in &images {
            for (meta_moment, meta) in &metas {
                // A crash leaves no copy that is one for sure.
                let crashed = seed % 4 == 0 && *image_moment == Some(1);
                let is_whole = image_moment.is_some() && image_moment == meta_moment && !crashed;
                let how = Open { meta: Some(meta.clone()), read_only: true, ..Open::default() };
                let opened = Volume::open(image, &how);
                let wrong = format!("seed {seed}: {image_moment:?} and {meta_moment:?}");
                match opened {
                    Ok(_) => assert!(is_whole, "{wrong}"),
                    Err(LiveError::OutOfStep { .. } | LiveError::TornCopy(_)) => assert!(!is_whole, "{wrong}"),
                    Err(error) => panic!("{wrong}: {error}"),
                }
                accepted += u32::from(is_whole);
            }
        }
        assert!(place.open().is_ok(), "the originals are a volume all the time");
    }
    assert!(accepted > 10);
}

/// Each step of a mount and of its end is durable before the next: a crash after any of them leaves a volume.
#[test]
fn a_crash_between_the_marks_leaves_a_volume() {
    use MountStep::{Begins, Closed, Ending, InUse};
    for model in MODELS {
        let place = Place::made(model);
        place.open().unwrap().close().unwrap();
        for (step, ahead, is_clean, fits) in [
            (Begins, 1, true, true),
            (Begins, 1, false, true),
            (Begins, 0, false, true),
            (InUse, 0, false, true),
            (Ending, 0, false, true),
            (Ending, 0, true, true),
            (Closed, 0, true, true),
            (Begins, 0, true, false),
            (Begins, 2, true, false),
            (InUse, 0, true, false),
            (InUse, 1, true, false),
            (InUse, 1, false, false),
            (Closed, 0, false, false),
            (Closed, 1, true, false),
        ] {
            let mut volume = place.open().unwrap();
            let mounts = volume.superblock().mounts;
            if is_clean {
                volume.close().unwrap();
            }
            let mark = |step, mounts| volume.store().home.set_mark(mounts, step, &place.path("image")).unwrap();
            mark(step, mounts + ahead);
            drop(volume);
            let look = || Volume::open(&place.path("image"), &Open { read_only: true, ..Open::default() });
            assert_eq!(look().is_ok(), fits, "{model:?}: {step:?} {ahead} ahead, {is_clean}");
            let mend = Open { out_of_step: true, ..Open::default() };
            Volume::open(&place.path("image"), &mend).unwrap().close().unwrap();
            assert!(look().unwrap().was_clean);
        }
    }
}

/// A path that no superblock holds stands for a disk that fails: the directory's mark is set, and the image's is not.
#[test]
fn failed_marks_leave_image_and_directory_in_step() {
    for model in MODELS {
        let place = Place::made(model);
        let deep = (0..16).fold(place.folder.path().to_path_buf(), |path, _| path.join("d".repeat(249)));
        fs::create_dir_all(&deep).unwrap();
        fs::rename(place.path("meta"), deep.join("m")).unwrap();
        let how = Open { meta: Some(deep.join("m")), ..Open::default() };
        for _ in 0..3 {
            assert!(matches!(Volume::open(&place.path("image"), &how), Err(LiveError::BadImage(..))));
        }
        fs::rename(deep.join("m"), place.path("meta")).unwrap();
        let mut volume = place.open().unwrap();
        assert!(!volume.was_clean);
        volume.close().unwrap();
        drop(volume);
        assert!(place.open().unwrap().was_clean);
    }
}

#[test]
fn a_mkfs_that_was_interrupted_can_be_repeated() {
    let place = Place::new(Model::Caveat);
    mkfs(&place.wanted()).unwrap();
    // The image's superblock was not written yet, and the directory has only its mark.
    fs::OpenOptions::new().write(true).open(place.path("image")).unwrap().write_all_at(&[0; 4096], 65536).unwrap();
    for folder in ["tree", "maps", "state", "orphans"] {
        fs::remove_dir(place.path("meta").join(folder)).unwrap();
    }
    assert!(matches!(place.open(), Err(LiveError::BadImage(..))));
    fs::create_dir(place.path("meta").join("tree")).unwrap();
    mkfs(&MkfsOptions { force: true, ..place.wanted() }).unwrap();
    assert!(place.open().unwrap().was_clean);
}

/// Any cut and any flipped byte of the head and the superblocks is refused, or does not matter; nothing panics.
#[test]
fn damaged_and_truncated_images_are_refused() {
    for model in MODELS {
        let place = Place::made(model);
        let whole = fs::read(place.path("image")).unwrap();
        let image = || fs::OpenOptions::new().write(true).open(place.path("image")).unwrap();
        for bytes in [0, 1, 8, 4095, 4096, 65536, whole.len() as u64 * 3 / 4] {
            image().set_len(bytes).unwrap();
            assert!(matches!(place.open(), Err(LiveError::BadImage(..))), "{model:?} cut to {bytes}");
            fs::write(place.path("image"), &whole).unwrap();
        }
        let look = Open { read_only: true, ..Open::default() };
        for at in (0..64).chain(4090..4104).chain(65536..65600).chain(69628..69632) {
            image().write_all_at(&[!whole[at as usize]], at).unwrap();
            let opened = Volume::open(&place.path("image"), &look);
            let matters = !(4096..65536).contains(&at);
            assert!(!matters || model == Model::Caveat && at >= 65536 || opened.is_err(), "{model:?} byte {at}");
            image().write_all_at(&[whole[at as usize]], at).unwrap();
        }
        assert!(Volume::open(&place.path("image"), &look).is_ok());
    }
}

/// A block that the image gets is a block that the flush must note.
#[test]
fn small_writes_that_are_flushed_one_by_one_seldom_need_a_new_block() {
    for model in MODELS {
        let place = Place::made(model);
        let volume = place.open().unwrap();
        let device = volume.device();
        let bands = device.shape().bands;
        let in_the_way = Granule(if model == Model::Caveat { 200 } else { bands.granules });
        if model == Model::Caveat {
            device.write(in_the_way, Data::Bytes(&[9; 4096]), Cause::Host).unwrap();
        }
        let blocks = || fs::metadata(place.path("image")).unwrap().blocks();
        let grows = |granule: u64| {
            let before = blocks();
            device.write(Granule(granule), Data::Bytes(&[7; 4096]), Cause::Host).unwrap();
            device.flush().unwrap();
            blocks() != before
        };
        let grown = (0..in_the_way.0).filter(|&granule| grows(granule)).count();
        assert!(grown as u64 * 4 < in_the_way.0, "{model:?}: {grown} of {in_the_way}");
        if model == Model::Caveat {
            let mut page = [0; 4096];
            device.read(in_the_way, ReadBuffer::Bytes(&mut page), Cause::Host).unwrap();
            assert_eq!(page, [9; 4096], "what lies ahead is not filled");
        }
    }
}

#[test]
fn an_image_that_is_new_or_empty_needs_a_size() {
    let place = Place::new(Model::Caveat);
    let mut wanted = place.wanted();
    wanted.layout.size_bytes = 0;
    let asks_for_a_size =
        |wanted: &MkfsOptions| mkfs(wanted).is_err_and(|error| error.to_string().contains("give size"));
    assert!(asks_for_a_size(&wanted));
    fs::write(place.path("image"), b"").unwrap();
    assert!(asks_for_a_size(&wanted));
    fs::File::options().write(true).open(place.path("image")).unwrap().set_len(16 << 20).unwrap();
    mkfs(&wanted).unwrap();
    assert_eq!(
        place.open().unwrap().device().shape().granules,
        Place::made(Model::Caveat).open().unwrap().device().shape().granules
    );
}

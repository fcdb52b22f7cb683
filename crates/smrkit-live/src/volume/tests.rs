//! Volumes: changes that survive, and refusals, after which nothing has changed.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use smrfs::data::{Data, ReadBuffer};
use smrfs::device::Model;
use smrfs::meta::MetadataStore;
use smrfs::units::Granule;
use smrkit::tally::Cause;
use tempfile::TempDir;

use super::{Layout, MkfsOptions, Open, Volume, mkfs};
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
        assert!(!volume.was_clean());
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
            assert_eq!(Volume::open(&place.path("image"), &look).unwrap().was_clean(), ends_well);
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
fn a_copy_from_another_time_is_noticed() {
    for model in MODELS {
        let place = Place::made(model);
        fs::copy(place.path("image"), place.path("copy")).unwrap();
        for _ in 0..3 {
            place.open().unwrap().close().unwrap();
        }
        fs::rename(place.path("copy"), place.path("image")).unwrap();
        let before = fs::read(place.path("image")).unwrap();
        assert!(matches!(place.open(), Err(LiveError::OutOfStep { .. })));
        assert!(fs::read(place.path("image")).unwrap() == before);
        let check = Open { out_of_step: true, ..Open::default() };
        let mut volume = Volume::open(&place.path("image"), &check).unwrap();
        assert!(!volume.is_in_step() && !volume.was_clean());
        volume.close().unwrap();
        drop(volume);
        assert!(place.open().unwrap().was_clean());
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
            assert!(matches!(Volume::open(&place.path("image"), &how), Err(LiveError::BadImage { .. })));
        }
        fs::rename(deep.join("m"), place.path("meta")).unwrap();
        let mut volume = place.open().unwrap();
        assert!(!volume.was_clean());
        volume.close().unwrap();
        drop(volume);
        assert!(place.open().unwrap().was_clean());
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
    assert!(matches!(place.open(), Err(LiveError::BadImage { .. })));
    fs::create_dir(place.path("meta").join("tree")).unwrap();
    mkfs(&MkfsOptions { force: true, ..place.wanted() }).unwrap();
    assert!(place.open().unwrap().was_clean());
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
            assert!(matches!(place.open(), Err(LiveError::BadImage { .. })), "{model:?} cut to {bytes}");
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

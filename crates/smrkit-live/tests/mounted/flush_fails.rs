//! A disk that fails a flush: nothing is acknowledged afterwards, what is lost is named, and it can still be read.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use smrfs::device::{HostManaged, stacked};
use smrfs::error::{DeviceError, DeviceResult};
use smrfs::units::HostJournal;
use smrkit_live::mount::control::{ControlClient, ControlCommand};
use smrkit_live::mount::{self, MountOptions, Session};
use tempfile::TempDir;

use super::{MODELS, memory};

struct Flaky {
    disk: Arc<dyn HostManaged>,
    fails: AtomicBool,
}

impl stacked::Stacked for Flaky {
    type Below = dyn HostManaged;

    fn below(&self) -> &Self::Below {
        &*self.disk
    }

    fn flush_with(&self, journal: Option<HostJournal>) -> DeviceResult {
        match self.fails.load(Relaxed) {
            true => Err(DeviceError::Io(std::io::Error::other("broken"))),
            false => self.below().flush_with(journal),
        }
    }
}

#[test]
fn a_failed_flush_ends_acknowledgements_and_umount_says_what_is_unsaved() {
    if let Err(error) = mount::check_system() {
        return println!("skipped: can't mount here: {error}");
    }
    for model in MODELS {
        let folder = TempDir::new().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let flaky = |disk| Arc::new(Flaky { disk, fails: AtomicBool::new(false) });
        let (core, disk) = memory::file_system_on(model, flaky);
        let options = MountOptions {
            image: PathBuf::from("disk.img"),
            meta: PathBuf::from("disk.meta"),
            mount_point: root.clone(),
            read_only: false,
            allow_other: false,
            commit_interval: Duration::from_secs(3600),
        };
        let device: Arc<dyn HostManaged> = disk.clone();
        let session = Session::start(core, &device, options).unwrap();
        let handle = session.handle();
        let serving = std::thread::spawn(move || session.wait(|| Ok(())));
        fs::write(root.join("safe"), "safe").unwrap();
        File::open(root.join("safe")).unwrap().sync_all().unwrap();
        fs::write(root.join("lost"), vec![1; 9000]).unwrap();
        let folder = File::open(&root).unwrap();
        disk.fails.store(true, Relaxed);
        assert!(File::open(root.join("lost")).unwrap().sync_all().is_err());
        disk.fails.store(false, Relaxed);
        // The names are in the directory, and nobody knows for how long.
        assert!(folder.sync_all().is_err(), "{model:?}");
        drop(folder);
        assert_eq!(fs::write(root.join("new"), "").unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
        let report = ControlClient::connect(&root).unwrap().ask(ControlCommand::Report).unwrap();
        assert_eq!((&report["read_only"], &report["flush_failed"]), (&true.into(), &true.into()));
        let said = mount::end(&root, false).unwrap_err().to_string();
        for part in ["a file (what was written since its last sync", "synced before is safe", "read-only", "--give-up"]
        {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert_eq!(fs::read(root.join("lost")).unwrap(), [1; 9000], "nothing was unmounted");
        handle.signal();
        let said = serving.join().unwrap().unwrap_err().to_string();
        assert!(said.contains("a file (") && said.contains("mount again"), "{said}");
    }
}

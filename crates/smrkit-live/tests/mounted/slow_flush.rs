//! A disk whose flush takes for ever: whoever wants nothing of it does not wait for those who do.

use std::fs::{self, File};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use smrfs::device::{HostManaged, stacked};
use smrfs::error::DeviceResult;
use smrfs::units::HostJournal;

use super::{MODELS, Mounted, memory};

#[derive(Default)]
struct Hold {
    held: Mutex<bool>,
    released: Condvar,
    waiting: AtomicU64,
}

struct Slow {
    disk: Arc<dyn HostManaged>,
    hold: Arc<Hold>,
}

impl stacked::Stacked for Slow {
    type Below = dyn HostManaged;

    fn below(&self) -> &Self::Below {
        &*self.disk
    }

    fn flush_with(&self, journal: Option<HostJournal>) -> DeviceResult {
        self.hold.waiting.fetch_add(1, Relaxed);
        let held = self.hold.held.lock().unwrap();
        drop(self.hold.released.wait_while(held, |held| *held).unwrap());
        self.below().flush_with(journal)
    }
}

#[test]
fn stat_and_read_do_not_wait_for_the_fsyncs_of_others() {
    for model in MODELS {
        let hold = Arc::new(Hold::default());
        let slow = |disk| Arc::new(Slow { disk, hold: hold.clone() });
        let (core, disk) = memory::file_system_on(model, slow);
        let Some(mounted) = Mounted::on(core, disk, Duration::from_secs(3600)) else { return };
        let root = mounted.path().to_path_buf();
        fs::write(root.join("other"), [7; 9000]).unwrap();
        File::open(root.join("other")).unwrap().sync_all().unwrap();
        let files = (0..8).map(|number| {
            let path = root.join(number.to_string());
            fs::write(&path, "new").unwrap();
            File::open(path).unwrap()
        });
        let files: Vec<File> = files.collect();
        *hold.held.lock().unwrap() = true;
        let before = hold.waiting.load(Relaxed);
        let syncs: Vec<_> = files.into_iter().map(|file| thread::spawn(move || file.sync_all())).collect();
        while hold.waiting.load(Relaxed) == before {
            thread::yield_now();
        }
        // All eight are in the kernel's queue, or with a thread of the mount.
        thread::sleep(Duration::from_millis(200));
        let (told, answered) = mpsc::channel();
        let asked = thread::spawn(move || {
            let other = File::open(root.join("other")).unwrap();
            // Neither comes from the kernel's caches.
            rustix::fs::fadvise(&other, 0, None, rustix::fs::Advice::DontNeed).unwrap();
            let size = statx(CWD, root.join("other"), AtFlags::STATX_FORCE_SYNC, StatxFlags::ALL).unwrap().stx_size;
            told.send((size, fs::read(root.join("other")).unwrap())).unwrap();
        });
        let answer = answered.recv_timeout(Duration::from_secs(30));
        *hold.held.lock().unwrap() = false;
        hold.released.notify_all();
        syncs.into_iter().for_each(|sync| sync.join().unwrap().unwrap());
        asked.join().unwrap();
        assert!(
            answer == Ok((9000, vec![7; 9000])),
            "{model:?}: {:?}",
            answer.map(|(size, bytes)| (size, bytes.len()))
        );
    }
}

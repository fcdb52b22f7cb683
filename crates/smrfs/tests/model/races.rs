//! Two threads at the same name, one of them held at the worst moment.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::spawn;
use std::time::Duration;

use smrfs::data::Data;
use smrfs::device::Model;
use smrfs::meta::RenameMode;

use crate::counted::{Counted, Counts};
use crate::rig::Rig;
use crate::{FILE, options};

/// The new file is there when the name is taken, or not at all: what nobody has a name for keeps no room, and its number
/// is not mistaken for that of the next file.
#[test]
fn a_file_made_while_a_rename_takes_its_name_is_replaced_or_refused() {
    for model in [Model::StrictAppend, Model::Caveat] {
        let counts = Arc::new(Counts::default());
        let counted = counts.clone();
        let rig = Rig::with_store(model, options(), |store| Arc::new(Counted { store, counts: counted }));
        let (fs, root) = (rig.fs.clone(), rig.fs.root());
        let moved = fs.make(root, b"a", &FILE).unwrap().id;
        let maker = fs.clone();
        let (sender, receiver) = channel();
        *counts.before_rename.lock().unwrap() = Some(Box::new(move || {
            let making = spawn(move || {
                let Ok(made) = maker.make(root, b"b", &FILE) else { return };
                maker.write(made.id, 0, Data::Bytes(&[1; 5000])).unwrap();
                maker.forget(made.id, 1);
            });
            // It can't end as long as it waits for the rename.
            for _ in 0..200 {
                if making.is_finished() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            sender.send(making).unwrap();
        }));
        fs.rename((root, b"a"), (root, b"b"), RenameMode::Replace).unwrap();
        receiver.recv().unwrap().join().unwrap();
        assert_eq!(fs.lookup(root, b"b").unwrap().id, moved);
        fs.sync_all().unwrap();
        assert_eq!(fs.usage().unwrap().live, 0);
        rig.check();
    }
}

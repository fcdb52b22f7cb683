//! Attributes of files: the core knows size, blocks and the times of changes, the store everything else.
//!
//! A file without a record has the store's own times. Once it has one, its record's times count, because storing a record
//! changes the times of the store's own node; so whatever changes a file's times changes its record.

use super::FileSystem;
use super::file::Times;
use crate::error::FsResult;
use crate::meta::{Attr, Kind, SetAttr};
use crate::units::NodeId;

impl FileSystem {
    /// Attributes as `stat` tells them.
    pub fn attributes(&self, id: NodeId) -> FsResult<Attr> {
        self.overlaid(self.store.attributes(id)?)
    }

    /// The store's attributes of a node, with those that the core knows better.
    pub(super) fn overlaid(&self, attr: Attr) -> FsResult<Attr> {
        if attr.kind != Kind::File {
            return Ok(attr);
        }
        let (size, granules, times) = match self.files.known(attr.id, &self.data)? {
            Ok(file) => {
                let state = file.look();
                (state.size, state.map.granules() + state.promises.unplaced(), state.times)
            }
            Err(Some(summary)) => {
                let head = summary.head;
                let times = Times { mtime: head.mtime, ctime: head.ctime };
                (head.size, summary.granules + head.promised, Some(times))
            }
            Err(None) => (0, 0, None),
        };
        let times = times.unwrap_or(Times { mtime: attr.mtime, ctime: attr.ctime });
        let blocks = granules.saturating_mul(self.data.granule_bytes / 512);
        Ok(Attr { size, blocks, mtime: times.mtime, ctime: times.ctime, ..attr })
    }

    /// Changes attributes, the size among them.
    pub fn set_attributes(&self, id: NodeId, set: &SetAttr) -> FsResult<Attr> {
        self.changeable()?;
        if let Some(size) = set.size {
            self.truncate(id, size)?;
        }
        let rest = SetAttr { size: None, ..*set };
        if rest == SetAttr::default() {
            return self.attributes(id);
        }
        self.commits.store_changed();
        let attr = self.store.set_attributes(id, &rest)?;
        if attr.kind == Kind::File {
            self.recorded(id, |times| {
                times.ctime = attr.ctime;
                if rest.mtime.is_some() {
                    times.mtime = attr.mtime;
                }
            })?;
        }
        self.overlaid(attr)
    }

    /// Changes the times in a file's record, if it has one.
    fn recorded(&self, id: NodeId, change: impl FnOnce(&mut Times)) -> FsResult {
        if matches!(self.files.known(id, &self.data)?, Err(None)) {
            return Ok(());
        }
        let file = self.file(id)?;
        let mut state = file.lock();
        if let Some(times) = &mut state.times {
            change(times);
            self.data.touch(&file, &mut state);
        }
        Ok(())
    }

    /// Something else than the data of a node has changed. That is done: a record that can't be read keeps its time.
    pub(super) fn status_changed(&self, id: NodeId, kind: Kind) {
        if kind == Kind::File {
            let now = self.store.now();
            let _ = self.recorded(id, |times| times.ctime = now);
        }
    }
}

//! A file system on the model's clock, as a target: the same core code as on a mount. Files have sizes and no bytes; one
//! thread does everything, and what is due in the background is done between two acts.

use std::collections::HashMap;
use std::sync::Arc;

use smrkit::units::Nanos;

use crate::data::{Data, ReadBuffer as ReadRoom};
use crate::device::HostManaged;
use crate::error::{Errno, FsResult};
use crate::fs::FileSystem;
use crate::meta::{Kind, NewNode};
use crate::units::NodeId;
use crate::workload::{Act, Cleaned, FileKey, Target, TargetRoom};

/// A file system on the model's clock.
pub struct Simulated {
    fs: FileSystem,
    device: Arc<dyn HostManaged>,
    folders: HashMap<u32, NodeId>,
    files: HashMap<FileKey, (NodeId, u64)>,
    commit_every: Nanos,
    committed: Nanos,
    /// Time by which cleaning between two acts has delayed what came next.
    delayed: Nanos,
}

impl Simulated {
    /// `fs`, just mounted on `device`; everything is made durable every `commit_every`.
    pub fn new(fs: FileSystem, device: Arc<dyn HostManaged>, commit_every: Nanos) -> Simulated {
        let committed = device.now();
        Simulated {
            fs,
            device,
            folders: HashMap::new(),
            files: HashMap::new(),
            commit_every,
            committed,
            delayed: Nanos::ZERO,
        }
    }

    /// The file system.
    pub fn fs(&self) -> &FileSystem {
        &self.fs
    }

    fn folder(&mut self, number: u32) -> FsResult<NodeId> {
        if let Some(&id) = self.folders.get(&number) {
            return Ok(id);
        }
        let id = self.fs.make(self.fs.root(), number.to_string().as_bytes(), &node(Kind::Directory, 0o755))?.id;
        self.folders.insert(number, id);
        Ok(id)
    }

    fn file(&self, file: FileKey) -> FsResult<(NodeId, u64)> {
        self.files.get(&file).copied().ok_or(Errno::ENOENT.into())
    }

    fn create(&mut self, file: FileKey) -> FsResult {
        let folder = self.folder(file.folder)?;
        let id = self.fs.make(folder, &name(file), &node(Kind::File, 0o644))?.id;
        self.files.insert(file, (id, 0));
        self.fs.open(id, true, false)
    }

    fn append(&mut self, file: FileKey, bytes: u64) -> FsResult {
        let (id, size) = self.file(file)?;
        self.fs.write(id, size, Data::Blank(bytes))?;
        self.files.insert(file, (id, size + bytes));
        Ok(())
    }

    fn delete(&mut self, file: FileKey) -> FsResult {
        let (id, _) = self.file(file)?;
        let folder = self.folder(file.folder)?;
        self.fs.unlink(folder, &name(file))?;
        self.fs.forget(id, 1);
        self.files.remove(&file);
        Ok(())
    }

    fn stat(&mut self, file: FileKey) -> FsResult {
        let folder = self.folder(file.folder)?;
        let id = self.fs.lookup(folder, &name(file))?.id;
        self.fs.attributes(id)?;
        self.fs.forget(id, 1);
        Ok(())
    }
}

fn name(file: FileKey) -> Vec<u8> {
    file.number.to_string().into_bytes()
}

fn node(kind: Kind, mode: u32) -> NewNode {
    NewNode { kind, mode, uid: 0, gid: 0, rdev: 0 }
}

impl Target for Simulated {
    fn perform(&mut self, act: Act) -> FsResult {
        match act {
            Act::Create(file) => self.create(file),
            Act::Open { file, writing } => self.fs.open(self.file(file)?.0, writing, false),
            Act::Append { file, bytes } => self.append(file, bytes),
            Act::Read { file, offset, bytes } => {
                self.fs.read(self.file(file)?.0, offset, ReadRoom::Blank(bytes)).map(|_| ())
            }
            Act::Close { file, writing } => self.fs.release(self.file(file)?.0, writing),
            Act::Delete(file) => self.delete(file),
            Act::Stat(file) => self.stat(file),
        }
    }

    fn now(&self) -> Nanos {
        self.device.now()
    }

    fn background(&mut self) -> FsResult {
        if self.device.now().since(self.committed) >= self.commit_every {
            self.fs.sync_all()?;
            self.committed = self.device.now();
        }
        let begin = self.device.now();
        while self.fs.background(false)? {}
        self.delayed += self.device.now().since(begin);
        Ok(())
    }

    fn rest(&mut self, until: Nanos) -> FsResult {
        while self.device.now() < until && self.fs.background(true)? {}
        self.device.wait_until(until);
        Ok(())
    }

    fn waited(&self) -> Nanos {
        self.delayed + Nanos(self.fs.statistics().waited_ns)
    }

    fn room(&self) -> FsResult<TargetRoom> {
        let usage = self.fs.usage()?;
        let bytes = |granules: u64| granules * usage.granule_bytes;
        Ok(TargetRoom {
            usable_bytes: bytes(usage.usable),
            live_bytes: bytes(usage.live),
            free_bytes: bytes(usage.free),
            counts: Some((usage.counts, usage.granule_bytes)),
        })
    }

    fn cleaned(&self) -> Cleaned {
        let statistics = self.fs.statistics();
        Cleaned { moved_bytes: statistics.moved_bytes, resets: statistics.resets, stalls: statistics.stalls }
    }
}

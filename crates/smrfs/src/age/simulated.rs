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

#[cfg(test)]
mod tests {
    use smrkit::drive::Drive;

    use crate::age::ager::AgerOptions;
    use crate::age::course::{AgeingResult, CourseOptions};
    use crate::age::world::World;
    use crate::device::Model;
    use crate::workload::driver::End;

    const DISK: u64 = 4_000_000_000;

    fn world(model: Model) -> World {
        let drive = Drive::load("wdc-2tb").unwrap();
        World { disk_bytes: DISK, granule_bytes: 64 << 10, ..World::paper(model, drive) }
    }

    fn small(seed: u64) -> CourseOptions {
        CourseOptions { stop_at_b: true, ..CourseOptions::paper(DISK, seed) }
    }

    fn run(model: Model, options: &CourseOptions) -> AgeingResult {
        let mut target = world(model).mount().unwrap();
        let course = AgeingResult::run(options, &mut target, &mut |_| true).unwrap();
        target.fs().sync_all().unwrap();
        course
    }

    #[test]
    fn strict_append_cleans_early_and_caveat_scriptor_late() {
        for seed in 1..=3 {
            let [strict, caveat] = [Model::StrictAppend, Model::Caveat].map(|model| run(model, &small(seed)));
            assert_eq!([strict.end, caveat.end], [End::Done; 2], "seed {seed}");
            assert_eq!(strict.aged, caveat.aged, "one sequence on both");
            let (a, first) = (strict.a.unwrap(), strict.first_cleaning.unwrap());
            assert!(first.written_bytes < a.written_bytes, "seed {seed}: {first:?} and {a:?}");
            assert_eq!(caveat.first_cleaning, None, "seed {seed}");
            let (a, b) = (caveat.a.unwrap(), caveat.b.unwrap());
            assert!(b.not_writable_bytes > a.not_writable_bytes, "seed {seed}: {a:?} and {b:?}");
            let sum = |s: &crate::age::course::Sample| {
                s.readable_bytes + s.not_writable_bytes + s.write_once_bytes + s.writable_bytes
            };
            assert!(caveat.samples.iter().chain(&strict.samples).all(|sample| sum(sample).abs_diff(DISK) < 64 << 10));
        }
    }

    #[test]
    fn small_files_fill_a_caveat_disk_until_it_is_defragmented() {
        let paper = small(1);
        let ager = AgerOptions { size_factor: 0.01, ..paper.ager.clone() };
        let options = CourseOptions { ager, benchmarks: Vec::new(), ..paper };
        let far = World { did_bytes: 3 << 20, ..world(Model::Caveat) };
        let mut target = far.mount().unwrap();
        let full = AgeingResult::run(&options, &mut target, &mut |_| true).unwrap();
        assert_eq!((full.end, full.first_cleaning), (End::Full, None));
        let caveat = crate::space::caveat::CaveatOptions::default();
        let mut target = World { caveat, ..far }.mount().unwrap();
        let options = CourseOptions { until_bytes: full.last.written_bytes + DISK / 2, ..options };
        let whole = AgeingResult::run(&options, &mut target, &mut |_| true).unwrap();
        assert_eq!((whole.end, whole.last.written_bytes), (End::Done, options.until_bytes));
    }
}

//! The scenarios of docs/design/semantics.md, on both models and with many kinds of power cut.
//!
//! What is found must be among what the page names.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use smrfs::data::{Data, ReadBuffer};
use smrfs::device::strict::StrictAppend;
use smrfs::device::{Bands, HostManaged, Model, Shape};
use smrfs::error::FsResult;
use smrfs::fs::{Allocate, FileSystem, FsOptions, Seek};
use smrfs::meta::memory::{Limits, MemoryStore, StoreLoss};
use smrfs::meta::{Kind, NewNode, RenameMode, SetAttr, Time};
use smrfs::space::Space;
use smrfs::space::bands::BandSpace;
use smrfs::space::bands::BandsOptions;
use smrfs::space::caveat::{Caveat, CaveatOptions};
use smrfs::testing::memory::Power;
use smrfs::testing::memory::{Memory, WriteLoss as DiskLoss};
use smrfs::testing::shingled::{Shingled, WriteHistory};
use smrfs::units::{GRANULE_BYTES, NodeId};

const PAGE: &str = include_str!("../../../docs/design/semantics.md");

/// Runs of each scenario on each model.
const SEEDS: u64 = 60;

struct Machine {
    shape: Shape,
    power: Arc<Power>,
    memory: Arc<Memory>,
    store: Arc<MemoryStore>,
    fs: FileSystem,
    open: HashMap<String, NodeId>,
    seed: u64,
}

impl Machine {
    fn new(model: Model, seed: u64) -> Machine {
        let none = Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 };
        let bands = Bands { count: 16, granules: 16, gap_granules: 3, max_open: 5 };
        let (granules, bands) = if model == Model::Caveat { (300, none) } else { (16 * 19, bands) };
        let shape = Shape { model, granule_bytes: GRANULE_BYTES, granules, did: 3, dpid: 2, bands };
        let power = Arc::new(Power::new());
        let memory = Arc::new(Memory::recording(&shape, power.clone()));
        let now = AtomicI64::new(1);
        let clock = Arc::new(move || Time { seconds: now.fetch_add(1, Relaxed), nanoseconds: 0 });
        let store = Arc::new(MemoryStore::on_power(Limits::EXT4, clock, power.clone()));
        let fs = mounted(&shape, &memory, &store, WriteHistory::Blank);
        Machine { shape, power, memory, store, fs, open: HashMap::new(), seed }
    }

    fn cut(&mut self) {
        let (cut, power) = (self.power.operations() + 1, Arc::new(Power::new()));
        let losses = [StoreLoss::Latest, StoreLoss::Any];
        let loss = DiskLoss::ALL[self.seed as usize % 4];
        self.memory = Arc::new(self.memory.survivor(cut, loss, self.seed, power.clone(), true));
        self.store = Arc::new(self.store.survivor(cut, losses[self.seed as usize / 4 % 2], self.seed, power.clone()));
        self.power = power;
        self.fs = mounted(&self.shape, &self.memory, &self.store, WriteHistory::Unknown);
        self.open.clear();
    }

    /// The directory and the last name of a path.
    fn place<'a>(&self, path: &'a str) -> FsResult<(NodeId, &'a [u8])> {
        match path.split_once('/') {
            Some((directory, name)) => Ok((self.fs.lookup(self.fs.root(), directory.as_bytes())?.id, name.as_bytes())),
            None => Ok((self.fs.root(), path.as_bytes())),
        }
    }

    fn id(&self, path: &str) -> FsResult<NodeId> {
        if let Some(&id) = self.open.get(path) {
            return Ok(id);
        }
        let (parent, name) = self.place(path)?;
        Ok(self.fs.lookup(parent, name)?.id)
    }

    fn make(&self, path: &str, kind: Kind) -> FsResult {
        let (parent, name) = self.place(path)?;
        self.fs.make(parent, name, &NewNode { kind, mode: 0o755, uid: 0, gid: 0, rdev: 0 })?;
        Ok(())
    }

    /// Does what a line says; tells what it found, where it asks for something.
    fn run(&mut self, words: &[String]) -> FsResult<String> {
        let word = |at: usize| words.get(at).map_or("", String::as_str);
        let number = |at: usize| word(at).parse::<u64>().unwrap_or_else(|_| panic!("{words:?}: no number"));
        let path = word(1);
        let fs = &self.fs;
        match word(0) {
            "make" => self.make(path, Kind::File)?,
            "directory" => self.make(path, Kind::Directory)?,
            "write" => fs.write(self.id(path)?, number(2), Data::Bytes(word(3).as_bytes()))?,
            "sync" => fs.sync(self.id(path)?)?,
            "sync-all" => fs.sync_all()?,
            "truncate" => {
                let size = Some(number(2));
                fs.set_attributes(self.id(path)?, &SetAttr { size, ..SetAttr::default() })?;
            }
            "fill" => {
                let free = fs.usage()?.free;
                fs.write(self.id(path)?, 0, Data::Bytes(&vec![1; (free * GRANULE_BYTES) as usize]))?;
            }
            "punch" => fs.allocate(self.id(path)?, Allocate::Punch, number(2), number(3))?,
            "reserve" => fs.allocate(self.id(path)?, Allocate::Extend, number(2), number(3))?,
            "zero" => fs.allocate(self.id(path)?, Allocate::Zero(false), number(2), number(3))?,
            "unlink" => fs.unlink(self.place(path)?.0, self.place(path)?.1)?,
            "rename" => fs.rename(self.place(path)?, self.place(word(2))?, RenameMode::Replace)?,
            "link" => {
                let (parent, name) = self.place(word(2))?;
                fs.link(self.id(path)?, parent, name)?;
            }
            "open" => {
                let id = self.id(path)?;
                fs.open(id, true, false)?;
                self.open.insert(path.into(), id);
            }
            "close" => fs.release(self.open.remove(path).expect("open"), true)?,
            "cut" => self.cut(),
            "size" => return Ok(fs.attributes(self.id(path)?)?.size.to_string()),
            "data" => return Ok(fs.seek(self.id(path)?, number(2), Seek::Data)?.to_string()),
            "hole" => return Ok(fs.seek(self.id(path)?, number(2), Seek::Hole)?.to_string()),
            "read" => {
                let Ok(id) = self.id(path) else { return Ok("missing".into()) };
                let mut bytes = vec![0; fs.attributes(id)?.size as usize];
                fs.read(id, 0, ReadBuffer::Bytes(&mut bytes))?;
                return Ok(String::from_utf8_lossy(&bytes).into_owned());
            }
            other => panic!("no such command: {other}"),
        }
        Ok(String::new())
    }
}

fn mounted(shape: &Shape, memory: &Arc<Memory>, store: &Arc<MemoryStore>, past: WriteHistory) -> FileSystem {
    let memory = memory.clone();
    let (device, space): (Arc<dyn HostManaged>, Box<dyn Space>) = match shape.model {
        Model::StrictAppend => {
            let cursors = memory.cursors();
            let space = BandSpace::new(shape, BandsOptions { block_granules: 4, ..BandsOptions::default() });
            (Arc::new(StrictAppend::new(memory, *shape, &cursors).unwrap()), Box::new(space.unwrap()))
        }
        Model::Caveat => {
            let space = Caveat::new(shape, CaveatOptions { block_granules: 4, ..CaveatOptions::default() });
            (Arc::new(Shingled::new(memory, *shape, past).unwrap()), Box::new(space.unwrap()))
        }
    };
    let options = FsOptions { block_granules: 4, ..FsOptions::default() };
    FileSystem::mount(device, store.clone(), space, options).unwrap()
}

/// The words of a line; text in quotes is one, with `\0` for a zero byte.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, part) in line.split('"').enumerate() {
        match at % 2 {
            0 => words.extend(part.split_whitespace().map(String::from)),
            _ => words.push(part.replace("\\0", "\0")),
        }
    }
    words
}

/// The scenarios of the page, each with its line.
fn scenarios() -> Vec<(usize, Vec<&'static str>)> {
    let mut found: Vec<(usize, Vec<&str>)> = Vec::new();
    let mut inside = false;
    for (number, line) in PAGE.lines().enumerate() {
        match line {
            "```scenario" => {
                inside = true;
                found.push((number + 2, Vec::new()));
            }
            "```" => inside = false,
            _ if inside => found.last_mut().expect("one has begun").1.push(line),
            _ => {}
        }
    }
    found
}

#[test]
fn the_scenarios_of_the_page_hold() {
    let scenarios = scenarios();
    assert!(scenarios.len() >= 9, "{} scenarios found", scenarios.len());
    for (begin, lines) in scenarios {
        for (model, seed) in
            [Model::StrictAppend, Model::Caveat].into_iter().flat_map(|m| (0..SEEDS).map(move |s| (m, s)))
        {
            let mut machine = Machine::new(model, seed);
            for (number, line) in (begin..).zip(&lines) {
                let here = format!("docs/design/semantics.md:{number} ({model:?}, seed {seed}): {line}");
                let (command, expected) = line.split_once(" = ").map_or((*line, None), |(a, b)| (a, Some(b)));
                let (command, error) = command.split_once(" fails ").map_or((command, None), |(a, b)| (a, Some(b)));
                let result = machine.run(&words(command));
                if let Some(error) = error {
                    assert_eq!(result.expect_err(&here).errno().name(), error, "{here}");
                    continue;
                }
                let found = result.unwrap_or_else(|error| panic!("{here}: {error}"));
                if let Some(expected) = expected {
                    let mut allowed = expected.split(" | ").map(|text| words(text).concat());
                    assert!(allowed.any(|text| text == found), "{here}: found {found:?}");
                }
            }
        }
    }
}

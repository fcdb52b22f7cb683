//! A power cut of a served drive: which writes in flight, and which acknowledged writes that were not flushed, are in the image after it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrkit::ranges::RangeMap;
use smrkit::request::Op;
use smrkit::units::SECTOR_BYTES;

use super::{ServedDrive, ZERO_SECTORS};
use crate::block::image::DriveImage;
use crate::block::log::LogEvent;
use crate::block::model::CutLosses;
use crate::error::LiveError;

const SECTOR: usize = SECTOR_BYTES as usize;
/// Most bytes of old data that are kept to undo writes. Older writes count as durable, as if the drive's cache had destaged them
/// (assumption).
const UNDO_BYTES: usize = 64 << 20;

/// The old data of the writes that a power cut may undo: those since the last flush, or since the layer's last commit.
#[derive(Default)]
pub(super) struct UndoLog {
    writes: VecDeque<UndoneWrite>,
    bytes: usize,
    /// Writes that were ever added.
    count: u64,
    /// For each drive: the number of its layer's commits, and the value of `count` when the last one was seen.
    commits: Vec<(u64, u64)>,
}

struct UndoneWrite {
    sectors: Range<u64>,
    /// The old data; `None` if the write is never undone.
    before: Option<Vec<u8>>,
}

/// Reads the data that a request is about to replace; `None` if the request is never undone.
pub(super) fn read_before_write(image: &DriveImage, sectors: Range<u64>, op: Op) -> io::Result<Option<Vec<u8>>> {
    let bytes = ((sectors.end - sectors.start) * SECTOR_BYTES) as usize;
    // A trim can't be undone, because the layer may have overwritten the trimmed sectors when it wrote their neighbours.
    if op != Op::Write || bytes > UNDO_BYTES / 4 {
        return Ok(None);
    }
    let mut before = vec![0; bytes];
    image.storage.read(sectors.start * SECTOR_BYTES, &mut before)?;
    Ok(Some(before))
}

impl UndoLog {
    pub fn add(&mut self, sectors: Range<u64>, before: Option<Vec<u8>>) {
        self.bytes += before.as_ref().map_or(0, Vec::len);
        self.writes.push_back(UndoneWrite { sectors, before });
        self.count += 1;
        while self.bytes > UNDO_BYTES {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let oldest = self.writes.pop_front();
        self.bytes -= oldest.and_then(|write| write.before).map_or(0, |before| before.len());
    }

    pub fn clear(&mut self) {
        self.writes.clear();
        self.bytes = 0;
    }

    /// Forgets the writes that are covered by a commit of every drive's layer.
    pub fn note_commits(&mut self, commits: impl Iterator<Item = Option<u64>>) {
        let mut durable = self.count;
        for (drive, commits) in commits.enumerate() {
            if self.commits.len() == drive {
                self.commits.push((commits.unwrap_or(0), 0));
            }
            let (seen_commits, committed_writes) = &mut self.commits[drive];
            if let Some(commits) = commits.filter(|commits| *commits > *seen_commits) {
                (*seen_commits, *committed_writes) = (commits, self.count);
            }
            durable = durable.min(*committed_writes);
        }
        while self.count - (self.writes.len() as u64) < durable {
            self.forget_oldest();
        }
    }

    /// Chooses at random which writes reached the platters, in whole or in part, and returns the other sectors with their old data. A
    /// write that reached the platters hides earlier ones to the same sectors. No write to `destroyed` sectors did.
    pub fn undo(&mut self, random: &mut Pcg64Mcg, destroyed: &RangeMap<()>) -> BTreeMap<u64, Vec<u8>> {
        // Newest first.
        let (mut undone, mut reached) = (BTreeMap::new(), BTreeSet::new());
        for UndoneWrite { sectors, before } in std::mem::take(&mut self.writes).into_iter().rev() {
            let Some(before) = before else {
                reached.extend(sectors);
                continue;
            };
            let n = sectors.end - sectors.start;
            let written = match random.random_range(0..3) {
                0 => n,
                1 => 0,
                _ => random.random_range(0..=n),
            };
            for ((at, lba), before) in (0..).zip(sectors).zip(before.chunks_exact(SECTOR)) {
                if at < written && destroyed.within(lba..lba + 1).next().is_none() {
                    // If a later write was undone, its old data is what this one wrote.
                    reached.insert(lba);
                } else if !reached.contains(&lba) {
                    undone.insert(lba, before.to_vec());
                }
            }
        }
        self.bytes = 0;
        undone
    }
}

impl ServedDrive {
    /// Handles a power cut during background work (`event`) or while commands were in flight. Writes in flight are torn. Acknowledged writes
    /// that were not flushed are undone in part, unless the layer keeps them.
    pub(super) fn lose_power(&mut self, event: Option<LogEvent>) {
        let mut random = Pcg64Mcg::seed_from_u64(self.faults.cut_seed);
        // The cut sets the model's time forward to that of its latest drive.
        let failed_at = self.model.now;
        // Before the model loses power: what its layers have committed by now stays.
        self.undo.note_commits(self.model.commits());
        let torn = match self.model.lose_power(&self.image.system, &mut random) {
            Ok(mut losses) => self.tear_image(&mut losses, &mut random),
            Err(error) => Err(io::Error::other(error.to_string())),
        };
        // After the image is torn, for which the writes in flight were needed.
        self.fail_in_flight(failed_at);
        event.into_iter().for_each(|event| self.events.add(event));
        self.has_lost |= self.may_lose;
        self.power_cuts += 1;
        self.events.add(LogEvent::Recovered(self.model.now));
        let torn = torn.map_err(|error| LiveError::io(&self.image.path, error));
        if let Err(error) = torn.and_then(|()| self.checkpoint()) {
            self.fail_drive(error);
        }
    }

    fn tear_image(&mut self, losses: &mut CutLosses, random: &mut Pcg64Mcg) -> io::Result<()> {
        for (lba, sector) in self.undo.undo(random, &losses.lost) {
            self.image.storage.write(lba * SECTOR_BYTES, &sector)?;
        }
        self.tear_in_flight(losses, random)?;
        self.image.storage.sync()?;
        // Lost sectors that hold data become unreadable. Those of zeros stay readable, because the host never wrote them, or trimmed them.
        // The image's holes would not tell, since they are whole pages.
        for (range, _) in losses.lost.iter() {
            for from in range.clone().step_by(ZERO_SECTORS as usize) {
                let sectors = from..range.end.min(from + ZERO_SECTORS);
                let mut data = vec![0; ((sectors.end - from) * SECTOR_BYTES) as usize];
                self.image.storage.read(from * SECTOR_BYTES, &mut data)?;
                let with_data =
                    sectors.zip(data.chunks_exact(SECTOR)).filter(|(_, sector)| sector.iter().any(|&byte| byte != 0));
                with_data.for_each(|(lba, _)| self.unreadable.cover(lba..lba + 1, ()));
            }
        }
        Ok(())
    }

    /// Writes a part of each write in flight to the image: the sectors that had reached the platters, if the model knows them, else a random
    /// number of the first ones.
    fn tear_in_flight(&mut self, losses: &mut CutLosses, random: &mut Pcg64Mcg) -> io::Result<()> {
        for command in &self.in_flight {
            // A write that was put into the image early was begun before the cut was planned, and has reached the platters.
            let Some((request, _)) = command.progress.request.filter(|_| !command.progress.is_written) else {
                continue;
            };
            if request.op != Op::Write || command.data.is_empty() {
                continue;
            }
            let most = random.random_range(0..=request.sectors);
            for (number, data) in (0..).zip(command.data.chunks_exact(SECTOR)) {
                let lba = request.lba + u64::from(number);
                if !self.model.reached_platters(losses, lba).unwrap_or(number < most) {
                    continue;
                }
                self.image.storage.write(lba.0 * SECTOR_BYTES, data)?;
                self.unreadable.uncover(lba.0..lba.0 + 1);
            }
        }
        Ok(())
    }
}

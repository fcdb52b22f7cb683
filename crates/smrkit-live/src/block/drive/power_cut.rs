//! A power cut of a served drive: what of the writes under way, and of those that completed and were not flushed, is in the image after it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrkit::ranges::RangeMap;
use smrkit::request::Op;
use smrkit::units::SECTOR_BYTES;

use super::{CommandState, ServedDrive, Step, ZERO_SECTORS};
use crate::block::image::DriveImage;
use crate::block::log::LogEvent;
use crate::block::model::CutLosses;
use crate::error::LiveError;

const SECTOR: usize = SECTOR_BYTES as usize;
/// Bytes of what writes replaced that are kept for a power cut; what is older counts as durable, as in a drive's cache (assumption).
const UNDO_BYTES: usize = 64 << 20;

/// What writes have replaced in the image that a power cut may undo: those since the last flush, or since the layer's last commit.
#[derive(Default)]
pub(super) struct UndoLog {
    writes: VecDeque<UndoneWrite>,
    bytes: usize,
    /// Writes that were remembered so far.
    count: u64,
    /// Commits of each drive's layer, and the value of `count` at the last one.
    commits: Vec<(u64, u64)>,
}

struct UndoneWrite {
    sectors: Range<u64>,
    /// The bytes before it; none where it is not undone.
    before: Option<Vec<u8>>,
}

/// What is about to be replaced in the image; none where that is not undone.
pub(super) fn replaced(image: &DriveImage, sectors: Range<u64>, op: Op) -> io::Result<Option<Vec<u8>>> {
    let bytes = ((sectors.end - sectors.start) * SECTOR_BYTES) as usize;
    // The layer may have let a neighbour destroy what was trimmed, so that a trim can't be undone.
    match op == Op::Write && bytes <= UNDO_BYTES / 4 {
        true => {
            let mut before = vec![0; bytes];
            image.storage.read(sectors.start * SECTOR_BYTES, &mut before)?;
            Ok(Some(before))
        }
        false => Ok(None),
    }
}

impl UndoLog {
    pub fn remember(&mut self, sectors: Range<u64>, before: Option<Vec<u8>>) {
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

    /// Forgets writes that the layers of all drives have committed since they completed.
    pub fn note_commits(&mut self, commits: impl Iterator<Item = Option<u64>>) {
        let mut durable = self.count;
        for (number, commits) in commits.enumerate() {
            if self.commits.len() == number {
                self.commits.push((commits.unwrap_or(0), 0));
            }
            let seen = &mut self.commits[number];
            if let Some(commits) = commits.filter(|&commits| commits > seen.0) {
                *seen = (commits, self.count);
            }
            durable = durable.min(seen.1);
        }
        while self.count - (self.writes.len() as u64) < durable {
            self.forget_oldest();
        }
    }

    /// Sectors with their contents when a random part of the writes had not been made. A later write that was made stays, whatever becomes
    /// of earlier ones to the same sectors. No write of `destroyed` sectors was made: the platters do not hold it.
    pub fn undo(&mut self, random: &mut Pcg64Mcg, destroyed: &RangeMap<()>) -> BTreeMap<u64, Vec<u8>> {
        let (mut undone, mut kept) = (BTreeMap::new(), BTreeSet::new());
        for UndoneWrite { sectors, before } in std::mem::take(&mut self.writes).into_iter().rev() {
            let Some(before) = before else {
                kept.extend(sectors);
                continue;
            };
            let n = sectors.end - sectors.start;
            let made = match random.random_range(0..3) {
                0 => n,
                1 => 0,
                _ => random.random_range(0..=n),
            };
            for ((at, lba), before) in (0..).zip(sectors).zip(before.chunks_exact(SECTOR)) {
                if at < made && destroyed.within(lba..lba + 1).next().is_none() {
                    // Where a later one was undone, this one is what was there before it, and is what stays.
                    kept.insert(lba);
                } else if !kept.contains(&lba) {
                    undone.insert(lba, before.to_vec());
                }
            }
        }
        self.bytes = 0;
        undone
    }
}

impl ServedDrive {
    /// The power was cut during `event` or while commands were under way, and is back: writes under way are torn, and of those that were
    /// not flushed a part is undone, as far as the layer does not keep them.
    pub(super) fn lose_power(&mut self, event: Option<LogEvent>) {
        let mut random = Pcg64Mcg::seed_from_u64(self.cut_seed);
        let failed_at = self.model.now;
        self.undo.note_commits(self.model.commits());
        let torn = match self.model.lose_power(&self.image.system, &mut random) {
            Ok(mut losses) => self.tear_image(&mut losses, &mut random),
            Err(error) => Err(io::Error::other(error.to_string())),
        };
        self.fail_under_way(failed_at);
        event.into_iter().for_each(|event| self.events.add(event));
        self.has_lost |= self.may_lose;
        self.power_cuts += 1;
        self.events.add(LogEvent::Recovered(self.model.now));
        let saved = torn.map_err(|error| LiveError::io(&self.image.path, error)).and_then(|()| self.checkpoint());
        self.give_up_on(saved);
    }

    fn tear_image(&mut self, losses: &mut CutLosses, random: &mut Pcg64Mcg) -> io::Result<()> {
        self.undo_unflushed(random, &losses.lost)?;
        self.tear_under_way(losses, random)?;
        self.image.storage.sync()?;
        // What the host never wrote, or has trimmed, reads as zeros whatever becomes of the platters. Holes of the file would not tell, since
        // they are whole pages.
        for (range, _) in losses.lost.iter() {
            for from in range.clone().step_by(ZERO_SECTORS as usize) {
                let sectors = from..range.end.min(from + ZERO_SECTORS);
                let mut data = vec![0; ((sectors.end - from) * SECTOR_BYTES) as usize];
                self.image.storage.read(from * SECTOR_BYTES, &mut data)?;
                let held =
                    sectors.zip(data.chunks_exact(SECTOR)).filter(|(_, sector)| sector.iter().any(|&byte| byte != 0));
                held.for_each(|(lba, _)| self.unreadable.cover(lba..lba + 1, ()));
            }
        }
        Ok(())
    }

    /// Of writes under way all sectors, none, or the first ones are there; where a rewrite was torn, those that it had reached.
    fn tear_under_way(&mut self, losses: &mut CutLosses, random: &mut Pcg64Mcg) -> io::Result<()> {
        for command in self.queue.iter().take(self.begun) {
            // What was in the image before the cut was planned has reached the platters.
            let CommandState::UnderWay { step: Some(Step { request, .. }), is_written: false, .. } = &command.state
            else {
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

    fn undo_unflushed(&mut self, random: &mut Pcg64Mcg, destroyed: &RangeMap<()>) -> io::Result<()> {
        let undone = self.undo.undo(random, destroyed);
        undone.iter().try_for_each(|(lba, sector)| self.image.storage.write(lba * SECTOR_BYTES, sector))
    }
}

//! A power cut of a served drive: what of the writes under way, and of those that completed and were not flushed, is in the image after it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrkit::request::Op;
use smrkit::units::SECTOR_BYTES;

use super::{CommandState, ServedDrive, Step};
use crate::block::image::DriveImage;
use crate::block::log::LogEvent;
use crate::block::model::CutLosses;
use crate::error::LiveError;

const SECTOR: usize = SECTOR_BYTES as usize;
/// Bytes of what writes replaced that are kept for a power cut; what is older counts as durable, as in a drive's cache (assumption).
const UNDO_BYTES: usize = 64 << 20;

/// What writes since the last flush have replaced in the image.
#[derive(Default)]
pub(super) struct UndoLog {
    writes: VecDeque<UndoneWrite>,
    bytes: usize,
}

struct UndoneWrite {
    sectors: Range<u64>,
    /// The bytes before it; none of a write that is too long to be undone.
    before: Option<Vec<u8>>,
}

impl UndoLog {
    pub fn remember(&mut self, image: &DriveImage, sectors: Range<u64>) -> io::Result<()> {
        let bytes = ((sectors.end - sectors.start) * SECTOR_BYTES) as usize;
        let before = match bytes <= UNDO_BYTES / 4 {
            true => {
                let mut before = vec![0; bytes];
                image.storage().read(sectors.start * SECTOR_BYTES, &mut before)?;
                self.bytes += bytes;
                Some(before)
            }
            false => None,
        };
        self.writes.push_back(UndoneWrite { sectors, before });
        while self.bytes > UNDO_BYTES
            && let Some(oldest) = self.writes.pop_front()
        {
            self.bytes -= oldest.before.map_or(0, |before| before.len());
        }
        Ok(())
    }

    pub fn clear(&mut self) {
        self.writes.clear();
        self.bytes = 0;
    }

    /// Sectors with their contents when a random part of the writes had not been made. A later write that was made stays, whatever becomes
    /// of earlier ones to the same sectors.
    pub fn undo(&mut self, random: &mut Pcg64Mcg) -> BTreeMap<u64, Vec<u8>> {
        let (mut undone, mut kept) = (BTreeMap::new(), BTreeSet::new());
        for UndoneWrite { sectors, before } in std::mem::take(&mut self.writes).into_iter().rev() {
            let n = sectors.end - sectors.start;
            let made = match (&before, random.random_range(0..3)) {
                (None, _) | (_, 0) => n,
                (_, 1) => 0,
                _ => random.random_range(0..=n),
            };
            let before = before.unwrap_or_default();
            for (lba, sector) in sectors.clone().zip(before.chunks_exact(SECTOR)).skip(made as usize) {
                if !kept.contains(&lba) {
                    undone.insert(lba, sector.to_vec());
                }
            }
            for lba in sectors.start..sectors.start + made {
                // Where a later one was undone, this one is what was there before it, and is what stays.
                kept.insert(lba);
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
        let torn = match self.model.lose_power(self.image.system(), &mut random) {
            Ok(mut losses) => self.tear_image(&mut losses, &mut random),
            Err(error) => Err(io::Error::other(error.to_string())),
        };
        self.fail_under_way(failed_at);
        event.into_iter().for_each(|event| self.events.add(event));
        self.has_lost |= self.may_lose;
        self.power_cuts += 1;
        self.events.add(LogEvent::Recovered(self.model.now));
        let saved = torn.map_err(|error| LiveError::io(self.image.path(), error)).and_then(|()| self.checkpoint());
        self.give_up_on(saved);
    }

    fn tear_image(&mut self, losses: &mut CutLosses, random: &mut Pcg64Mcg) -> io::Result<()> {
        self.undo_unflushed(random)?;
        self.tear_under_way(losses, random)?;
        self.image.storage().sync()?;
        // What the host never wrote, or has trimmed, reads as zeros whatever becomes of the platters.
        for (range, _) in losses.lost.iter() {
            let mut at = range.start;
            for (sectors, is_hole) in self.extents(range)? {
                if !is_hole {
                    self.unreadable.cover(at..at + sectors, ());
                }
                at += sectors;
            }
        }
        Ok(())
    }

    /// Of writes under way all sectors, none, or the first ones are there; where a rewrite was torn, those that it had reached.
    fn tear_under_way(&mut self, losses: &mut CutLosses, random: &mut Pcg64Mcg) -> io::Result<()> {
        for command in self.queue.iter().take(self.begun) {
            let CommandState::UnderWay { steps, .. } = &command.state else { continue };
            let Some(Step { request, .. }) = steps.front() else { continue };
            if request.op != Op::Write || command.data.is_empty() {
                continue;
            }
            let most = random.random_range(0..=request.sectors);
            for (number, data) in (0..).zip(command.data.chunks_exact(SECTOR)) {
                let lba = request.lba + u64::from(number);
                if !self.model.reached_platters(losses, lba).unwrap_or(number < most) {
                    continue;
                }
                self.image.storage().write(lba.0 * SECTOR_BYTES, data)?;
                self.unreadable.uncover(lba.0..lba.0 + 1);
            }
        }
        Ok(())
    }

    fn undo_unflushed(&mut self, random: &mut Pcg64Mcg) -> io::Result<()> {
        let undone = self.undo.undo(random);
        undone.iter().try_for_each(|(lba, sector)| self.image.storage().write(lba * SECTOR_BYTES, sector))
    }
}

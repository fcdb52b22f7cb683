//! The scratch pad: two halves used in turn, so that what a stage still needs of the one before it stays whole.
//!
//! A half begins with a note in a sector of its own: which tracks a stage rewrites and holds, and digests of both halves'
//! shares, so that a torn or overwritten one is not replayed.

use super::home::{Home, NOTE_SECTORS};
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::medium::{Buf, WritePart};
use crate::tally::Cause;
use crate::units::Pba;

const KIND: u64 = 0x5343_5241;

/// Note on a stage in a half of the scratch pad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::layer) struct Note {
    /// Orders notes among each other and against the layer's own records.
    pub sequence: u64,
    /// The home tracks from `first` up to `end` are rewritten by this stage.
    pub first: u32,
    /// See `first`.
    pub end: u32,
    /// Those from `end` up to `held` lie in this half, since the rewriting damages some of them at home.
    pub held: u32,
    /// Track at which the band's cleaning ends.
    pub plan_end: u32,
    /// The tracks from here on lie in this half, those from `first` up to it in the other one.
    pub from: u32,
    /// Beginning of those of the other half.
    pub other: Pba,
    pub(super) half: usize,
    digest: u64,
    other_digest: u64,
}

impl Note {
    /// A note for half `half`; digests follow.
    pub(super) fn new(sequence: u64, half: usize, (first, end, held, plan_end): (u32, u32, u32, u32)) -> Note {
        let (from, other, digest, other_digest) = (first, Pba(0), 0, 0);
        Note { sequence, first, end, held, plan_end, from, other, half, digest, other_digest }
    }

    fn words(&self) -> [u64; 10] {
        let tracks = [self.first, self.end, self.held, self.plan_end, self.from].map(u64::from);
        let [first, end, held, plan_end, from] = tracks;
        [KIND, self.sequence, first, end, held, plan_end, from, self.other.0, self.digest, self.other_digest]
    }

    fn parse(half: usize, words: &[u64]) -> Option<Note> {
        let &[KIND, sequence, first, end, held, plan_end, from, other, digest, other_digest] = words else {
            return None;
        };
        let track = |word: u64| u32::try_from(word).ok();
        Some(Note {
            sequence,
            first: track(first)?,
            end: track(end)?,
            held: track(held)?,
            plan_end: track(plan_end)?,
            from: track(from)?,
            other: Pba(other),
            half,
            digest,
            other_digest,
        })
    }

    /// Place of a track that this half holds.
    pub(super) fn place(&self, home: &Home, track: u32) -> Pba {
        home.pads()[self.half] + NOTE_SECTORS + home.sectors_of(self.from..track)
    }

    /// Writes the note and the tracks from `from` on out of `buf`, which holds those from `first` on.
    pub(super) fn write(mut self, disk: &mut Disk, home: &Home, buf: &Buf) -> DiskResult<Note> {
        let at = home.sectors_of(self.first..self.from);
        let sectors = home.sectors_of(self.from..self.held);
        let mut words = [0; 10];
        if disk.holds_data() {
            (self.digest, self.other_digest) = (buf.digest(at, sectors), buf.digest(0, at));
            words = self.words();
        }
        let words: &[u64] = if disk.holds_data() { &words } else { &[] };
        let parts = [WritePart::Record { words, sectors: NOTE_SECTORS }, WritePart::Data { buf, at, sectors }];
        disk.write_parts(home.pads()[self.half], Cause::Clean, &parts)?;
        Ok(self)
    }

    /// Reads the tracks from `first` up to `held` back; whether those rewritten are all whole.
    pub(super) fn read(&self, disk: &mut Disk, home: &Home, buf: &mut Buf) -> DiskResult<bool> {
        let at = home.sectors_of(self.first..self.from);
        let sectors = home.sectors_of(self.from..self.held);
        disk.read(self.place(home, self.from), sectors, Cause::Clean, buf, at)?;
        if at > 0 {
            disk.read(self.other, at, Cause::Clean, buf, 0)?;
        }
        Ok(buf.digest(0, at) == self.other_digest)
    }

    /// The newest note whose half is whole.
    pub(super) fn newest(disk: &mut Disk, home: &Home) -> DiskResult<Option<Note>> {
        let mut newest: Option<Note> = None;
        for half in 0..2 {
            let words = disk.read_record(home.pads()[half], NOTE_SECTORS, Cause::Clean)?;
            let Some(note) = words.and_then(|words| Note::parse(half, &words)) else { continue };
            if note.is_sound(home) && newest.is_none_or(|other| other.sequence < note.sequence) {
                let sectors = home.sectors_of(note.from..note.held);
                let mut buf = disk.buf(sectors);
                disk.read(note.place(home, note.from), sectors, Cause::Clean, &mut buf, 0)?;
                if buf.digest(0, sectors) == note.digest {
                    newest = Some(note);
                }
            }
        }
        Ok(newest)
    }

    /// True if it speaks of tracks of one band in order, so that nothing else is ever touched.
    fn is_sound(&self, home: &Home) -> bool {
        let ordered = self.first < self.end && self.end <= self.held && self.held <= self.plan_end;
        let shared = self.first <= self.from && self.from <= self.end;
        ordered && shared && self.plan_end <= home.tracks() && {
            let band = home.tracks_of(home.band_of(self.first));
            band.contains(&(self.plan_end - 1)) && home.sectors_of(self.first..self.held) <= home.stage_sectors()
        }
    }
}

//! The scratch pad: two halves used in turn, so that what a stage still needs of the one before it stays whole.
//!
//! A half begins with a note in a sector of its own: which tracks a stage rewrites and holds. Its last sector has a label with the
//! number of the note: a write whose last sector is there is whole. Whatever overwrites a half overwrites its note first.

use serde::{Deserialize, Serialize};

use super::home::{Home, NOTE_SECTORS};
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::layer::COUNT_MAX;
use crate::medium::{Buf, Label, WritePart};
use crate::tally::Cause;
use crate::units::Pba;

const KIND: u64 = 0x5343_5241;

/// Note on a stage in a half of the scratch pad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::layer) struct Note {
    /// Orders notes among each other and against the layer's own records.
    pub sequence: u64,
    /// The home tracks from `first` up to `end` are rewritten by this stage.
    pub first: u32,
    /// See `first`.
    pub end: u32,
    /// End of the tracks from `end` on that lie in this half too, since the rewriting damages them at home.
    pub held: u32,
    /// Track at which the band's cleaning ends.
    pub plan_end: u32,
    /// First track that lies in this half; those from `first` on before it lie in the other.
    pub from: u32,
    /// Beginning of those of the other half.
    pub other: Pba,
    /// The number of the note that the other half had then; 0 where nothing of it is needed.
    pub other_sequence: u64,
    pub(super) half: usize,
    /// True if the other half still has that note.
    is_complete: bool,
}

impl Note {
    /// A note for half `half`.
    pub(super) fn new(sequence: u64, half: usize, (first, end, held, plan_end): (u32, u32, u32, u32)) -> Note {
        let (from, other, other_sequence, is_complete) = (first, Pba(0), 0, true);
        Note { sequence, first, end, held, plan_end, from, other, other_sequence, half, is_complete }
    }

    /// True if it names a half, and tracks in order.
    pub(super) fn is_possible(&self) -> bool {
        self.half < 2 && self.first <= self.from && self.from <= self.held && self.sequence < COUNT_MAX
    }

    fn words(&self) -> [u64; 9] {
        let tracks = [self.first, self.end, self.held, self.plan_end, self.from].map(u64::from);
        let [first, end, held, plan_end, from] = tracks;
        [KIND, self.sequence, first, end, held, plan_end, from, self.other.0, self.other_sequence]
    }

    fn parse(half: usize, words: &[u64]) -> Option<Note> {
        let &[KIND, sequence, first, end, held, plan_end, from, other, other_sequence] = words else {
            return None;
        };
        let track = |word: u64| u32::try_from(word).ok();
        if sequence >= COUNT_MAX {
            return None;
        }
        Some(Note {
            sequence,
            first: track(first)?,
            end: track(end)?,
            held: track(held)?,
            plan_end: track(plan_end)?,
            from: track(from)?,
            other: Pba(other),
            other_sequence,
            half,
            is_complete: false,
        })
    }

    /// The label of the last sector of its half.
    fn label(&self) -> Label {
        [KIND, self.sequence, 0]
    }

    /// Place of a track that this half holds.
    pub(super) fn place(&self, home: &Home, track: u32) -> Pba {
        home.pads()[self.half] + NOTE_SECTORS + home.sectors_of(self.from..track)
    }

    /// Place of a track that either half holds.
    pub(super) fn place_of(&self, home: &Home, track: u32) -> Pba {
        match track < self.from {
            true => self.other + home.sectors_of(self.first..track),
            false => self.place(home, track),
        }
    }

    /// Writes the note and the tracks from `from` on out of `buf`, which holds those from `first` on.
    pub(super) fn write(&self, disk: &mut Disk, home: &Home, buf: &Buf) -> DiskResult {
        let at = home.sectors_of(self.first..self.from);
        let sectors = home.sectors_of(self.from..self.held);
        let (words, labels) = (self.words(), [self.label()]);
        let last = at + sectors.saturating_sub(1);
        let parts = [
            WritePart::Record { words: &words, sectors: NOTE_SECTORS },
            WritePart::Data { buf, at, sectors: last - at },
            WritePart::Labelled { buf, at: last, sectors: 1, labels: &labels },
        ];
        disk.write_parts(home.pads()[self.half], Cause::Clean, if sectors == 0 { &parts[..1] } else { &parts })
    }

    /// Reads the tracks from `first` up to `held` back; whether those rewritten are all whole.
    pub(super) fn read(&self, disk: &mut Disk, home: &Home, buf: &mut Buf) -> DiskResult<bool> {
        let at = home.sectors_of(self.first..self.from);
        let sectors = home.sectors_of(self.from..self.held);
        if sectors > 0 {
            disk.read(self.place(home, self.from), sectors, Cause::Clean, buf, at)?;
        }
        if at > 0 {
            disk.read(self.other, at, Cause::Clean, buf, 0)?;
        }
        Ok(at == 0 || self.is_complete)
    }

    /// The newest note whose half is whole.
    pub(super) fn newest(disk: &mut Disk, home: &Home) -> DiskResult<Option<Note>> {
        let (mut newest, mut sequences): (Option<Note>, _) = (None, [None; 2]);
        for (half, sequence) in sequences.iter_mut().enumerate() {
            let words = disk.read_record(home.pads()[half], NOTE_SECTORS, Cause::Clean)?;
            let Some(note) = words.and_then(|words| Note::parse(half, &words)) else { continue };
            *sequence = Some(note.sequence);
            if note.is_sound(home) && newest.is_none_or(|other| other.sequence < note.sequence) {
                let sectors = home.sectors_of(note.from..note.held);
                let labels = disk.read_labels(note.place(home, note.from), sectors, Cause::Clean)?;
                if labels.last() == Some(&(sectors.saturating_sub(1), note.label())) {
                    newest = Some(note);
                }
            }
        }
        Ok(newest.map(|note| Note { is_complete: sequences[1 - note.half] == Some(note.other_sequence), ..note }))
    }

    /// True if it names tracks of one band in order, so that nothing else can be touched.
    fn is_sound(&self, home: &Home) -> bool {
        let ordered = self.first < self.end && self.end <= self.held && self.held <= self.plan_end;
        let shared = self.first <= self.from && self.from <= self.end;
        ordered && shared && self.plan_end <= home.tracks() && {
            let band = home.tracks_of(home.band_of(self.first));
            band.contains(&(self.plan_end - 1)) && home.sectors_of(self.first..self.held) <= home.stage_sectors()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::Drive;
    use crate::layer::bands::Reserve;

    /// Bands of 8 tracks, of which a stage takes in no more than 4.
    fn home() -> Home {
        let drive = Drive::load("tiny-constant").unwrap();
        let track = drive.geometry.longest_track();
        let reserve =
            Reserve { cache_tracks: 10, band_tracks: 8, buffer_bytes: 4 * track * 512, map_slots: 2, map_sectors: 3 };
        Home::new("test", &drive, &reserve).unwrap()
    }

    #[test]
    fn a_note_is_sound_if_its_tracks_are_of_one_stage_and_band() {
        let home = home();
        assert_eq!((home.tracks_of(1), home.sectors_of(8..12)), (8..16, home.stage_sectors()));
        let sound = |tracks, from| Note { from, ..Note::new(5, 0, tracks) }.is_sound(&home);
        for (tracks, from, expected) in [
            ((8, 10, 12, 16), 9, true),
            ((8, 9, 9, 9), 8, true),
            ((8, 9, 9, 9), 9, true),
            ((8, 12, 12, 12), 12, true),
            ((8, 8, 12, 16), 8, false),
            ((9, 8, 12, 16), 9, false),
            ((8, 12, 11, 16), 9, false),
            ((8, 10, 12, 11), 9, false),
            ((8, 10, 12, 16), 7, false),
            ((8, 10, 12, 16), 11, false),
            ((8, 10, 13, 16), 9, false),
            ((8, 10, 12, 17), 9, false),
            ((15, 16, 16, 17), 15, false),
            ((15, 16, 16, 16), 15, true),
        ] {
            assert_eq!(sound(tracks, from), expected, "{tracks:?} from {from}");
        }
        let last = home.tracks();
        assert!(sound((last - 1, last, last, last), last - 1));
        assert!(!sound((last - 1, last, last, last + 1), last - 1));
    }

    #[test]
    fn a_note_is_read_back_as_it_was_written() {
        let note = Note { from: 9, other: Pba(77), other_sequence: 4, ..Note::new(5, 1, (8, 10, 12, 16)) };
        let words = note.words();
        assert_eq!(Note::parse(1, &words), Some(Note { is_complete: false, ..note }));
        let with = |at: usize, word: u64| {
            let mut words = words;
            words[at] = word;
            Note::parse(1, &words)
        };
        assert_eq!(with(0, KIND + 1), None);
        assert!(with(1, COUNT_MAX - 1).is_some() && with(1, COUNT_MAX).is_none());
        assert!((2..7).all(|track| with(track, u64::from(u32::MAX)).is_some() && with(track, 1 << 32).is_none()));
        assert_eq!(Note::parse(1, &words[..8]), None);
    }
}

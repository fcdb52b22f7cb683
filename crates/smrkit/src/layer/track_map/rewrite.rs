//! Sectors of a band that must be rewritten with a write, and the reads and writes that do it.
//!
//! The law of the drive says what a write destroys; what of it is in use is read before and written back in the order of
//! PBAs, so that each write spoils only what is written after it. On each track one run of sectors is rewritten.

use super::books::Books;
use super::layout::{Band, TrackPiece};
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::medium::Buf;
use crate::tally::Cause;
use crate::units::Pba;

/// A run of sectors of a track, as (first, end); empty where both are equal.
type SectorSpan = (u64, u64);

/// The head, as the layer takes it to be.
#[derive(Clone, Copy)]
pub struct Head {
    /// Tracks of a band that a write reaches, its own included.
    pub width: usize,
    /// True if it is wider than the drive's law: all of the tracks that it reaches are spoilt.
    pub wider: bool,
    /// A write also spoils sectors of its own track, as laws that count sectors say.
    pub in_track: bool,
    /// Number of times that a sector may be written while what lies upstream is not; `None` for any number.
    pub limit: Option<u32>,
    /// Written over too often, a sector wears out sectors of its own track too.
    pub wears_in_track: bool,
}

/// A write to one band, as it is planned and made.
#[derive(Default)]
pub struct Rewrite {
    /// The host's sectors by track, each with the first sector's place in the request.
    own: Vec<(SectorSpan, u64)>,
    /// Sectors that are written on each track, the host's included.
    spans: Vec<SectorSpan>,
    /// Used part of each track once the host's sectors are written.
    used: Vec<u64>,
    /// Places of the spans in the buffer.
    places: Vec<u64>,
    buf: Option<Buf>,
}

impl Rewrite {
    /// Plans the write of `pieces`, all of one band.
    pub fn plan(&mut self, disk: &Disk, head: &Head, books: &Books, band: Band, pieces: &[TrackPiece], tracks: usize) {
        self.own.clear();
        self.own.resize(tracks, ((0, 0), 0));
        self.used.clear();
        self.used.extend((0..tracks).map(|track| books.used(band.base + track)));
        for piece in pieces {
            let end = piece.first + piece.sectors;
            self.own[piece.track] = ((piece.first, end), piece.at);
        }
        self.spans.clear();
        self.spans.extend(self.own.iter().map(|own| own.0));
        loop {
            self.add_spoilt(disk, head, band);
            if !self.add_worn(head, books, band) {
                break;
            }
        }
        for (used, &((_, end), _)) in self.used.iter_mut().zip(&self.own) {
            *used = (*used).max(end);
        }
    }

    /// True if anything but what the host writes is rewritten.
    pub fn is_more(&self) -> bool {
        self.spans.iter().zip(&self.own).any(|(span, own)| *span != own.0)
    }

    /// Adds what the writes destroy of the sectors in use, from the first track to the last.
    fn add_spoilt(&mut self, disk: &Disk, head: &Head, band: Band) {
        for track in 0..self.spans.len() {
            loop {
                let span = self.spans[track];
                if span.0 == span.1 {
                    break;
                }
                self.spoil_from(disk, head, band, track, span);
                if self.spans[track] == span {
                    break;
                }
            }
        }
    }

    fn spoil_from(&mut self, disk: &Disk, head: &Head, band: Band, track: usize, span: SectorSpan) {
        let geometry = disk.geometry();
        let reach = track + 1..(track + head.width).min(self.spans.len());
        if head.wider {
            for next in reach {
                self.add(next, (0, self.used[next]));
            }
        } else if head.in_track || reach.clone().any(|next| self.used[next] > 0) {
            let pba = band.start(geometry, track) + span.0;
            disk.interference().destroyed(geometry, pba, span.1 - span.0, |at, sectors| {
                for next in track..reach.end {
                    let start = band.start(geometry, next);
                    let from = at.0.max(start.0);
                    let to = (at.0 + sectors).min(start.0 + self.used[next]);
                    if from < to {
                        self.add(next, (from - start.0, to - start.0));
                    }
                }
            });
        }
        if head.wider && head.in_track {
            self.add(track, (span.0, self.used[track]));
        }
    }

    /// Adds all that lies upstream of sectors written too often; returns whether there was any.
    fn add_worn(&mut self, head: &Head, books: &Books, band: Band) -> bool {
        let Some(limit) = head.limit else { return false };
        let mut added = false;
        for track in (0..self.spans.len()).rev() {
            let (first, end) = self.spans[track];
            let worn = first < end && books.worn(band.base + track, first, limit);
            if worn && !self.is_alone(head, track) && !self.is_fresh(head, track) {
                for up in (track + 1).saturating_sub(head.width)..=track {
                    self.add(up, (0, self.used[up]));
                }
                added = true;
            }
        }
        added
    }

    /// True if nothing within reach upstream of a track is in use.
    fn is_alone(&self, head: &Head, track: usize) -> bool {
        let upstream = (track + 1).saturating_sub(head.width)..track;
        !head.wears_in_track && upstream.clone().all(|up| self.used[up] == 0)
    }

    /// True if all within reach upstream of a track, and all of it, is written.
    fn is_fresh(&self, head: &Head, track: usize) -> bool {
        let covered = |up: usize| self.used[up] == 0 || self.spans[up].0 == 0 && self.spans[up].1 >= self.used[up];
        ((track + 1).saturating_sub(head.width)..=track).all(covered)
    }

    fn add(&mut self, track: usize, more: SectorSpan) {
        let span = &mut self.spans[track];
        if more.0 == more.1 {
            return;
        }
        *span = if span.0 == span.1 { more } else { (span.0.min(more.0), span.1.max(more.1)) };
    }

    /// Reads the tracks that the write takes along, and writes all of them with the host's `data`.
    pub fn make(&mut self, disk: &mut Disk, band: Band, data: &Buf) -> DiskResult {
        self.places.clear();
        let mut sectors = 0;
        for span in &self.spans {
            self.places.push(sectors);
            sectors += span.1 - span.0;
        }
        let mut buf = self.buf.take().unwrap_or_else(|| disk.buf(sectors));
        buf.room(sectors);
        let result = self.read(disk, band, &mut buf).and_then(|()| {
            for (track, &((first, end), at)) in self.own.iter().enumerate().filter(|(_, own)| own.0.0 < own.0.1) {
                buf.put(self.places[track] + (first - self.spans[track].0), data, at, end - first)?;
            }
            self.write(disk, band, &buf)
        });
        self.buf = Some(buf);
        result
    }

    fn read(&self, disk: &mut Disk, band: Band, buf: &mut Buf) -> DiskResult {
        let mut run = Joined::default();
        for (track, &span) in self.spans.iter().enumerate() {
            let (first, end) = missing(span, self.own[track].0);
            if first < end {
                let pba = band.start(disk.geometry(), track) + first;
                if let Some((pba, at, n)) = run.add(pba, self.places[track] + (first - span.0), end - first) {
                    disk.read(pba, n, Cause::Clean, buf, at)?;
                }
            }
        }
        match run.end() {
            Some((pba, at, n)) => disk.read(pba, n, Cause::Clean, buf, at),
            None => Ok(()),
        }
    }

    /// A run of tracks is the host's if nothing else is in it.
    fn write(&self, disk: &mut Disk, band: Band, buf: &Buf) -> DiskResult {
        let mut run = Joined::default();
        let mut cause = Cause::Host;
        for (track, &(first, end)) in self.spans.iter().enumerate().filter(|(_, span)| span.0 < span.1) {
            let pba = band.start(disk.geometry(), track) + first;
            let of_track = if self.own[track].0 == (first, end) { Cause::Host } else { Cause::Clean };
            if let Some((pba, at, n)) = run.add(pba, self.places[track], end - first) {
                disk.write(pba, n, cause, buf, at)?;
                cause = of_track;
            } else if of_track == Cause::Clean {
                cause = Cause::Clean;
            }
        }
        match run.end() {
            Some((pba, at, n)) => disk.write(pba, n, cause, buf, at),
            None => Ok(()),
        }
    }

    /// Notes in the books what was written.
    pub fn enter(&self, head: &Head, books: &mut Books, band: Band) {
        for (track, &((first, end), _)) in self.own.iter().enumerate() {
            if first < end {
                books.write(band.base + track, end);
            }
        }
        if head.limit.is_none() {
            return;
        }
        for (track, &(first, end)) in self.spans.iter().enumerate().filter(|(_, span)| span.0 < span.1) {
            books.wear(band.base + track, first, end, self.is_fresh(head, track), self.is_alone(head, track));
        }
    }

    /// Number of tracks that the host's own took with them by the paper's rule, and of others that were rewritten.
    pub fn taken(&self, head: &Head) -> (u64, u64) {
        let (mut taken, mut others, mut last) = (0, 0, None);
        for (track, &((first, end), _)) in self.own.iter().enumerate() {
            let reached = last.is_some_and(|last| track - last < head.width);
            if first < end {
                last = Some(track);
            } else if reached && self.used[track] > 0 {
                (taken, last) = (taken + 1, Some(track));
            } else if self.spans[track].0 < self.spans[track].1 {
                others += 1;
            }
        }
        (taken, others)
    }
}

/// The least run of `span` that holds all that `own` does not.
fn missing(span: SectorSpan, own: SectorSpan) -> SectorSpan {
    match own {
        (first, end) if first == end => span,
        (first, end) if first == span.0 => (end, span.1),
        (first, end) if end == span.1 => (span.0, first),
        _ => span,
    }
}

/// Joins accesses that touch, on the platters and in the buffer.
#[derive(Default)]
pub struct Joined(Option<(Pba, u64, u64)>);

impl Joined {
    /// Takes `n` sectors at `pba`, sector `at` of the buffer on; returns the run before where they do not touch it.
    #[inline]
    pub fn add(&mut self, pba: Pba, at: u64, n: u64) -> Option<(Pba, u64, u64)> {
        match &mut self.0 {
            Some((first, from, sectors)) if *first + *sectors == pba && *from + *sectors == at => {
                *sectors += n;
                None
            }
            _ => self.0.replace((pba, at, n)),
        }
    }

    /// The last run.
    #[inline]
    pub fn end(&mut self) -> Option<(Pba, u64, u64)> {
        self.0.take()
    }
}

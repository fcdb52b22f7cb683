//! The sectors of a band that must be rewritten with a write, their reads and writes, and the counts that decide: how far each track is in
//! use, and how often it was overwritten.
//!
//! The law of the drive says what a write destroys. Destroyed sectors in use are read before, and written back in the order of PBAs, so
//! that each write destroys only sectors that are written after it. On each track one run of sectors is rewritten.

use std::ops::Range;

use super::layout::{Band, TrackPiece};
use crate::layer::prelude::*;
use crate::layer::runs::Joined;
use crate::medium::interference::Interference;

/// A run of sectors of a track.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct SectorSpan {
    first: u64,
    end: u64,
}

impl SectorSpan {
    fn is_empty(self) -> bool {
        self.first == self.end
    }
}

/// The host's sectors on a track, the first of which is sector `at` of the request.
#[derive(Clone, Copy, Default)]
struct HostSpan {
    span: SectorSpan,
    at: u64,
}

/// The layer's model of the head.
#[derive(Clone, Copy)]
pub struct Head {
    /// Tracks of a band that a write damages, its own included.
    pub width: usize,
    /// True if a write also destroys sectors of its own track, as under laws that count sectors.
    pub in_track: bool,
    /// How often a sector may be written while the sectors upstream, which it wears, are not; `None` for any number of times.
    pub limit: Option<u32>,
}

impl Head {
    /// The head under the drive's law, `width` tracks wide, for bands of `tracks` tracks.
    pub fn new(law: &Interference, width: u64, tracks: usize) -> Head {
        Head {
            // Damage ends with the band.
            width: width.min(tracks as u64) as usize,
            in_track: matches!(law, Interference::Blocks { .. } | Interference::Distances { .. }),
            limit: (law.upstream() > 0).then(|| law.writes_survived()),
        }
    }
}

/// A write to one band. All lists are by track.
#[derive(Default)]
pub struct Rewrite {
    /// The host's sectors.
    own: Vec<HostSpan>,
    /// The sectors to write, the host's included.
    spans: Vec<SectorSpan>,
    /// The end of the used part after the host's write.
    used: Vec<u64>,
    /// Where each span begins in the buffer.
    places: Vec<u64>,
}

impl Rewrite {
    /// Plans the write of `pieces`, all of one band.
    pub fn plan(
        &mut self,
        disk: &Disk,
        head: &Head,
        tracks_used: &TrackUse,
        band: Band,
        pieces: &[TrackPiece],
        tracks: usize,
    ) {
        self.own.clear();
        self.own.resize(tracks, HostSpan::default());
        self.used.clear();
        self.used.extend((0..tracks).map(|track| tracks_used.used(band.base + track)));
        for piece in pieces {
            let span = SectorSpan { first: piece.first, end: piece.first + piece.sectors };
            self.own[piece.track] = HostSpan { span, at: piece.at };
        }
        self.spans.clear();
        self.spans.extend(self.own.iter().map(|own| own.span));
        // Repeated, because sectors that are added may destroy or wear others.
        loop {
            self.add_destroyed(disk, head, band);
            if !self.add_worn(head, tracks_used, band) {
                break;
            }
        }
        // Only now, because sectors that this write brings into use held nothing that it could destroy.
        for (used, own) in self.used.iter_mut().zip(&self.own) {
            *used = (*used).max(own.span.end);
        }
    }

    /// True if sectors other than the host's are rewritten.
    pub fn rewrites_others(&self) -> bool {
        self.spans.iter().zip(&self.own).any(|(span, own)| *span != own.span)
    }

    /// Adds the used sectors that the writes destroy, from the first track to the last.
    fn add_destroyed(&mut self, disk: &Disk, head: &Head, band: Band) {
        let geometry = disk.geometry();
        for track in 0..self.spans.len() {
            let reach = track + 1..(track + head.width).min(self.spans.len());
            // Under laws that count sectors, the track's own span may grow, and then destroy more.
            loop {
                let span = self.spans[track];
                // A write destroys nothing if the tracks in its reach are unused, unless its law also destroys sectors of its own track.
                if span.is_empty() || !head.in_track && reach.clone().all(|next| self.used[next] == 0) {
                    break;
                }
                let pba = band.start(geometry, track) + span.first;
                disk.interference().destroyed(geometry, pba, span.end - span.first, |at, sectors| {
                    for next in track..reach.end {
                        let start = band.start(geometry, next);
                        let from = at.0.max(start.0);
                        let to = (at.0 + sectors).min(start.0 + self.used[next]);
                        if from < to {
                            self.extend_span(next, SectorSpan { first: from - start.0, end: to - start.0 });
                        }
                    }
                });
                if self.spans[track] == span {
                    break;
                }
            }
        }
    }

    /// Adds the sectors upstream of those written too often; returns whether there were any.
    fn add_worn(&mut self, head: &Head, tracks_used: &TrackUse, band: Band) -> bool {
        let Some(limit) = head.limit else { return false };
        let mut added = false;
        // From the last track backwards, because wear acts upstream: added tracks come earlier, and are visited next.
        for track in (0..self.spans.len()).rev() {
            let span = self.spans[track];
            let worn = !span.is_empty() && tracks_used.worn(band.base + track, span.first, limit);
            if worn && !self.is_fresh(head, track) {
                for up in (track + 1).saturating_sub(head.width)..=track {
                    // The whole used part of the track, because only then its count of writes starts anew (`is_fresh`).
                    self.extend_span(up, SectorSpan { first: 0, end: self.used[up] });
                }
                added = true;
            }
        }
        added
    }

    /// True if the track, and all tracks within reach upstream, are written whole.
    fn is_fresh(&self, head: &Head, track: usize) -> bool {
        let covered =
            |up: usize| self.used[up] == 0 || self.spans[up].first == 0 && self.spans[up].end >= self.used[up];
        ((track + 1).saturating_sub(head.width)..=track).all(covered)
    }

    /// Extends the span of a track, so that it covers these sectors, too.
    fn extend_span(&mut self, track: usize, more: SectorSpan) {
        let span = &mut self.spans[track];
        if span.is_empty() {
            *span = more;
        } else if !more.is_empty() {
            *span = SectorSpan { first: span.first.min(more.first), end: span.end.max(more.end) };
        }
    }

    /// Reads what has to be rewritten, and writes it together with the host's `data`.
    pub fn execute(&mut self, disk: &mut Disk, band: Band, data: &Buf) -> DiskResult {
        self.places.clear();
        let mut sectors = 0;
        for span in &self.spans {
            self.places.push(sectors);
            sectors += span.end - span.first;
        }
        let mut buf = disk.buf(sectors);
        self.read(disk, band, &mut buf)?;
        for (track, own) in self.own.iter().enumerate().filter(|(_, own)| !own.span.is_empty()) {
            let HostSpan { span: SectorSpan { first, end }, at } = *own;
            buf.put(self.places[track] + (first - self.spans[track].first), data, at, end - first);
        }
        self.write(disk, band, &buf)
    }

    fn read(&self, disk: &mut Disk, band: Band, buf: &mut Buf) -> DiskResult {
        let mut run = Joined::default();
        for (track, &span) in self.spans.iter().enumerate() {
            let SectorSpan { first, end } = missing(span, self.own[track].span);
            if first < end {
                let pba = band.start(disk.geometry(), track) + first;
                let missing = (pba, self.places[track] + (first - span.first), end - first);
                run.add(missing, |pba, at, n| disk.read(pba, n, Cause::Clean, buf, at))?;
            }
        }
        run.end(|pba, at, n| disk.read(pba, n, Cause::Clean, buf, at))
    }

    /// Writes the spans. A run counts as a host write if it has only the host's sectors, else as cleaning.
    fn write(&self, disk: &mut Disk, band: Band, buf: &Buf) -> DiskResult {
        // In the order of PBAs, because a write destroys sectors downstream.
        let mut run = Joined::default();
        // The cause of the run held back. When a span does not continue it, `add` writes the run, and the span begins another.
        let mut cause = Cause::Host;
        for (track, span) in self.spans.iter().enumerate().filter(|(_, span)| !span.is_empty()) {
            let pba = band.start(disk.geometry(), track) + span.first;
            run.add((pba, self.places[track], span.end - span.first), |pba, at, n| {
                disk.write(pba, n, std::mem::replace(&mut cause, Cause::Host), buf, at)
            })?;
            if self.own[track].span != *span {
                cause = Cause::Clean;
            }
        }
        run.end(|pba, at, n| disk.write(pba, n, cause, buf, at))
    }

    /// Updates the use and wear of the tracks that were written.
    pub fn note_written(&self, head: &Head, tracks_used: &mut TrackUse, band: Band) {
        for (track, own) in self.own.iter().enumerate().filter(|(_, own)| !own.span.is_empty()) {
            tracks_used.write(band.base + track, own.span.end);
        }
        if head.limit.is_none() {
            return;
        }
        for (track, &SectorSpan { first, end }) in self.spans.iter().enumerate().filter(|(_, span)| !span.is_empty()) {
            tracks_used.wear(band.base + track, first, end, self.is_fresh(head, track));
        }
    }

    /// Returns (forced, refreshed): the occupied tracks downstream that the host's write forces to be rewritten (the paper's set D), and
    /// further tracks that are rewritten because of wear.
    pub fn count_others(&self, head: &Head) -> (u64, u64) {
        let (mut forced, mut refreshed, mut last_written) = (0, 0, None);
        for (track, own) in self.own.iter().enumerate() {
            let is_reached = last_written.is_some_and(|last| track - last < head.width);
            if !own.span.is_empty() {
                last_written = Some(track);
            } else if is_reached && self.used[track] > 0 {
                forced += 1;
                last_written = Some(track);
            } else if !self.spans[track].is_empty() {
                refreshed += 1;
            }
        }
        (forced, refreshed)
    }
}

/// The smallest run of `span` that covers all sectors that are not in `own`.
fn missing(span: SectorSpan, own: SectorSpan) -> SectorSpan {
    if own.is_empty() {
        span
    } else if own.first == span.first {
        SectorSpan { first: own.end, ..span }
    } else if own.end == span.end {
        SectorSpan { end: own.first, ..span }
    } else {
        span
    }
}

/// The use of each track, band after band.
pub struct TrackUse {
    /// Sectors from the track's start to the end of the highest used one; 0 for an empty track.
    used: Vec<u32>,
    pub in_use: u64,
    wear: Option<Wear>,
}

/// Wear of tracks. Kept only if overwriting has a limit.
struct Wear {
    /// Sectors from the track's start to the end of the highest one ever written.
    written: Vec<u32>,
    /// How often some sector of the track was written since the sectors within reach upstream were: an upper bound.
    writes: Vec<u32>,
}

state! { TrackUse { parts: wear; sized: used; values: in_use; } }

state! { Wear { sized: written, writes; } }

impl TrackUse {
    /// Empty tracks. Wear is counted if overwriting is `limited`.
    pub fn new(tracks: u64, limited: bool) -> TrackUse {
        let zeros = || vec![0; tracks as usize];
        let wear = limited.then(|| Wear { written: zeros(), writes: zeros() });
        TrackUse { used: zeros(), in_use: 0, wear }
    }

    /// Used part of a track, in sectors.
    pub fn used(&self, track: usize) -> u64 {
        u64::from(self.used[track])
    }

    /// Notes that the host wrote a track up to sector `end`.
    #[inline]
    pub fn write(&mut self, track: usize, end: u64) {
        let used = &mut self.used[track];
        self.in_use += u64::from(*used == 0);
        *used = (*used).max(end as u32);
    }

    /// Notes that the host wrote empty tracks up to sector `end` once, in the order of PBAs.
    pub fn fill(&mut self, tracks: Range<usize>, end: u64) {
        self.in_use += tracks.len() as u64;
        self.used[tracks.clone()].fill(end as u32);
        if let Some(wear) = &mut self.wear {
            wear.written[tracks.clone()].fill(end as u32);
            wear.writes[tracks].fill(1);
        }
    }

    /// Notes that the host discarded the sectors `first..end` of a track. If `end` is the end of its used part, that now ends at `first`.
    pub fn discard(&mut self, track: usize, first: u64, end: u64) {
        let used = &mut self.used[track];
        if u64::from(*used) <= end && first < u64::from(*used) {
            *used = first as u32;
            self.in_use -= u64::from(first == 0);
        }
    }

    /// Assumes the worst of a track: the host uses its sectors up to `end`, and they are worn.
    pub fn forget(&mut self, track: usize, end: u64) {
        self.write(track, end);
        if let Some(wear) = &mut self.wear {
            wear.written[track] = wear.written[track].max(end as u32);
            wear.writes[track] = u32::MAX;
        }
    }

    /// True if a write from sector `first` of a track on overwrites sectors so often that those upstream would not survive.
    pub fn worn(&self, track: usize, first: u64, limit: u32) -> bool {
        let worn = |wear: &Wear| first < u64::from(wear.written[track]) && wear.writes[track] >= limit;
        self.wear.as_ref().is_some_and(worn)
    }

    /// Counts a write of the sectors `first..end` of a track. It is fresh if all tracks within reach upstream were written just before.
    pub fn wear(&mut self, track: usize, first: u64, end: u64, is_fresh: bool) {
        let Some(Wear { written, writes }) = &mut self.wear else { return };
        let is_overwritten = first < u64::from(written[track]);
        writes[track] = match (is_fresh, is_overwritten) {
            (true, _) => 1,
            (false, true) => writes[track].saturating_add(1),
            (false, false) => writes[track].max(1),
        };
        written[track] = written[track].max(end as u32);
    }

    /// Memory taken, in bytes.
    pub fn bytes(&self) -> u64 {
        let lists = if self.wear.is_some() { 3 } else { 1 };
        (self.used.len() * lists * size_of::<u32>()) as u64
    }

    /// Checks the counts against `room`, the usable sectors of each track.
    pub fn check(&self, room: impl Fn(usize) -> u64) -> DiskResult {
        for track in 0..self.used.len() {
            let used = self.used(track);
            ensure!(used <= room(track), "track {track} is in use to sector {used}, past its end");
            let is_written = self.wear.as_ref().is_none_or(|wear| used <= u64::from(wear.written[track]));
            ensure!(is_written, "track {track} is in use to sector {used}, unwritten");
        }
        let in_use = self.used.iter().filter(|&&used| used > 0).count() as u64;
        ensure!(in_use == self.in_use, "{} tracks are counted as in use, which is wrong", self.in_use);
        Ok(())
    }
}

#[derive(Clone, Default)]
pub struct TrackCounts {
    /// Updates by track of a band: writes over sectors that had been written before.
    pub updates: Vec<u64>,
    /// First writes by track of a band.
    pub cold_writes: Vec<u64>,
    /// Tracks that updates forced to be rewritten.
    pub rewritten_by_updates: u64,
    /// Tracks that first writes forced to be rewritten.
    pub rewritten_by_cold_writes: u64,
    /// Tracks rewritten upstream, because of the limit of overwriting.
    pub refreshed: u64,
    /// Times that a write took other tracks of its band with it.
    pub bands_rewritten: u64,
}

state! {
    TrackCounts {
        sized: updates, cold_writes;
        values: rewritten_by_updates, rewritten_by_cold_writes, refreshed, bands_rewritten;
    }
}

impl TrackCounts {
    pub fn new(tracks: usize) -> TrackCounts {
        TrackCounts { updates: vec![0; tracks], cold_writes: vec![0; tracks], ..TrackCounts::default() }
    }

    /// WAR of updates, of first writes, and of both; `None` where there was none.
    pub fn wars(&self) -> [Option<f64>; 3] {
        let [updates, cold_writes] = [&self.updates, &self.cold_writes].map(|list| list.iter().sum::<u64>());
        // A track that is forced to be rewritten is read and written.
        let war = |forced: u64, own: u64| (own > 0).then(|| (own + 2 * forced) as f64 / own as f64);
        let forced = self.rewritten_by_updates + self.rewritten_by_cold_writes + self.refreshed;
        let all = war(forced, updates + cold_writes);
        [war(self.rewritten_by_updates, updates), war(self.rewritten_by_cold_writes, cold_writes), all]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_finds_tracks_used_past_their_end_or_unwritten() {
        for limited in [false, true] {
            let tracks_used = || {
                let mut tracks_used = TrackUse::new(4, limited);
                tracks_used.write(1, 7);
                tracks_used.wear(1, 0, 7, true);
                tracks_used
            };
            let checked = |tracks_used: &TrackUse| {
                tracks_used.check(|track| [3, 7, 9, 9][track]).map_err(|fault| fault.to_string())
            };
            assert_eq!(checked(&tracks_used()), Ok(()));
            let mut long = tracks_used();
            long.write(0, 4);
            assert!(checked(&long).unwrap_err().contains("track 0 is in use to sector 4, past its end"));
            let mut unwritten = tracks_used();
            unwritten.write(2, 1);
            assert_eq!(checked(&unwritten).is_err_and(|error| error.contains("to sector 1, unwritten")), limited);
            let uncounted = TrackUse { in_use: 2, ..tracks_used() };
            assert!(checked(&uncounted).unwrap_err().contains("2 tracks are counted as in use"));
        }
    }

    #[test]
    fn tracks_are_in_use_to_the_highest_sector_that_is_owned() {
        let mut tracks_used = TrackUse::new(3, false);
        tracks_used.write(0, 5);
        tracks_used.write(0, 3);
        tracks_used.write(2, 1);
        assert_eq!(([0, 1, 2].map(|track| tracks_used.used(track)), tracks_used.in_use), ([5, 0, 1], 2));
        // What lies above stays, and what is not in use is given up at no cost.
        for (first, end, used, in_use) in
            [(1, 4, 5, 2), (5, 9, 5, 2), (4, 5, 4, 2), (2, 9, 2, 2), (0, 2, 0, 1), (0, 9, 0, 1)]
        {
            tracks_used.discard(0, first, end);
            assert_eq!((tracks_used.used(0), tracks_used.in_use), (used, in_use), "{first}..{end}");
        }
        tracks_used.fill(0..2, 8);
        assert_eq!(([0, 1, 2].map(|track| tracks_used.used(track)), tracks_used.in_use), ([8, 8, 1], 3));
    }

    #[test]
    fn a_track_wears_with_each_write_over_what_was_written() {
        let mut tracks_used = TrackUse::new(2, true);
        let worn = |tracks_used: &TrackUse, limit| [0, 4, 5].map(|first| tracks_used.worn(0, first, limit));
        tracks_used.wear(0, 0, 3, false);
        tracks_used.wear(0, 3, 5, false);
        assert_eq!((worn(&tracks_used, 1), worn(&tracks_used, 2)), ([true, true, false], [false; 3]));
        tracks_used.wear(0, 4, 5, false);
        assert_eq!((worn(&tracks_used, 2), worn(&tracks_used, 3)), ([true, true, false], [false; 3]));
        // Behind all that was written nothing wears; after a fresh write of what lies upstream counting begins anew.
        tracks_used.wear(0, 5, 6, false);
        assert_eq!((tracks_used.worn(0, 5, 2), tracks_used.worn(0, 5, 3)), (true, false));
        tracks_used.wear(0, 0, 6, true);
        assert_eq!((tracks_used.worn(0, 0, 1), tracks_used.worn(0, 0, 2)), (true, false));
        tracks_used.forget(0, 6);
        assert!(tracks_used.worn(0, 5, u32::MAX) && !tracks_used.worn(0, 6, 0) && !tracks_used.worn(1, 0, 0));
        assert!(!TrackUse::new(1, false).worn(0, 0, 0));
    }
}

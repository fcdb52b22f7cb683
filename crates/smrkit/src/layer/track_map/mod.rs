//! Static track maps: He & Du, "Novel Address Mappings for Shingled Write Disks", HotStorage 2014.
//!
//! Bands of N tracks with W − 1 guard tracks are updated in place. The order in which their tracks fill keeps neighbours empty for long. A
//! write has to rewrite the occupied tracks downstream: they are read before it, and written back after it. There is no map to keep and
//! nothing to clean; a power cut loses sectors that are being rewritten.
//!
//! Left out: the use of the random access zone, for metadata. It takes space and is never written.

mod layout;
mod rewrite;
mod scheme;

use std::sync::Arc;

use super::runs::Joined;
use crate::layer::prelude::*;
use crate::schema::Text;
pub(super) use layout::{TrackLayout, TrackPiece, width_of};
use rewrite::{Head, Rewrite, TrackCounts, TrackUse};
use scheme::Scheme;

pub(super) const SPEC: LayerSpec = LayerSpec::new::<TrackMapKeys>(
    "track-map",
    "Bands are updated in place; their tracks fill in an order that keeps neighbours of used tracks empty for long.",
    "He & Du 2014",
    &Form::ALL,
);

keys! {
    struct TrackMapKeys {
        /// Order in which the tracks of the bands fill: tracks outside R(…) band by band; each track inside R(…) in all
        /// bands before the next one.
        scheme: Scheme = Text::<Scheme>::new("an order of tracks, such as 1234, R(4123), 14R(23) or 10-3-R(1-2-…)"), "R(4123)";
        /// Share of the space that is offered to the host.
        fill_percent: f64 = percent(0.001, 100.0), "100";
        /// Number of tracks in the random access zone, of which one in W is used; auto is 1/101 of all tracks, as in
        /// the paper.
        random_tracks: Option<u64> = Or("auto", Count(0, 1 << 40)), "auto";
    }
}

impl LayerKeys for TrackMapKeys {
    fn settled(self, drive: &Drive) -> TrackMapKeys {
        let random_tracks = self.random_tracks(drive, width_of(drive));
        TrackMapKeys { random_tracks: Some(random_tracks), ..self }
    }

    fn build(&self, drive: &Drive) -> Result<Box<dyn Layer>, Error> {
        Ok(Box::new(TrackMap::new(drive, self)?))
    }
}

struct TrackMap {
    layout: Arc<TrackLayout>,
    head: Head,
    /// Tracks of a band.
    tracks: usize,
    capacity: Capacity,
    tracks_used: TrackUse,
    rewrite: Rewrite,
    /// The pieces of a request over several tracks.
    pieces: Vec<TrackPiece>,
    counts: TrackCounts,
    space_gain: f64,
    first_rewrite: Option<u64>,
}

state! {
    TrackMap {
        parts: tracks_used, counts;
        values: first_rewrite;
        built: layout, head, tracks, capacity, rewrite, pieces, space_gain;
    }
}

/// Of 10,100 tracks in the paper's example 100 are a random access zone: one of 101.
const RANDOM_SHARE: u64 = 101;

impl TrackMapKeys {
    /// Tracks of the random access zone: as asked for, or the paper's share, in whole multiples of `width`.
    fn random_tracks(&self, drive: &Drive, width: u64) -> u64 {
        self.random_tracks.unwrap_or(drive.geometry.tracks / RANDOM_SHARE / width * width)
    }
}

impl TrackMap {
    fn new(drive: &Drive, keys: &TrackMapKeys) -> Result<TrackMap, Error> {
        let width = width_of(drive);
        let mut layout = TrackLayout::new("track-map", drive, &keys.scheme, width, keys.random_tracks(drive, width))?;
        // The addend keeps rounding errors of the percentage from losing a sector.
        let offered = (layout.sectors as f64 * keys.fill_percent / 100.0 + 1e-6) as u64;
        let host_sectors = offered.clamp(1, layout.sectors);
        layout.offered = host_sectors;
        let spare_sectors = layout.sectors - host_sectors + layout.random_sectors;
        let capacity = Capacity::new(drive, host_sectors, 0, spare_sectors);
        let tracks = keys.scheme.tracks();
        let head = Head::new(&drive.interference, width, tracks);
        Ok(TrackMap {
            tracks_used: TrackUse::new(layout.bands * tracks as u64, head.limit.is_some()),
            space_gain: space_gain(tracks as u64, width),
            counts: TrackCounts::new(tracks),
            layout: Arc::new(layout),
            head,
            tracks,
            capacity,
            rewrite: Rewrite::default(),
            pieces: Vec::new(),
            first_rewrite: None,
        })
    }

    /// True if a write of this piece destroys nothing in use and needs no count of wear. `base` is the band's first track.
    fn is_free(&self, piece: &TrackPiece, base: usize) -> bool {
        let own = base + piece.track;
        let end = base + (piece.track + self.head.width).min(self.tracks);
        self.head.limit.is_none()
            && (own + 1..end).all(|track| self.tracks_used.used(track) == 0)
            && !(self.head.in_track && piece.first + piece.sectors < self.tracks_used.used(own))
    }

    /// Counts the host's writes to tracks of a band, which rewrote `forced` others.
    #[inline]
    fn count(&mut self, base: usize, pieces: &[TrackPiece], forced: u64) {
        let mut is_update = false;
        for piece in pieces {
            let over = piece.first < self.tracks_used.used(base + piece.track);
            is_update |= over;
            let list = if over { &mut self.counts.updates } else { &mut self.counts.cold_writes };
            list[piece.track] += 1;
        }
        match is_update {
            true => self.counts.rewritten_by_updates += forced,
            false => self.counts.rewritten_by_cold_writes += forced,
        }
    }

    /// Writes the pieces of one band. Pieces that destroy nothing may be held back in `run`, to be joined with others that touch them.
    fn write_band(&mut self, disk: &mut Disk, pieces: &[TrackPiece], data: &Buf, run: &mut Joined) -> DiskResult {
        let band = self.layout.band(&pieces[0]);
        self.rewrite.plan(disk, &self.head, &self.tracks_used, band, pieces, self.tracks);
        let (forced, refreshed) = self.rewrite.count_others(&self.head);
        self.count(band.base, pieces, forced);
        self.counts.refreshed += refreshed;
        if self.rewrite.rewrites_others() {
            self.first_rewrite.get_or_insert(disk.requests());
            self.counts.bands_rewritten += 1;
            // The write held back is upstream: made later, it would destroy sectors that are rewritten now.
            run.end_write(disk, data)?;
            self.rewrite.execute(disk, band, data)?;
        } else {
            for piece in pieces {
                let pba = band.start(disk.geometry(), piece.track) + piece.first;
                run.write(disk, (pba, piece.at, piece.sectors), data)?;
            }
        }
        self.rewrite.note_written(&self.head, &mut self.tracks_used, band);
        Ok(())
    }

    /// Writes a request over several tracks, band by band in the order of PBAs.
    fn write_pieces(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.clear();
        pieces.extend(self.layout.pieces(lba, n));
        pieces.sort_unstable_by_key(|piece| (piece.band, piece.track));
        let mut run = Joined::default();
        let bands = pieces.chunk_by(|a, b| a.band == b.band);
        let result = bands.into_iter().try_for_each(|pieces| self.write_band(disk, pieces, data, &mut run));
        self.pieces = pieces;
        result.and_then(|()| run.end_write(disk, data))
    }
}

/// Equation (1) of the paper: capacity gained by a head `width` tracks wide in bands of `tracks` tracks.
fn space_gain(tracks: u64, width: u64) -> f64 {
    let (n, w) = (tracks as f64, width as f64);
    w * n / (n + w - 1.0)
}

impl Placement for TrackLayout {
    fn within(&self, pba: Pba, n: u64, each: &mut dyn FnMut(u64, Lba)) {
        for i in 0..n {
            if let Some(lba) = self.lba(pba + i).filter(|lba| lba.0 < self.offered) {
                each(i, lba);
            }
        }
    }
}

impl Layer for TrackMap {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn read(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        let piece = self.layout.piece(lba, n);
        if piece.sectors == n {
            return disk.read(self.layout.pba(&piece), n, Cause::Host, out, 0);
        }
        let mut run = Joined::default();
        let mut read = |pba, at, n| disk.read(pba, n, Cause::Host, out, at);
        for piece in self.layout.pieces(lba, n) {
            run.add((self.layout.pba(&piece), piece.at, piece.sectors), &mut read)?;
        }
        run.end(read)
    }

    fn write(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        let piece = self.layout.piece(lba, n);
        if piece.sectors < n {
            return self.write_pieces(disk, lba, n, data);
        }
        let band = self.layout.band(&piece);
        if self.is_free(&piece, band.base) {
            self.count(band.base, &[piece], 0);
            self.tracks_used.write(band.base + piece.track, piece.first + n);
            let pba = band.start(disk.geometry(), piece.track) + piece.first;
            return disk.write(pba, n, Cause::Host, data, 0);
        }
        let mut run = Joined::default();
        self.write_band(disk, &[piece], data, &mut run)?;
        run.end_write(disk, data)
    }

    /// Drops sectors at the end of a track's used part only, because a track counts as in use up to its highest used sector.
    fn discard(&mut self, _disk: &mut Disk, lba: Lba, n: u64) -> DiskResult {
        for piece in self.layout.pieces(lba, n) {
            let track = self.layout.band(&piece).base + piece.track;
            self.tracks_used.discard(track, piece.first, piece.first + piece.sectors);
        }
        Ok(())
    }

    fn fill(&mut self) -> Arc<dyn Placement> {
        for (tracks, sectors) in self.layout.track_runs() {
            self.tracks_used.fill(tracks, sectors);
        }
        // Sectors that the layout has beyond the host's stay unused.
        let host = self.capacity.host_sectors;
        for piece in self.layout.pieces(Lba(host), self.layout.sectors - host) {
            let track = self.layout.band(&piece).base + piece.track;
            self.tracks_used.discard(track, piece.first, piece.first + piece.sectors);
        }
        Arc::clone(&self.layout) as Arc<dyn Placement>
    }

    fn rewrites_in_place(&self) -> bool {
        true
    }

    /// Forgets which tracks are in use: all that are offered to the host count as used.
    fn power_cut(&mut self) {
        for piece in self.layout.pieces(Lba(0), self.capacity.host_sectors) {
            let track = self.layout.band(&piece).base + piece.track;
            self.tracks_used.forget(track, piece.first + piece.sectors);
        }
    }

    layer_state!();

    fn locate(&self, lba: Lba) -> Pba {
        self.layout.pba(&self.layout.piece(lba, 1))
    }

    fn check(&self) -> DiskResult {
        let mut room = vec![0; self.layout.bands as usize * self.tracks];
        let mut end = Pba(0);
        for piece in self.layout.pieces(Lba(0), self.capacity.host_sectors) {
            let track = self.layout.band(&piece).base + piece.track;
            room[track] = piece.first + piece.sectors;
            end = end.max(self.layout.pba(&piece) + piece.sectors);
        }
        ensure!(end.0 <= self.capacity.raw_sectors, "an LBA lies at PBA {end}, past the disk's end");
        self.tracks_used.check(|track| room[track])
    }

    fn map_bytes(&self) -> u64 {
        self.tracks_used.bytes() + self.layout.bytes()
    }

    fn gauges(&self) -> Gauges {
        let tracks = self.layout.bands as f64 * self.tracks as f64;
        Gauges { cache_fill: None, others: vec![Gauge::share("share_in_use", self.tracks_used.in_use as f64 / tracks)] }
    }

    fn stats(&self) -> LayerStats {
        let counts = &self.counts;
        let rewritten = counts.rewritten_by_updates + counts.rewritten_by_cold_writes + counts.refreshed;
        let named = [("tracks_rewritten", rewritten), ("tracks_refreshed", counts.refreshed)];
        let stats = LayerStats::new(named, self.first_rewrite)
            .with("track_updates", Scalar::List(counts.updates.clone()))
            .with("track_cold_writes", Scalar::List(counts.cold_writes.clone()))
            .with("space_gain", Scalar::Float(self.space_gain));
        let wars = ["update_war_mean", "cold_war_mean", "war_mean"].into_iter().zip(counts.wars());
        wars.filter_map(|(key, war)| Some((key, war?)))
            .fold(stats, |stats, (key, war)| stats.with(key, Scalar::Float(war)))
    }

    fn bands_moved(&self) -> u64 {
        self.counts.bands_rewritten
    }

    fn reset_stats(&mut self) {
        (self.first_rewrite, self.counts) = (None, TrackCounts::new(self.tracks));
    }
}

#[cfg(test)]
mod tests {
    use super::space_gain;

    #[test]
    fn wide_heads_gain_as_equation_1_says() {
        assert_eq!([space_gain(4, 2), space_gain(4, 1), space_gain(1, 3)], [1.6, 1.0, 1.0]);
        assert!((space_gain(5, 3) - 15.0 / 7.0).abs() < 1e-12);
    }
}

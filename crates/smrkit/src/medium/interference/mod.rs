//! The shingling law: what a write destroys downstream (at higher PBAs), in the four forms that the papers use, and on interlaced tracks.
//!
//! - Blocks: Cassuto 2010, definition 2.
//! - Tracks: Vguard 2017, He & Du 2014.
//! - Distances: Caveat-Scriptor 2015. The only form with damage upstream (at lower PBAs), which depends on the order of writes; the medium
//!   that holds stamps keeps that order.
//! - Physical: Cassuto 2010, definition 1, from which the others are derived. A write at some angles damages the neighbouring tracks around
//!   those angles. Sector angles, skew included, come from the geometry, as they do for the clock.

use smallvec::SmallVec;

use crate::error::Error;
use crate::geometry::{Edge, Geometry, Guard, RecordingZone, Turn};
use crate::units::{Pba, Track};

/// The most sectors or tracks that interference spans: more than any drive has, so that sums don't overflow.
const REACH_MAX: u64 = 1 << 40;

/// Sectors that a write destroys. Within one command sectors are written in ascending order, so that sectors written later in it survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interference {
    /// A conventional disk: nothing.
    None,
    /// The `reach − 1` sectors that follow (Cassuto's block interference profile I_b, the written sector included).
    Blocks {
        /// I_b in sectors, at least 1.
        reach: u64,
    },
    /// The `width − 1` tracks that follow, up to the band's end.
    Tracks {
        /// The head's width W in tracks, at least 1.
        width: u64,
        /// Tracks from one band's start to the next, counted from each recording zone's first track; `None` if damage stops only at the
        /// disk's end.
        band: Option<u64>,
    },
    /// All `did` sectors downstream and, if the sectors had been written before, the `dpid` sectors upstream.
    Distances {
        /// Drive isolation distance in sectors.
        did: u64,
        /// Drive prefix isolation distance in sectors.
        dpid: u64,
        /// How many writes to one sector its upstream neighbours survive, counted since they were written themselves: 1 by the paper's rule.
        writes: u32,
    },
    /// Tracks and angles.
    Physical(Profile),
    /// Alternating top and bottom tracks in each recording zone, the first on top. A write to a bottom track destroys the sectors of the
    /// same numbers on both tracks beside it; one to a top track destroys nothing.
    Interlaced,
}

/// The names of the four forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// `Interference::Blocks`
    Blocks,
    /// `Interference::Tracks`
    Tracks,
    /// `Interference::Distances`
    Distances,
    /// `Interference::Physical`
    Physical,
}

impl Form {
    /// All four, from the simplest to the most physical.
    pub const ALL: [Form; 4] = [Form::Blocks, Form::Tracks, Form::Distances, Form::Physical];

    /// The name in options, tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Form::Blocks => "blocks",
            Form::Tracks => "tracks",
            Form::Distances => "distances",
            Form::Physical => "physical",
        }
    }
}

impl std::fmt::Display for Interference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Rounded to thousandths; a turn is 2^64.
        let degrees = |angle: u64| (angle as f64 / 2f64.powi(64) * 360e3).round() / 1e3;
        match self {
            Interference::None => write!(f, "none"),
            Interference::Interlaced => write!(f, "interlaced tracks"),
            Interference::Blocks { reach } => write!(f, "I_b {reach} sectors"),
            Interference::Tracks { width, band: None } => write!(f, "W {width} tracks"),
            Interference::Tracks { width, band: Some(band) } => write!(f, "W {width} tracks, bands of {band} tracks"),
            Interference::Distances { did, dpid, writes } => {
                write!(f, "DID {did} sectors, DPID {dpid} sectors, U {writes}")
            }
            Interference::Physical(p) => write!(
                f,
                "s_id {} tracks, s_od {} tracks, cw {}°, ccw {}°",
                p.inner_tracks,
                p.outer_tracks,
                degrees(p.cw),
                degrees(p.ccw)
            ),
        }
    }
}

impl Interference {
    /// Its form; `None` for a conventional disk, and for interlaced tracks, which are not shingled.
    pub fn form(&self) -> Option<Form> {
        match self {
            Interference::None | Interference::Interlaced => None,
            Interference::Blocks { .. } => Some(Form::Blocks),
            Interference::Tracks { .. } => Some(Form::Tracks),
            Interference::Distances { .. } => Some(Form::Distances),
            Interference::Physical(_) => Some(Form::Physical),
        }
    }

    /// Calls `hit` with every run of sectors that a write of `pba .. pba + n` destroys downstream, in ascending order. On interlaced tracks
    /// these include sectors upstream, and sectors that this write has written before.
    pub fn destroyed(&self, g: &Geometry, pba: Pba, n: u64, mut hit: impl FnMut(Pba, u64)) {
        if n == 0 {
            return;
        }
        if let Interference::Physical(profile) = self {
            return profile.destroyed(g, pba, n, &mut hit);
        }
        if *self == Interference::Interlaced {
            return destroyed_on_top(g, pba, n, &mut hit);
        }
        let (start, end) = self.downstream(g, pba, n);
        if start < end {
            hit(start, end - start);
        }
    }

    /// The end of the sectors that a write of `pba .. pba + n` may destroy, at most the disk's end; `pba + n` if it destroys none. An upper
    /// bound: under the physical form it may be the end of the track.
    pub fn downstream_end(&self, g: &Geometry, pba: Pba, n: u64) -> Pba {
        self.downstream(g, pba, n).1
    }

    /// The first sector at or after `pba + n` that the write may destroy. Under the tracks law a write inside one
    /// track spares the rest of that track, and one over several tracks does not spare the rest of the last.
    pub fn downstream_start(&self, g: &Geometry, pba: Pba, n: u64) -> Pba {
        self.downstream(g, pba, n).0
    }

    /// Both of [`downstream_start`](Self::downstream_start) and [`downstream_end`](Self::downstream_end).
    pub fn downstream(&self, g: &Geometry, pba: Pba, n: u64) -> (Pba, Pba) {
        let end = pba + n;
        let clip = |sectors: u64| Pba(end.0.saturating_add(sectors).min(g.sectors)).max(end);
        match *self {
            _ if n == 0 => (end, end),
            Interference::None => (end, end),
            Interference::Blocks { reach } => (end, clip(reach.saturating_sub(1))),
            Interference::Distances { did, .. } => (end, clip(did)),
            Interference::Tracks { width, band } => tracks_reached(g, pba, n, width, band),
            Interference::Interlaced => tracks_reached(g, pba, n, 2, None),
            Interference::Physical(profile) => tracks_reached(g, pba, n, profile.width(), None),
        }
    }

    /// How many sectors upstream of a sector may be damaged when it is written again (the DPID); 0 for other forms.
    pub fn upstream(&self) -> u64 {
        match *self {
            Interference::Distances { dpid, .. } => dpid,
            _ => 0,
        }
    }

    /// How many writes to one sector its upstream neighbours survive, counted since they were written (U).
    pub fn writes_survived(&self) -> u32 {
        match *self {
            Interference::Distances { writes, .. } => writes,
            _ => u32::MAX,
        }
    }

    /// The guard between two regions that keeps either from damaging the other. It is the same anywhere on the disk.
    pub fn guard(&self, _: &Geometry) -> Guard {
        match *self {
            Interference::None => Guard::Sectors(0),
            Interference::Blocks { reach } => Guard::Sectors(reach.saturating_sub(1)),
            Interference::Distances { did, dpid, .. } => Guard::Sectors(did.max(dpid)),
            Interference::Tracks { width, .. } => Guard::Tracks(width.saturating_sub(1)),
            Interference::Interlaced => Guard::Tracks(1),
            Interference::Physical(profile) => Guard::Tracks(profile.width() - 1),
        }
    }

    /// Checks that a geometry suits this law: wherever tracks endanger each other, PBAs must run the same way, or guard
    /// tracks must lie between. Errors name the recording zones and the remedy.
    pub fn check(&self, g: &Geometry) -> Result<(), Error> {
        let farthest = match *self {
            Interference::Blocks { reach } => reach,
            Interference::Tracks { width, band } => width.max(band.unwrap_or(0)),
            Interference::Distances { did, dpid, .. } => did.max(dpid),
            Interference::None | Interference::Physical(_) | Interference::Interlaced => 0,
        };
        if farthest > REACH_MAX {
            return Err(Error::Impossible(format!("interference over {farthest}: give {REACH_MAX} or less")));
        }
        match *self {
            Interference::Blocks { reach: 0 } => {
                Err(Error::Impossible("blocks = 0: a write reaches at least itself, give 1 or more".into()))
            }
            Interference::Tracks { width: 0, .. } => {
                Err(Error::Impossible("tracks = 0: a head is at least 1 track wide, give 1 or more".into()))
            }
            Interference::Tracks { band: Some(0), .. } => {
                Err(Error::Impossible("a band of 0 tracks: give at least 1".into()))
            }
            Interference::Distances { writes: 0, .. } => Err(Error::Impossible(
                "writes = 0: a sector survives at least 1 write to a neighbour, give 1 or more".into(),
            )),
            Interference::Tracks { width, band } => check_edges(g, width, band),
            Interference::Physical(profile) => check_edges(g, profile.width(), None),
            _ => Ok(()),
        }
    }
}

/// True if a track is a bottom track of interlaced ones.
pub fn is_bottom(g: &Geometry, track: Track) -> bool {
    (track - g.zone_of_track(track).first_track) % 2 == 1
}

/// [`Interference::destroyed`] on interlaced tracks: a write to a bottom track destroys the same sectors of both top tracks beside it.
fn destroyed_on_top(g: &Geometry, pba: Pba, n: u64, hit: &mut impl FnMut(Pba, u64)) {
    let end = pba + n;
    let (first, last) = g.tracks_of(pba, n);
    for bottom in (first.0..=last.0).map(Track).filter(|&track| is_bottom(g, track)) {
        let own = g.track_start(bottom);
        let (from, to) = (pba.max(own) - own, end.min(own + g.track_sectors(bottom)).max(own) - own);
        let zone = g.zone_of_track(bottom);
        // The zone's first track is a top one, so each bottom track has one before it.
        for top in [bottom - 1, bottom + 1].into_iter().filter(|&top| zone.holds(top)) {
            let (start, sectors) = (g.track_start(top), g.track_sectors(top));
            // Sectors that the command writes later survive.
            let first = if top > bottom { (start + from).max(end) } else { start + from };
            let stop = start + to.min(sectors);
            if first < stop {
                hit(first, stop - first);
            }
        }
    }
}

/// The end of the band of `track`, where damage stops; none without bands.
fn band_end(g: &Geometry, track: Track, band: Option<u64>) -> u64 {
    let Some(band) = band.filter(|&b| b > 0) else { return u64::MAX };
    let zone = g.zone_of_track(track);
    let k = track - zone.first_track;
    zone.first_track.0 + (k - k % band).saturating_add(band).min(zone.tracks)
}

/// `downstream` for laws that count tracks.
fn tracks_reached(g: &Geometry, pba: Pba, n: u64, width: u64, band: Option<u64>) -> (Pba, Pba) {
    let end = pba + n;
    let (first, last) = g.tracks_of(pba, n);
    // Writing the track before the last damages all of the last, of which the rest is not written again.
    let damages_last_track = first < last && band_end(g, last - 1, band) > last.0;
    let start = if damages_last_track { end } else { g.track_start_near(end - 1, last + 1) };
    // A head of one track damages nothing.
    if width <= 1 {
        return (start, end);
    }
    let stop = last.0.saturating_add(width).min(band_end(g, last, band));
    (start, g.track_start_near(end - 1, Track(stop)).max(end))
}

#[cfg(test)]
mod tests;

/// The physical interference profile: the quadruple of definition 1. In a recording zone that shingles in the other direction, the head
/// counts as mirrored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// s_id: tracks affected toward the inner edge, the written one included.
    pub inner_tracks: u64,
    /// s_od: tracks affected toward the outer edge, the written one included.
    pub outer_tracks: u64,
    /// Reach of damage on neighbours beyond the last angle written.
    pub cw: Turn,
    /// Reach of damage on neighbours before the first angle written.
    pub ccw: Turn,
}

/// Raw sectors damaged on one track, as (first, end); narrow heads need no heap.
type DamagedRuns = SmallVec<[(u64, u64); 4]>;

/// Wider heads than this are refused as a mistake.
pub const WIDTH_MAX: u64 = 1024;

impl Profile {
    /// A profile. Errors: no track affected, both edges affected (no such disk can use all its tracks, even with
    /// restrictions: definition 1, note 1), or a width beyond reason.
    pub fn new(inner_tracks: u64, outer_tracks: u64, cw: Turn, ccw: Turn) -> Result<Profile, Error> {
        if inner_tracks == 0 || outer_tracks == 0 {
            return Err(Error::Impossible(
                "inner_tracks and outer_tracks count the written track itself: give at least 1 each".into(),
            ));
        }
        if inner_tracks > 1 && outer_tracks > 1 {
            return Err(Error::Impossible(format!(
                "inner_tracks = {inner_tracks} and outer_tracks = {outer_tracks}: a head that damages both sides \
                 leaves no order of writing that keeps all tracks; set one of them to 1"
            )));
        }
        if inner_tracks.max(outer_tracks) > WIDTH_MAX {
            return Err(Error::Impossible(format!(
                "a head {} tracks wide: give at most {WIDTH_MAX}",
                inner_tracks.max(outer_tracks)
            )));
        }
        Ok(Profile { inner_tracks, outer_tracks, cw, ccw })
    }

    /// Tracks affected in the direction of shingling, the written one included.
    pub fn width(&self) -> u64 {
        self.inner_tracks.max(self.outer_tracks)
    }

    /// The direction in which this head shingles.
    pub fn toward(&self) -> Edge {
        if self.outer_tracks > 1 { Edge::Outer } else { Edge::Inner }
    }

    /// See `Interference::destroyed`. The command itself rewrites its tracks, except for the last. So only sectors at or beyond its end can
    /// be lost, and only the last `width − 1` written tracks reach that far.
    pub(super) fn destroyed(&self, g: &Geometry, pba: Pba, n: u64, hit: &mut impl FnMut(Pba, u64)) {
        let end = pba + n;
        let (first, last) = (g.track_of(pba), g.track_of(end - 1));
        let width = self.width();
        let mut runs = DamagedRuns::new();
        for track in last.0..last.0.saturating_add(width).min(g.tracks) {
            runs.clear();
            let first_writer = track.saturating_sub(width - 1).max(first.0);
            for writer in first_writer..track.min(last.0 + 1) {
                self.damage(g, (pba, end), Track(writer), Track(track), &mut runs);
            }
            for (start, stop) in joined(&mut runs) {
                let (start, stop) = (g.usable(start).max(end), g.usable(stop));
                if start < stop {
                    hit(start, stop - start);
                }
            }
        }
    }

    /// Adds the raw sectors of `track` that are damaged by the part of `extent` on `writer`, a track before it.
    fn damage(&self, g: &Geometry, extent: (Pba, Pba), writer: Track, track: Track, runs: &mut DamagedRuns) {
        let from = g.zone_of_track(writer);
        let to = if from.holds(track) { from } else { g.zone_of_track(track) };
        if !neighbours(g, from, to, writer, track, self.width()) {
            return;
        }
        let base = to.raw_start(track);
        let all = (base, base + to.track_sectors);
        let origin = from.raw_start(writer);
        // From the first to the last usable sector: defects at either end of a track are not written.
        let own = g.track_start(writer);
        let (first, end) = (extent.0.max(own), extent.1.min(own + g.track_sectors(writer)));
        if first >= end {
            return;
        }
        let start = g.raw(first) - origin;
        let stop = g.raw(end - 1) + 1 - origin;
        let written = u128::from(stop - start) * u128::from(from.sector_turn());
        let arc = written + u128::from(self.cw) + u128::from(self.ccw);
        if stop - start == from.track_sectors || arc >= 1 << 64 {
            runs.push(all);
            return;
        }
        // `low` is the first damaged angle, counted from the start of the damaged track. Sectors that the arc only touches are lost, too.
        let low = from.angle(writer - from.first_track, start).wrapping_sub(self.ccw);
        let low = low.wrapping_sub(to.angle(track - to.first_track, 0));
        let first = low / to.sector_turn();
        let last = (u128::from(low) + arc) / u128::from(to.sector_turn());
        let length = to.track_sectors;
        let (first, last) = (first.min(length - 1), last as u64);
        if last < length {
            runs.push((base + first, base + last + 1));
        } else if last - length >= first {
            runs.push(all);
        } else {
            runs.push((base, base + last - length + 1));
            runs.push((base + first, all.1));
        }
    }
}

/// True if `track` is in reach of a head on `writer`: on the same surface, fewer than `width` cylinders downstream.
fn neighbours(g: &Geometry, from: &RecordingZone, to: &RecordingZone, writer: Track, track: Track, width: u64) -> bool {
    // Within a zone, `track` is downstream, and the caller asks only about writers fewer than `width` tracks before it.
    if from.first_track == to.first_track {
        return true;
    }
    let (a, b) = (from.cylinder(writer - from.first_track), to.cylinder(track - to.first_track));
    let downstream = match from.toward {
        Edge::Inner => b > a && b - a < width,
        Edge::Outer => b < a && a - b < width,
    };
    debug_assert!(track.0 < g.tracks);
    from.surface() == to.surface() && downstream
}

/// Sorts runs and joins those that touch.
fn joined(runs: &mut DamagedRuns) -> impl Iterator<Item = (u64, u64)> + '_ {
    runs.sort_unstable();
    runs.dedup_by(|next, kept| {
        let touches = next.0 <= kept.1;
        if touches {
            kept.1 = kept.1.max(next.1);
        }
        touches
    });
    runs.iter().copied()
}

/// Checks that a zone endangered by the last tracks of another on the same surface comes next in the order of PBAs, and shingles the same
/// way; else `width − 1` guard tracks must lie between.
pub(super) fn check_edges(g: &Geometry, width: u64, band: Option<u64>) -> Result<(), Error> {
    let zones = &g.zones;
    if width <= 1 {
        return Ok(());
    }
    // Damage that stops at the end of a band stays within a run of whole bands.
    let leaves_run = |run: &u64| band.is_none_or(|band| !run.is_multiple_of(band));
    if let Some(run) = zones.iter().filter_map(|zone| zone.run_tracks()).find(leaves_run) {
        return Err(Error::Impossible(format!(
            "runs of {run} tracks on one surface after another, and a write damages tracks next to it that PBAs do not reach \
             next: give band_tracks that divide {run}, or order = \"surfaces\""
        )));
    }
    if band.is_some() {
        return Ok(());
    }
    // Zones of one chain follow each other in the order of PBAs and in the direction of shingling, so that writing them in order damages no
    // live data.
    let (mut chains, mut chain) = (Vec::with_capacity(zones.len()), 0);
    for zone in zones.iter() {
        chains.push(chain);
        chain += usize::from(!zone.continues);
    }
    let mut by_place: Vec<usize> = (0..zones.len()).collect();
    by_place.sort_unstable_by_key(|&number| (zones[number].surface(), zones[number].cylinders()));
    for (place, &writer) in by_place.iter().enumerate() {
        let edge = zones[writer].cylinder(zones[writer].tracks - 1);
        let is_reached = |&other: &usize| {
            let (outer, inner) = zones[other].cylinders();
            let apart = if outer > edge { outer - edge } else { edge.saturating_sub(inner) };
            zones[other].surface() == zones[writer].surface() && apart < width
        };
        let is_endangered = |&other: &usize| other < writer || chains[other] != chains[writer];
        let endangered = match zones[writer].toward {
            Edge::Inner => by_place[place + 1..].iter().copied().take_while(is_reached).find(is_endangered),
            Edge::Outer => by_place[..place].iter().rev().copied().take_while(is_reached).find(is_endangered),
        };
        if let Some(endangered) = endangered {
            return Err(Error::Impossible(format!(
                "a write at the end of recording zone {writer} damages zone {endangered}, which PBAs do not reach next: leave {} \
                 guard tracks between them (guard_tracks), or list the zones in the direction of shingling",
                width - 1
            )));
        }
    }
    Ok(())
}

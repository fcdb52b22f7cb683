//! SMaRT: He & Du, "SMaRT: An Approach to Shingled Magnetic Recording Translation", FAST 2017, and its forerunner T-STL, of which the
//! rules below are in the abstracts.
//!
//! A map assigns logical tracks to physical tracks of their recording zone. A track followed by free tracks is updated in place. Any other
//! moves: its remaining data is read, and the whole track is written to the next track of the pool, a run of free tracks. The old track is
//! free at once, and can be written again as soon as the tracks after it are free too. While fewer than 1 in W tracks are in use, W − 1
//! tracks after each stay free, so that every update is in place.
//!
//! Free tracks in short runs can't be written. When the pool runs out, and in idle time, they are gathered: the tracks between two runs of
//! free tracks (an element) move to the start of the first run, which joins the runs, or to the pool if the first run is too short. So cold
//! data moves to lower tracks, and hot data stays among free tracks.
//!
//! The abstracts do not say which element is moved (see [`Area::best`]), that the map survives a power cut, and that each recording zone has
//! its own table and pool: all three are assumptions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::interface::{DelayKeys, check_tables};
use super::runs::{Joined, read_unwritten};
use super::track_map::width_of;
use crate::extent_map::{MappedPiece, joined};
use crate::geometry::{Divisor, Geometry};
use crate::layer::prelude::*;
use crate::medium::interference::Interference;

pub(super) const SPEC: LayerSpec = LayerSpec::new::<SmartKeys>(
    "smart",
    "Tracks can be anywhere in their zone: updated in place if nothing follows, otherwise moved; free tracks are gathered.",
    "He & Du 2017 (SMaRT)",
    &[Form::Blocks, Form::Tracks, Form::Physical],
)
.putting_rewriting_off();

keys! {
    struct SmartKeys {
        /// Share of the tracks that is not offered to the host.
        spare_percent: f64 = percent(0.1, 95.0), "7";
        /// Whether free tracks are gathered in idle time, until half of them form one run.
        idle_clean: bool = Switch, "on";
        /// When.
        delay: DelayKeys;
    }
}

impl LayerKeys for SmartKeys {
    fn build(&self, drive: &Drive) -> Result<Box<dyn Layer>, Error> {
        Ok(Box::new(Smart::new(drive, self)?))
    }
}

const NONE: u32 = u32::MAX;
/// The most tracks that are moved together, limited by a drive's memory (assumption).
const TRACKS_AT_ONCE: u32 = 16;
/// Elements that are compared before one is moved (assumption).
const WINDOW: usize = 64;
/// Memory for a track, logical or physical.
const BYTES_A_TRACK: u64 = 12;

struct Smart {
    layout: Arc<Layout>,
    areas: Vec<Area>,
    /// True if a write destroys sectors of its own track, as under laws that count sectors.
    in_track: bool,
    idle_delay: Option<Nanos>,
    counts: SmartCounts,
}

counts! { SmartCounts { updates_in_place, tracks_moved, tracks_gathered, elements_moved } }

state! {
    Smart {
        parts: areas;
        values: counts;
        built: layout, in_track, idle_delay;
    }
}

/// Tracks of one recording zone.
struct AreaShape {
    /// The raw sector at which the first track begins, and the raw sectors of a track.
    origin: u64,
    stride: u64,
    /// Sectors of each track that are used: as many as the shortest track has.
    used: Divisor,
    /// Physical and logical tracks.
    tracks: u32,
    logical: u32,
    first_lba: u64,
    end_lba: u64,
}

/// The recording zones, and the use of the drive.
struct Layout {
    geometry: Geometry,
    shapes: Vec<AreaShape>,
    /// How many tracks downstream a write damages.
    reach: u32,
    capacity: Capacity,
}

/// A part of a request on one logical track.
#[derive(Clone, Copy)]
struct Piece {
    area: usize,
    logical: u32,
    /// The first sector, counted from the track's start.
    first: u64,
    sectors: u64,
    /// The first sector, counted from the request's start.
    at: u64,
}

impl Layout {
    fn new(drive: &Drive, keys: &SmartKeys) -> Result<Layout, Error> {
        let g = &drive.geometry;
        if drive.interference.upstream() > 0 {
            return Err(Error::Impossible(
                "smart writes tracks again whose neighbours before them stay: take a drive whose law has no DPID"
                    .into(),
            ));
        }
        let reach = width_of(drive) - 1;
        let mut shapes: Vec<AreaShape> = Vec::new();
        let mut host_sectors = 0;
        let mut spare_sectors = 0;
        for zone in g.zones.iter() {
            // A zone must not damage the next one, so its last tracks are a guard; the disk's last zone needs none.
            let last = zone.first_track.0 + zone.tracks == g.tracks;
            let tracks = zone.tracks.saturating_sub(if last { 0 } else { reach });
            let used = zone.track_sectors - g.most_defects_on_a_track(zone);
            // A pool has to be longer than the tracks that the host leaves in it (`Area::keep`), at least 2 · reach.
            let spare_min = 2 * reach + 2;
            let spare = ((tracks as f64 * keys.spare_percent / 100.0).ceil() as u64).max(spare_min);
            if used == 0 || tracks <= spare {
                continue;
            }
            let first_lba = host_sectors;
            host_sectors += (tracks - spare) * used;
            spare_sectors += spare * used;
            shapes.push(AreaShape {
                origin: Geometry::raw_of_zone(zone).start,
                stride: zone.track_sectors,
                used: Divisor::new(used),
                tracks: tracks as u32,
                logical: (tracks - spare) as u32,
                first_lba,
                end_lba: host_sectors,
            });
        }
        if shapes.is_empty() {
            return Err(Error::Impossible(format!(
                "no recording zone has more tracks than smart keeps free ({} at least): lower smart.spare_percent or take a larger \
                 drive",
                2 * reach + 2
            )));
        }
        check_tables(&format!("{} tracks", g.tracks), g.tracks * BYTES_A_TRACK, "")?;
        let capacity = Capacity::new(drive, host_sectors, 0, spare_sectors);
        Ok(Layout { geometry: g.clone(), shapes, reach: reach as u32, capacity })
    }

    /// The part of `n` sectors from `lba` on that is on the logical track of the first.
    #[inline]
    fn piece(&self, lba: Lba, n: u64) -> Piece {
        let area = self.shapes.partition_point(|shape| shape.end_lba <= lba.0);
        let shape = &self.shapes[area];
        let (logical, first) = shape.used.divide(lba.0 - shape.first_lba);
        Piece { area, logical: logical as u32, first, sectors: n.min(shape.used.value - first), at: 0 }
    }

    fn pieces(&self, lba: Lba, n: u64) -> impl Iterator<Item = Piece> + use<'_> {
        let mut at = 0;
        std::iter::from_fn(move || {
            (at < n).then(|| {
                let piece = Piece { at, ..self.piece(lba + at, n - at) };
                at += piece.sectors;
                piece
            })
        })
    }

    /// The first sector of a physical track.
    #[inline]
    fn start(&self, area: usize, track: u32) -> Pba {
        let shape = &self.shapes[area];
        self.geometry.usable(shape.origin + u64::from(track) * shape.stride)
    }
}

/// The tracks of one recording zone: the place of each logical track, and the runs of free ones.
#[derive(Default)]
struct Area {
    reach: u32,
    tracks: u32,
    logical: u32,
    /// Sectors of a track.
    sectors: u32,
    /// True if it began full. The tables are built only with the first write, so that filling takes no longer on a large drive.
    began_full: bool,
    /// Tracks that the host leaves in the pool, so that an element of `keep − 2 · reach` tracks can still be moved there.
    keep: u32,
    /// By logical track: its physical track, and the end of its written part.
    place: Vec<u32>,
    written: Vec<u32>,
    /// By physical track: its logical track, or `NONE`.
    owner: Vec<u32>,
    /// Runs of free tracks: the first track, and how many. `pools` has the first track of those that are long enough for a pool.
    runs: BTreeMap<u32, u32>,
    pools: BTreeSet<u32>,
    /// The next track to be written.
    pool: u32,
    /// Track at which the search for the next element to move begins.
    hand: u32,
    /// Number of physical tracks that hold a logical track.
    in_use: u32,
}

/// A move of an element that gathers free tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Move {
    from: u32,
    tracks: u32,
    to: u32,
    is_to_pool: bool,
    /// How many more tracks can be written afterwards.
    gain: u32,
}

impl Area {
    fn new(shape: &AreaShape, reach: u32) -> Area {
        let spare = shape.tracks - shape.logical;
        // Without a reach any free track can be written, so none are needed for moves. Otherwise the host may use at least three quarters of
        // the spare tracks beyond the fewest that a pool needs.
        let for_moves = if reach > 0 { TRACKS_AT_ONCE.min((spare - 2 * reach - 1) / 4) } else { 0 };
        Area {
            reach,
            tracks: shape.tracks,
            logical: shape.logical,
            sectors: shape.used.value as u32,
            keep: 2 * reach + for_moves,
            ..Area::default()
        }
    }

    /// Builds the tables, if there are none yet.
    fn build_tables(&mut self) {
        if self.has_tables() {
            return;
        }
        self.place = vec![NONE; self.logical as usize];
        self.written = vec![0; self.logical as usize];
        self.owner = vec![NONE; self.tracks as usize];
        if self.began_full {
            self.written.fill(self.sectors);
            let tracks = (0..).step_by(self.step_of_full());
            for ((logical, place), track) in (0..).zip(&mut self.place).zip(tracks) {
                (*place, self.owner[track]) = (track as u32, logical);
            }
        }
        let mut at = 0;
        // Taken meanwhile, because `insert_run` changes the area.
        let owners = std::mem::take(&mut self.owner);
        for same in owners.chunk_by(|a, b| (*a == NONE) == (*b == NONE)) {
            if same[0] == NONE {
                self.insert_run(at, same.len() as u32);
            }
            at += same.len() as u32;
        }
        self.owner = owners;
    }

    fn has_tables(&self) -> bool {
        !self.place.is_empty()
    }

    /// Makes every logical track full; `build_tables` builds the tables later.
    fn fill(&mut self) {
        (self.began_full, self.in_use) = (true, self.logical);
        self.pool = self.logical * self.step_of_full() as u32;
    }

    /// The physical track of a logical track, and the end of its written part; `None` if it has no place.
    fn track_of(&self, logical: u32) -> Option<(u32, u64)> {
        let (track, written) = match self.has_tables() {
            true => (self.place[logical as usize], self.written[logical as usize]),
            false if self.began_full => (logical * self.step_of_full() as u32, self.sectors),
            false => (NONE, 0),
        };
        (track != NONE).then_some((track, written.into()))
    }

    fn free_tracks(&self) -> u32 {
        self.tracks - self.in_use
    }

    /// From one used track to the next when a disk is filled: W tracks if that leaves a pool, else one.
    fn step_of_full(&self) -> usize {
        let (logical, width) = (u64::from(self.logical), u64::from(1 + self.reach));
        if logical * width + u64::from(2 * self.reach) < u64::from(self.tracks) { width as usize } else { 1 }
    }

    /// Adds a run of free tracks.
    fn insert_run(&mut self, first: u32, tracks: u32) {
        if tracks > 0 {
            self.runs.insert(first, tracks);
            if tracks > self.keep {
                self.pools.insert(first);
            }
        }
    }

    fn remove_run(&mut self, first: u32) -> u32 {
        self.pools.remove(&first);
        self.runs.remove(&first).expect("a run begins here")
    }

    /// The run that a free track is in: its first track and its end.
    fn run_of(&self, track: u32) -> Option<(u32, u32)> {
        let (&first, &tracks) = self.runs.range(..=track).next_back()?;
        (track < first + tracks).then_some((first, first + tracks))
    }

    /// Assigns a free physical track to a logical track.
    fn take(&mut self, track: u32, logical: u32) {
        let (first, end) = self.run_of(track).expect("only free tracks are taken");
        self.remove_run(first);
        self.insert_run(first, track - first);
        self.insert_run(track + 1, end - track - 1);
        (self.owner[track as usize], self.place[logical as usize]) = (logical, track);
        self.in_use += 1;
    }

    /// Frees a track whose logical track has another place, or none.
    fn release(&mut self, track: u32) {
        let (mut first, mut end) = (track, track + 1);
        if let Some((before, _)) = track.checked_sub(1).and_then(|before| self.run_of(before)) {
            self.remove_run(before);
            first = before;
        }
        if self.runs.contains_key(&end) {
            end += self.remove_run(end);
        }
        self.insert_run(first, end - first);
        self.owner[track as usize] = NONE;
        self.in_use -= 1;
    }

    /// True if a write of this track damages only free tracks.
    fn is_followed_by_free(&self, track: u32) -> bool {
        let end = (track + 1 + self.reach).min(self.tracks);
        self.owner[(track + 1) as usize..end as usize].iter().all(|&owner| owner == NONE)
    }

    /// Tracks left in the pool.
    fn available(&self) -> u32 {
        let end = if self.has_tables() { self.run_of(self.pool).map(|(_, end)| end) } else { Some(self.tracks) };
        end.map_or(0, |end| end - self.pool)
    }

    /// The next track of the pool; `None` if free tracks have to be gathered first.
    fn allocate(&mut self) -> Option<u32> {
        // A pool that is used up is followed by the next run of free tracks that is long enough, or else by the first.
        if self.available() <= self.keep {
            let later = self.pools.range(self.pool..).next();
            self.pool = *later.or(self.pools.first())?;
        }
        let track = self.pool;
        // With fewer than 1 in W tracks in use, a gap after each keeps all updates in place, as long as the pool has room for gaps.
        let width = 1 + self.reach;
        let is_sparse = u64::from(self.in_use) * u64::from(width) < u64::from(self.tracks);
        let leaves_gap = is_sparse && self.available() > self.keep + self.reach;
        self.pool = track + if leaves_gap { width } else { 1 };
        Some(track)
    }

    /// How many tracks of a run can be written. The rest is the guard of the tracks that follow.
    fn usable(&self, first: u32, tracks: u32) -> u32 {
        if first + tracks == self.tracks { tracks } else { tracks.saturating_sub(self.reach) }
    }

    /// How to move the element between two free runs, each (first track, tracks), if that gains usable tracks. If the first run is long
    /// enough, the element moves to its start, and the rest of the run joins the second one. Otherwise an element of up to `spared` tracks
    /// moves to the pool, so that both runs and its old tracks become one run.
    fn gathering(&self, (first, tracks): (u32, u32), (next, more): (u32, u32), spared: u32) -> Option<Move> {
        // The element begins at track `from`, and has `element` tracks.
        let (from, element) = (first + tracks, next - first - tracks);
        let before = self.usable(first, tracks) + self.usable(next, more);
        if tracks > self.reach {
            let gain = self.usable(first + element, tracks + more) - before;
            return (gain > 0).then_some(Move { from, tracks: element, to: first, is_to_pool: false, gain });
        }
        let is_pool = (first..first + tracks).contains(&self.pool) || (next..next + more).contains(&self.pool);
        if is_pool || element > spared {
            return None;
        }
        let joined = self.usable(first, tracks + element + more);
        // The element takes as many tracks of the pool as it frees.
        let needed = before + element;
        (joined > needed).then(|| Move {
            from,
            tracks: element,
            to: self.pool,
            is_to_pool: true,
            gain: joined - needed,
        })
    }

    /// The move with the largest gain for each moved track, among the next [`WINDOW`] elements, or more if none of these gains. Elements of up
    /// to `spared` tracks may move to the pool.
    fn best(&mut self, spared: u32) -> Option<Move> {
        // From `hand` to the last run, then from the first run to the one at `hand`.
        let first_at_hand = self.runs.range(self.hand..).next().map_or(NONE, |(&first, _)| first);
        let (mut best, mut seen) = (None::<Move>, 0);
        for range in [self.hand..=NONE, 0..=first_at_hand] {
            let mut runs = self.runs.range(range).map(|(&first, &tracks)| (first, tracks));
            let Some(mut run) = runs.next() else { continue };
            for next in runs {
                // Gains for each moved track are compared without a division.
                let product = |gain: u32, tracks: u32| u64::from(gain) * u64::from(tracks);
                if let Some(found) = self.gathering(run, next, spared)
                    && best.is_none_or(|best| product(found.gain, best.tracks) > product(best.gain, found.tracks))
                {
                    best = Some(found);
                }
                run = next;
                seen += 1;
                if seen >= WINDOW && best.is_some() {
                    self.hand = run.0;
                    return best;
                }
            }
        }
        self.hand = 0;
        best
    }

    /// If no move gains, one that prepares a gain: some tracks after the first short run move to the pool, to make this run longer than the
    /// reach.
    fn enlarging(&self) -> Option<Move> {
        let pool_run = self.run_of(self.pool).map(|(first, _)| first);
        // All tracks of a run at the zone's end can be written, however short it is.
        let is_unusable = |first: u32, tracks: u32| tracks <= self.reach && first + tracks < self.tracks;
        let (&first, &tracks) =
            self.runs.iter().find(|&(&first, &tracks)| Some(first) != pool_run && is_unusable(first, tracks))?;
        let from = first + tracks;
        let end = self.runs.range(from..).next().map_or(self.tracks, |(&next, _)| next);
        let count = (self.reach + 1 - tracks).min(end - from);
        // The last tracks of the pool are the guard of those that follow.
        (self.available() >= count + self.reach).then_some(Move {
            from,
            tracks: count,
            to: self.pool,
            is_to_pool: true,
            gain: 0,
        })
    }

    fn check(&self) -> DiskResult {
        if !self.has_tables() {
            return Ok(());
        }
        for (logical, &track) in self.place.iter().enumerate() {
            let is_owner = track == NONE || self.owner.get(track as usize) == Some(&(logical as u32));
            ensure!(is_owner, "logical track {logical} is not the owner of its track {track}");
            ensure!(self.written[logical] <= self.sectors, "logical track {logical} is written past its end");
        }
        let used = |tracks: &[u32]| tracks.iter().filter(|&&other| other != NONE).count();
        let (mapped, counted) = (used(&self.place), self.in_use);
        let is_counted = mapped == counted as usize && used(&self.owner) == mapped;
        ensure!(is_counted, "{counted} tracks are counted as in use, and {mapped} are");
        let mut end = None;
        for (&first, &tracks) in &self.runs {
            let is_apart = end.is_none_or(|end| end < first);
            let is_free = used(&self.owner[first as usize..(first + tracks) as usize]) == 0;
            ensure!(is_apart && is_free, "the run of free tracks from {first} on is wrong");
            end = Some(first + tracks);
        }
        let (in_runs, free) = (self.runs.values().sum::<u32>(), self.free_tracks());
        ensure!(in_runs == free, "{in_runs} tracks lie in runs, and {free} are free");
        Ok(())
    }
}

state! {
    Area {
        values: began_full, place, written, owner, runs, pools, pool, hand, in_use;
        built: reach, tracks, logical, sectors, keep;
    }
}

impl Smart {
    fn new(drive: &Drive, keys: &SmartKeys) -> Result<Smart, Error> {
        let layout = Layout::new(drive, keys)?;
        Ok(Smart {
            areas: layout.shapes.iter().map(|shape| Area::new(shape, layout.reach)).collect(),
            layout: Arc::new(layout),
            in_track: matches!(drive.interference, Interference::Blocks { .. }),
            idle_delay: keys.delay.when(keys.idle_clean),
            counts: SmartCounts::default(),
        })
    }

    fn track_of(&self, piece: &Piece) -> Option<(u32, u64)> {
        self.areas[piece.area].track_of(piece.logical)
    }

    /// The written part of a piece, then the unwritten part.
    fn mapped(&self, lba: Lba, piece: Piece) -> impl Iterator<Item = MappedPiece> + use<> {
        let (written, start) = match self.track_of(&piece) {
            Some((track, written)) => (written, self.layout.start(piece.area, track) + piece.first),
            None => (0, Pba(0)),
        };
        let known = written.saturating_sub(piece.first).min(piece.sectors);
        let first = lba + piece.at;
        let parts = [
            MappedPiece { lba: first, sectors: known, pba: Some(start) },
            MappedPiece { lba: first + known, sectors: piece.sectors - known, pba: None },
        ];
        parts.into_iter().filter(|part| part.sectors > 0)
    }

    /// Moves adjacent tracks to free ones: reads all, then writes all. Tracks that the write damages must be free, too.
    fn relocate(&mut self, disk: &mut Disk, zone: usize, from: u32, to: u32, tracks: u32) -> DiskResult {
        let layout = Arc::clone(&self.layout);
        let area = &mut self.areas[zone];
        let logicals: Vec<u32> = area.owner[from as usize..(from + tracks) as usize].to_vec();
        let written: Vec<u64> = logicals.iter().map(|&logical| area.written[logical as usize].into()).collect();
        let mut buf = disk.buf(written.iter().sum());
        for (first, writes) in [(from, false), (to, true)] {
            let (mut run, mut done) = (Joined::default(), 0);
            let mut access = |pba, at, n| match writes {
                true => disk.write(pba, n, Cause::Clean, &buf, at),
                false => disk.read(pba, n, Cause::Clean, &mut buf, at),
            };
            for (track, &written) in (first..).zip(&written) {
                if written > 0 {
                    run.add((layout.start(zone, track), done, written), &mut access)?;
                    done += written;
                }
            }
            run.end(access)?;
        }
        // Mapped only now, because a torn write leaves the data at the old places.
        for (moved, logical) in (0..).zip(logicals) {
            area.take(to + moved, logical);
            area.release(from + moved);
        }
        self.counts.tracks_gathered += u64::from(tracks);
        Ok(())
    }

    /// Moves one element, which joins the free tracks on both sides of it. If it moves to the pool, at least `kept` tracks stay there.
    /// Returns `false` if no move is possible.
    fn gather(&mut self, disk: &mut Disk, zone: usize, kept: u32) -> DiskResult<bool> {
        let area = &mut self.areas[zone];
        let spared = area.available().saturating_sub(kept);
        let Some(Move { from, tracks, to, is_to_pool, .. }) = area.best(spared).or_else(|| area.enlarging()) else {
            return Ok(false);
        };
        // To the pool in one step. Otherwise in steps that leave `reach` free tracks before those not yet moved, which a write would damage.
        let at_once = if is_to_pool { tracks } else { (from - to - area.reach).min(TRACKS_AT_ONCE) };
        let mut done = 0;
        while done < tracks {
            let count = at_once.min(tracks - done);
            self.relocate(disk, zone, from + done, to + done, count)?;
            done += count;
            if is_to_pool {
                self.areas[zone].pool += count;
            }
        }
        let area = &mut self.areas[zone];
        let (first, end) = area.run_of(from + tracks - 1).expect("the element's last track was freed");
        // If the joined run is longer than the rest of the pool, it is the pool from now on.
        if end - first > area.available() {
            area.pool = first;
        }
        self.counts.elements_moved += 1;
        Ok(true)
    }

    /// Takes the next track of the pool, gathering free tracks until there is one.
    fn allocate(&mut self, disk: &mut Disk, zone: usize) -> DiskResult<u32> {
        loop {
            if let Some(track) = self.areas[zone].allocate() {
                return Ok(track);
            }
            self.counts.first_cleaning_request.get_or_insert(disk.requests());
            // Of the `keep` tracks that the host left in the pool, a move may take all but these.
            let kept = 2 * self.layout.reach;
            if !self.gather(disk, zone, kept)? {
                let free = self.areas[zone].free_tracks();
                return inconsistent(format!("zone {zone}: no pool can be made of {free} free tracks"));
            }
        }
    }

    /// Writes a part of a logical track in place if that destroys nothing, else moves the whole track. A write in place may be held back in
    /// `run`, to be joined with others that touch it.
    fn write_piece(&mut self, disk: &mut Disk, piece: &Piece, data: &Buf, run: &mut Joined) -> DiskResult {
        let end = piece.first + piece.sectors;
        let logical = piece.logical as usize;
        let track = match self.track_of(piece) {
            Some((track, written)) => {
                let keeps_own_data = !self.in_track || piece.first >= written;
                let keeps_next_tracks = self.areas[piece.area].is_followed_by_free(track);
                if !(keeps_own_data && keeps_next_tracks) {
                    run.end_write(disk, data)?;
                    return self.move_track(disk, piece, data, written.max(end));
                }
                self.counts.updates_in_place += 1;
                track
            }
            None => {
                if self.areas[piece.area].available() <= self.areas[piece.area].keep {
                    // `allocate` may gather, and so move a track of which a write is held back in `run`.
                    run.end_write(disk, data)?;
                }
                let track = self.allocate(disk, piece.area)?;
                // Mapped before it is written, because the logical track has no older data that a torn write could lose.
                self.areas[piece.area].take(track, piece.logical);
                track
            }
        };
        let written = &mut self.areas[piece.area].written[logical];
        *written = (*written).max(end as u32);
        let pba = self.layout.start(piece.area, track) + piece.first;
        run.write(disk, (pba, piece.at, piece.sectors), data)
    }

    /// Writes a logical track up to `end`, with the piece of a request in it, to a track of the pool.
    fn move_track(&mut self, disk: &mut Disk, piece: &Piece, data: &Buf, end: u64) -> DiskResult {
        let to = self.allocate(disk, piece.area)?;
        // Looked up after `allocate`, which may have moved the track by gathering.
        let Some((from, written)) = self.track_of(piece) else { unreachable!("it has a place") };
        let [source, target] = [from, to].map(|track| self.layout.start(piece.area, track));
        if piece.sectors == end {
            disk.write(target, end, Cause::Host, data, piece.at)?;
        } else {
            let mut buf = disk.buf(end);
            disk.read(source, written, Cause::Clean, &mut buf, 0)?;
            buf.put(piece.first, data, piece.at, piece.sectors);
            disk.write(target, end, Cause::Clean, &buf, 0)?;
        }
        // Mapped only now, because a torn write leaves the data at the old place.
        let area = &mut self.areas[piece.area];
        area.release(from);
        area.take(to, piece.logical);
        area.written[piece.logical as usize] = end as u32;
        self.counts.tracks_moved += 1;
        Ok(())
    }
}

impl Layer for Smart {
    fn capacity(&self) -> Capacity {
        self.layout.capacity
    }

    fn read(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        joined(self.layout.pieces(lba, n).flat_map(|piece| self.mapped(lba, piece)), |piece| match piece.pba {
            Some(pba) => disk.read(pba, piece.sectors, Cause::Host, out, piece.lba - lba),
            None => read_unwritten(disk, piece.lba, piece.sectors, out, piece.lba - lba),
        })
    }

    fn write(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        let layout = Arc::clone(&self.layout);
        let mut run = Joined::default();
        for piece in layout.pieces(lba, n) {
            self.areas[piece.area].build_tables();
            self.write_piece(disk, &piece, data, &mut run)?;
        }
        run.end_write(disk, data)
    }

    /// Shortens the written part of a track if its end is discarded, and frees tracks that have no data left.
    fn discard(&mut self, _disk: &mut Disk, lba: Lba, n: u64) -> DiskResult {
        let layout = Arc::clone(&self.layout);
        for piece in layout.pieces(lba, n) {
            let Some((track, written)) = self.track_of(&piece) else { continue };
            if piece.first + piece.sectors < written || piece.first >= written {
                continue;
            }
            let (area, logical) = (&mut self.areas[piece.area], piece.logical as usize);
            area.build_tables();
            area.written[logical] = piece.first as u32;
            if piece.first == 0 {
                area.place[logical] = NONE;
                area.release(track);
            }
        }
        Ok(())
    }

    fn step(&mut self, disk: &mut Disk, need: Need) -> DiskResult<bool> {
        if need == Need::Must {
            return Ok(false);
        }
        for zone in 0..self.areas.len() {
            let area = &self.areas[zone];
            let is_scattered = area.runs.len() > 1 && area.available() < area.free_tracks() / 2;
            // Keeps one track more than the host must leave, so that the next write need not gather.
            if is_scattered && self.gather(disk, zone, self.areas[zone].keep + 1)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn idle_delay(&self) -> Option<Nanos> {
        self.idle_delay
    }

    fn fill(&mut self) -> Arc<dyn Placement> {
        self.areas.iter_mut().for_each(Area::fill);
        let layout = Arc::clone(&self.layout);
        let steps: Vec<u32> = self.areas.iter().map(|area| area.step_of_full() as u32).collect();
        Arc::new(Ascending::new(self.layout.capacity.host_sectors, move |lba| {
            let piece = layout.piece(lba, 1);
            layout.start(piece.area, piece.logical * steps[piece.area]) + piece.first
        }))
    }

    fn keeps_acknowledged(&self) -> bool {
        true
    }

    layer_state!();

    fn locate(&self, lba: Lba) -> Pba {
        let piece = self.layout.piece(lba, 1);
        match self.track_of(&piece) {
            Some((track, written)) if piece.first < written => self.layout.start(piece.area, track) + piece.first,
            // Where `read_unwritten` reads.
            _ => Pba(lba.0),
        }
    }

    fn is_mapped(&self, lba: Lba) -> bool {
        let piece = self.layout.piece(lba, 1);
        self.track_of(&piece).is_some_and(|(_, written)| piece.first < written)
    }

    fn check(&self) -> DiskResult {
        self.areas.iter().try_for_each(Area::check)
    }

    fn map_bytes(&self) -> u64 {
        let tables = |area: &Area| area.place.len() + area.written.len() + area.owner.len();
        self.areas.iter().map(|area| 4 * tables(area) as u64).sum()
    }

    fn gauges(&self) -> Gauges {
        let sum = |count: fn(&Area) -> u32| self.areas.iter().map(|area| u64::from(count(area))).sum::<u64>() as f64;
        let (tracks, free) = (sum(|area| area.tracks), sum(Area::free_tracks));
        let others = vec![
            Gauge::share("share_in_use", 1.0 - free / tracks),
            Gauge::share("pool_share", if free > 0.0 { sum(Area::available) / free } else { 0.0 }),
        ];
        Gauges { cache_fill: None, others }
    }

    layer_counts!();

    fn bands_moved(&self) -> u64 {
        self.counts.elements_moved
    }
}

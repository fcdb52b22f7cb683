//! The mechanical clock: seek, settle, head switch, rotational latency, transfer, and command overhead.
//!
//! The platter's angle depends only on the time, a sector's angle only on its place; rotational latency is their difference. Nothing is
//! rounded up, so that nothing drifts (`docs/reference/model.md`). Left out: thermal and retry effects.

use super::seek::{SeekCurve, SeekPoints};
use super::{Position, scaled};
use crate::error::Error;
use crate::geometry::{Divisor, Geometry, RecordingZone, SectorPlace, Turn};
use crate::state::state;
use crate::units::{Nanos, Pba};

/// Values that a mechanical clock is made from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mechanics {
    /// Rotations a minute.
    pub rpm: f64,
    /// Points of the seek curve.
    pub seek: SeekPoints,
    /// Switching to another head, or to the next track within a transfer, in ms.
    pub switch_ms: f64,
    /// Time that a write waits longer than a read after a seek, in ms.
    pub write_settle_ms: f64,
    /// Command overhead before the media is used, in ms.
    pub overhead_ms: f64,
}

/// The clock and its head.
#[derive(Clone, Debug)]
pub struct Mechanical {
    rotation: Divisor,
    /// How far the platter turns in a nanosecond: 2⁶⁴ / rotation.
    turn_per_ns: Turn,
    seek: SeekCurve,
    overhead: u64,
    switch: u64,
    write_settle: u64,
    skew: Turn,
    /// Whole rotations lost at each step to the next track of a transfer, if the skew is too short for the switch.
    lost: u128,
    cylinder: u32,
    surface: u32,
}

state! {
    Mechanical {
        values: cylinder, surface;
        built: rotation, turn_per_ns, seek, overhead, switch, write_settle, skew, lost;
    }
}

/// Lateness that counts as rounding: times are whole nanoseconds, angles are not.
const SLACK_NS: u64 = 2;

impl Mechanics {
    /// One rotation in whole nanoseconds. Errors: not between 1 and 10⁶ rotations a minute.
    pub fn rotation_ns(&self) -> Result<u64, Error> {
        if !(1.0..=1e6).contains(&self.rpm) {
            return Err(Error::Impossible(format!("mechanical.rpm = {}: give 1 to 1000000", self.rpm)));
        }
        Ok((60e9 / self.rpm).round() as u64)
    }

    /// The smallest skew, in ms, that hides every switch to the next track.
    pub fn least_skew_ms(&self) -> f64 {
        let one_track = self.seek.shortest_ms() + self.write_settle_ms;
        self.switch_ms.max(one_track)
    }

    /// The angle of `skew_ms`, or the smallest skew that hides a switch; rounded up so that it does.
    pub fn skew(&self, skew_ms: Option<f64>) -> Result<Turn, Error> {
        let rotation = self.rotation_ns()?;
        let ns = match skew_ms {
            Some(ms) => nanos("mechanical.skew_ms", ms)?,
            None => nanos("the longest of mechanical.switch_ms and the one-track seek", self.least_skew_ms())?,
        };
        Ok((((u128::from(ns % rotation)) << 64).div_ceil(u128::from(rotation))) as u64)
    }
}

impl Mechanical {
    /// A clock for a geometry, its head over cylinder 0. Errors: values that make no sense.
    pub(crate) fn new(g: &Geometry, m: &Mechanics) -> Result<Mechanical, Error> {
        let rotation = m.rotation_ns()?;
        let turn_per_ns = ((1u128 << 64) / u128::from(rotation)) as u64;
        let switch = nanos("mechanical.switch_ms", m.switch_ms)?;
        // The skew is rounded up to an angle, and its time down again: without slack, a skew that just hides the switch would lose a rotation.
        let hidden = angle_ns(g.skew, rotation) + SLACK_NS;
        Ok(Mechanical {
            rotation: Divisor::new(rotation),
            turn_per_ns,
            seek: SeekCurve::new(m.seek.clone(), g.cylinders)?,
            overhead: nanos("mechanical.overhead_ms", m.overhead_ms)?,
            switch,
            write_settle: nanos("mechanical.write_settle_ms", m.write_settle_ms)?,
            skew: g.skew,
            lost: u128::from(switch.saturating_sub(hidden).div_ceil(rotation)),
            cylinder: 0,
            surface: 0,
        })
    }

    /// Serves an access issued at `now`, moves the head, and returns when it ends.
    #[inline(always)]
    pub fn access(&mut self, g: &Geometry, now: Nanos, write: bool, pba: Pba, sectors: u64) -> Nanos {
        self.access_without_overhead(g, now + Nanos(self.overhead), write, pba, sectors)
    }

    /// Accesses without command overhead, as when the media works on its own.
    #[inline(always)]
    pub fn access_without_overhead(
        &mut self,
        g: &Geometry,
        ready: Nanos,
        write: bool,
        pba: Pba,
        sectors: u64,
    ) -> Nanos {
        if sectors == 0 {
            return ready;
        }
        let raw = g.raw(pba);
        // Defects within the extent pass under the head, too.
        let count = if g.slipped() == 0 { sectors } else { g.raw(pba + (sectors - 1)) + 1 - raw };
        let zone = &g.zones[g.zone_index(raw)];
        let (k, sector) = Geometry::in_zone(zone, raw);
        if sector + count > zone.track_sectors {
            return Nanos(self.transfer_long(g, ready.0, write, raw, count));
        }
        let begin = self.move_to(ready.0, write, zone, k, sector);
        Nanos(begin + angle_ns(count.wrapping_mul(zone.sector_turn()), self.rotation.value))
    }

    /// The time from `now` until a read at a position would begin: overhead, seek and rotational latency.
    #[inline]
    pub fn estimate_at(&self, position: &Position, now: Nanos) -> Nanos {
        let arrive = now.0 + self.overhead + self.seek_ns(position.cylinder, position.surface);
        Nanos(arrive + self.wait(arrive, position.angle) - now.0)
    }

    /// The time from `now` until a write at a position would begin, without command overhead.
    #[inline]
    pub fn write_estimate(&self, position: &Position, now: Nanos) -> Nanos {
        let seek = self.seek_ns(position.cylinder, position.surface);
        let arrive = now.0 + seek + if seek > 0 { self.write_settle } else { 0 };
        Nanos(arrive + self.wait(arrive, position.angle) - now.0)
    }

    /// The time until the head is ready to write on the track of a place, without rotational latency.
    pub fn write_seek(&self, g: &Geometry, pba: Pba) -> Nanos {
        let place = g.place(pba);
        let seek = self.seek_ns(place.cylinder, place.surface);
        Nanos(seek + if seek > 0 { self.write_settle } else { 0 })
    }

    /// The cylinder that the head is over.
    #[inline]
    pub fn cylinder(&self) -> u32 {
        self.cylinder
    }

    /// The time to read sectors of one track in whatever order they pass under the head: one rotation at most, once the head is there.
    /// `None` if they lie on several tracks.
    pub fn in_any_order(&self, g: &Geometry, now: Nanos, pba: Pba, sectors: u64) -> Option<Nanos> {
        let (first, last) = (g.place(pba), g.place(pba + (sectors - 1)));
        if first.track != last.track {
            return None;
        }
        let arrive = now.0 + self.overhead + self.seek_ns(first.cylinder, first.surface);
        let step = g.zones[first.zone as usize].sector_turn();
        let passes = angle_ns(u64::from(last.sector + 1 - first.sector).wrapping_mul(step), self.rotation.value);
        let in_order = self.wait(arrive, first.angle) + passes;
        Some(Nanos(arrive + in_order.min(self.rotation.value) - now.0))
    }

    /// How many sectors of its track pass under the head before a sector, if the head starts to move there at `ready`.
    pub fn passing_before(&self, g: &Geometry, ready: Nanos, pba: Pba) -> u64 {
        let place = g.place(pba);
        let arrive = ready.0 + self.seek_ns(place.cylinder, place.surface);
        let passing = scaled(self.wait(arrive, place.angle), place.track_sectors.into(), self.rotation.value);
        passing.min(pba - g.track_start(place.track))
    }

    /// One rotation.
    pub fn rotation(&self) -> Nanos {
        Nanos(self.rotation.value)
    }

    /// Command overhead.
    pub fn overhead(&self) -> Nanos {
        Nanos(self.overhead)
    }

    /// The seek curve.
    pub fn curve(&self) -> &SeekCurve {
        &self.seek
    }

    /// The mean seek between two random sectors, computed from `SAMPLES` equal steps over the disk.
    pub fn mean_seek(&self, g: &Geometry) -> Nanos {
        const SAMPLES: u64 = 512;
        let step = g.sectors.div_ceil(SAMPLES).max(1);
        let cylinders: Vec<u32> =
            (step / 2..g.sectors).step_by(step as usize).map(|p| g.place(Pba(p)).cylinder).collect();
        let sum: u64 = cylinders.iter().flat_map(|a| cylinders.iter().map(|b| self.seek.ns(a.abs_diff(*b)))).sum();
        Nanos(sum / (cylinders.len() as u64).pow(2).max(1))
    }

    /// Roughly the time that `sectors` from `pba` on take to pass under the head, at the rate of that recording zone.
    pub fn streaming(&self, g: &Geometry, pba: Pba, sectors: u64) -> Nanos {
        let zone = g.zone_of(pba);
        let a_track = match zone.run_tracks() {
            // On one surface every step is the same switch; over several, steps differ.
            None => self.turns(1, 0),
            Some(_) => self.rotation.value + angle_ns(zone.mean_skew, self.rotation.value),
        };
        Nanos(scaled(sectors, a_track, zone.track_sectors))
    }

    /// Moves the head over a place, as at the end of a read-ahead.
    pub fn leave_at(&mut self, place: &SectorPlace) {
        (self.cylinder, self.surface) = (place.cylinder, place.surface);
    }

    /// Seeks to a track and waits for a sector; returns when the sector begins.
    #[inline(always)]
    fn move_to(&mut self, ready: u64, write: bool, zone: &RecordingZone, k: u64, sector: u64) -> u64 {
        let (cylinder, surface) = zone.spot(k);
        let seek = self.seek_ns(cylinder as u32, surface);
        (self.cylinder, self.surface) = (cylinder as u32, surface);
        let settle = if write && seek > 0 { self.write_settle } else { 0 };
        let arrive = ready + seek + settle;
        arrive + self.wait(arrive, zone.angle(k, sector))
    }

    /// A transfer over several tracks, zone by zone.
    #[inline(never)]
    fn transfer_long(&mut self, g: &Geometry, ready: u64, write: bool, raw: u64, count: u64) -> u64 {
        let (mut at, mut time, end) = (raw, ready, raw.saturating_add(count));
        for zone in &g.zones[g.zone_index(raw)..] {
            if at >= end {
                break;
            }
            let stop = end.min(Geometry::raw_of_zone(zone).end);
            let (k, sector) = Geometry::in_zone(zone, at);
            let (last_k, last) = Geometry::in_zone(zone, stop - 1);
            if zone.run_tracks().is_some() {
                time = self.transfer_by_track(g, time, write, zone, (k, sector), (last_k, last));
                at = stop;
                continue;
            }
            time = self.move_to(time, write, zone, k, sector);
            let step = u128::from(zone.sector_turn());
            // Whole turns for the steps from track to track, then the angle from the first sector's start to the last one's end, which is
            // negative if the transfer ends at an earlier angle than it begins.
            let (start, end_angle) = (u128::from(sector) * step, u128::from(last + 1) * step);
            let tracks = last_k - k;
            time += if end_angle >= start {
                self.turns(tracks, end_angle - start)
            } else {
                // One more, because the angle that is taken off is rounded down.
                self.turns(tracks, 0) - angle_ns((start - end_angle) as u64, self.rotation.value) - 1
            };
            self.cylinder = zone.cylinder(last_k) as u32;
            at = stop;
        }
        time
    }

    /// A transfer inside a recording zone that lies on all surfaces: each step to the next track is a move of its own, and tracks that hold
    /// only spares are skipped.
    fn transfer_by_track(
        &mut self,
        g: &Geometry,
        mut time: u64,
        write: bool,
        zone: &RecordingZone,
        (first_k, first_sector): (u64, u64),
        (last_k, last_sector): (u64, u64),
    ) -> u64 {
        for k in first_k..=last_k {
            if g.slipped() > 0 && g.track_sectors(zone.first_track + k) == 0 {
                continue;
            }
            let first = if k == first_k { first_sector } else { 0 };
            let end = if k == last_k { last_sector + 1 } else { zone.track_sectors };
            time = self.move_to(time, write, zone, k, first);
            time += match end - first == zone.track_sectors {
                // A whole turn is 0 as an angle.
                true => self.rotation.value,
                false => angle_ns((end - first).wrapping_mul(zone.sector_turn()), self.rotation.value),
            };
        }
        time
    }

    /// The time of `tracks` whole tracks with a switch after each, plus the angle `more`.
    fn turns(&self, tracks: u64, more: u128) -> u64 {
        // In units of 2^-64 rotations, as angles are.
        let each = (1 << 64) + (self.lost << 64) + u128::from(self.skew);
        let total = u128::from(tracks).saturating_mul(each).saturating_add(more);
        let whole = ((total >> 64) as u64).saturating_mul(self.rotation.value);
        whole.saturating_add(angle_ns(total as u64, self.rotation.value))
    }

    #[inline]
    fn seek_ns(&self, cylinder: u32, surface: u32) -> u64 {
        let seek = self.seek.ns(cylinder.abs_diff(self.cylinder));
        if surface == self.surface { seek } else { seek.max(self.switch) }
    }

    /// The time from `moment` until an angle passes under the head.
    #[inline]
    fn wait(&self, moment: u64, target: Turn) -> u64 {
        let angle = self.rotation.remainder(moment) * self.turn_per_ns;
        // A head that is late by rounding only does not wait for another rotation: adding the slack wraps such an angle around to almost 0,
        // and subtracting it saturates there.
        let slack = SLACK_NS * self.turn_per_ns;
        let ahead = target.wrapping_sub(angle).wrapping_add(slack).saturating_sub(slack);
        angle_ns(ahead, self.rotation.value)
    }
}

/// Time of an angle in a rotation, rounded down.
#[inline]
fn angle_ns(angle: Turn, rotation: u64) -> u64 {
    ((u128::from(angle) * u128::from(rotation)) >> 64) as u64
}

/// A time from a drive file; more than an hour is refused as a mistake.
pub(super) fn nanos(key: &str, ms: f64) -> Result<u64, Error> {
    if !(0.0..=3.6e6).contains(&ms) {
        return Err(Error::Impossible(format!("{key} = {ms}: give milliseconds from 0 to 3600000")));
    }
    Ok((ms * 1e6).round() as u64)
}

#[cfg(test)]
mod tests;

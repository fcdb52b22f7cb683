//! The drive file of a fit: measured values with their ranges, and assumptions for values that no load of a host can show.

use smrkit::units::SECTOR_BYTES;

use super::fit::{
    BAND, BETWEEN_COPIES, BYPASS, CACHE, CAPACITY, COPY, ENTRY, Fit, Fitted, GAP, INNER, Kind, MOST_IN_ENTRY, OUTER,
    RPM, SEEK, SHARED, UNTIL_FALL, surfaces,
};
use super::{KIB, MIB};

/// Recording zones of the drive file (assumption).
const ZONES: usize = 16;
/// Time to switch to the next track (assumption).
const SWITCH_S: f64 = 0.5e-3;

/// Interference of a shingled disk, which is assumed.
const INTERFERENCE: &str = "\
[interference]
inner_tracks = { value = 2, source = \"assumption: as the disk of Vguard 2017\" }
outer_tracks = { value = 1, source = \"assumption: as the disk of Vguard 2017\" }

";

/// Values that the job does not measure.
const ELECTRONICS: &str = "\
switch_ms = { value = 0.5, source = \"assumption\" }
overhead_ms = { value = 0.1, source = \"assumption\" }
write_cache_bytes = { low = 8000000, value = 64000000, high = 256000000, source = \"assumption\" }
read_ahead_bytes = { value = 4_194_304, source = \"assumption\" }
queued_commands = { value = 32, source = \"SATA NCQ: assumption\" }
queue_age_ms = { value = 1500, source = \"assumption: as hc620\" }
bus_bytes_per_s = { value = 600000000, source = \"SATA at 6 Gb/s: assumption\" }
";

/// Rounds a number to three digits.
fn short(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// Lines of a table of TOML: a key, its value with a range, and the source.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, key: &str, Fitted { low, value, high }: Fitted, unit: &str, source: &str) {
        let [low, value, high] = [low, value, high].map(|number| match unit {
            "" => short(number).to_string(),
            unit => format!("\"{}{unit}\"", short(number)),
        });
        self.0 += &match low == high {
            true => format!("{key} = {{ value = {value}, source = \"{source}\" }}\n"),
            false => format!("{key} = {{ low = {low}, value = {value}, high = {high}, source = \"{source}\" }}\n"),
        }
    }

    fn exact(&mut self, key: &str, value: f64, unit: &str, source: &str) {
        self.add(key, Fitted::within(value, 0.0), unit, source);
    }
}

/// The seek curve with all times multiplied by `factor`, as a list of TOML.
fn curve(factor: f64) -> String {
    let points = SEEK.map(|(share, ms)| format!("[{share:?}, {:?}]", short(ms * factor)));
    format!("[{}]", points.join(", "))
}

impl Fit {
    /// Returns the text of a drive file called `name`; `None` if the kind is unknown.
    pub fn drive_file(&self, name: &str) -> Option<String> {
        let (layer, is_shingled) = match self.kind {
            Kind::PersistentCache => ("drive-managed", true),
            Kind::DynamicMapping => ("log", true),
            Kind::Conventional => ("in-place", false),
            Kind::Unknown => return None,
        };
        let (what, capacity, rpm) = (self.kind.in_words(), self.value(CAPACITY) * 1e9, self.value(RPM));
        let surfaces = surfaces(capacity);
        let [outer, inner] = [OUTER, INNER].map(|name| self.value(name) * 1e6);
        // Sectors of a track: the rate falls evenly to the inner one, which was measured from 95 % of the disk on.
        let track = |zone: usize| {
            let rate = outer + (inner - outer) / 0.95 * zone as f64 / (ZONES - 1) as f64;
            (rate * (60.0 / rpm + SWITCH_S) / SECTOR_BYTES as f64).round().max(1.0)
        };
        let all: f64 = (0..ZONES).map(track).sum();
        // A shingled disk has 6 % more than its capacity, for caches and for guards of bands of 20 tracks (assumption).
        let raw = capacity * if is_shingled { 1.06 } else { 1.0 };
        let tracks = (raw / SECTOR_BYTES as f64 / surfaces / all).ceil();
        let zone = |zone| format!("  {{ tracks = {tracks}, track_sectors = {}, guard_tracks = 1 }},\n", track(zone));
        let zones: String = (0..ZONES).map(zone).collect();
        let seek = self.seek();
        let [low, middle, high] = [seek.low, seek.value, seek.high].map(curve);
        let mut lines = Lines::default();
        match self.kind {
            Kind::PersistentCache => {
                self.persistent_cache(&mut lines, track(0) * SECTOR_BYTES as f64, tracks * ZONES as f64 * surfaces)
            }
            Kind::DynamicMapping => self.dynamic_mapping(&mut lines, capacity),
            Kind::Conventional | Kind::Unknown => {}
        }
        Some(format!(
            "\
# Written by smrkit drives fit.
name = \"{name}\"
summary = \"A measured disk of {:.2} TB: {what}\"

[geometry]
surfaces = {{ value = {surfaces}, source = \"assumption: 0.67 TB each\" }}

[geometry.zones]
source = \"measured at both edges; equal steps: assumption; as many tracks as the size takes: derived\"
value = [
{zones}]

{}[mechanical]
rpm = {{ value = {rpm:.0}, source = \"measured: the spread of reads near each other\" }}
seek = {{ low = {low}, value = {middle}, high = {high}, source = \"measured: what random reads take longer than near ones; its shape: assumption\" }}
{ELECTRONICS}
[translation]
layer = {{ value = \"{layer}\", source = \"measured: {what}\" }}
{}",
            capacity / 1e12,
            if is_shingled { INTERFERENCE } else { "" },
            lines.0
        ))
    }

    /// Adds the lines of a persistent cache. `outer_track`: bytes of an outermost track; `tracks`: all tracks of the disk.
    fn persistent_cache(&self, lines: &mut Lines, outer_track: f64, tracks: f64) {
        self.entries(lines);
        lines.exact("append_bytes", 512.0, "", "assumption: the transfer counts from the first sector on");
        if let Some(most) = self.get(MOST_IN_ENTRY) {
            lines.add("entry_bytes", most.scaled(MIB as f64 / KIB as f64), "Ki", "measured: longer durable chunks");
        }
        if let Some(copy) = self.get(COPY) {
            let every = self.value(BETWEEN_COPIES);
            lines.exact("map_every_writes", every, "", "measured: pauses among durable chunks");
            lines.add("map_time", copy.scaled(1e3), "ms", "measured: how long they are");
        }
        let (shared, until_fall) = (self.value(SHARED), self.get(UNTIL_FALL));
        // Percent of the disk's tracks that a byte of cache takes, if the cache is on outermost tracks.
        let cache_percent = 100.0 / outer_track / tracks;
        if let Some(cache) = self.get(CACHE) {
            let gap = (self.value(GAP) * MIB as f64 / KIB as f64).round();
            lines.exact("gap_bytes", gap, "Ki", "measured: falls of durable chunks of 1 and 16 MiB");
            // The measured room plus the part that cleaning keeps free.
            let bytes = cache.value * 1e9 + (128 * MIB) as f64;
            let percent = Fitted::within(bytes * cache_percent, 0.05);
            lines.add("cache_percent", percent, "", "measured: falls of durable chunks");
            let by_room = self.small_writes_by_room().unwrap_or(f64::INFINITY);
            // Only a fall well before the room ends shows a limit of entries, because the room's own error is 5 %.
            if let Some(until) = until_fall.filter(|until| until.value < 0.93 * by_room) {
                let source = "measured: small random writes fall before the cache is full";
                lines.add("beta", until.scaled(1.0 / shared).whole(), "", source);
                lines.add("alpha", until.whole(), "", source);
            }
        } else if let Some(until) = until_fall {
            let percent = until.value / shared * MIB as f64 * cache_percent;
            let range = Fitted { low: percent / 16.0, value: percent, high: percent * 2.0 };
            lines.add("cache_percent", range, "", "assumption: 1 MiB an entry; their number is measured");
        }
        if let Some(band) = self.get(BAND) {
            // The mean track is three quarters of the outermost (assumption).
            let tracks = band.scaled(1e6 / (outer_track * 0.75)).whole();
            let source = "measured: the time of cleaning a band, of which half is rewritten on average";
            lines.add("band_tracks", tracks, "", source);
        }
        if let Some(stream) = self.get(BYPASS) {
            lines.add("bypass_bytes", stream, "Mi", "measured: runs that are as fast as a stream");
        }
    }

    fn dynamic_mapping(&self, lines: &mut Lines, capacity: f64) {
        self.entries(lines);
        match self.get(UNTIL_FALL) {
            Some(until) => {
                let percent = until.scaled(100.0 * 4.0 * KIB as f64 / capacity);
                lines.add("spare_percent", percent, "", "measured: random writes until the fall");
            }
            None => {
                let range = Fitted { low: 0.2, value: 0.5, high: 2.0 };
                lines.add("spare_percent", range, "", "assumption: no fall was seen");
            }
        }
        lines.0 += "spare_outer = { value = \"on\", source = \"assumption: as wd40efax\" }\n\
                    idle_clean = { value = \"on\", source = \"FAST 2017, Evolving Ext4 for Shingled Disks\" }\n";
    }

    /// Adds the lines that both kinds of log have.
    fn entries(&self, lines: &mut Lines) {
        if let Some(entry) = self.get(ENTRY) {
            lines.add("append_time", entry, "ms", "measured: durable writes, less their transfer");
        }
        let source = "measured: small writes that wait together, compared with durable ones";
        lines.exact("shared_writes", self.value(SHARED), "", source);
    }
}

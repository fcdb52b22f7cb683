//! The drive file of a fit: measured values with their ranges, and assumptions for what no load of a host can show.

use smrkit::units::SECTOR_BYTES;

use super::fit::{Fit, Fitted, Kind, Measured, SEEK, surfaces};
use super::{KIB, MIB};

/// Recording zones between the two edges.
const ZONES: usize = 16;
/// Time to go to the next track.
const SWITCH_S: f64 = 0.5e-3;
/// A number to three digits.
fn short(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// A line of a table: a key, its value with a range, and the source.
fn ranged(key: &str, Fitted { low, value, high }: Fitted, unit: &str, source: &str) -> String {
    let [low, value, high] = [low, value, high].map(|number| match unit {
        "" => short(number).to_string(),
        unit => format!("\"{}{unit}\"", short(number)),
    });
    match low == high {
        true => format!("{key} = {{ value = {value}, source = \"{source}\" }}\n"),
        false => format!("{key} = {{ low = {low}, value = {value}, high = {high}, source = \"{source}\" }}\n"),
    }
}

fn plain(key: &str, value: f64, unit: &str, source: &str) -> String {
    ranged(key, Fitted::within(value, 0.0), unit, source)
}

/// The seek curve at a multiple, as a list of TOML.
fn curve(times: f64) -> String {
    let points = SEEK.map(|(share, ms)| format!("[{share:?}, {:?}]", short(ms * times)));
    format!("[{}]", points.join(", "))
}

impl Fit {
    /// The text of a drive file of this name; `None` where the kind is not known.
    pub fn drive_file(&self, name: &str) -> Option<String> {
        self.drive.as_ref().map(|drive| drive.file(name))
    }
}

impl Measured {
    fn file(&self, name: &str) -> String {
        let Measured { outer, inner, rotation_s, seek, .. } = self;
        let what = self.kind.in_words();
        let is_shingled = self.kind != Kind::Conventional;
        let surfaces = surfaces(self.capacity);
        let track = |zone: usize| {
            let rate = outer.value + (inner.value - outer.value) / 0.95 * zone as f64 / (ZONES - 1) as f64;
            (rate * (rotation_s + SWITCH_S) / SECTOR_BYTES as f64).round().max(1.0)
        };
        let all: f64 = (0..ZONES).map(track).sum();
        // Guards of bands of 20 tracks, and caches.
        let raw = self.capacity * if is_shingled { 1.06 } else { 1.0 };
        let tracks = (raw / SECTOR_BYTES as f64 / surfaces / all).ceil();
        let zones: String = (0..ZONES)
            .map(|zone| format!("  {{ tracks = {tracks}, track_sectors = {}, guard_tracks = 1 }},\n", track(zone)))
            .collect();
        let [low, middle, high] = [seek.low, seek.value, seek.high].map(curve);
        let mut text = format!(
            "# Written by smrkit drives fit.\nname = \"{name}\"\nsummary = \"A measured disk of {:.2} TB: {what}\"\n\n\
             [geometry]\nsurfaces = {{ value = {surfaces}, source = \"assumption: 0.67 TB each\" }}\n\n\
             [geometry.zones]\nsource = \"measured at both edges; equal steps: assumption; as many tracks as the size takes: derived\"\n\
             value = [\n{zones}]\n\n",
            self.capacity / 1e12
        );
        if is_shingled {
            text += "[interference]\n";
            text += &plain("inner_tracks", 2.0, "", "assumption: as the disk of Vguard 2017");
            text += &plain("outer_tracks", 1.0, "", "assumption: as the disk of Vguard 2017");
            text.push('\n');
        }
        text += "[mechanical]\n";
        text += &format!(
            "rpm = {{ value = {:.0}, source = \"measured: the spread of reads near each other\" }}\n",
            60.0 / rotation_s
        );
        text += &format!(
            "seek = {{ low = {low}, value = {middle}, high = {high}, source = \"measured: what random reads take longer than near ones; its shape: assumption\" }}\n"
        );
        text += &plain("switch_ms", SWITCH_S * 1e3, "", "assumption");
        text += &plain("overhead_ms", 0.1, "", "assumption");
        let memory = Fitted { low: 8e6, value: 64e6, high: 256e6 };
        text += &ranged("write_cache_bytes", memory, "", "assumption");
        text += "read_ahead_bytes = { value = 4_194_304, source = \"assumption\" }\n";
        text += &plain("queued_commands", 32.0, "", "SATA NCQ: assumption");
        text += &plain("queue_age_ms", 1500.0, "", "assumption: as hc620");
        text += &plain("bus_bytes_per_s", 6e8, "", "SATA at 6 Gb/s: assumption");
        text += &format!(
            "\n[translation]\nlayer = {{ value = \"{}\", source = \"measured: {what}\" }}\n",
            match self.kind {
                Kind::PersistentCache => "drive-managed",
                Kind::DynamicMapping => "log",
                Kind::Conventional | Kind::Unknown => "in-place",
            }
        );
        let tracks = tracks * ZONES as f64 * surfaces;
        text + &match self.kind {
            Kind::PersistentCache => self.persistent_cache(track(0) * SECTOR_BYTES as f64, tracks),
            Kind::DynamicMapping => self.dynamic_mapping(),
            Kind::Conventional | Kind::Unknown => String::new(),
        }
    }

    fn persistent_cache(&self, outer_track: f64, tracks: f64) -> String {
        let Some(log) = &self.log else { return String::new() };
        let mut text = self.entries();
        text += &plain("append_bytes", 512.0, "", "assumption: the transfer counts from the first sector on");
        if let Some(entry) = log.entry {
            text += &ranged(
                "entry_bytes",
                Fitted::within(entry / KIB as f64, 0.15),
                "Ki",
                "measured: longer durable chunks",
            );
        }
        if let Some((every, copy)) = &self.copies {
            text += &plain("map_every_writes", *every, "", "measured: pauses among durable chunks");
            text += &ranged("map_time", copy.scaled(1e3), "ms", "measured: how long they are");
        }
        if let Some(room) = &self.room {
            text += &plain(
                "gap_bytes",
                (room.gap / KIB as f64).round().max(0.0),
                "Ki",
                "measured: falls of durable chunks of 1 and 16 MiB",
            );
            // Cleaning begins while the part that it keeps free is left.
            let kept = (128 * MIB) as f64;
            let percent = (room.bytes + kept) / outer_track / tracks * 100.0;
            text += &ranged("cache_percent", Fitted::within(percent, 0.05), "", "measured: falls of durable chunks");
            let by_room = self.small_writes_by_room().unwrap_or(f64::INFINITY);
            if let Some(until) = self.until_fall.filter(|until| until.value < 0.93 * by_room) {
                let source = "measured: small random writes fall before the cache is full";
                text += &ranged("beta", until.scaled(1.0 / self.shared).whole(), "", source);
                text += &ranged("alpha", until.whole(), "", source);
            }
        } else if let Some(until) = self.until_fall {
            let bytes = until.value / self.shared * MIB as f64;
            let range = Fitted { low: bytes / 16.0, value: bytes, high: bytes * 2.0 };
            text += &ranged(
                "cache_percent",
                range.scaled(100.0 / outer_track / tracks),
                "",
                "assumption: 1 MiB an entry; their number is measured",
            );
        }
        if let Some(band) = self.band {
            text += &ranged(
                "band_tracks",
                band.scaled(1.0 / (outer_track * 0.75)).whole(),
                "",
                "measured: the time of cleaning a band, of which half is rewritten on average",
            );
        }
        if let Some(stream) = self.stream {
            text += &ranged("bypass_bytes", stream, "Mi", "measured: runs that are as fast as a stream");
        }
        text
    }

    fn dynamic_mapping(&self) -> String {
        let mut text = self.entries();
        let spare = |writes: f64| 100.0 * writes * 4.0 * KIB as f64 / self.capacity;
        text += &match self.until_fall {
            Some(until) => {
                ranged("spare_percent", until.scaled(spare(1.0)), "", "measured: random writes until the fall")
            }
            None => {
                ranged("spare_percent", Fitted { low: 0.2, value: 0.5, high: 2.0 }, "", "assumption: no fall was seen")
            }
        };
        text + "spare_outer = { value = \"on\", source = \"assumption: as wd40efax\" }\n\
                idle_clean = { value = \"on\", source = \"FAST 2017, Evolving Ext4 for Shingled Disks\" }\n"
    }

    /// What both kinds of log have.
    fn entries(&self) -> String {
        let entry = self.log.iter().map(|log| {
            ranged("append_time", log.entry_s.scaled(1e3), "ms", "measured: durable writes, less their transfer")
        });
        let shared = plain(
            "shared_writes",
            self.shared,
            "",
            "measured: small writes that wait together, compared with durable ones",
        );
        entry.collect::<String>() + &shared
    }
}

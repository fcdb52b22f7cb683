//! The schemes that are compared, each with the same share of the disk not offered to the host.

use smrkit::drive::Drive;
use smrkit::error::Error;
use smrkit::layer::{self, BASELINE, Capacity, LayerSpec};

use super::super::small_drive::{LIKE, SHORT_SEEKS, SmallDrive};

/// Tracks of the disk, 1 MiB each (assumption: large enough for hundreds of bands, small enough to reach steady states).
pub const TRACKS: u64 = 4096;
/// Sectors of a track.
const TRACK_SECTORS: u64 = 2048;
/// The share of the disk that no scheme offers, in percent: guards, caches and spare space alike.
pub const LOST_PERCENT: f64 = 10.0;

/// A scheme: its layer, what is set, and the parameter that decides how much of the disk is lost.
struct ComparedScheme {
    layer: &'static str,
    set: &'static [(&'static str, &'static str)],
    decides: &'static str,
    /// The least and the most that the parameter takes; whether more of it loses more; its step.
    range: (f64, f64),
    loses: bool,
    step: f64,
}

/// Sectors of a region that is as long as the bands of the others.
const REGION: &str = "40960";

/// A layer whose cache is counted in tracks.
const fn with_cache_tracks(layer: &'static str) -> ComparedScheme {
    ComparedScheme { layer, set: &[], decides: "cache_tracks", range: (16.0, 1000.0), loses: true, step: 1.0 }
}

const SCHEMES: [ComparedScheme; 9] = [
    ComparedScheme {
        layer: "rmw",
        set: &[],
        decides: "region_sectors",
        range: (2048.0, 409_600.0),
        loses: false,
        step: TRACK_SECTORS as f64,
    },
    ComparedScheme {
        layer: "set-assoc",
        set: &[("region_sectors", REGION)],
        decides: "cache_percent",
        range: (1.0, 20.0),
        loses: true,
        step: 0.05,
    },
    ComparedScheme {
        layer: "s-block",
        set: &[("spare_percent", "2")],
        decides: "cache_percent",
        range: (0.5, 20.0),
        loses: true,
        step: 0.05,
    },
    with_cache_tracks("drive-managed"),
    with_cache_tracks("vguard"),
    // Nine tracks and a guard: with the papers' four, a fifth of the disk is lost.
    ComparedScheme {
        layer: "track-map",
        set: &[("scheme", "R(9-1-3-5-7-2-4-6-8)"), ("random_tracks", "0")],
        decides: "fill_percent",
        range: (90.0, 100.0),
        loses: false,
        step: 0.05,
    },
    ComparedScheme { layer: "log", set: &[], decides: "spare_percent", range: (0.1, 20.0), loses: true, step: 0.05 },
    // Zones as long as the bands of the others.
    ComparedScheme {
        layer: "dm-zoned",
        set: &[("zone_bytes", "20Mi")],
        decides: "reserved_zones",
        range: (1.0, 60.0),
        loses: true,
        step: 1.0,
    },
    // As few zones open and free as it can do with: a file system's disk has a hundred times as many zones. With fewer free
    // than open ones, writes that fill several at once wait until whole zones are cleaned (760 ms on the desktop's, not 117).
    ComparedScheme {
        layer: "zone-log",
        set: &[("zone_bytes", "20Mi"), ("conventional_percent", "0"), ("open_zones", "2"), ("clean_below_zones", "2")],
        decides: "spare_percent",
        range: (0.1, 20.0),
        loses: true,
        step: 0.05,
    },
];

/// A scheme that is ready to run.
#[derive(Clone)]
pub struct Fitted {
    /// Its layer.
    pub layer: &'static str,
    /// All that is set of it.
    pub set: Vec<(String, String)>,
    /// Capacity that it makes of the disk.
    pub capacity: Capacity,
}

impl Fitted {
    fn new(drive: &Drive, spec: &'static LayerSpec, set: Vec<(String, String)>) -> Result<Fitted, Error> {
        let capacity = (spec.capacity)(drive, &spec.resolve(&set)?)?;
        Ok(Fitted { layer: spec.name, set, capacity })
    }

    /// The share of the disk that is not offered, in percent.
    pub fn lost_percent(&self) -> f64 {
        100.0 * (1.0 - self.capacity.host_sectors as f64 / self.capacity.raw_sectors as f64)
    }

    /// Its settings with idle time used, where the layer can: `idle_clean` on.
    pub fn with_idle(&self, used: bool) -> Result<Vec<(String, String)>, Error> {
        let (spec, mut set) = (layer::find(self.layer)?, self.set.clone());
        let idle = |value: &str| ("idle_clean".to_string(), value.to_string());
        let known = spec.with(&spec.resolve(&[])?, "idle_clean", "on").is_ok();
        set.extend(known.then(|| idle(if used { "on" } else { "off" })));
        Ok(set)
    }
}

/// The disk that all of them have.
pub fn drive(tracks: u64) -> Result<Drive, Error> {
    SmallDrive {
        name: "compared",
        summary: format!("{tracks} tracks with the rotation and the law of {LIKE}, and seeks for that size"),
        tracks,
        track_sectors: TRACK_SECTORS,
        reach: 2,
        switch_ms: 1.2,
        skew_ms: None,
        seek: SHORT_SEEKS.to_vec(),
    }
    .build()
}

/// The conventional disk, and every shingled scheme with the share of the disk lost that comes nearest to the one wanted.
pub fn fitted(drive: &Drive) -> Result<Vec<Fitted>, Error> {
    let plain = Fitted::new(drive, layer::find(BASELINE)?, Vec::new())?;
    let fit = |scheme: &ComparedScheme| scheme.fitted(drive);
    [Ok(plain)].into_iter().chain(SCHEMES.iter().map(fit)).collect()
}

impl ComparedScheme {
    fn fitted(&self, drive: &Drive) -> Result<Fitted, Error> {
        let spec = layer::find(self.layer)?;
        let (mut low, mut high) = (0, ((self.range.1 - self.range.0) / self.step) as u64);
        // What is refused, for nothing is left of the disk, loses too much.
        let loses_more =
            |steps: u64| self.with(drive, spec, steps).map_or(true, |made| made.lost_percent() > LOST_PERCENT);
        while high - low > 1 {
            let middle = (low + high) / 2;
            *(if loses_more(middle) == self.loses { &mut high } else { &mut low }) = middle;
        }
        let off = |made: &Fitted| (made.lost_percent() - LOST_PERCENT).abs();
        let made = [low, high].map(|steps| self.with(drive, spec, steps));
        match made {
            [Ok(a), Ok(b)] => Ok(if off(&a) <= off(&b) { a } else { b }),
            [Err(_), other] | [other, Err(_)] => other,
        }
    }

    fn with(&self, drive: &Drive, spec: &'static LayerSpec, steps: u64) -> Result<Fitted, Error> {
        let value = self.range.0 + steps as f64 * self.step;
        let value = format!("{value:.2}").trim_end_matches('0').trim_end_matches('.').to_string();
        let set = self.set.iter().copied().chain([(self.decides, value.as_str())]);
        Fitted::new(drive, spec, set.map(|(key, value)| (key.into(), value.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distance from the wanted share that each scheme may have, in points of percent.
    const WITHIN_POINTS: f64 = 0.3;

    #[test]
    fn every_scheme_loses_the_same_share_of_the_disk() {
        let drive = drive(TRACKS).unwrap();
        let (plain, shingled) = {
            let all = fitted(&drive).unwrap();
            (all[0].clone(), all[1..].to_vec())
        };
        assert_eq!(plain.lost_percent(), 0.0);
        for scheme in shingled {
            let lost = scheme.lost_percent();
            assert!((lost - LOST_PERCENT).abs() <= WITHIN_POINTS, "{} {:?}: {lost} %", scheme.layer, scheme.set);
        }
    }

    #[test]
    fn every_layer_that_there_is_is_compared() {
        let drive = drive(TRACKS).unwrap();
        let compared: Vec<&str> = fitted(&drive).unwrap().iter().map(|scheme| scheme.layer).collect();
        for layer in layer::LAYERS {
            assert!(compared.contains(&layer.name), "{} is not compared", layer.name);
        }
    }
}

//! Translation layers: where an LBA lies, and what it takes to write it there.
//!
//! Each file below is one published scheme; the paper is named at its head. A layer knows nothing of engines, queues or time: it reads and
//! writes through [`Disk`](crate::disk::Disk), and keeps its own state. To add one, write a file, which begins with
//! `use crate::layer::prelude::*`, and add a line to [`LAYERS`], from which commands, tests and benchmark take it.

mod bands;
mod dm_zoned;
mod drive_managed;
mod h_swd;
mod imr;
mod in_place;
mod interface;
mod log;
mod prelude;
mod realms;
mod rmw;
mod runs;
mod s_block;
mod set_assoc;
mod smart;
mod stats;
mod track_map;
mod vguard;
mod zone_log;
mod zoned;
mod zones;

use std::sync::{PoisonError, RwLock};

use crate::drive::Drive;
use crate::error::Error;
use crate::names::known;

pub use crate::schema::{Scalar, Values as Parameters};
pub use interface::{
    AS_SOLD, BASELINE, Capacity, DRIVE_MANAGED, GarbageCollection, Gauge, GaugeUnit, Gauges, HOST_AWARE,
    HOST_MANAGED_DISK, HostZones, Layer, LayerKeys, LayerSpec, Need, QueuedWrite, ZoneAction, ZoneCondition,
    ZoneLimits, ZoneReport,
};
pub use stats::{LayerStats, ZoneViolations};

/// The layers that come with smrkit.
pub const LAYERS: &[LayerSpec] = &[
    in_place::SPEC,
    rmw::SPEC,
    set_assoc::SPEC,
    s_block::SPEC,
    drive_managed::SPEC,
    vguard::SPEC,
    track_map::SPEC,
    smart::SPEC,
    log::SPEC,
    dm_zoned::SPEC,
    zone_log::SPEC,
    imr::SPEC,
    drive_managed::host_aware::SPEC,
    h_swd::SPEC,
];

/// Disks that check the host's requests instead of translating them. Found by their names, but not part of "every layer", because only a
/// host that follows their rules can use them.
pub const HOST_MANAGED: &[LayerSpec] = &[zoned::SPEC];

/// Layers of other crates.
static REGISTERED: RwLock<Vec<&'static LayerSpec>> = RwLock::new(Vec::new());

/// Registers a layer of another crate: from then on, in this process, it can be named like any layer. Replaces a layer registered under the
/// same name. Errors: the name of a layer of this crate.
pub fn register(spec: LayerSpec) -> Result<&'static LayerSpec, Error> {
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    if is_built_in(spec.name) {
        return Err(Error::Usage(format!("a layer of smrkit is called '{}': give yours another name", spec.name)));
    }
    let spec: &'static LayerSpec = Box::leak(Box::new(spec));
    registered.retain(|known| known.name != spec.name);
    registered.push(spec);
    Ok(spec)
}

/// True if a layer of this crate is called so.
pub fn is_built_in(name: &str) -> bool {
    LAYERS.iter().chain(HOST_MANAGED).any(|known| known.name == name)
}

/// Every layer that takes any request, registered ones last.
pub fn all() -> Vec<&'static LayerSpec> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    LAYERS.iter().chain(registered.iter().copied()).collect()
}

/// Every layer that [`find`] finds.
pub fn named() -> Vec<&'static LayerSpec> {
    all().into_iter().chain(HOST_MANAGED).collect()
}

/// The layer called `name`.
pub fn find(name: &str) -> Result<&'static LayerSpec, Error> {
    let all = named();
    all.iter().copied().find(|spec| spec.name == name).ok_or_else(|| {
        Error::Usage(format!("no layer is called `{name}`; {}", known(name, all.iter().map(|spec| spec.name))))
    })
}

/// The layer that a drive is sold with. Errors: its file names none, or an unknown one.
pub fn as_sold(drive: &Drive) -> Result<&'static LayerSpec, Error> {
    match &drive.translation {
        Some(sold) => find(&sold.layer),
        None => Err(Error::Usage(format!(
            "{} is no drive that is sold: its file has no [translation]; name a {{layer}}",
            drive.name
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(layer: &str, key: &str, value: &str) -> Result<Parameters, Error> {
        find(layer).unwrap().resolve(&[(key.into(), value.into())])
    }

    #[test]
    fn another_value_leaves_the_others_as_they_were() {
        let rmw = find("rmw").unwrap();
        let held = set("rmw", "hold", "7").unwrap();
        let region = rmw.with(&held, "portion", "region").unwrap().scalars();
        assert_eq!((&region["hold"], &region["portion"]), (&Scalar::Int(7), &Scalar::Text("region".into())));
        assert!(rmw.with(&held, "size", "1").is_err());
    }

    #[test]
    fn errors_name_the_layer_and_what_is_meant() {
        let message = |layer, key, value| set(layer, key, value).unwrap_err().to_string();
        for (layer, key, value, words) in [
            ("rmw", "region_sectors", "0", "rmw.region_sectors=0: `0` is out of range: expected a whole number from 8"),
            ("rmw", "portion", "tial", "rmw.portion=tial: `tial` is unknown: did you mean `tail`? Known: smallest,"),
            ("rmw", "portoin", "tail", "layer rmw has no parameter `portoin`: did you mean `portion`? Known: region_"),
            (
                "vguard",
                "alpha",
                "none",
                "vguard.alpha=none: `none` is neither: expected auto, or a whole number from 1",
            ),
            ("track-map", "scheme", "R(12", "track-map.scheme=R(12: "),
            ("in-place", "hold", "1", "layer in-place has no parameter `hold`: it takes no parameters"),
        ] {
            let message = message(layer, key, value);
            assert!(message.starts_with(words), "{message}");
        }
    }

    #[test]
    fn numbers_of_parameters_are_read_as_everywhere() {
        for text in ["1000", "1k", "1_000"] {
            assert_eq!(set("rmw", "region_sectors", text).unwrap().scalars()["region_sectors"], Scalar::Int(1000));
        }
        assert_eq!(set("set-assoc", "cache_percent", "2%").unwrap().scalars()["cache_percent"], Scalar::Float(2.0));
        assert_eq!(set("vguard", "buffer_bytes", "4KiB").unwrap().scalars()["buffer_bytes"], Scalar::Int(4096));
    }

    #[test]
    fn what_auto_becomes_stands_beside_what_was_asked() {
        let (drive, asked) = (Drive::load("tiny-constant").unwrap(), set("vguard", "beta", "5").unwrap());
        let settled = (find("vguard").unwrap().settled)(&drive, &asked).unwrap();
        assert_eq!(
            (&settled.scalars()["cache_tracks"], &settled.scalars()["alpha"]),
            (&Scalar::Int(24), &Scalar::Int(16))
        );
        let asked = asked.asked(&settled);
        assert_eq!(asked.keys().collect::<Vec<_>>(), ["alpha", "cache_tracks"]);
    }
}

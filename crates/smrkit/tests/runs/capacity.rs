//! Capacity of a layer, known before it is built; and what `auto` becomes can be asked for as a number.

use crate::common::Disks;
use smrkit::drive::{DRIVES, Drive};
use smrkit::layer::{self, Capacity, LayerSpec, Parameters};
use smrkit::medium::interference::Form;

/// The capacity that the built layer says, or the error's text.
fn built(spec: &LayerSpec, drive: &Drive, parameters: &Parameters) -> Result<Capacity, String> {
    (spec.build)(drive, parameters).map(|layer| layer.capacity()).map_err(|error| error.to_string())
}

fn known(spec: &LayerSpec, drive: &Drive, parameters: &Parameters) -> Result<Capacity, String> {
    (spec.capacity)(drive, parameters).map_err(|error| error.to_string())
}

fn agree(spec: &LayerSpec, drive: &Drive, parameters: &Parameters, what: &str) {
    let capacity = built(spec, drive, parameters);
    assert_eq!(known(spec, drive, parameters), capacity, "{} {what}", spec.name);
    let settled = (spec.settled)(drive, parameters).unwrap();
    assert_eq!((spec.settled)(drive, &settled).unwrap(), settled, "{} {what}: settled twice", spec.name);
    if capacity.is_ok() {
        assert_eq!(built(spec, drive, &settled), capacity, "{} {what}: {:?}", spec.name, settled.scalars());
    }
}

#[test]
fn a_capacity_is_known_without_building_the_layer() {
    let mut fitting = 0;
    for spec in layer::named() {
        for seed in 0..150 {
            let mut disks = Disks::new(seed);
            let form = Form::ALL[seed as usize % Form::ALL.len()];
            let (drive, parameters) = (disks.drive(form), disks.parameters(spec));
            agree(spec, &drive, &parameters, &format!("seed {seed}"));
            fitting += u32::from(known(spec, &drive, &parameters).is_ok());
        }
    }
    assert!(fitting > 400, "{fitting} of 1200");
}

#[test]
fn on_shipped_drives_it_is_known_too() {
    for (name, _) in DRIVES {
        let drive = Drive::load(name).unwrap().with_capacity(20_000_000).unwrap();
        for spec in layer::named() {
            agree(spec, &drive, &spec.resolve_on(&drive, &[]).unwrap(), name);
        }
    }
}

#[test]
fn no_auto_is_left_where_it_is_one_number() {
    let drive = Drive::load("tiny-constant").unwrap();
    for spec in layer::named() {
        let asked = spec.resolve(&[]).unwrap();
        let settled = (spec.settled)(&drive, &asked).unwrap();
        let left: Vec<String> = settled
            .scalars()
            .into_iter()
            .filter(|(_, value)| value.to_string() == "auto")
            .map(|(key, _)| key)
            .collect();
        assert!(left.is_empty(), "{}: {left:?}", spec.name);
        let autos = asked.scalars().values().filter(|value| value.to_string() == "auto").count();
        assert_eq!(asked.asked(&settled).len(), autos, "{}", spec.name);
    }
}

#[test]
fn what_auto_stands_for_is_known_for_each_layer() {
    let settled = |name: &str| {
        let drive = Drive::load(name).unwrap().with_capacity(20_000_000).unwrap();
        let of_layer = |spec: &&LayerSpec| {
            let asked = spec.resolve(&[]).unwrap();
            let settled = (spec.settled)(&drive, &asked).unwrap();
            let autos: Vec<String> =
                asked.asked(&settled).keys().map(|key| format!("{key}={}", settled.scalars()[key])).collect();
            (!autos.is_empty()).then(|| format!("{}: {}", spec.name, autos.join(" ")))
        };
        layer::named().iter().filter_map(of_layer).collect::<Vec<_>>()
    };
    assert_eq!(
        settled("st5000as0011"),
        [
            "drive-managed: alpha=352 beta=44 bypass=stream cache_tracks=26 idle_clean=on shared_writes=8 skip_cached=on",
            "vguard: alpha=17 beta=17 cache_tracks=26",
            "track-map: random_tracks=74",
            "dm-zoned: conventional_percent=4.166666666666667 reserved_zones=3 zone_bytes=33554432",
            "zone-log: clean_below_zones=4 conventional_percent=1 file_bytes=33554432 free_zones=oldest open_zones=4 policy=emptiest \
             reclaim_percent=0 zone_bytes=33554432",
            "host-aware: alpha=248 conventional_percent=1 zone_bytes=33554432",
            "h-swd: window_blocks=50000",
            "zoned: conventional_percent=1 zone_bytes=33554432",
        ]
    );
}

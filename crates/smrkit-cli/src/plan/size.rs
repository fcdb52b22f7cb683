//! `--capacity`: a size, or the smallest that a trace fits into on every layer of a comparison.

use std::str::FromStr;

use smrkit::drive::Drive;
use smrkit::error::Error;
use smrkit::layer::{LayerSpec, Parameters};
use smrkit::quantity::parse_capacity;

/// The size of drives.
#[derive(Clone, Copy)]
pub enum Capacity {
    /// As large as the trace.
    Auto,
    /// This many sectors.
    Sectors(u64),
}

impl FromStr for Capacity {
    type Err = Error;
    fn from_str(text: &str) -> Result<Capacity, Error> {
        match text {
            "auto" => Ok(Capacity::Auto),
            _ => Ok(Capacity::Sectors(parse_capacity(text)?)),
        }
    }
}

/// Doublings from one sector beyond which no drive is tried.
const DOUBLINGS: u32 = 40;

/// What `made` makes of the smallest size that is enough, to one part in a hundred, from `least` sectors on; `None` where no
/// size is.
pub fn fit<T>(least: u64, made: impl Fn(u64) -> Result<Option<T>, Error>) -> Result<Option<T>, Error> {
    let (mut too_small, mut enough) = (0, least.max(1));
    let mut fitting = made(enough)?;
    while fitting.is_none() {
        if enough >= 1 << DOUBLINGS {
            return Ok(None);
        }
        (too_small, enough) = (enough, enough * 2);
        fitting = made(enough)?;
    }
    while too_small > 0 && enough - too_small > enough / 100 {
        let middle = too_small + (enough - too_small) / 2;
        match made(middle)? {
            None => too_small = middle,
            better => (enough, fitting) = (middle, better),
        }
    }
    Ok(fitting)
}

/// The drive in the smallest size on which every layer offers `host_sectors`.
pub fn fit_drive(drive: &Drive, plans: &[(&'static LayerSpec, Parameters)], host_sectors: u64) -> Result<Drive, Error> {
    fit(host_sectors, |sectors| sized_for(drive, plans, sectors, host_sectors))?.ok_or_else(|| {
        Error::Impossible(format!(
            "no size of {} lets every layer offer {host_sectors} sectors: give --capacity SIZE",
            drive.name
        ))
    })
}

/// The drive with `sectors`, if every layer offers `host_sectors` on it.
fn sized_for(
    drive: &Drive,
    plans: &[(&'static LayerSpec, Parameters)],
    sectors: u64,
    host_sectors: u64,
) -> Result<Option<Drive>, Error> {
    let sized = drive.clone().with_capacity(sectors)?;
    for (spec, parameters) in plans {
        match (spec.build)(&sized, parameters) {
            Ok(layer) if layer.capacity().host_sectors >= host_sectors => {}
            Ok(_) | Err(Error::Impossible(_)) => return Ok(None),
            Err(other) => return Err(other),
        }
    }
    Ok(Some(sized))
}

//! Layers and drives as JSON, for `--json` of their lists and for Python's lists.

use serde_json::{Value, json};
use smrkit::drive::catalogue::{Identified, Model, nearest_model, recording_in_words, similar};
use smrkit::drive::{Drive, DriveSetting};
use smrkit::geometry::RecordingZone;
use smrkit::layer::LayerSpec;
use smrkit::medium::interference::{Form, Interference};
use smrkit::schema::Key;

use crate::format::counted;

/// A layer: its parameters, defaults, ranges and paper.
pub fn layer(spec: &LayerSpec) -> Value {
    let parameter = |key: &Key| json!({"key": key.name, "default": key.default, "takes": key.domain().to_string(), "summary": key.help});
    json!({
        "name": spec.name,
        "summary": spec.summary,
        "paper": spec.paper,
        "copes_with": spec.copes_with,
        "parameters": (spec.keys)().iter().map(parameter).collect::<Vec<_>>(),
    })
}

/// A drive in a few words.
pub fn drive_in_short(drive: &Drive) -> Value {
    json!({
        "name": drive.name,
        "summary": drive.summary,
        "raw_sectors": drive.geometry.sectors,
        "clock": drive.clock.name(),
    })
}

/// A drive in full: every value with its source.
pub fn drive(drive: &Drive) -> Value {
    let setting = |s: &DriveSetting| {
        let (low, high) = s.range.clone().unzip();
        json!({"key": s.key, "value": s.value, "unit": s.unit, "low": low, "high": high, "basis": s.basis(), "source": s.source})
    };
    let law = |form: Form| json!({"form": form, "law": law_in_words(&drive.interference)});
    let zone = |z: &RecordingZone| json!({"first_pba": z.first_pba, "tracks": z.tracks, "track_sectors": z.track_sectors, "toward": z.toward});
    json!({
        "name": drive.name,
        "summary": drive.summary,
        "raw_sectors": drive.geometry.sectors,
        "tracks": drive.geometry.tracks,
        "recording_zones": drive.geometry.zones.iter().map(zone).collect::<Vec<_>>(),
        "clock": drive.clock.name(),
        "interference": drive.interference.form().into_iter().map(law).collect::<Vec<_>>(),
        "settings": drive.settings.iter().map(setting).collect::<Vec<_>>(),
        "seek_curve": drive.seek_curve(),
    })
}

/// The text on a disk that was identified by its model string: how it records, the source, and the drive that is simulated in its place.
pub fn identified(disk: &Identified) -> String {
    match disk {
        Identified::Known(_, model) => {
            let recording = recording_in_words(model.recording);
            let Model { name, family, basis, source, .. } = model;
            format!("{name} ({family}): {recording}\n  {basis}: {source}\n  {}\n", drive_in_words(model))
        }
        Identified::Unknown(name) if is_external(name) => format!(
            "{name}: the number of a USB product, in which one disk or another may be\n  look at the disk itself: smartctl -i /dev/sdX, or lsblk \
             -o NAME,MODEL\n"
        ),
        Identified::Unknown(name) => {
            let suggestion = |model: &Model| {
                let Model { name, family, recording, .. } = model;
                format!("  did you mean {name} ({family})? That is {}\n", recording_in_words(recording))
            };
            let near = match nearest_model(name) {
                Some(near) => format!("  nearest of its family: {near}, which does not prove how this one records\n"),
                None => similar(name).iter().map(suggestion).collect(),
            };
            format!(
                "{name}: not in the catalogue, so that how it records is not known here\n{near}  to find out: look for SMR or CMR in the vendor's \
                 data sheet of this very model\n"
            )
        }
        Identified::SolidState(name) => format!("{name}: a solid-state disk, which records nothing in tracks\n"),
    }
}

/// True for model numbers of external disks: Seagate's (STEL8000100), Western Digital's (WDBBGB0040HBK) and Toshiba's (HDTB410EK3AA). The disk
/// inside has another.
fn is_external(name: &str) -> bool {
    let name = name.trim().to_ascii_uppercase();
    // The vendor's letters are followed by some more letters, three digits, and at least four characters.
    let has_form = |rest: &str, letters: usize| {
        rest.len() >= letters + 7
            && rest.chars().take(letters).all(|c| c.is_ascii_alphabetic())
            && rest.chars().skip(letters).take(3).all(|c| c.is_ascii_digit())
    };
    let follows = |vendor: &str, letters| name.strip_prefix(vendor).is_some_and(|rest| has_form(rest, letters));
    follows("ST", 2) || follows("WDB", 3) || follows("HDT", 1)
}

fn drive_in_words(model: &Model) -> String {
    let size = model.terabytes.map_or_else(String::new, |terabytes| format!(", at {terabytes} TB"));
    match model.preset {
        Some(preset) if model.is_own_preset => format!("drive: {preset}"),
        Some(preset) => format!("drive: {preset} stands for it{size}"),
        None => "drive: none of smrkit's can stand for it".into(),
    }
}

/// Law of shingling in words.
pub fn law_in_words(law: &Interference) -> String {
    match law {
        Interference::None => "a write destroys nothing else".into(),
        Interference::Interlaced => {
            "interlaced: a write to every other track destroys what lies beside it on both neighbours".into()
        }
        Interference::Blocks { reach } => {
            format!("I_b = {reach}: a write destroys {} after it", counted(*reach - 1, "sector"))
        }
        Interference::Tracks { width, .. } => {
            format!("W = {width}: a write destroys {} after it", counted(*width - 1, "track"))
        }
        Interference::Distances { did, dpid, writes } => {
            format!("DID = {did}, DPID = {dpid} sectors, after {} to one sector", counted(*writes, "more write"))
        }
        Interference::Physical(profile) => format!(
            "s_id = {}, s_od = {}; {:.1}° before and {:.1}° after the angles written",
            profile.inner_tracks,
            profile.outer_tracks,
            degrees(profile.ccw),
            degrees(profile.cw)
        ),
    }
}

/// An angle in degrees, of a turn that is divided into 2^64 parts.
fn degrees(turn: u64) -> f64 {
    turn as f64 / 2_f64.powi(64) * 360.0
}

#[cfg(test)]
mod tests {
    use super::{degrees, is_external};

    #[test]
    fn a_product_with_a_disk_in_it_is_no_disk() {
        for name in ["STEL8000100", "STDR5000200", "wdbbgb0040hbk-EESN", "HDTB410EK3AA"] {
            assert!(is_external(name), "{name}");
        }
        for name in ["ST8000DM004", "ST4000VN008", "WD40EFAX", "HDWL120", "WD80EMAZ", ""] {
            assert!(!is_external(name), "{name}");
        }
    }

    #[test]
    fn a_turn_has_360_degrees() {
        assert_eq!([0, 1 << 62, 1 << 63, 3 << 62].map(degrees), [0.0, 90.0, 180.0, 270.0]);
    }
}

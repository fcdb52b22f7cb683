//! Gauges of layers in words, and the form of their numbers.

use smrkit::layer::GaugeUnit;

use crate::figure::Numbers;

/// The form of a gauge's numbers; a record from before units were in it tells none.
pub fn numbers(unit: Option<GaugeUnit>) -> Numbers {
    match unit {
        Some(GaugeUnit::Share) => Numbers::Percent,
        Some(GaugeUnit::Bytes) => Numbers::Bytes,
        Some(GaugeUnit::Count) | None => Numbers::Plain,
    }
}

/// A gauge's name in words. One of a layer from outside has its key.
pub fn words(key: &str) -> String {
    let words = match key {
        "active_zones" => "Active zones",
        "cache_tracks_active" => "Tracks of the cache that are in use",
        "cached_tracks" => "Tracks with a copy in the cache",
        "free_conventional_share" => "Share of the conventional zones that are free",
        "free_segments" => "Free segments",
        "free_zones" => "Free zones",
        "invalid_share" => "Share of the log that is not valid",
        "log_length" => "Entries of the log",
        "log_sectors" => "Sectors of the log",
        "map_bytes" => "Memory of the maps",
        "map_entries" => "Entries of the map",
        "open_zones" => "Open zones",
        "share_in_use" => "Share of the tracks in use",
        "spare_sblocks" => "Spare S-blocks",
        "write_cache_sectors" => "Sectors in the write cache",
        _ => return key.replace('_', " "),
    };
    words.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_form_of_their_unit() {
        let units = [Some(GaugeUnit::Share), Some(GaugeUnit::Bytes), Some(GaugeUnit::Count), None];
        assert_eq!(units.map(numbers), [Numbers::Percent, Numbers::Bytes, Numbers::Plain, Numbers::Plain]);
    }

    #[test]
    fn gauges_have_words() {
        let known = [
            ("free_zones", "Free zones"),
            ("log_length", "Entries of the log"),
            ("share_in_use", "Share of the tracks in use"),
            ("own_gauge", "own gauge"),
        ];
        for (key, expected) in known {
            assert_eq!(words(key), expected);
        }
    }
}

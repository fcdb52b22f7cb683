//! Sold disks by their model strings: how each records, by whose word, and the drive that stands for it.

use crate::names::nearest;

/// The catalogue's table; its first lines say what the columns are.
const TABLE: &str = include_str!("../../drives/models.tsv");

/// A model of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// The model string, or a pattern of several.
    pub name: &'static str,
    /// Its size, where the catalogue has it.
    pub terabytes: Option<f64>,
    /// `CMR`, `DM-SMR`, `HA-SMR`, `HM-SMR`, or `unknown` where sources contradict each other or are silent.
    pub recording: &'static str,
    /// The drive that stands for it, if one can.
    pub preset: Option<&'static str>,
    /// True if that drive is modelled after this model.
    pub is_own_preset: bool,
    /// Vendor and family.
    pub family: &'static str,
    /// Kind of source: a statement or data sheet of the vendor, a measurement, or a list of the community.
    pub basis: &'static str,
    /// Source of the recording.
    pub source: &'static str,
}

/// A disk that a text names.
#[derive(Clone, Debug, PartialEq)]
pub enum Identified {
    /// A model of the catalogue, by the string that the text has for it.
    Known(String, Model),
    /// What looks like a model string and is not in the catalogue.
    Unknown(String),
}

/// Every model of the catalogue.
pub fn models() -> impl Iterator<Item = Model> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let columns: Vec<&'static str> = line.split('\t').collect();
        let [name, terabytes, recording, preset, family, basis, source] = columns[..] else {
            unreachable!("seven columns: {line}")
        };
        let own = preset.trim_start_matches('~');
        Model {
            name,
            terabytes: terabytes.parse().ok(),
            recording,
            preset: Some(own).filter(|own| !own.is_empty()),
            is_own_preset: own == preset,
            family,
            basis,
            source,
        }
    })
}

/// The one model of the catalogue that a model string names, in any case, with or without what vendors put before and behind it.
pub fn find(text: &str) -> Option<Model> {
    let mut found = identify(text).into_iter();
    match (found.next(), found.next()) {
        (Some(Identified::Known(_, model)), None) => Some(model),
        _ => None,
    }
}

/// The disks that a text names, each once: a model string, or what `smartctl -i`, `hdparm -I`, `lsblk`, `zpool status` print, and names
/// below `/dev/disk/by-id`.
pub fn identify(text: &str) -> Vec<Identified> {
    let models: Vec<(Model, Vec<String>)> = models().map(|model| (model, pattern_words(model.name))).collect();
    let mut found: Vec<Identified> = Vec::new();
    for line in text.lines() {
        let line = line.to_ascii_uppercase();
        let mut words = words(&line);
        while let Some(first) = words.first() {
            // Of names that begin alike ("Exos X24", "Exos X24 28TB") the longest is meant.
            let known = models.iter().filter(|(_, pattern)| begins_with(&words, pattern)).max_by_key(|(_, p)| p.len());
            let (disk, taken) = match known {
                Some((model, pattern)) => {
                    (Some(Identified::Known(words[..pattern.len()].join(" "), *model)), pattern.len())
                }
                None if looks_like_a_model(first) => (Some(Identified::Unknown(first.to_string())), 1),
                None => (None, 1),
            };
            found.extend(disk.filter(|disk| !found.contains(disk)));
            words.drain(..taken);
        }
    }
    found
}

/// The words of a text, without what is between them.
fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect()
}

/// The words of a model of the catalogue in capitals; `*` and `[…]` are parts of a word.
fn pattern_words(name: &str) -> Vec<String> {
    let apart = name.split(|c: char| !c.is_ascii_alphanumeric() && !"*[]".contains(c));
    apart.map(str::to_ascii_uppercase).collect()
}

/// True if `words` begin with those of a pattern.
fn begins_with(words: &[&str], pattern: &[String]) -> bool {
    words.len() >= pattern.len() && pattern.iter().zip(words).all(|(pattern, word)| matches(pattern, word))
}

fn matches(pattern: &str, word: &str) -> bool {
    let mut letters = word.chars();
    let mut rest = pattern.chars();
    while let Some(wanted) = rest.next() {
        let is_there = match wanted {
            '*' => return true,
            '[' => {
                let set: Vec<char> = rest.by_ref().take_while(|c| *c != ']').collect();
                letters.next().is_some_and(|letter| set.contains(&letter))
            }
            wanted => letters.next() == Some(wanted),
        };
        if !is_there {
            return false;
        }
    }
    // Toshiba's boxes add letters for the package: HDWL120 is sold as HDWL120UZSVA.
    let package = letters.as_str();
    package.is_empty()
        || pattern.starts_with("HDW") && package.len() == 5 && package.chars().all(|c| c.is_ascii_alphabetic())
}

/// True if a word in capitals is built as vendors build model strings.
fn looks_like_a_model(word: &str) -> bool {
    /// What model strings begin with, and whether a digit follows.
    const BEGINNINGS: [&str; 14] =
        ["ST", "WD", "WUH7", "WUS7", "WSH7", "HUH7", "HUS7", "HSH7", "HMS5", "HDS7", "HTS", "MQ0", "MG", "DT0"];
    let follows = |beginning: &&str| {
        word.strip_prefix(beginning).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let is_toshiba = word.starts_with("HDW") && word.chars().skip(4).take(3).all(|c| c.is_ascii_digit());
    word.len() >= 7 && digits >= 2 && digits < word.len() && (is_toshiba || BEGINNINGS.iter().any(follows))
}

/// The model of the catalogue whose name is nearest to a mistyped one. Its recording tells nothing of that of `name`: disks that
/// differ in one letter record in different ways.
pub fn nearest_model(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_uppercase();
    let own = words(&name).into_iter().max_by_key(|word| (looks_like_a_model(word), word.len()))?;
    nearest(own, models().map(|model| model.name))
}

/// How a disk records, in words.
pub fn recording_in_words(recording: &str) -> &'static str {
    match recording {
        "CMR" => "conventional (CMR): not shingled",
        "DM-SMR" => "shingled, drive-managed (DM-SMR)",
        "HA-SMR" => "shingled, host-aware (HA-SMR)",
        "HM-SMR" => "shingled, host-managed (HM-SMR)",
        _ => "not known: sources are silent, or contradict each other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{DRIVES, Drive};

    fn known(text: &str) -> Vec<&'static str> {
        let name = |disk| match disk {
            Identified::Known(_, model) => model.name,
            Identified::Unknown(word) => panic!("{word} of {text}"),
        };
        identify(text).into_iter().map(name).collect()
    }

    /// A model string that a pattern stands for.
    fn example(model: &Model) -> String {
        let mut text = model.name.replace('*', "200");
        while let (Some(from), Some(to)) = (text.find('['), text.find(']')) {
            let letter = text[from + 1..from + 2].to_string();
            text.replace_range(from..=to, &letter);
        }
        text
    }

    #[test]
    fn every_model_is_known_in_any_case_with_prefix_and_suffix() {
        for model in models() {
            let name = example(&model);
            let forms = [
                name.clone(),
                name.to_lowercase(),
                format!("WDC {name}-68JH4N0"),
                format!("TOSHIBA {name}"),
                format!("Device Model:     {name}-2CX188"),
                format!("ata-{}-2CX188_ZCT0ABCD-part1", name.replace(' ', "_")),
                format!("sda      {name}"),
            ];
            for text in forms {
                assert_eq!(known(&text), [model.name], "{text}");
                assert_eq!(find(&text), Some(model));
            }
        }
    }

    #[test]
    fn the_table_is_in_order() {
        let words = ["CMR", "DM-SMR", "HA-SMR", "HM-SMR", "unknown"];
        for model in models() {
            assert!(words.contains(&model.recording) && !model.source.is_empty(), "{model:?}");
            assert!(["vendor statement", "vendor data sheet", "measured", "community list"].contains(&model.basis));
            let Some(preset) = model.preset else { continue };
            let drive = Drive::load(preset).unwrap();
            assert_ne!(model.recording, "unknown", "{model:?}");
            let recording = match drive.translation.unwrap().layer.as_str() {
                "in-place" => "CMR",
                "zoned" => "HM-SMR",
                _ => "DM-SMR",
            };
            assert_eq!(recording, model.recording, "{model:?}");
        }
        assert_eq!(models().count(), 367);
    }

    #[test]
    fn every_drive_that_is_a_product_is_in_the_catalogue() {
        let own = |name: &&str| models().any(|model| model.is_own_preset && model.preset == Some(name));
        let no_products = ["cassuto-table1", "cassuto-random", "wdc-2tb", "tiny", "tiny-constant"];
        let missing: Vec<&str> = DRIVES.iter().map(|(name, _)| *name).filter(|name| !own(name)).collect();
        assert_eq!(missing, no_products);
    }

    #[test]
    fn disks_are_found_in_what_tools_print() {
        let zpool = "\
              mirror-0                                     ONLINE       0     0     0
                ata-WDC_WD40EFAX-68JH4N0_WD-WX12D9034567   ONLINE       0     0     0
                ata-ST8000DM004-2CX188_WCT1ABCD-part1      ONLINE       0     0     0
                wwn-0x5000c500a1b2c3d4                     ONLINE       0     0     0";
        assert_eq!(known(zpool), ["WD40EFAX", "ST8000DM004"]);
        let smartctl = "\
            smartctl 7.3 2022-02-28 r5338 [x86_64-linux-6.1.0] (local build)\n\
            Model Family:     Western Digital Red (SMR)\nDevice Model:     WDC WD40EFAX-68JH4N1\n\
            Serial Number:    WD-WX21D30ABCDE\nUser Capacity:    4,000,787,030,016 bytes [4.00 TB]\n\
            Rotation Rate:    5400 rpm\nTRIM Command:     Available, deterministic, zeroed";
        assert_eq!(known(smartctl), ["WD40EFAX"]);
        let hdparm =
            "/dev/sda:\n\nATA device, with non-removable media\n\tModel Number:       TOSHIBA HDWL120             \n";
        assert_eq!(known(hdparm), ["HDWL120"]);
        assert_eq!(
            known("NAME MODEL\nsda  ST4000VN008-2DR166\nsdb  ST4000VN008-2DR166\nsdc  HDWD240UZSVA"),
            ["ST4000VN008", "HDWD240"]
        );
        assert_eq!(known("no disk here: md127, nvme-Samsung_SSD_970_EVO_500GB"), [""; 0]);
    }

    #[test]
    fn no_model_passes_for_another() {
        for (name, near) in
            [("WD40EFXX", "WD40EFAX"), ("ST8000DM009", "ST8000DM004"), ("wdc wd61efax-68sh", "WD60EFAX")]
        {
            assert_eq!(find(name), None);
            assert!(matches!(&identify(name)[..], [Identified::Unknown(word)] if name.to_uppercase().contains(word)));
            assert_eq!(nearest_model(name), Some(near), "{name}");
        }
        // Two disks are no model, and neither is a part of one.
        assert_eq!(find("WD40EFAX WD40EFRX"), None);
        assert_eq!(
            (find("WD40EFA"), find("ST8000DM0045"), find("DT02ABA400V").unwrap().name),
            (None, None, "DT02ABA400V")
        );
    }
}

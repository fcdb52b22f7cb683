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
    /// A disk that is not in the catalogue.
    Unknown(String),
    /// No hard disk.
    SolidState(String),
}

/// Every model of the catalogue.
pub fn models() -> impl Iterator<Item = Model> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let columns: Vec<&'static str> = line.split('\t').collect();
        let [name, terabytes, recording, preset, family, basis, source] = columns[..] else {
            unreachable!("seven columns: {line}")
        };
        // A preset behind `~` is that of another model.
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

/// The only model of the catalogue that a model string names, in any case, with or without the vendor's prefixes and suffixes.
pub fn find(text: &str) -> Option<Model> {
    let mut found = identify(text).into_iter();
    match (found.next(), found.next()) {
        (Some(Identified::Known(_, model)), None) => Some(model),
        _ => None,
    }
}

/// The disks that a text names, each once. The text is a model string, the output of `smartctl -i`, `hdparm -I`, `lsblk` or `zpool status`,
/// or names in `/dev/disk/by-id`.
pub fn identify(text: &str) -> Vec<Identified> {
    let models: Vec<(Model, Vec<String>)> = models().map(|model| (model, pattern_words(model.name))).collect();
    let mut found: Vec<Identified> = Vec::new();
    let mut column = None;
    for line in text.lines() {
        let line = line.to_ascii_uppercase();
        let mut in_line = models_in(&line, &models);
        if in_line.is_empty() {
            // A disk whose name is not built like any of the catalogue is found by the words around it.
            in_line.extend(disk_by_context(&line, &mut column));
        }
        // The line on rotation of smartctl and hdparm, about the disk named last.
        if line.contains("SOLID STATE DEVICE")
            && let Some(Identified::Unknown(name)) = found.pop_if(|disk| matches!(disk, Identified::Unknown(_)))
        {
            found.push(Identified::SolidState(name));
        }
        found.extend(in_line);
    }
    // Duplicates go only now, because the disk named last may have been named before.
    let mut once: Vec<Identified> = Vec::new();
    for disk in found {
        if !once.contains(&disk) {
            once.push(disk);
        }
    }
    once
}

/// The models of a line in capitals: those of the catalogue, and words that are built like them.
fn models_in(line: &str, models: &[(Model, Vec<String>)]) -> Vec<Identified> {
    // A name with brackets, as the catalogue itself spells it.
    let is_verbatim = |model: &Model| model.name.contains('[') && line.contains(&model.name.to_ascii_uppercase());
    if let Some((model, _)) = models.iter().find(|(model, _)| is_verbatim(model)) {
        return vec![Identified::Known(model.name.to_string(), *model)];
    }
    let mut found = Vec::new();
    let mut words = words(line);
    while let Some(first) = words.first() {
        // Of names with the same beginning ("Exos X24", "Exos X24 28TB") the longest match is meant.
        let known = models.iter().filter(|(_, pattern)| begins_with(&words, pattern)).max_by_key(|(_, p)| p.len());
        let taken = match known {
            Some((model, pattern)) => {
                found.push(Identified::Known(words[..pattern.len()].join(" "), *model));
                pattern.len()
            }
            None => {
                found.extend(looks_like_a_model(first).then(|| Identified::Unknown(first.to_string())));
                1
            }
        };
        words.drain(..taken);
    }
    found
}

/// A disk that the catalogue does not have.
pub fn unlisted(name: &str) -> Identified {
    let upper = name.to_ascii_uppercase();
    let is_solid = |word: &&str| {
        // Prefixes of SSDs by Western Digital, Crucial, Samsung and Kingston, before a digit.
        let begins =
            |start: &str| word.strip_prefix(start).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        word.contains("SSD") || word.contains("NVME") || ["WDS", "CT", "MZ", "SA", "SKC", "SNV"].into_iter().any(begins)
    };
    match words(&upper).iter().any(is_solid) {
        true => Identified::SolidState(name.trim().to_string()),
        false => Identified::Unknown(name.trim().to_string()),
    }
}

/// The disk that a tool's line names, known by its context. The line is in capitals; `column` is where the column of models in `lsblk`
/// begins and where the next one does, from its header.
fn disk_by_context(line: &str, column: &mut Option<(usize, usize)>) -> Option<Identified> {
    let columns = words(line);
    if columns.first() == Some(&"NAME") {
        *column = model_column(line);
        return None;
    }
    if let Some((key, value)) = line.split_once(':')
        && ["DEVICE MODEL", "MODEL NUMBER", "PRODUCT"].contains(&key.trim())
    {
        return Some(unlisted(value));
    }
    let by_id = line.split_whitespace().find_map(disk_by_id);
    if by_id.is_some() {
        return by_id;
    }
    let device = columns.first().filter(|word| is_device(word))?;
    let name = match *column {
        Some((from, to)) => {
            let cell: String = line.chars().take(to).skip(from).collect();
            // The next column may hold a number that is aligned to the right and begins in this cell.
            let is_shared = cell.ends_with(|c: char| !c.is_whitespace()) && line.chars().count() > to;
            if is_shared { cell.rsplit_once(' ').map_or("", |(model, _)| model).to_string() } else { cell }
        }
        None => line.split_once(*device)?.1.to_string(),
    };
    let has = |word: &str, kind: fn(char) -> bool| word.contains(kind);
    let is_name = |word: &&str| {
        word.contains("SSD") || word.len() >= 6 && has(word, char::is_alphabetic) && has(word, char::is_numeric)
    };
    let is_named = if column.is_some() { !name.trim().is_empty() } else { words(&name).iter().any(is_name) };
    is_named.then(|| disk_on_bus(&name, device.starts_with("NVME")))
}

/// Where the column of models begins, and where the next one does, in the header of `lsblk`.
fn model_column(header: &str) -> Option<(usize, usize)> {
    // Bytes of the header are characters, because it is ASCII.
    let from = header.find(" MODEL")? + 1;
    let end = from + "MODEL".len();
    let next = header[end..].find(char::is_alphanumeric);
    Some((from, next.map_or(usize::MAX, |next| end + next)))
}

/// The disk of a name as in `/dev/disk/by-id`: bus, model and serial number.
fn disk_by_id(word: &str) -> Option<Identified> {
    let (bus, name) = word.rsplit('/').next()?.split_once('-')?;
    if !["ATA", "SCSI", "NVME", "USB"].contains(&bus) {
        return None;
    }
    // The serial number comes last. A name without one is not a model string.
    let (model, _) = name.rsplit_once('_')?;
    Some(disk_on_bus(&model.replace('_', " "), bus == "NVME"))
}

fn disk_on_bus(name: &str, is_nvme: bool) -> Identified {
    if is_nvme { Identified::SolidState(name.trim().into()) } else { unlisted(name) }
}

/// True of Linux's names of whole disks, in capitals.
fn is_device(word: &str) -> bool {
    word.strip_prefix("SD").is_some_and(|rest| rest.chars().all(char::is_alphabetic))
        || word.starts_with("NVME") && !word.contains('P')
}

/// The words of a text, without separators.
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

/// True if a word matches a pattern, in which `[…]` is one of some letters and `*` any end.
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
    /// What model strings begin with, before a digit.
    const BEGINNINGS: [&str; 18] = [
        "ST", "WD", "WUH7", "WUS7", "WSH7", "HUH7", "HUS7", "HSH7", "HMS5", "HDS7", "HDN7", "HDT7", "HUA7", "HTS",
        "HTE", "MQ0", "MG", "DT0",
    ];
    let follows = |beginning: &&str| {
        word.strip_prefix(beginning).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let is_toshiba = word.starts_with("HDW") && word.chars().skip(4).take(3).all(|c| c.is_ascii_digit());
    // One digit is enough for WD: in WD4OEFAX, the O is a misread zero.
    let enough = if word.starts_with("WD") { 1 } else { 2 };
    word.len() >= 7 && digits >= enough && digits < word.len() && (is_toshiba || BEGINNINGS.iter().any(follows))
}

/// The model of the catalogue that is nearest to an unlisted one: with the same letters and size, and only if all such models record alike.
/// Others may not: WD40EFAX is shingled and WD40EFRX is not; WD60EFAX is and WD80EFAX is not.
pub fn nearest_model(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_uppercase();
    // The name may come with the vendor's and the capacity.
    let word = words(&name).into_iter().max_by_key(|word| (looks_like_a_model(word), word.len()))?;
    let family: Vec<Model> = models().filter(|model| is_of_family(word, model.name)).collect();
    let near = nearest(word, family.iter().map(|model| model.name))?;
    let distance = strsim::levenshtein(word, near);
    // A mistyped letter may lead to another family: ST1000DM048 for ST1000LM048. Models as near as the nearest have to record alike, too.
    let is_as_near = |model: &Model| strsim::levenshtein(word, model.name) <= distance;
    let mut rivals = models().filter(|model| is_as_near(model) || is_of_family(word, model.name));
    let record_alike = rivals.all(|model| model.recording == family[0].recording);
    record_alike.then_some(near)
}

/// The models of the catalogue whose names are most like a mistyped one, at most two mistakes away; swapped letters are one mistake. They
/// may record differently, so a message has to say how each records.
pub fn similar(name: &str) -> Vec<Model> {
    let name = name.trim().to_ascii_uppercase();
    // Short names are all alike.
    let allowed = (name.len() / 4).min(2);
    let distance = |model: &Model| strsim::osa_distance(&name, &model.name.to_ascii_uppercase());
    let Some(least) = models().map(|model| distance(&model)).min().filter(|&least| least <= allowed) else {
        return Vec::new();
    };
    models().filter(|model| distance(model) == least).collect()
}

/// True if two models have the same letters and the same first number, up to its last digit, in which generations of one size differ.
fn is_of_family(name: &str, other: &str) -> bool {
    let letters = |name: &str| -> String { name.chars().filter(|c| !c.is_ascii_digit()).collect() };
    let size = |name: &str| -> String {
        let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
        let mut size: String = digits.chars().take_while(char::is_ascii_digit).collect();
        size.pop();
        size
    };
    letters(name) == letters(other) && size(name) == size(other)
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
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;
    use crate::drive::{DRIVES, Drive};

    fn known(text: &str) -> Vec<&'static str> {
        let name = |disk| match disk {
            Identified::Known(_, model) => model.name,
            other => panic!("{other:?} of {text}"),
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
                "host-aware" => "HA-SMR",
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
        let no_products = ["cassuto-table1", "cassuto-random", "wdc-2tb", "exos-2x18-half", "tiny", "tiny-constant"];
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
        assert_eq!(known("no disk here: md127, wwn-0x5000c500a1b2c3d4\nsda 8:0 0 3.6T 0 disk"), [""; 0]);
    }

    #[test]
    fn every_disk_of_a_text_is_named() {
        let unknown = |name: &str| Identified::Unknown(name.to_string());
        let solid = |name: &str| Identified::SolidState(name.to_string());
        let lsblk = "\
NAME    MODEL                     SIZE SERIAL
sda     HGST HDN724040ALE640      3.6T PK1334PEKL4E2S
├─sda1                            3.6T
sdb     WDC WD4OEFAX-68JH4N0      3.6T WD-WX12D9034567
sdc     Samsung SSD 870 EVO 1TB 931.5G S5Y2NJ0R123456
sdd     CT500MX500SSD1          465.8G 2018E29E0C5C
sde     SAMSUNG HD103SJ         931.5G S246J9DZ500001
nvme0n1 KXG60ZNV512G TOSHIBA    476.9G 797F71JEFTYP";
        let own = [
            unknown("HDN724040ALE640"),
            unknown("WD4OEFAX"),
            solid("SAMSUNG SSD 870 EVO 1TB"),
            solid("CT500MX500SSD1"),
            unknown("SAMSUNG HD103SJ"),
            solid("KXG60ZNV512G TOSHIBA"),
        ];
        assert_eq!(identify(lsblk), own);
        assert_eq!(
            identify("sda  WDC WDS500G2B0A-00SM50\nsdb  SAMSUNG HD103SJ"),
            [solid("WDC WDS500G2B0A-00SM50"), own[4].clone()]
        );
        let smartctl = "Device Model: Samsung SSD 870\nDevice Model: HDN724040ALE640\nDevice Model: Samsung SSD 870\n\
                        Rotation Rate: Solid State Device";
        assert_eq!(identify(smartctl), [solid("SAMSUNG SSD 870"), own[0].clone()]);
        let zpool = "\
        NAME                                       STATE     READ WRITE CKSUM
          ata-HGST_HDN724040ALE640_PK1334PEKL4E2S  ONLINE       0     0     0
          ata-Samsung_SSD_870_EVO_1TB_S5Y2NJ0R     ONLINE       0     0     0
          nvme-KXG60ZNV512G_TOSHIBA_797F71JEFTYP   ONLINE       0     0     0
          ata-SAMSUNG_HD103SJ_S246J9DZ500001-part1 ONLINE       0     0     0";
        assert_eq!(identify(zpool), [0, 2, 5, 4].map(|at: usize| own[at].clone()));
        let smartctl = "Device Model:     KINGSTONE 240G\nSerial Number:    5002\nRotation Rate:    Solid State Device";
        assert_eq!(identify(smartctl), [solid("KINGSTONE 240G")]);
    }

    /// Rows that stand for several models are found by those models and as they stand in the table.
    #[test]
    fn a_row_of_the_catalogue_is_found_as_it_stands() {
        for model in models() {
            assert_eq!(find(model.name), Some(model), "{}", model.name);
        }
    }

    #[test]
    fn no_model_passes_for_another() {
        for (name, near) in [
            ("WD61EFAX", Some("WD60EFAX")),
            ("wdc wd61efax-68sh", Some("WD60EFAX")),
            // Those of one letter's difference record in both ways.
            ("WD40EFXX", None),
            ("ST8000DM009", None),
            // Disks that exist, and that the catalogue does not have.
            ("WUH722626ALE604", None),
            ("ST4000NM0035", None),
            ("WD80EMAZ", None),
            ("WD30EZRX", None),
        ] {
            assert_eq!(find(name), None);
            assert!(matches!(&identify(name)[..], [Identified::Unknown(word)] if name.to_uppercase().contains(word)));
            assert_eq!(nearest_model(name), near, "{name}");
        }
        // Two disks are no model, and neither is a part of one.
        assert_eq!(find("WD40EFAX WD40EFRX"), None);
        assert_eq!(
            (find("WD40EFA"), find("ST8000DM0045"), find("DT02ABA400V").unwrap().name),
            (None, None, "DT02ABA400V")
        );
    }
    /// Whoever mistypes a model must not be shown one that records in another way.
    #[test]
    fn a_mistyped_model_is_never_compared_with_one_of_another_recording() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let letters: Vec<char> = ('0'..='9').chain('A'..='Z').collect();
        for model in models() {
            let name = example(&model);
            for _ in 0..10 {
                let mut mistyped: Vec<char> = name.chars().collect();
                let at = random.random_range(0..mistyped.len());
                mistyped[at] = letters[random.random_range(0..letters.len())];
                let mistyped: String = mistyped.into_iter().collect();
                let Some(near) = find(&mistyped).is_none().then(|| nearest_model(&mistyped)).flatten() else {
                    continue;
                };
                let near = models().find(|own| own.name == near).unwrap();
                assert_eq!(near.recording, model.recording, "{mistyped} of {name}: {near:?}");
            }
        }
    }
}

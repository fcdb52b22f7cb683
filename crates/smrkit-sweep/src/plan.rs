//! The plan of a sweep: options of a run, each of which may be a list.
//!
//! Layers and parameters of a comparison are run together, as by the command: on drives of one size, next to one conventional disk. Every
//! other list multiplies the comparisons.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use smrkit::error::Error;
use smrkit::quantity::parse_count;
use smrkit_options::pairs::Pair;
use toml::{Table, Value};

/// Key of the number of repetitions, each with a seed of its own.
const REPEAT: &str = "repeat";
/// Options whose values may be files; comparisons are identified by the files' contents, not their names.
pub(crate) const FILES: [&str; 4] = ["trace", "drive", "like", "from_state"];

/// Options whose effect depends on the seed. The requests of a trace alone do not.
const SEEDED: [&str; 5] = ["workload", "interleave", "rebuild", "power_cut", "prefill"];

/// Seed of the first repetition.
const FIRST_SEED: u64 = 1;

/// One of equal parts of a sweep, so that processes that share its store compute nothing twice: the second of eight is `2/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub(crate) at: usize,
    pub(crate) of: usize,
}

impl Part {
    /// The whole sweep.
    pub const ALL: Part = Part { at: 1, of: 1 };
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}/{}", self.at, self.of)
    }
}

impl FromStr for Part {
    type Err = Error;

    fn from_str(text: &str) -> Result<Part, Error> {
        let numbers =
            text.split_once('/').and_then(|(at, of)| Some(Part { at: at.parse().ok()?, of: of.parse().ok()? }));
        let part = numbers.filter(|part| (1..=part.of).contains(&part.at));
        part.ok_or_else(|| {
            Error::Usage(format!("`{text}` is no part: write 1/8 for the first of eight, and up to 8/8"))
        })
    }
}

/// Comparisons, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// Its name in the store.
    pub name: String,
    /// The options of each comparison.
    pub comparisons: Vec<Vec<Pair>>,
    /// The part of it that is computed.
    pub part: Part,
    /// A remark on how the file was read.
    pub note: Option<&'static str>,
}

impl Sweep {
    /// Reads a sweep's file, and names the sweep after it. Paths in the file are relative to its folder.
    pub fn read(path: &Path) -> Result<Sweep, Error> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::reading(path, error))?;
        let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let mut sweep = Sweep::parse(&name, &text).map_err(|error| match error {
            Error::Usage(message) => Error::input(path, message),
            other => other,
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for (option, value) in sweep.comparisons.iter_mut().flatten() {
            // A name that is no file, such as a preset's, is kept.
            let in_folder = folder.join(&*value);
            if FILES.contains(&option.replace('-', "_").as_str()) && in_folder.exists() {
                *value = in_folder.display().to_string();
            }
        }
        Ok(sweep)
    }

    /// Reads a sweep's text.
    pub fn parse(name: &str, text: &str) -> Result<Sweep, Error> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            Error::Usage(format!("no TOML: {}", error.to_string().trim_end().replace('\n', " ")))
        })?;
        Sweep::from_table(name, &table)
    }

    /// Reads a sweep's table as JSON.
    pub fn from_json(name: &str, text: &str) -> Result<Sweep, Error> {
        let read = serde_json::from_str(text);
        Sweep::from_table(name, &read.map_err(|error| Error::Usage(format!("options can't be read: {error}")))?)
    }

    /// Plans a comparison for each combination of the options' values.
    fn from_table(name: &str, table: &Table) -> Result<Sweep, Error> {
        if table.contains_key("seed") && table.contains_key(REPEAT) {
            return Err(Error::Usage("seed and repeat both say the seeds: leave one out".into()));
        }
        let is_pure_replay = table.contains_key("trace") && !SEEDED.iter().any(|name| table.contains_key(*name));
        let note = (is_pure_replay && table.contains_key(REPEAT))
            .then_some("seeds play no part in a replay, which is run once");
        let mut comparisons = vec![Vec::new()];
        for (name, value) in table {
            let mut choices = choices(name, value)?;
            if name == REPEAT && note.is_some() {
                choices.truncate(1);
            }
            comparisons = comparisons
                .iter()
                .flat_map(|one| choices.iter().map(|choice| [one.as_slice(), choice].concat()))
                .collect();
        }
        match comparisons.is_empty() {
            true => Err(Error::Usage("an empty list leaves nothing to run: give it a value, or drop it".into())),
            false => Ok(Sweep { name: name.into(), comparisons, part: Part::ALL, note }),
        }
    }
}

/// The choices that an option offers: for each of its values, the options that a comparison gets.
fn choices(name: &str, value: &Value) -> Result<Vec<Vec<Pair>>, Error> {
    let pair = |text: String| (name.to_string(), text);
    match (name, value) {
        ("set", Value::Table(set)) => Ok(vec![set.iter().map(parameter).collect::<Result<_, Error>>()?]),
        ("set", _) => Err(Error::Usage(
            "set is a table of parameters: [set] and lines such as \"rmw.region_sectors\" = [300, 600]".into(),
        )),
        (REPEAT, count) => match text(name, count).and_then(|text| parse_count(&text)) {
            Ok(count) if (1..=1_000_000).contains(&count) => {
                Ok((0..count).map(|nth| vec![("seed".into(), (FIRST_SEED + nth).to_string())]).collect())
            }
            _ => Err(Error::Usage("repeat takes how many seeds to run, from 1 on".into())),
        },
        ("layer", Value::Array(layers)) => Ok(vec![vec![pair(listed(name, layers)?)]]),
        (_, Value::Array(values)) => values
            .iter()
            .map(|value| match value {
                // A list within the list: sources that are merged.
                Value::Array(several) => several.iter().map(|one| Ok(pair(text(name, one)?))).collect(),
                one => Ok(vec![pair(text(name, one)?)]),
            })
            .collect(),
        (_, one) => Ok(vec![vec![pair(text(name, one)?)]]),
    }
}

fn parameter((key, value): (&String, &Value)) -> Result<Pair, Error> {
    let values = match value {
        Value::Array(values) => listed(key, values)?,
        one => text(key, one)?,
    };
    Ok(("set".into(), format!("{key}={values}")))
}

fn listed(name: &str, values: &[Value]) -> Result<String, Error> {
    Ok(values.iter().map(|value| text(name, value)).collect::<Result<Vec<_>, Error>>()?.join(","))
}

fn text(name: &str, value: &Value) -> Result<String, Error> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(on) => Ok(if *on { "on" } else { "off" }.into()),
        _ => Err(Error::Usage(format!("{name} takes a text, a number, true or false, or a list of them"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(text: &str) -> Vec<String> {
        let sweep = Sweep::parse("test", text).unwrap();
        let words =
            |one: &Vec<Pair>| one.iter().map(|(name, value)| format!("{name}:{value}")).collect::<Vec<_>>().join(" ");
        sweep.comparisons.iter().map(words).collect()
    }

    #[test]
    fn lists_multiply_save_layers_and_parameters() {
        let text = "drive = 'tiny'\nlayer = ['rmw', 'log']\ndepth = [1, 8]\nfold = true\nrepeat = 2\n[set]\n'rmw.region_sectors' = [300, 600]";
        let each = |depth, seed| {
            format!("depth:{depth} drive:tiny fold:on layer:rmw,log seed:{seed} set:rmw.region_sectors=300,600")
        };
        let mut planned = planned(text);
        planned.iter_mut().for_each(|words| {
            let mut sorted: Vec<&str> = words.split(' ').collect();
            sorted.sort_unstable();
            *words = sorted.join(" ");
        });
        assert_eq!(planned, [each(1, 1), each(1, 2), each(8, 1), each(8, 2)]);
    }

    #[test]
    fn a_list_in_a_list_is_merged_into_one_demand() {
        let planned = planned("workload = [['mix', 'zipf'], 'runs']\ninterleave = 'time'");
        assert!(planned.iter().any(|one| one.contains("workload:mix workload:zipf")), "{planned:?}");
        assert_eq!(planned.len(), 2);
    }

    #[test]
    fn nonsense_says_what_to_do() {
        let error = |text: &str| Sweep::parse("test", text).unwrap_err().to_string();
        assert!(error("seed = 1\nrepeat = 2").contains("leave one out"));
        assert!(error("depth = []").contains("nothing to run"));
        assert!(error("depth = {a = 1}").contains("depth takes a text"));
        assert!(error("set = 3").contains("[set]"));
        assert!(error("drive = ").contains("no TOML"));
    }

    #[test]
    fn repetitions_have_the_seeds_from_one_on() {
        let seeds = |count: i64| Sweep::parse("test", &format!("repeat = {count}")).map(|sweep| sweep.comparisons);
        assert_eq!(Sweep::parse("test", "repeat = '0.002k'").unwrap().comparisons, seeds(2).unwrap());
        assert_eq!(seeds(1).unwrap(), [[("seed".to_string(), "1".to_string())]]);
        assert_eq!(seeds(3).unwrap()[2], [("seed".to_string(), "3".to_string())]);
        for count in [0, -1, 1_000_001] {
            assert!(seeds(count).unwrap_err().to_string().contains("from 1 on"), "{count}");
        }
        let replay = Sweep::parse("test", "trace = ['a', 'b']\nrepeat = 3").unwrap();
        assert!(replay.comparisons.len() == 2 && replay.note.is_some_and(|note| note.contains("run once")));
        let merged = Sweep::parse("test", "trace = 'a'\nworkload = 'mix'\nrepeat = 3").unwrap();
        assert!(merged.comparisons.len() == 3 && merged.note.is_none());
        assert!(Sweep::parse("test", "repeat = 'often'").unwrap_err().to_string().contains("how many seeds"));
    }

    #[test]
    fn values_of_each_kind_are_texts_for_the_command() {
        let text = "a = 'x'\nb = 3\nc = 2.5\nd = true\ne = false\n[set]\nf = [1, 'auto']\ng = 0.5";
        assert_eq!(planned(text), ["a:x b:3 c:2.5 d:on e:off set:f=1,auto set:g=0.5"]);
        let json = Sweep::from_json("test", r#"{"depth": [1, 2], "layer": ["rmw"]}"#).unwrap();
        assert_eq!((json.name.as_str(), json.comparisons.len()), ("test", 2));
        assert!(Sweep::from_json("test", "{").unwrap_err().to_string().contains("options can't be read"));
    }

    #[test]
    fn a_file_is_called_as_it_is_and_named_with_its_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nightly.toml");
        std::fs::write(&path, "depth = 1").unwrap();
        assert_eq!(Sweep::read(&path).unwrap().name, "nightly");
        std::fs::write(&path, "depth = []").unwrap();
        let said = Sweep::read(&path).unwrap_err();
        assert!(said.to_string().contains("nightly.toml") && !matches!(said, Error::Usage(_)), "{said}");
        assert!(Sweep::read(&folder.path().join("none.toml")).is_err());
        std::fs::write(&path, "trace = 'a.csv'\ndrive = ['tiny', 'own.toml']\nworkload = 'mix'").unwrap();
        ["a.csv", "own.toml"].iter().for_each(|name| std::fs::write(folder.path().join(name), "").unwrap());
        let beside = |name: &str| folder.path().join(name).display().to_string();
        let values: Vec<String> =
            Sweep::read(&path).unwrap().comparisons.concat().into_iter().map(|(_, value)| value).collect();
        for value in ["tiny", "mix", &beside("a.csv"), &beside("own.toml")] {
            assert!(values.iter().any(|own| own == value), "{value}: {values:?}");
        }
    }
}

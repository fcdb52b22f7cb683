//! A folder of comparisons, each a Parquet file under a hash of all that decides its numbers.
//!
//! A row is a run: some columns to select by, and the record of `outcome.json` as text. A file is there whole or not at all, and
//! is never written twice; a sweep's own file names its comparisons. Stores can be copied and joined.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::json;
use sha2::{Digest, Sha256};
use smrkit::VERSION;
use smrkit::error::Error;
use smrkit::stats::outcome::Outcome;
use smrkit_options::COMMIT;
use smrkit_options::pairs::Pair;
use smrkit_trace::parquet::table::{Column, Packing, TableWriter, Values, read_words, words};
use smrkit_trace::split::{SplitTrace, SplitVolume};

use crate::plan::{Sweep, VOLUMES};

/// Options whose values may be files; what they hold counts, not what they are called.
const FILES: [&str; 4] = ["trace", "drive", "array", "workload"];
const TEXTS: [&str; 6] = ["layer", "drive", "array", "trace", "workload", "parameters"];
const NUMBERS: [&str; 9] = [
    "seed",
    "requests",
    "elapsed_ns",
    "latency_mean_ns",
    "latency_p50_ns",
    "latency_p99_ns",
    "latency_max_ns",
    "host_written_sectors",
    "physical_written_sectors",
];
const RECORD: &str = "outcome";
/// Between the key and the process, in the names of files under construction.
const OWN: &str = ".of-";

const VOLUME_TEXTS: [&str; 6] = ["layer", "drive", "array", "trace", "name", "parameters"];
const VOLUME_NUMBERS: [&str; 13] = [
    "volume",
    "seed",
    "requests",
    "elapsed_ns",
    "baseline_elapsed_ns",
    "latency_mean_ns",
    "baseline_mean_ns",
    "latency_p99_ns",
    "latency_max_ns",
    "stalls_over_7s",
    "commands_over_7s",
    "host_written_sectors",
    "physical_written_sectors",
];

/// Result of one volume in one run.
pub struct VolumeRow {
    texts: [String; VOLUME_TEXTS.len()],
    numbers: [u64; VOLUME_NUMBERS.len()],
}

impl VolumeRow {
    /// The row of a volume's outcome, next to that of the conventional disk.
    pub fn new(volume: &SplitVolume, outcome: &Outcome, conventional: &Outcome) -> VolumeRow {
        let text = |name: &str| if name == "name" { volume.name.clone() } else { text_of(outcome, name) };
        let number = |name: &str| match name {
            "volume" => volume.number,
            "baseline_elapsed_ns" => conventional.elapsed_ns,
            "baseline_mean_ns" => conventional.latency_ns.all.mean,
            "stalls_over_7s" => outcome.verdict.stalls_over_7s,
            "commands_over_7s" => outcome.verdict.commands.commands_over_7s,
            _ => number_of(outcome, name),
        };
        VolumeRow { texts: VOLUME_TEXTS.map(text), numbers: VOLUME_NUMBERS.map(number) }
    }
}

/// The folder.
pub struct Store(PathBuf);

impl Store {
    /// Opens the store at `path`, which is made where it is missing.
    pub fn create(path: &Path) -> Result<Store, Error> {
        fs::create_dir_all(path).map_err(|error| Error::writing(path, error))?;
        Ok(Store(path.into()))
    }

    /// Opens the store at `path`.
    pub fn open(path: &Path) -> Result<Store, Error> {
        match path.is_dir() {
            true => Ok(Store(path.into())),
            false => Err(Error::input(path, "no store of results: name the folder that a sweep wrote into")),
        }
    }

    /// True if a comparison is there.
    pub fn has(&self, key: &str) -> bool {
        self.file(key).is_file()
    }

    fn file(&self, key: &str) -> PathBuf {
        self.0.join(format!("{key}.parquet"))
    }

    /// Path at which this process alone writes a comparison: a scheduler may have given one task to two.
    fn own(&self, key: &str) -> PathBuf {
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        self.0.join(format!("{key}{OWN}{}-{since}", std::process::id()))
    }

    fn rename(&self, own: &Path, key: &str) -> Result<(), Error> {
        let path = self.file(key);
        fs::rename(own, &path).map_err(|error| Error::writing(&path, error))
    }

    /// Removes what killed processes left of results that are there.
    pub fn tidy(&self) -> Result<(), Error> {
        for folder in [self.0.clone(), self.0.join("groups"), self.0.join("volumes")] {
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if name.split_once(OWN).is_some_and(|(key, _)| folder.join(format!("{key}.parquet")).is_file()) {
                    fs::remove_file(&path).map_err(|error| Error::writing(&path, error))?;
                }
            }
        }
        Ok(())
    }

    /// Keeps a comparison.
    pub fn keep(&self, key: &str, outcomes: &[Outcome]) -> Result<(), Error> {
        fs::create_dir_all(&self.0).map_err(|error| Error::writing(&self.0, error))?;
        let text = |name| Column { name, bits: 0, packing: Packing::Words };
        let number = |name| Column { name, bits: 64, packing: Packing::Delta };
        let columns: Vec<Column> =
            TEXTS.iter().map(|name| text(*name)).chain(NUMBERS.map(number)).chain([text(RECORD)]).collect();
        let own = self.own(key);
        let mut table = TableWriter::create(&own, &columns)?;
        let texts = TEXTS.map(|name| words(outcomes.iter().map(|one| text_of(one, name))));
        let numbers = NUMBERS.map(|name| outcomes.iter().map(|one| number_of(one, name) as i64).collect::<Vec<_>>());
        let records = words(outcomes.iter().map(|one| json!(one).to_string()));
        let mut values: Vec<Values> = texts.iter().map(|texts| Values::Words(texts)).collect();
        values.extend(numbers.iter().map(|numbers| Values::Long(numbers)));
        values.push(Values::Words(&records));
        table.write_group(&values)?;
        table.finish(vec![("smrkit.format".into(), "results".into()), ("smrkit.version".into(), "1".into())])?;
        self.rename(&own, key)
    }

    /// The store of groups of volumes, whose merges are comparisons.
    pub fn groups(&self) -> Store {
        Store(self.0.join("groups"))
    }

    /// Keeps what became of each volume of a group, a row a run.
    pub fn keep_volumes(&self, key: &str, rows: &[VolumeRow]) -> Result<(), Error> {
        let store = Store::create(&self.0.join("volumes"))?;
        let own = store.own(key);
        let text = |name| Column { name, bits: 0, packing: Packing::Words };
        let number = |name| Column { name, bits: 64, packing: Packing::Delta };
        let columns: Vec<Column> =
            VOLUME_TEXTS.iter().map(|name| text(*name)).chain(VOLUME_NUMBERS.map(number)).collect();
        let mut table = TableWriter::create(&own, &columns)?;
        let texts: Vec<_> =
            (0..VOLUME_TEXTS.len()).map(|at| words(rows.iter().map(|row| row.texts[at].clone()))).collect();
        let numbers: Vec<Vec<i64>> =
            (0..VOLUME_NUMBERS.len()).map(|at| rows.iter().map(|row| row.numbers[at] as i64).collect()).collect();
        let texts = texts.iter().map(|texts| Values::Words(texts));
        let values: Vec<Values> = texts.chain(numbers.iter().map(|numbers| Values::Long(numbers))).collect();
        table.write_group(&values)?;
        table.finish(vec![("smrkit.format".into(), "volumes".into()), ("smrkit.version".into(), "1".into())])?;
        store.rename(&own, key)
    }

    /// The outcomes of a comparison.
    pub fn outcomes(&self, key: &str) -> Result<Vec<Outcome>, Error> {
        let path = self.file(key);
        let read = |text: &String| {
            serde_json::from_str(text).map_err(|error| {
                Error::input(
                    &path,
                    format!("no outcome of this version of smrkit ({error}): remove the file and sweep again"),
                )
            })
        };
        read_words(&path, RECORD)?.iter().map(read).collect()
    }

    /// Notes which comparisons a sweep has.
    pub fn note(&self, sweep: &Sweep, keys: &[String]) -> Result<(), Error> {
        let (path, partial) = (self.sweep(&sweep.name), self.0.join(format!("{}.partial", sweep.name)));
        let text = json!({"sweep": sweep.name, "comparisons": keys}).to_string() + "\n";
        fs::write(&partial, text).map_err(|error| Error::writing(&partial, error))?;
        fs::rename(&partial, &path).map_err(|error| Error::writing(&path, error))
    }

    fn sweep(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.sweep.json"))
    }

    /// Names of the sweeps that wrote into it, sorted.
    pub fn sweeps(&self) -> Result<Vec<String>, Error> {
        let failed = |error| Error::reading(&self.0, error);
        let names = fs::read_dir(&self.0).map_err(failed)?.filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            name.strip_suffix(".sweep.json").map(str::to_string)
        });
        let mut names: Vec<String> = names.collect();
        names.sort();
        Ok(names)
    }

    /// The outcomes of one sweep, or of all. Errors: a sweep that is not there, and no outcome at all.
    pub fn chosen(&self, sweep: Option<&str>) -> Result<Vec<Outcome>, Error> {
        let known = self.sweeps()?;
        let names = match sweep {
            None => known,
            Some(name) if known.iter().any(|known| known == name) => vec![name.to_string()],
            Some(name) => {
                let (there, store) = (known.join(", "), self.0.display());
                return Err(Error::Usage(format!("no sweep is called {name} in {store}: there are {there}")));
            }
        };
        // Sweeps share what they have in common.
        let mut keys: Vec<String> = Vec::new();
        for key in names.iter().map(|name| self.keys_of(name)).collect::<Result<Vec<_>, Error>>()?.concat() {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let outcomes = self.of_keys(&keys)?;
        match outcomes.is_empty() {
            true => Err(Error::input(&self.0, "no outcomes yet: start smrkit sweep")),
            false => Ok(outcomes),
        }
    }

    /// The outcomes of a sweep, as far as they are there.
    pub fn of_sweep(&self, name: &str) -> Result<Vec<Outcome>, Error> {
        self.of_keys(&self.keys_of(name)?)
    }

    fn of_keys(&self, keys: &[String]) -> Result<Vec<Outcome>, Error> {
        let there = keys.iter().filter(|key| self.has(key)).map(|key| self.outcomes(key));
        Ok(there.collect::<Result<Vec<_>, Error>>()?.concat())
    }

    /// Keys of a sweep's comparisons.
    fn keys_of(&self, name: &str) -> Result<Vec<String>, Error> {
        let path = self.sweep(name);
        let text = fs::read_to_string(&path).map_err(|error| Error::reading(&path, error))?;
        let noted: serde_json::Value = serde_json::from_str(&text).map_err(|error| {
            Error::input(&path, format!("damaged ({error}): start the sweep again, which computes nothing twice"))
        })?;
        let keys = noted["comparisons"].as_array().into_iter().flatten();
        Ok(keys.filter_map(|key| key.as_str().map(str::to_string)).collect())
    }
}

fn text_of(outcome: &Outcome, name: &str) -> String {
    match name {
        "layer" => outcome.layer.clone(),
        "drive" => outcome.drive.clone(),
        "array" => outcome.array.clone().unwrap_or_default(),
        "trace" => outcome.replayed.trace.clone().unwrap_or_default(),
        "workload" => outcome.replayed.workload.clone().unwrap_or_default(),
        _ => json!(outcome.parameters).to_string(),
    }
}

fn number_of(outcome: &Outcome, name: &str) -> u64 {
    let all = &outcome.latency_ns.all;
    match name {
        "seed" => outcome.seed,
        "requests" => outcome.requests,
        "elapsed_ns" => outcome.elapsed_ns,
        "latency_mean_ns" => all.mean,
        "latency_p50_ns" => all.p50,
        "latency_p99_ns" => all.p99,
        "latency_max_ns" => all.max,
        "host_written_sectors" => outcome.host_written_sectors,
        _ => outcome.physical_written_sectors.total,
    }
}

/// The hash of all that decides the numbers of a comparison: this program, the options, and what the files in them hold.
pub fn key(options: &[Pair], contents: &mut Contents) -> Result<String, Error> {
    let mut parts: Vec<Vec<u8>> = [VERSION, COMMIT.unwrap_or_default()].map(Vec::from).into();
    let mut sorted: Vec<&Pair> = options.iter().collect();
    // Merged sources keep their order.
    sorted.sort_by_key(|(name, _)| name.replace('-', "_"));
    for (name, value) in sorted {
        parts.push(name.replace('-', "_").into());
        parts.push(match name.as_str() {
            VOLUMES => contents.of_split(Path::new(value))?,
            name if FILES.contains(&name) && Path::new(value).is_file() => contents.of_file(Path::new(value))?,
            _ => value.as_bytes().to_vec(),
        });
    }
    Ok(hash_of(parts.iter().map(Vec::as_slice)))
}

/// The hash of parts, each preceded by its length, so that no two lists of parts are alike.
pub fn hash_of<'a>(parts: impl Iterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hashes of what files hold, each read once.
#[derive(Default)]
pub struct Contents(HashMap<PathBuf, Vec<u8>>);

impl Contents {
    /// The SHA-256 of a file.
    fn of_file(&mut self, path: &Path) -> Result<Vec<u8>, Error> {
        if let Some(known) = self.0.get(path) {
            return Ok(known.clone());
        }
        let failed = |error| Error::reading(path, error);
        let (mut file, mut hash, mut part) = (File::open(path).map_err(failed)?, Sha256::new(), vec![0; 1 << 18]);
        loop {
            match file.read(&mut part).map_err(failed)? {
                0 => break,
                n => hash.update(&part[..n]),
            }
        }
        Ok(self.0.entry(path.into()).or_insert(hash.finalize().to_vec()).clone())
    }

    /// Text that decides the requests of a split trace's volumes: the trace, and how it was read; not its buckets.
    fn of_split(&mut self, folder: &Path) -> Result<Vec<u8>, Error> {
        let split = SplitTrace::open(folder)?;
        match &split.trace_sha256 {
            Some(sha256) => Ok(json!([sha256, split.trace_reading, split.requests]).to_string().into_bytes()),
            None => Err(Error::input(folder, "the hash of the trace is missing: split it again")),
        }
    }
}

#[cfg(test)]
mod tests;

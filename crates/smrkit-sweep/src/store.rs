//! A folder of comparisons, each a Parquet file under a hash of all that decides its numbers.
//!
//! A row is a run: some columns to select by, and the record of `outcome.json` as text. A file is there whole or not at all, and
//! is never written twice; a sweep's own file names its comparisons. Stores can be copied and joined.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use serde_json::json;
use sha2::{Digest, Sha256};
use smrkit::VERSION;
use smrkit::error::Error;
use smrkit::stats::outcome::Outcome;
use smrkit_options::COMMIT;
use smrkit_options::pairs::Pair;
use smrkit_trace::parquet::table::read_words;
use smrkit_trace::split::{SplitTrace, SplitVolume};

use crate::cells::{self, Cells};
use crate::plan::{Sweep, VOLUMES};

/// Options whose values may be files; what they hold counts, not what they are called.
const FILES: [&str; 4] = ["trace", "drive", "array", "workload"];

type Text = fn(&Outcome) -> String;
type Number = fn(&Outcome) -> u64;
type VolumeText = fn(&SplitVolume, &Outcome) -> String;
type VolumeNumber = fn(&SplitVolume, &Outcome, &Outcome) -> u64;

/// Columns to select by, each with what a run has there.
const TEXTS: [(&str, Text); 6] = [
    ("layer", |run| run.layer.clone()),
    ("drive", |run| run.drive.clone()),
    ("array", |run| run.array.clone().unwrap_or_default()),
    ("trace", |run| run.replayed.trace.clone().unwrap_or_default()),
    ("workload", |run| run.replayed.workload.clone().unwrap_or_default()),
    ("parameters", |run| json!(run.parameters).to_string()),
];
const NUMBERS: [(&str, Number); 9] = [
    ("seed", |run| run.seed),
    ("requests", |run| run.requests),
    ("elapsed_ns", |run| run.elapsed_ns),
    ("latency_mean_ns", |run| run.latency_ns.all.mean),
    ("latency_p50_ns", |run| run.latency_ns.all.p50),
    ("latency_p99_ns", |run| run.latency_ns.all.p99),
    ("latency_max_ns", |run| run.latency_ns.all.max),
    ("host_written_sectors", |run| run.host_written_sectors),
    ("physical_written_sectors", |run| run.physical_written_sectors.total),
];
const RECORD: &str = "outcome";
/// Separator of key and process in the names of files under construction.
const OWN: &str = ".of-";
/// Ending of the file that names a sweep's comparisons.
const NOTE: &str = ".sweep.json";

/// The columns of a volume's run, from both and that of the conventional disk.
const VOLUME_TEXTS: [(&str, VolumeText); 6] = [
    ("layer", |_, run| run.layer.clone()),
    ("drive", |_, run| run.drive.clone()),
    ("array", |_, run| run.array.clone().unwrap_or_default()),
    ("trace", |_, run| run.replayed.trace.clone().unwrap_or_default()),
    ("name", |volume, _| volume.name.clone()),
    ("parameters", |_, run| json!(run.parameters).to_string()),
];
const VOLUME_NUMBERS: [(&str, VolumeNumber); 13] = [
    ("volume", |volume, _, _| volume.number),
    ("seed", |_, run, _| run.seed),
    ("requests", |_, run, _| run.requests),
    ("elapsed_ns", |_, run, _| run.elapsed_ns),
    ("baseline_elapsed_ns", |_, _, conventional| conventional.elapsed_ns),
    ("latency_mean_ns", |_, run, _| run.latency_ns.all.mean),
    ("baseline_mean_ns", |_, _, conventional| conventional.latency_ns.all.mean),
    ("latency_p99_ns", |_, run, _| run.latency_ns.all.p99),
    ("latency_max_ns", |_, run, _| run.latency_ns.all.max),
    ("stalls_over_7s", |_, run, _| run.verdict.stalls_over_7s),
    ("commands_over_7s", |_, run, _| run.verdict.commands.commands_over_7s),
    ("host_written_sectors", |_, run, _| run.host_written_sectors),
    ("physical_written_sectors", |_, run, _| run.physical_written_sectors.total),
];

/// Result of one volume in one run.
pub struct VolumeRow {
    texts: [String; VOLUME_TEXTS.len()],
    numbers: [u64; VOLUME_NUMBERS.len()],
}

impl VolumeRow {
    /// The row of a volume's outcome, next to that of the conventional disk.
    pub fn new(volume: &SplitVolume, outcome: &Outcome, conventional: &Outcome) -> VolumeRow {
        VolumeRow {
            texts: VOLUME_TEXTS.map(|(_, of)| of(volume, outcome)),
            numbers: VOLUME_NUMBERS.map(|(_, of)| of(volume, outcome, conventional)),
        }
    }
}

/// The folder.
pub struct Store(PathBuf);

impl Store {
    /// Opens the store at `path`, or makes it.
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

    /// Path of one try to write what becomes `key`: a scheduler may have given one task to two processes.
    fn own(&self, key: &str) -> PathBuf {
        static TRIES: AtomicU64 = AtomicU64::new(0);
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        let nth = TRIES.fetch_add(1, Ordering::Relaxed);
        self.0.join(format!("{key}{OWN}{}-{since}-{nth}", std::process::id()))
    }

    /// Writes a table under a key.
    fn write(&self, key: &str, format: &str, columns: &[(&str, Cells)]) -> Result<(), Error> {
        let own = self.own(key);
        let written = cells::write(&own, format, columns).and_then(|()| rename(&own, &self.file(key)));
        // A process that was as far may have taken ours for what a killed one left.
        if self.has(key) { Ok(()) } else { written }
    }

    /// Removes what killed processes left of results that are there, and of notes that a later one has replaced.
    pub fn tidy(&self) -> Result<(), Error> {
        let time = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
        for folder in [self.0.clone(), self.0.join("groups"), self.0.join("volumes")] {
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let is_of_no_use = |(key, own): (&str, &str)| {
                    // Names of sweeps are free, and may look like those of files under construction.
                    let is_own = own.trim_end_matches(".partial").bytes().all(|b| b.is_ascii_digit() || b == b'-');
                    let noted = time(&folder.join(format!("{key}{NOTE}")));
                    is_own && (folder.join(format!("{key}.parquet")).is_file() || noted > time(&path))
                };
                if name.rsplit_once(OWN).is_some_and(is_of_no_use) {
                    match fs::remove_file(&path) {
                        Err(error) if error.kind() != ErrorKind::NotFound => return Err(Error::writing(&path, error)),
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }

    /// Keeps a comparison.
    pub fn keep(&self, key: &str, outcomes: &[Outcome]) -> Result<(), Error> {
        fs::create_dir_all(&self.0).map_err(|error| Error::writing(&self.0, error))?;
        let texts = TEXTS.map(|(name, of)| (name, Cells::Texts(outcomes.iter().map(of).collect())));
        let numbers = NUMBERS.map(|(name, of)| (name, Cells::counts(outcomes.iter().map(of))));
        let records = outcomes.iter().map(|run| json!(run).to_string()).collect();
        let columns = texts.into_iter().chain(numbers).chain([(RECORD, Cells::Texts(records))]);
        self.write(key, "results", &columns.collect::<Vec<_>>())
    }

    /// The store of groups of volumes, whose merges are comparisons.
    pub fn groups(&self) -> Store {
        Store(self.0.join("groups"))
    }

    /// Keeps what became of each volume of a group, a row a run.
    pub fn keep_volumes(&self, key: &str, rows: &[VolumeRow]) -> Result<(), Error> {
        let store = Store::create(&self.0.join("volumes"))?;
        let texts = VOLUME_TEXTS
            .iter()
            .enumerate()
            .map(|(at, (name, _))| (*name, Cells::Texts(rows.iter().map(|row| row.texts[at].clone()).collect())));
        let numbers = VOLUME_NUMBERS.iter().enumerate();
        let numbers = numbers.map(|(at, (name, _))| (*name, Cells::counts(rows.iter().map(|row| row.numbers[at]))));
        store.write(key, "volumes", &texts.chain(numbers).collect::<Vec<_>>())
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
        let (own, path) = (self.own(&sweep.name), self.sweep(&sweep.name));
        let text = json!({"sweep": sweep.name, "comparisons": keys}).to_string() + "\n";
        let written =
            File::create(&own).and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
        let noted = written.and_then(|()| fs::rename(&own, &path)).inspect_err(|_| drop(fs::remove_file(&own)));
        match noted {
            // A process that noted it later has taken ours for what a killed one left.
            Err(error) if error.kind() == ErrorKind::NotFound && path.is_file() => Ok(()),
            _ => noted.map_err(|error| Error::writing(&path, error)),
        }
    }

    fn sweep(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}{NOTE}"))
    }

    /// Names of the sweeps that wrote into it, sorted.
    pub fn sweeps(&self) -> Result<Vec<String>, Error> {
        let failed = |error| Error::reading(&self.0, error);
        let names = fs::read_dir(&self.0).map_err(failed)?.filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            name.strip_suffix(NOTE).map(str::to_string)
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

fn rename(own: &Path, path: &Path) -> Result<(), Error> {
    fs::rename(own, path).map_err(|error| Error::writing(path, error))
}

/// The hash of all that decides the numbers of a comparison: this program, the options, and what the files in them hold.
pub fn key(options: &[Pair], contents: &mut FileHashes) -> Result<String, Error> {
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
pub struct FileHashes(HashMap<PathBuf, Vec<u8>>);

impl FileHashes {
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

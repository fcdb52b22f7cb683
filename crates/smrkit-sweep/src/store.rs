//! A folder of comparisons, each a Parquet file named by a hash of all inputs of its numbers.
//!
//! A row is a run, with a column for each key of `outcome.json` that is no list, dotted, and one for the whole record as text. A file is
//! whole or absent, and never written twice. A further file for each sweep lists its comparisons. Stores can be copied and joined.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use smrkit::VERSION;
use smrkit::error::Error;
use smrkit::layer;
use smrkit::stats::outcome::Outcome;
use smrkit_options::SOURCES;
use smrkit_options::pairs::Pair;
use smrkit_trace::parquet::table::read_texts;

use crate::frame::{Frame, flat};
use crate::plan::{FILES, Sweep};

const OUTCOME_COLUMN: &str = "outcome";
/// Separator of key and process in the names of files under construction.
const TEMPORARY: &str = ".of-";
/// Ending of the file that a process locks while it computes a comparison. A file that a killed process left is removed like its other files.
const CLAIM: &str = ".of-0";
/// Beginning and ending of the file that names a sweep's comparisons. Libraries of data frames that read all of a folder pass over files
/// that begin with an underscore.
const SWEEP: [&str; 2] = ["_", ".sweep.json"];

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

    /// True if the store has a comparison.
    pub fn has(&self, key: &str) -> bool {
        self.file(key).is_file()
    }

    fn file(&self, key: &str) -> PathBuf {
        self.0.join(format!("{key}.parquet"))
    }

    /// Claims a comparison, so that other processes which share the store compute something else; `None` if one of them has it. The claim is a
    /// lock, which ends with its process. On a file system without locks every process gets the claim.
    pub fn claim(&self, key: &str) -> Result<Option<Claim>, Error> {
        let path = self.0.join(format!("{key}{CLAIM}"));
        let file = File::create(&path).map_err(|error| Error::writing(&path, error))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Ok(None),
            _ => Ok(Some(Claim { path, _lock: file })),
        }
    }

    /// Path of a temporary file for `key`, or for the list of a sweep. It has the process's number, because a scheduler may have given one task
    /// to two processes.
    fn temporary(&self, key: &str) -> PathBuf {
        static TRIES: AtomicU64 = AtomicU64::new(0);
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        let nth = TRIES.fetch_add(1, Ordering::Relaxed);
        self.0.join(format!("{key}{TEMPORARY}{}-{since}-{nth}", std::process::id()))
    }

    /// Removes files of killed processes: temporary files whose result is there, and unfinished lists of a sweep that has a later list.
    pub fn tidy(&self) -> Result<(), Error> {
        let time = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
        for path in self.paths()? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_obsolete = |(key, process): (&str, &str)| {
                // A sweep may have any name, even one that looks like a temporary file's.
                let is_temporary =
                    process.trim_end_matches(".partial").bytes().all(|b| b.is_ascii_digit() || b == b'-');
                // A list that is not there has no time, which is earlier than any.
                is_temporary && (self.has(key) || time(&self.list(key)) > time(&path))
            };
            if name.rsplit_once(TEMPORARY).is_some_and(is_obsolete) {
                remove(&path)?;
            }
        }
        Ok(())
    }

    /// Stores a comparison.
    pub fn write(&self, key: &str, outcomes: &[Outcome]) -> Result<(), Error> {
        let row = |run: &Outcome| {
            let record = json!(run);
            let text = record.to_string();
            // The columns are for queries only: an outcome is read back from its whole record.
            let mut row = flat(record);
            row.insert(OUTCOME_COLUMN.into(), text.into());
            row
        };
        let (temporary, path) = (self.temporary(key), self.file(key));
        let written = Frame::of(&outcomes.iter().map(row).collect::<Vec<_>>()).write(&temporary, "results");
        let written =
            written.and_then(|()| fs::rename(&temporary, &path).map_err(|error| Error::writing(&path, error)));
        // Another process may have completed it first, and removed our temporary file as that of a killed one.
        if self.has(key) { Ok(()) } else { written }
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
        read_texts(&path, OUTCOME_COLUMN)?.iter().map(read).collect()
    }

    /// Writes the list of a sweep's comparisons.
    pub fn write_list(&self, sweep: &Sweep, keys: &[&str]) -> Result<(), Error> {
        let (temporary, path) = (self.temporary(&sweep.name), self.list(&sweep.name));
        let text = json!({"sweep": sweep.name, "comparisons": keys}).to_string() + "\n";
        let write = || {
            let mut file = File::create(&temporary)?;
            file.write_all(text.as_bytes())?;
            // Durable before it takes the place of an earlier list.
            file.sync_all()?;
            fs::rename(&temporary, &path)
        };
        match write().inspect_err(|_| drop(fs::remove_file(&temporary))) {
            // A process that wrote the list later has removed our temporary file as that of a killed one.
            Err(error) if error.kind() == ErrorKind::NotFound && path.is_file() => Ok(()),
            written => written.map_err(|error| Error::writing(&path, error)),
        }
    }

    /// Path of the list of a sweep's comparisons.
    fn list(&self, sweep: &str) -> PathBuf {
        self.0.join(format!("{}{sweep}{}", SWEEP[0], SWEEP[1]))
    }

    /// Names of the sweeps in the store, sorted.
    pub fn sweeps(&self) -> Result<Vec<String>, Error> {
        let name = |path: PathBuf| {
            Some(path.file_name()?.to_str()?.strip_prefix(SWEEP[0])?.strip_suffix(SWEEP[1])?.to_string())
        };
        let mut names: Vec<String> = self.paths()?.filter_map(name).collect();
        names.sort();
        Ok(names)
    }

    fn paths(&self) -> Result<impl Iterator<Item = PathBuf>, Error> {
        let entries = fs::read_dir(&self.0).map_err(|error| Error::reading(&self.0, error))?;
        Ok(entries.filter_map(|entry| Some(entry.ok()?.path())))
    }

    /// Keys of the comparisons of one sweep or of all, each once, because sweeps may share comparisons. Errors: the sweep is unknown.
    fn keys(&self, sweep: Option<&str>) -> Result<Vec<String>, Error> {
        let known = self.sweeps()?;
        let names = match sweep {
            None => known,
            Some(name) if known.iter().any(|known| known == name) => vec![name.to_string()],
            Some(name) => {
                let (there, store) = (known.join(", "), self.0.display());
                return Err(Error::Usage(format!("no sweep is called {name} in {store}: there are {there}")));
            }
        };
        let mut keys = names.iter().map(|name| self.keys_of(name)).collect::<Result<Vec<_>, Error>>()?.concat();
        let mut seen = HashSet::new();
        keys.retain(|key| seen.insert(key.clone()));
        Ok(keys)
    }

    /// The outcomes of one sweep, or of all. Errors: the sweep is unknown, or there is no outcome.
    pub fn of_sweep_or_all(&self, sweep: Option<&str>) -> Result<Vec<Outcome>, Error> {
        let outcomes = self.of_keys(&self.keys(sweep)?)?;
        match outcomes.is_empty() {
            true => Err(Error::input(&self.0, "no outcomes yet: start smrkit sweep")),
            false => Ok(outcomes),
        }
    }

    /// How many comparisons of one sweep, or of all, the store lacks, and the number of these comparisons.
    pub fn missing(&self, sweep: Option<&str>) -> Result<(usize, usize), Error> {
        let keys = self.keys(sweep)?;
        Ok((keys.iter().filter(|key| !self.has(key)).count(), keys.len()))
    }

    /// The outcomes of a sweep that the store has.
    pub fn of_sweep(&self, name: &str) -> Result<Vec<Outcome>, Error> {
        self.of_keys(&self.keys_of(name)?)
    }

    fn of_keys(&self, keys: &[String]) -> Result<Vec<Outcome>, Error> {
        let computed = keys.iter().filter(|key| self.has(key)).map(|key| self.outcomes(key));
        Ok(computed.collect::<Result<Vec<_>, Error>>()?.concat())
    }

    /// Removes results that no sweep lists any more, such as those of older files, layers and programs. Returns the number of files.
    pub fn prune(&self) -> Result<usize, Error> {
        let listed: HashSet<String> = self.keys(None)?.into_iter().collect();
        let mut removed = 0;
        for path in self.paths()? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // Only files named by a hash: others are not the store's.
            let is_key = |key: &&str| key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
            if name.strip_suffix(".parquet").filter(is_key).is_some_and(|key| !listed.contains(key)) {
                removed += usize::from(remove(&path)?);
            }
        }
        Ok(removed)
    }

    /// Keys of a sweep's comparisons.
    fn keys_of(&self, name: &str) -> Result<Vec<String>, Error> {
        let path = self.list(name);
        let text = fs::read_to_string(&path).map_err(|error| Error::reading(&path, error))?;
        let noted: Value = serde_json::from_str(&text).map_err(|error| {
            Error::input(&path, format!("damaged ({error}): start the sweep again, which computes nothing twice"))
        })?;
        let keys = noted["comparisons"].as_array().into_iter().flatten();
        Ok(keys.filter_map(|key| key.as_str().map(str::to_string)).collect())
    }
}

/// A comparison that this process computes.
pub struct Claim {
    path: PathBuf,
    _lock: File,
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A process that has opened the file meanwhile gets the lock of a file without a name, which stops no other. So every process looks for
        // the result after it has the lock.
        drop(fs::remove_file(&self.path));
    }
}

/// Removes a file, unless another process did.
fn remove(path: &Path) -> Result<bool, Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        done => done.map(|()| true).map_err(|error| Error::writing(path, error)),
    }
}

/// Identifies the code that computes a comparison: this program, and the layers that are not built in.
pub fn program(options: &[Pair]) -> Result<String, Error> {
    let mut words = vec![VERSION.to_string()];
    words.extend(SOURCES.map(str::to_string));
    let layers = options.iter().filter(|(name, _)| name == "layer").flat_map(|(_, layers)| layers.split(','));
    for name in layers.map(str::trim).filter(|name| !layer::is_built_in(name)) {
        // An unknown name is reported with the other errors of the options.
        let Ok(spec) = layer::find(name) else { continue };
        let code = spec.code.ok_or_else(|| {
            Error::Usage(format!(
                "results of layer {name} can't be kept, for nothing tells its code from other versions: register it with a version"
            ))
        })?;
        words.push(format!("{name}:{code}"));
    }
    Ok(words.join(" "))
}

/// Errors: another program planned the work, so that this one could compute other numbers.
pub fn check_program(planned: &str, options: &[Pair]) -> Result<(), Error> {
    let here = program(options)?;
    match planned == here {
        true => Ok(()),
        false => Err(Error::Usage(format!(
            "this is smrkit {here}, and {planned} planned the work: install one version, and register the same layers"
        ))),
    }
}

/// The hash of all inputs of a comparison's numbers: the program and its layers, the options, and the contents of files.
pub fn key(options: &[Pair], contents: &mut FileHashes) -> Result<String, Error> {
    let mut parts: Vec<Vec<u8>> = vec![program(options)?.into()];
    let mut sorted: Vec<&Pair> = options.iter().collect();
    // Stable, because merged sources must keep their order.
    sorted.sort_by_key(|(name, _)| name.replace('-', "_"));
    for (name, value) in sorted {
        let name = name.replace('-', "_");
        if FILES.contains(&name.as_str()) && Path::new(value).is_file() {
            parts.extend([name.into(), contents.of_file(Path::new(value))?]);
            continue;
        }
        if name == "array" {
            // The drives of an array's members may be files.
            for path in value.split([',', '(', ')', '=']).map(Path::new).filter(|path| path.is_file()) {
                parts.push(contents.of_file(path)?);
            }
        }
        parts.extend([name.into(), value.as_bytes().to_vec()]);
    }
    Ok(hash_of(parts.iter().map(Vec::as_slice)))
}

/// The hash of parts, each preceded by its length, so that different lists never hash the same bytes.
pub fn hash_of<'a>(parts: impl Iterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hashes of files' contents. Each file is read once.
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
}

#[cfg(test)]
mod tests;

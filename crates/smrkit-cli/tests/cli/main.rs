//! The command as its users meet it: exit codes, messages, options, files, and the examples of the documentation.

mod advise;
mod age;
mod arrays;
mod bad_input;
#[path = "../../../smrkit/tests/common/count.rs"]
mod count;
mod docs;
mod drives;
mod exits;
#[path = "../../../smrkit-trace/src/tests/files.rs"]
mod files;
mod fleet;
mod generated;
mod helped;
#[path = "../../../smrkit/tests/common/kept_text.rs"]
mod kept_text;
mod keys;
mod options;
mod kept;
mod reproduce;
mod results;
mod served;
mod shown;
mod signals;
mod sources;
mod sweep;
mod trace;
mod volumes;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Output and exit code of a command.
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Ran {
    /// The output of a command that ended well.
    #[track_caller]
    fn done(self) -> String {
        assert_eq!(self.code, 0, "{}", self.err);
        self.out
    }

    /// The error of a command that ended with `code`, without results.
    #[track_caller]
    fn failed(self, code: i32) -> String {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        assert!(!self.err.is_empty(), "an error has a message");
        self.err
    }

    /// As `failed`, and the message holds each of `words`.
    #[track_caller]
    fn says(self, code: i32, words: &[&str]) {
        let err = self.failed(code);
        for word in words {
            assert!(err.contains(word), "{word:?} is missing from: {err}");
        }
    }
}

/// A command gives the same standard output when it runs again, and on one core.
fn gives_the_same_bytes(arguments: &str) {
    let first = smrkit(arguments).done();
    assert_eq!(first, smrkit(arguments).done(), "twice");
    let one = Command::new("taskset")
        .args(["-c", "0", env!("CARGO_BIN_EXE_smrkit")])
        .args(arguments.split_whitespace())
        .output();
    match one {
        Ok(output) if output.status.success() => assert_eq!(first.as_bytes(), output.stdout, "on one core"),
        _ => println!("skipped: no taskset here; compared on all cores only"),
    }
}

/// The root of the project.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// One of the project's own small traces.
fn testdata(name: &str) -> String {
    root().join("testdata/traces").join(name).display().to_string()
}

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_smrkit"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn finish(mut command: Command) -> Ran {
    let output = command.output().expect("smrkit starts");
    Ran {
        code: output.status.code().expect("smrkit is not killed by a signal"),
        out: String::from_utf8(output.stdout).expect("UTF-8"),
        err: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// Runs `smrkit` with arguments parted by spaces.
fn smrkit(arguments: &str) -> Ran {
    let mut command = command();
    command.args(arguments.split_whitespace());
    finish(command)
}

/// The outcomes of `smrkit run … --json -`.
#[track_caller]
fn outcomes(arguments: &str) -> Vec<Value> {
    let out = smrkit(&format!("run {arguments} --json -")).done();
    let mut json: Value = serde_json::from_str(&out).expect("standard output is JSON only");
    json["runs"].as_array_mut().map(std::mem::take).expect("runs")
}

/// The only outcome of `smrkit run … --json -`.
#[track_caller]
fn outcome(arguments: &str) -> Value {
    let mut runs = outcomes(arguments);
    assert_eq!(runs.len(), 1);
    runs.remove(0)
}

/// A directory that goes when it is dropped, and paths in it as text.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Scratch {
        Scratch(tempfile::tempdir().expect("a temporary directory"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Writes a file; its path.
    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), content).expect("a file in a temporary directory");
        self.path(name)
    }

    /// A trace of writes in MSR's format, from (time in ms, offset in bytes, bytes).
    fn msr(&self, name: &str, writes: &[(u64, u64, u64)]) -> String {
        let row = |&(ms, offset, bytes): &(u64, u64, u64)| {
            format!("{},host,0,Write,{offset},{bytes},0\n", 128_166_372_000_000_000 + ms * 10_000)
        };
        self.file(name, writes.iter().map(row).collect::<String>())
    }

    /// Names of the files in it, sorted.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).expect("a directory");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// Runs `smrkit` in the scratch directory with arguments parted by spaces.
fn at(scratch: &Scratch, arguments: &str) -> Ran {
    let mut command = command();
    command.current_dir(scratch.0.path()).args(arguments.split_whitespace());
    finish(command)
}

/// Layers on the smallest drive, where regions must be small as well.
const TINY: &str = "--drive tiny --set rmw.region_sectors=256 --set set-assoc.region_sectors=256 \
     --set h-swd.region_sectors=256 --set log.segment_tracks=4 \
     --set s-block.sblock_sectors=64 --set s-block.cache_percent=10 --set s-block.spare_percent=5";

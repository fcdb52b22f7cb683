//! Runs the tests written in Python: the package's examples, and `tests/*.py`.
//!
//! They use the Python of `out/venv`, which `make test` fills with libraries of data frames, or the `python3` of the path;
//! `SMRKIT_PYTHON` names another.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The first Python that will do; why, where there is none.
fn python(root: &Path) -> Result<PathBuf, String> {
    let named = std::env::var_os("SMRKIT_PYTHON").map(PathBuf::from);
    let known = named.into_iter().chain([root.join("out/venv/bin/python"), "python3".into()]);
    let is_recent = |python: &PathBuf| {
        let check = "import sys; sys.exit(sys.version_info < (3, 11))";
        Command::new(python).args(["-c", check]).status().is_ok_and(|status| status.success())
    };
    known.into_iter().find(is_recent).ok_or_else(|| "there is no Python 3.11 or later".into())
}

/// The package with its native module, as an installation has it.
fn install(own: &Path, built: &Path, site: &Path) {
    let package = site.join("smrkit");
    fs::create_dir(&package).unwrap();
    for entry in fs::read_dir(own.join("python/smrkit")).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap() != "__pycache__" {
            symlink(&path, package.join(path.file_name().unwrap())).unwrap();
        }
    }
    symlink(built, package.join("_native.abi3.so")).unwrap();
}

/// A test for each file of tests: they run side by side.
macro_rules! files {
    ($($test:ident: $file:literal),+) => {
        $(#[test] fn $test() { run($file); })+

        #[test]
        fn no_file_is_left_out() {
            let files = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")).unwrap();
            let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<String> = names.filter(|name| name.starts_with("test_")).collect();
            names.sort();
            assert_eq!(names, [$($file),+]);
        }
    };
}

files! {
    calls: "test_calls.py",
    clusters: "test_clusters.py",
    the_command: "test_command.py",
    drives: "test_drive.py",
    entry: "test_entry.py",
    examples: "test_examples.py",
    fleets: "test_fleet.py",
    layers: "test_layer.py",
    notebooks: "test_notebooks.py",
    pages: "test_pages.py",
    requests: "test_requests.py",
    studies: "test_studies.py",
    sweeps: "test_sweep.py",
    types: "test_types.py",
    web: "test_web.py"
}

fn run(file: &str) {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = own.join("../..");
    let python = match python(&root) {
        Ok(python) => python,
        Err(reason) => return println!("skipped: {reason}"),
    };
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    let site = tempfile::tempdir().unwrap();
    install(own, &deps.join("lib_native.so"), site.path());
    let run = Command::new(python)
        .args(["-m", "unittest", "discover", "--verbose", "--start-directory"])
        .arg(own.join("tests"))
        .args(["--pattern", file])
        .env("PYTHONPATH", site.path())
        // What is compiled of the libraries is kept, but not among the sources.
        .env("PYTHONPYCACHEPREFIX", deps.join("pycache"))
        .env_remove("PYTHONDONTWRITEBYTECODE")
        .env("SMRKIT", deps.join("../smrkit"))
        .env("SMRKIT_TESTDATA", root.join("testdata"))
        .current_dir(site.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    for line in said.lines().filter(|line| line.contains("skipped '")) {
        println!("skipped: {line}");
    }
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stdout));
    assert!(said.contains("\nRan "), "no test ran: {said}");
}

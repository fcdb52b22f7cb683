//! `smrkit reproduce NAME --quick`: rows, verdicts, files, exit codes.

mod cassuto;
mod he_du;
pub mod known;
mod vguard;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::{LazyLock, OnceLock};

use serde_json::Value;

use super::docs::{self, Example};
use super::{Ran, Scratch, at, root, smrkit};

/// A study by the command that its page in docs/papers shows, with figures as SVG, and the result as JSON besides.
pub struct Study {
    example: Example,
    ran: Ran,
    result: Value,
    /// Pages and figures that it made, by their paths.
    files: BTreeMap<String, String>,
}

/// Each runs once, for all of its tests.
static STUDIES: LazyLock<BTreeMap<&str, OnceLock<Study>>> =
    LazyLock::new(|| NAMES.iter().chain(long::NAMES).map(|name| (*name, OnceLock::new())).collect());

/// The study whose page shows this as its command.
fn study_of(example: &Example) -> Option<&'static OnceLock<Study>> {
    let is_of = |name: &str| {
        let shown = example.place.contains(&format!("docs/papers/{name}.md:"));
        shown && example.command.starts_with(&format!("smrkit reproduce {name} --quick"))
    };
    Some(STUDIES.iter().find(|(name, _)| is_of(name))?.1)
}

/// True if the tests of a study look at an example as well.
pub fn is_tried(example: &Example) -> bool {
    study_of(example).is_some()
}

fn study(name: &str) -> &'static Study {
    let page = root().join(format!("docs/papers/{name}.md"));
    let shown = docs::examples(&page).into_iter().find_map(|example| Some((study_of(&example)?, example)));
    let (study, example) = shown.expect("a page shows the command of its study");
    study.get_or_init(|| Study::new(example))
}

impl Study {
    fn new(example: Example) -> Study {
        let scratch = Scratch::new();
        docs::stage(&scratch);
        let arguments = example.command.trim_start_matches("smrkit ").replace(" --figure-format png", "");
        let ran = at(&scratch, &format!("{arguments} --json study.json"));
        assert_eq!(ran.code, 0, "{}", ran.err);
        let result = serde_json::from_slice(&std::fs::read(scratch.path("study.json")).unwrap()).unwrap();
        let pages = made(&scratch, "", ".html");
        let files = pages.chain(made(&scratch, "figures/", ".svg")).collect();
        Study { example, ran, result, files }
    }

    fn rows(&self) -> &[Value] {
        self.result["rows"].as_array().unwrap()
    }

    /// Our number in the only row whose item ends so.
    fn ours(&self, item: &str) -> f64 {
        find(self.rows(), item)["ours"].as_f64().unwrap_or_else(|| panic!("{item}"))
    }

    /// A file that the command made.
    fn file(&self, name: &str) -> &str {
        self.files.get(name).unwrap_or_else(|| panic!("{name} was not made"))
    }

    /// Each of these figures is there and has a line in it.
    fn has_lines_in(&self, figures: &[impl Display]) {
        for name in figures {
            let picture = self.file(&format!("figures/{name}.svg"));
            assert!(picture.contains("polyline") && !picture.contains("NaN"), "{name}");
        }
    }
}

/// Each study is what it was, to the last row, and what its page shows.
macro_rules! known {
    ($($test:ident: $name:literal),+) => {
        pub const NAMES: &[&str] = &[$($name),+];

        $(#[test] fn $test() {
            let study = study($name);
            known::compare($name, &study.result, &study.ran.out, &study.files);
            assert_eq!(study.example.fault(&study.ran), None);
        })+
    };
}

// Below the macro, which it uses.
mod long;

known! {
    the_cache_of_cassuto_is_what_it_was: "cassuto-cache",
    the_study_of_he_and_du_is_what_it_was: "he-du",
    the_study_of_vguard_is_what_it_was: "vguard"
}

/// The files of a folder, `""` or one that ends in a slash, whose names end so.
pub fn made(scratch: &Scratch, folder: &str, ending: &str) -> impl Iterator<Item = (String, String)> {
    let entries = std::fs::read_dir(scratch.path(folder)).into_iter().flatten();
    entries.filter_map(move |entry| {
        let path = entry.unwrap().path();
        let name = format!("{folder}{}", path.file_name()?.display());
        name.ends_with(ending).then(|| (name, std::fs::read_to_string(path).unwrap()))
    })
}

/// The folder of real traces, with this one in it; none, with a word for the skip list, without.
fn real_traces(name: &str) -> Option<PathBuf> {
    let found = std::env::var_os("SMRKIT_TRACES").map(PathBuf::from).filter(|folder| folder.join(name).is_file());
    if found.is_none() {
        println!("skipped: SMRKIT_TRACES names no folder with {name}");
    }
    found
}

/// The result of a command, of which the JSON goes to standard output.
pub fn json(arguments: &str) -> Value {
    serde_json::from_str(&smrkit(&format!("{arguments} --json -")).done()).unwrap()
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_else(|| panic!("{key} of {row}"))
}

/// The only row whose item ends so.
fn find<'a>(rows: &'a [Value], item: &str) -> &'a Value {
    let found: Vec<&Value> = rows.iter().filter(|row| text(row, "item").ends_with(item)).collect();
    assert_eq!(found.len(), 1, "{item}: {found:?}");
    found[0]
}

//! Properties of the code as text: the order of modules, options that only a front end may name, and pages that list what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module's path from the crate's root.
type Module = Vec<String>;

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// The folders of all crates, by their names.
fn each_crate() -> BTreeMap<String, PathBuf> {
    let entries = fs::read_dir(crates()).unwrap().map(|entry| entry.unwrap());
    let with_code = entries.filter(|entry| entry.path().join("src").exists());
    with_code.map(|entry| (entry.file_name().into_string().unwrap(), entry.path())).collect()
}

/// The text of a crate's root.
fn root(folder: &Path) -> String {
    let src = folder.join("src");
    fs::read_to_string(src.join("lib.rs")).or_else(|_| fs::read_to_string(src.join("main.rs"))).unwrap()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let all = entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] });
    all.filter(|path| path.extension().is_some_and(|end| end == "rs")).collect()
}

/// The module that a file of `src` holds.
fn module(src: &Path, file: &Path) -> Module {
    let path = file.strip_prefix(src).unwrap().with_extension("");
    let mut names: Module = path.iter().map(|name| name.to_str().unwrap().to_string()).collect();
    if names.last().is_some_and(|name| ["mod", "lib", "main"].contains(&name.as_str())) {
        names.pop();
    }
    names
}

fn is_test(module: &[String]) -> bool {
    module.iter().any(|name| name == "tests" || name.ends_with("_tests"))
}

/// The code of a file without its comments and its tests.
fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

/// The modules that a crate's root declares, of any visibility.
fn listed(lib: &str) -> Vec<&str> {
    lib.lines().filter_map(|line| line.rsplit_once("mod ")?.1.strip_suffix(';')).collect()
}

/// The identifier that a text begins with.
fn word(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())]
}

/// The names between backticks in the first column of a page's table.
fn first_column<'a>(page: &'a str, heading: &str) -> BTreeSet<&'a str> {
    let (_, rows) = page.split_once(heading).expect("the table");
    let cells =
        rows.lines().skip(2).take_while(|line| line.starts_with("| ")).map(|line| line.split('|').nth(1).unwrap());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn the_tables_of_the_architecture_page_are_the_crates_and_modules() {
    let page = fs::read_to_string(crates().join("../docs/design/architecture.md")).unwrap();
    let entries = fs::read_dir(crates()).unwrap().map(|entry| entry.unwrap());
    let packages = entries.filter(|entry| entry.path().join("Cargo.toml").exists());
    let names: Vec<String> = packages.map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert_eq!(first_column(&page, "| crate | holds |"), names.iter().map(String::as_str).collect());
    let lib = root(&crates().join("smrkit"));
    assert_eq!(first_column(&page, "| module | holds |"), listed(&lib).into_iter().collect());
}

/// The modules of a crate's root that a code names after `crate::`, one by one or in braces.
fn used(code: &str) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for (at, start) in code.match_indices("crate::") {
        let rest = &code[at + start.len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0;
            let parts = group.split(|c| {
                depth += i32::from(c == '{') - i32::from(c == '}');
                c == ',' && depth == 0 || depth < 0
            });
            // After the closing brace every character splits, so the first empty part ends the group.
            names.extend(parts.map(str::trim).take_while(|part| !part.is_empty()).map(word));
        } else {
            names.insert(word(rest));
        }
    }
    names
}

#[test]
fn modules_use_only_those_above_them() {
    assert_eq!(used("use crate::{a::{self, B}, c};\ncrate::d::e(f);"), ["a", "c", "d"].into());
    for (name, folder) in each_crate() {
        let (src, root) = (folder.join("src"), root(&folder));
        let order = listed(&root);
        assert!(order.len() > 2 || files(&src).len() == 1, "the root of {name} lists the modules");
        let rank = |module: &str| order.iter().position(|name| *name == module);
        for file in files(&src) {
            let module = module(&src, &file);
            let Some(own) = module.first().and_then(|top| rank(top)) else { continue };
            if is_test(&module) {
                continue;
            }
            let code = code(&file);
            let below = used(&code).into_iter().find(|other| rank(other).is_some_and(|other| other > own));
            assert!(below.is_none(), "{}: uses {below:?}, which stands below it in the root of {name}", file.display());
        }
    }
}

/// Crates that word errors and answers for the command's users.
const FRONTS: [&str; 3] = ["smrkit-cli", "smrkit-py", "smrkit-advise"];

/// Options of other programs, and a variable of style sheets.
const FOREIGN: [&str; 14] = [
    "device",
    "direct-io",
    "fifo",
    "find",
    "long",
    "lzma",
    "pid",
    "sector-size",
    "show",
    "sparse",
    "swapped",
    "version",
    "write_iolog",
    "xattrs",
];

/// The options that a code names after two dashes, those of others apart.
fn options(code: &str) -> Vec<&str> {
    let starts = code.match_indices("--").filter(|(at, _)| code[..*at].ends_with([' ', '"', '(', '`', '[', '/']));
    // A whole command that is to be run has its options.
    let starts = starts.filter(|(at, _)| !code[..*at].ends_with("smrkit umount "));
    let names = starts.map(|(at, _)| &code[at + 2..]);
    let names = names
        .map(|rest| &rest[..rest.find(|c: char| !c.is_ascii_lowercase() && !"-_".contains(c)).unwrap_or(rest.len())]);
    names.filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()) && !FOREIGN.contains(name)).collect()
}

#[test]
fn no_library_names_an_option_of_the_command_line() {
    assert_eq!(options("\"add --fold\", \"--version\", a --b, \"<!--x\", x - --y"), ["fold", "b", "y"]);
    for (name, folder) in each_crate().into_iter().filter(|(name, _)| !FRONTS.contains(&name.as_str())) {
        let src = folder.join("src");
        for file in files(&src).into_iter().filter(|file| !is_test(&module(&src, file))) {
            let code = code(&file);
            let named = options(&code);
            assert!(named.is_empty(), "{} of {name} names {named:?}: give the front a Field to word", file.display());
        }
    }
}

#[test]
fn no_example_is_in_a_crate_whose_docs_are_not_tried() {
    for (name, folder) in each_crate() {
        let is_tried = !fs::read_to_string(folder.join("Cargo.toml")).unwrap().contains("doctest = false");
        for file in files(&folder.join("src")) {
            let text = fs::read_to_string(&file).unwrap();
            let docs = text.lines().map(str::trim).filter(|line| line.starts_with("//!") || line.starts_with("///"));
            // Every second one ends a block.
            let mut fences = docs.filter(|line| line[3..].trim().starts_with("```")).step_by(2);
            let is_example = fences.any(|line| !line.ends_with("text"));
            assert!(is_tried || !is_example, "{}: take doctest = false out of {name}'s Cargo.toml", file.display());
        }
    }
}

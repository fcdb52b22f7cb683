//! The modules of each library use only those above them in `lib.rs`.

use std::fs;
use std::path::{Path, PathBuf};

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The modules that a line of code names after `crate::`, alone or in braces.
fn used(line: &str) -> Vec<String> {
    let name = |text: &str| text.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut names = Vec::new();
    for rest in line.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            Some(list) => names.extend(list.trim_end_matches(['}', ';']).split(',').map(name)),
            None => names.push(name(rest)),
        }
    }
    names
}

#[test]
fn modules_use_only_those_above_them() {
    for library in ["smrkit", "smrfs"] {
        in_order(&Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(library).join("src"));
    }
}

fn in_order(src: &Path) {
    let lib = fs::read_to_string(src.join("lib.rs")).unwrap();
    let order: Vec<&str> = lib.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    assert!(order.len() > 8, "lib.rs lists the modules");
    let rank = |module: &str| order.iter().position(|name| *name == module);
    // Tests may use what they like, inside a file and in one of their own.
    let is_code = |path: &PathBuf| path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs");
    for path in files(src).into_iter().filter(is_code) {
        let module = path.strip_prefix(src).unwrap().components().next().unwrap().as_os_str();
        let module = module.to_str().unwrap().trim_end_matches(".rs");
        let Some(own) = rank(module) else { continue };
        let code = fs::read_to_string(&path).unwrap();
        let code = code.split("#[cfg(test)]\nmod").next().unwrap();
        for (number, line) in code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            for name in used(line) {
                let wrong = rank(&name).is_some_and(|rank| rank > own);
                assert!(
                    !wrong,
                    "{}:{}: {module} stands above {name} in lib.rs, but uses it",
                    path.display(),
                    number + 1
                );
            }
        }
    }
}

#[test]
fn the_reader_of_use_lines_sees_lists_and_paths() {
    assert_eq!(used("use crate::{disk, layer::Layer};"), ["disk", "layer"]);
    assert_eq!(used("let x = crate::tally::adjusted(1);"), ["tally"]);
}

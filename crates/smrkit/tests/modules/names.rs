//! Names of types and tests, and the first words of doc comments.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{code, crates, each_crate, files, is_test, module, word};

/// Words that many modules would give to a type: at most one in all crates has each.
const ONCE: [&str; 19] = [
    "Part", "Piece", "Run", "Kind", "Entry", "Counts", "Place", "Plan", "Work", "Layout", "Target", "Room", "Rooms",
    "Asked", "Watched", "FileKey", "Table", "Fault", "Paths",
];

/// The longest name of a function without visibility, which tests are.
const NAME_MAX: usize = 64;

/// The struct, enum, union or trait that a line declares.
fn declared(line: &str) -> Option<&str> {
    let (before, rest) = ["struct ", "enum ", "union ", "trait "].iter().find_map(|kind| line.split_once(kind))?;
    let visible = before.trim();
    let begins = visible.is_empty() || visible == "pub" || visible.starts_with("pub(") && visible.ends_with(')');
    begins.then(|| word(rest)).filter(|name| !name.is_empty())
}

/// The types that a crate declares, and where.
fn types(folder: &Path) -> BTreeMap<String, Vec<PathBuf>> {
    let src = folder.join("src");
    let mut places: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for file in files(&src).into_iter().filter(|file| !is_test(&module(&src, file))) {
        for name in code(&file).lines().filter_map(declared) {
            places.entry(name.to_string()).or_default().push(file.clone());
        }
    }
    assert!(!places.is_empty(), "{} declares types", src.display());
    places
}

#[test]
fn no_crate_gives_one_name_to_two_types() {
    for folder in each_crate().values() {
        let mut places = types(folder);
        places.retain(|_, files| files.len() > 1);
        assert!(places.is_empty(), "types of one name: {places:#?}; give each the noun of its module");
    }
}

#[test]
fn ordinary_words_name_one_type_in_all_crates() {
    let all: Vec<_> = each_crate().values().map(|folder| types(folder)).collect();
    for word in ONCE {
        let places: Vec<_> = all.iter().filter_map(|places| places.get(word)).flatten().collect();
        assert!(places.len() < 2, "types called {word}: {places:#?}; put the noun of its module before it");
    }
}

#[test]
fn names_of_tests_are_short() {
    let all = files(&crates()).into_iter().map(|file| (fs::read_to_string(&file).unwrap(), file));
    let long = all.flat_map(|(text, file)| {
        let names = text.lines().filter_map(|line| line.trim_start().strip_prefix("fn ")).map(word);
        names.filter(|name| name.len() > NAME_MAX).map(|name| (name.to_string(), file.clone())).collect::<Vec<_>>()
    });
    let long: Vec<_> = long.collect();
    assert!(long.is_empty(), "names longer than {NAME_MAX} letters: {long:#?}; say the behaviour in fewer words");
}

/// The first lines of doc comments, with their numbers.
fn first_doc_lines(text: &str) -> Vec<(usize, &str)> {
    let mut first = Vec::new();
    let mut follows = false;
    for (line, number) in text.lines().map(str::trim_start).zip(1..) {
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        first.extend(doc.filter(|_| !follows).map(|doc| (number, doc.trim_start())));
        follows = doc.is_some();
    }
    first
}

#[test]
fn doc_comments_begin_with_the_thing_that_they_are_about() {
    const BARE: [&str; 13] =
        ["What", "Whether", "How", "Where", "Whose", "Which", "Who", "It", "They", "This", "That", "These", "Those"];
    for file in files(&crates()) {
        let text = fs::read_to_string(&file).unwrap();
        for (line, doc) in first_doc_lines(&text) {
            let starts_bare = BARE.contains(&doc.split([' ', '.', ',', ':']).next().unwrap());
            let is_vague = starts_bare || doc.starts_with("The same ");
            assert!(!is_vague, "{}:{line}: name the thing first: {doc}", file.display());
        }
    }
}

#[test]
fn messages_name_fields_that_fronts_know() {
    let mut found = 0;
    for file in each_crate().values().flat_map(|folder| files(&folder.join("src"))) {
        // In a format string a field stands in two pairs of braces; after % they are plotly's.
        let text = code(&file).replace("%{{", "");
        let doubled = text.split("{{").skip(1).filter_map(|rest| Some(rest.split_once("}}")?.0));
        for name in doubled.filter(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')) {
            assert!(smrkit::message::FIELDS.contains(&name), "{}: no field is called {name}", file.display());
            found += 1;
        }
    }
    assert!(found > 20, "{found} fields in format strings");
}

#[test]
fn the_reader_of_declarations_sees_types_of_any_visibility() {
    let lines = [
        "pub struct A<T> {",
        "    enum B {",
        "pub(in crate::x) trait C: D {",
        "let x = \"an enum E\";",
        "struct $name;",
    ];
    assert_eq!(lines.map(declared), [Some("A"), Some("B"), Some("C"), None, None]);
}

//! The modules of each crate use only those above them in its root, and no modules of a crate import each other in a circle.
//! No crate has two types of one name. Doc comments begin with the thing that they are about.
//!
//! Imports are read from the text: paths that begin with `crate::`, `super::` or `self::`. A name that its module imports or
//! re-exports leads to the module that has the item. A method of its own type that only another file has counts as an import of
//! that file. Tests may use what they like.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Words that many modules would give to a type: at most one in all crates has each.
const ONCE: [&str; 16] = [
    "Part", "Piece", "Run", "Kind", "Entry", "Counts", "Place", "Plan", "Work", "Layout", "Target", "Room", "Rooms",
    "Asked", "Watched", "FileKey",
];

/// The longest name of a function without visibility, which tests are.
const NAME_MAX: usize = 64;

/// A module's path from the crate's root.
type Module = Vec<String>;

/// Imports among the children of one module: (from, to), and a file that has it.
type Imports = BTreeMap<(String, String), PathBuf>;

/// Names that modules import: the module and the name, and the path that it leads to.
type Names = BTreeMap<(Module, String), Module>;

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

/// The paths that a module's code names from the crate's root, groups in braces taken apart.
fn named(own: &[String], code: &str) -> Vec<Module> {
    let mut paths = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            let inside = code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
            if !inside {
                path(&mut Vec::new(), &mut &code[at..], &mut paths);
            }
        }
    }
    paths.into_iter().filter_map(|(path, _)| from_root(own, path)).collect()
}

/// Reads a path, or a group of them in braces, that goes on from `before`; each with the name that it gets.
fn path(before: &mut Module, rest: &mut &str, paths: &mut Vec<(Module, String)>) {
    let depth = before.len();
    loop {
        *rest = rest.trim_start();
        if let Some(group) = rest.strip_prefix('{') {
            *rest = group;
            while !rest.is_empty() && !rest.trim_start().starts_with('}') {
                let left = rest.len();
                path(before, rest, paths);
                *rest = rest.trim_start().trim_start_matches(',');
                assert!(rest.len() < left, "not the names of an import: {}", rest.lines().next().unwrap_or(""));
            }
            *rest = rest.trim_start().strip_prefix('}').unwrap_or("");
            break;
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        before.push(rest[..end].to_string());
        *rest = &rest[end..];
        match rest.strip_prefix("::") {
            Some(more) if !more.starts_with(['<', '*']) => *rest = more,
            _ => {
                // A new name (`as x`) or a star is no part of the path.
                let end = rest.find([',', '}', ';', '(', ')', '\n']).unwrap_or(rest.len());
                let name = rest[..end].strip_prefix(" as ").or(before.last().map(String::as_str)).unwrap_or_default();
                paths.push((before.clone(), name.to_string()));
                *rest = &rest[end..];
                break;
            }
        }
    }
    before.truncate(depth);
}

fn from_root(own: &[String], path: Module) -> Option<Module> {
    let ups = path.iter().take_while(|name| *name == "super").count();
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([own, &path[1..]].concat()),
        _ => Some([&own[..own.len().checked_sub(ups)?], &path[ups..]].concat()),
    }
}

/// The names that a module imports or re-exports.
fn imported(own: &[String], code: &str, known: &BTreeSet<Module>) -> Names {
    let mut found = Names::new();
    for (at, _) in code.match_indices("use ").filter(|(at, _)| is_import(&code[..*at])) {
        let mut paths = Vec::new();
        path(&mut Vec::new(), &mut &code[at + "use ".len()..], &mut paths);
        for (path, name) in paths {
            let begins = ["crate", "super", "self"].contains(&path[0].as_str());
            let from = if begins { from_root(own, path) } else { Some([own, &path[..]].concat()) };
            let from = from.filter(|path| path.split_last().is_some_and(|(_, module)| known.contains(module)));
            found.extend(from.map(|path| ((own.to_vec(), name), path)));
        }
    }
    found
}

/// True if the code before a `use` makes it an import or a re-export.
fn is_import(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or("").trim();
    line.is_empty() || line == "pub" || line.starts_with("pub(") && line.ends_with(')')
}

/// The module that has what a path leads to.
fn owner(mut path: Module, known: &BTreeSet<Module>, imported: &Names) -> Module {
    loop {
        let n = (0..=path.len()).rev().find(|&n| known.contains(&path[..n])).unwrap_or(0);
        let Some(name) = path.get(n) else { return path };
        match imported.get(&(path[..n].to_vec(), name.clone())) {
            Some(from) if from[..] != path[..=n] => path = [&from[..], &path[n + 1..]].concat(),
            _ => return path[..n].to_vec(),
        }
    }
}

/// The imports of a crate among siblings, by their parent.
fn imports(src: &Path) -> BTreeMap<Module, Imports> {
    let files: Vec<(Module, PathBuf)> = files(src).into_iter().map(|file| (module(src, &file), file)).collect();
    let known: BTreeSet<Module> = files.iter().map(|(module, _)| module.clone()).collect();
    let imported = files.iter().flat_map(|(own, file)| imported(own, &code(file), &known)).collect();
    let mut all: BTreeMap<Module, Imports> = BTreeMap::new();
    let files: Vec<_> = files.into_iter().filter(|(own, _)| !is_test(own)).collect();
    let methods = method_owners(&files);
    for (own, file) in &files {
        let named = named(own, &code(file)).into_iter().map(|path| owner(path, &known, &imported));
        for used in named.chain(methods.iter().filter(|(user, _)| *user == own).map(|(_, used)| used.clone())) {
            let common = own.iter().zip(&used).take_while(|(a, b)| a == b).count();
            if let (Some(from), Some(to)) = (own.get(common), used.get(common)) {
                let siblings = all.entry(own[..common].to_vec()).or_default();
                siblings.entry((from.clone(), to.clone())).or_insert(file.clone());
            }
        }
    }
    all
}

/// The types that a module's code implements, and the code of each `impl`.
fn impls(code: &str) -> Vec<(String, String)> {
    let read = |block: &str| {
        let (head, body) = block.split_once('{')?;
        let head = head.split("where").next()?.replace("->", "");
        let mut depth = 0;
        let generics = head.find(|c: char| {
            depth += i32::from(c == '<') - i32::from(c == '>');
            depth == 0
        })?;
        let of = head[generics + 1..].rsplit(" for ").next()?.split('<').next()?.rsplit("::").next()?;
        Some((word(of.trim()).to_string(), body.split("\n}").next()?.to_string()))
    };
    code.split("\nimpl").skip(1).filter_map(read).collect()
}

/// The functions that an `impl` has.
fn functions(body: &str) -> impl Iterator<Item = &str> {
    let lines = body.lines().filter_map(|line| line.strip_prefix("    ").filter(|line| !line.starts_with(' ')));
    lines.filter_map(|line| line.split_once("fn ").map(|(_, rest)| word(rest)))
}

/// The functions of its own type that an `impl` calls.
fn calls(body: &str) -> impl Iterator<Item = &str> {
    let after = |start: &'static str| body.match_indices(start).map(move |(at, _)| &body[at + start.len()..]);
    after("self.").chain(after("Self::")).filter(|rest| rest[word(rest).len()..].starts_with(['(', ':'])).map(word)
}

/// The modules that have a function of a module's own type that it calls and lacks, by the module.
fn method_owners(files: &[(Module, PathBuf)]) -> Vec<(&Module, Module)> {
    let impls: Vec<_> =
        files.iter().flat_map(|(own, file)| impls(&code(file)).into_iter().map(move |of| (own, of))).collect();
    let mut owners: BTreeMap<(&str, &str), BTreeSet<&Module>> = BTreeMap::new();
    for (own, (of, name)) in
        impls.iter().flat_map(|(own, (of, body))| functions(body).map(move |name| (*own, (of, name))))
    {
        owners.entry((of, name)).or_default().insert(own);
    }
    let called = impls.iter().flat_map(|(own, (of, body))| calls(body).map(move |name| (*own, (of.as_str(), name))));
    let owned = called.filter_map(|(own, call)| Some((own, owners.get(&call)?)));
    owned
        .filter(|(own, owners)| !owners.contains(own))
        .flat_map(|(own, owners)| owners.iter().map(move |&of| (own, of.clone())))
        .collect()
}

/// The modules that `from` imports, directly or not.
fn reached(imports: &Imports, from: &str) -> BTreeSet<String> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from.to_string()]);
    while let Some(module) = open.pop() {
        let next = imports.keys().filter(|(user, _)| *user == module).map(|(_, used)| used.clone());
        open.extend(next.filter(|used| seen.insert(used.clone())));
    }
    seen
}

/// The groups of modules that reach each other.
fn circles(imports: &Imports) -> BTreeSet<Vec<String>> {
    let modules: BTreeSet<&String> = imports.keys().map(|(user, _)| user).collect();
    let reach: BTreeMap<&str, BTreeSet<String>> = modules.iter().map(|m| (m.as_str(), reached(imports, m))).collect();
    let back = |module: &str, other: &str| reach.get(other).is_some_and(|reach| reach.contains(module));
    let circle = |m: &&String| reach[m.as_str()].iter().filter(|other| back(m, other)).cloned().collect::<Vec<_>>();
    modules.iter().map(circle).filter(|circle| circle.len() > 1).collect()
}

#[test]
fn modules_use_only_those_above_them() {
    for (name, folder) in each_crate() {
        let root = root(&folder);
        let order = listed(&root);
        assert!(order.len() > 6, "the root of {name} lists the modules");
        let rank = |module: &str| order.iter().position(|name| *name == module);
        for ((from, to), file) in &imports(&folder.join("src"))[&Vec::new()] {
            let wrong = rank(from).is_some_and(|own| rank(to).is_some_and(|used| used > own));
            assert!(!wrong, "{}: {from} stands above {to} in the root of {name}, but uses it", file.display());
        }
    }
}

/// The modules that a crate's root declares, of any visibility.
fn listed(lib: &str) -> Vec<&str> {
    lib.lines().filter_map(|line| line.rsplit_once("mod ")?.1.strip_suffix(';')).collect()
}

#[test]
fn no_modules_import_each_other_in_a_circle() {
    let mut found = BTreeSet::new();
    for (name, folder) in each_crate() {
        for (parent, imports) in imports(&folder.join("src")) {
            let place = parent.join("::");
            found.extend(circles(&imports).into_iter().map(|circle| format!("{name} {place}: {}", circle.join(" "))));
        }
    }
    assert!(found.is_empty(), "circles: {found:#?}; move what both sides use into a module below them");
}

/// The struct, enum, union or trait that a line declares.
fn declared(line: &str) -> Option<&str> {
    let (before, rest) = ["struct ", "enum ", "union ", "trait "].iter().find_map(|kind| line.split_once(kind))?;
    let visible = before.trim();
    let begins = visible.is_empty() || visible == "pub" || visible.starts_with("pub(") && visible.ends_with(')');
    begins.then(|| word(rest)).filter(|name| !name.is_empty())
}

/// The identifier that a text begins with.
fn word(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())]
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

#[test]
fn the_reader_of_imports_sees_groups_and_nested_paths() {
    let own = ["a".to_string(), "b".to_string()];
    let names = |code: &str| named(&own, code).into_iter().map(|path| path.join("::")).collect::<Vec<_>>();
    assert_eq!(
        names("use crate::{disk, layer::{self, Layer as L},\n x::*};"),
        ["disk", "layer::self", "layer::Layer", "x"]
    );
    assert_eq!(names("let x = crate::tally::adjusted(1);"), ["tally::adjusted"]);
    assert_eq!(names("use super::c::D;\nuse super::super::e;\nuse self::f::G;"), ["a::c::D", "e", "a::b::f::G"]);
    let known = ["", "a", "a b", "a c"].map(|path| path.split_whitespace().map(String::from).collect()).into();
    let parent = ["a".to_string()];
    let exported = imported(&parent, "pub use b::{X, Y as Z};\npub(crate) use c::W;\nuse c::V;", &known);
    let from = |name: &str| owner(vec!["a".into(), name.into()], &known, &exported).join("::");
    assert_eq!(["X", "Z", "W", "V", "b"].map(from), ["a::b", "a::b", "a::c", "a::c", "a::b"]);
    let imports: Imports = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]
        .map(|(from, to)| ((from.to_string(), to.to_string()), PathBuf::new()))
        .into();
    assert_eq!(circles(&imports), [["a", "b", "c"].map(String::from).to_vec()].into());
    assert_eq!(listed("pub mod a;\npub(crate) mod b;\nmod c;\npub use a::X;"), ["a", "b", "c"]);
}

/// The names between backticks in the first column of a page's table.
fn first_column<'a>(page: &'a str, heading: &str) -> BTreeSet<&'a str> {
    let (_, rows) = page.split_once(heading).expect("the table");
    let cells =
        rows.lines().skip(2).take_while(|line| line.starts_with("| ")).map(|line| line.split('|').nth(1).unwrap());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn the_reader_of_methods_sees_calls_of_another_file() {
    let of = |code: &str| impls(&format!("use x;\n{code}\n}}\n")).remove(0);
    let body = "    pub(super) const fn own(&self) {\n        fn inner() {}\n        self.other::<u8>(self.field);\n        Self::third();\n    }";
    for head in ["A", "<F: Fn(u8) -> B> A<F>", "<T> std::fmt::Debug for A<T>\nwhere\n    T: B", "C for x::A<'_>"] {
        let (name, found) = of(&format!("impl{}{head} {{\n{body}", if head.starts_with('<') { "" } else { " " }));
        assert_eq!((&name[..], found.trim_start_matches('\n')), ("A", body), "{head}");
    }
    assert_eq!(functions(body).collect::<Vec<_>>(), ["own"]);
    assert_eq!(calls(body).collect::<Vec<_>>(), ["other", "third"]);
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

#[test]
fn every_program_of_tests_is_built_by_the_package_for_it() {
    let manifest = fs::read_to_string(crates().join("smrkit-tests/Cargo.toml")).unwrap();
    for folder in ["smrkit", "smrfs"].map(|name| crates().join(name).join("tests")) {
        let is_program =
            |path: &PathBuf| path.join("main.rs").exists() || path.extension().is_some_and(|end| end == "rs");
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        for path in entries.filter(is_program) {
            let path = if path.is_dir() { path.join("main.rs") } else { path };
            let entry = format!("path = \"../{}\"\n", path.strip_prefix(crates()).unwrap().display());
            assert!(manifest.contains(&entry), "crates/smrkit-tests/Cargo.toml lacks {entry}");
        }
    }
}

/// Crates that word errors for their users.
const FRONTS: [&str; 2] = ["smrkit-cli", "smrkit-py"];

/// Options of other programs, and a variable of style sheets.
const FOREIGN: [&str; 12] = [
    "device",
    "direct-io",
    "fifo",
    "find",
    "long",
    "pid",
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

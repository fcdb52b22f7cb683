//! Imports inside crates: in the order of the root, and in no circle.
//!
//! They are read from the text: paths that begin with `crate::`, `super::` or `self::`. A name that its module imports or
//! re-exports leads to the module that has the item. A method of its own type that only another file has counts as an import of
//! that file. Tests may use what they like.
//!
//! Circles are looked for among the modules of one folder, each with all that is below it, and between a module's own file and each
//! of those below it: one of both may use the other's items. Left out there: types of the file that the module below has methods
//! of, since Rust lets the methods of a type stand in several files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{Module, code, each_crate, files, is_test, listed, module, root, word};

/// Imports among the children of one module: (from, to), and a file that has it.
type Imports = BTreeMap<(String, String), PathBuf>;

/// Names that modules import: the module and the name, and the path that it leads to.
type Names = BTreeMap<(Module, String), Module>;

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

/// The module that has what a path leads to, and the name of that there.
fn owner(mut path: Module, known: &BTreeSet<Module>, imported: &Names) -> (Module, String) {
    loop {
        let n = (0..=path.len()).rev().find(|&n| known.contains(&path[..n])).unwrap_or(0);
        let Some(name) = path.get(n) else { return (path, String::new()) };
        match imported.get(&(path[..n].to_vec(), name.clone())) {
            Some(from) if from[..] != path[..=n] => path = [&from[..], &path[n + 1..]].concat(),
            _ => return (path[..n].to_vec(), name.clone()),
        }
    }
}

/// An item that a file uses, or a function of its own type that another has.
struct Use {
    own: Module,
    file: PathBuf,
    /// The module that has it.
    of: Module,
    /// Its name; none of a function.
    name: Option<String>,
}

/// The uses of a crate's files.
fn uses(src: &Path) -> Vec<Use> {
    let files: Vec<(Module, PathBuf)> = files(src).into_iter().map(|file| (module(src, &file), file)).collect();
    let known: BTreeSet<Module> = files.iter().map(|(module, _)| module.clone()).collect();
    let imported = files.iter().flat_map(|(own, file)| imported(own, &code(file), &known)).collect();
    let files: Vec<_> = files.into_iter().filter(|(own, _)| !is_test(own)).collect();
    let methods = method_owners(&files);
    let of_file = |(own, file): &(Module, PathBuf)| {
        let code = code(file);
        let paths = named(own, &code).into_iter().chain(below(own, &code, &known));
        let items = paths.map(|path| owner(path, &known, &imported)).map(|(of, name)| (of, Some(name)));
        let functions = methods.iter().filter(|(user, _)| *user == own).map(|(_, of)| (of.clone(), None));
        items
            .chain(functions)
            .map(|(of, name)| Use { own: own.clone(), file: file.clone(), of, name })
            .collect::<Vec<_>>()
    };
    files.iter().flat_map(of_file).collect()
}

/// The paths that begin with a module right below the own one; re-exports are none.
fn below(own: &[String], code: &str, known: &BTreeSet<Module>) -> Vec<Module> {
    let mut paths = Vec::new();
    for child in known.iter().filter(|child| child.len() == own.len() + 1 && child.starts_with(own)) {
        for (at, _) in code.match_indices(&format!("{}::", child[own.len()])) {
            let before = &code[..at];
            let is_inside = before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
            let line = before.rsplit('\n').next().unwrap_or("");
            if !(is_inside || line.starts_with("pub") && line.ends_with("use ")) {
                path(&mut Vec::new(), &mut &code[at..], &mut paths);
            }
        }
    }
    paths.into_iter().map(|(path, _)| [own, &path[..]].concat()).collect()
}

/// The imports of a crate among siblings, by their parent.
fn imports(src: &Path) -> BTreeMap<Module, Imports> {
    let mut all: BTreeMap<Module, Imports> = BTreeMap::new();
    for Use { own, file, of, .. } in uses(src) {
        let common = own.iter().zip(&of).take_while(|(a, b)| a == b).count();
        if let (Some(from), Some(to)) = (own.get(common), of.get(common)) {
            let siblings = all.entry(own[..common].to_vec()).or_default();
            siblings.entry((from.clone(), to.clone())).or_insert(file);
        }
    }
    all
}

/// Modules whose file and one below it use each other's items, and those that the lower one uses.
fn tangles(src: &Path) -> BTreeMap<(Module, String), BTreeSet<String>> {
    let (mut up, mut down): (BTreeMap<_, BTreeSet<String>>, BTreeSet<_>) = Default::default();
    for Use { own, file, of, name } in uses(src) {
        if own.len() > of.len() && own.starts_with(&of) {
            let implemented = impls(&code(&file)).into_iter().map(|(of, _)| of).collect::<Vec<_>>();
            let name = name.filter(|name| !name.is_empty() && !implemented.contains(name));
            up.entry((of.clone(), own[of.len()].clone())).or_default().extend(name);
        } else if of.len() > own.len() && of.starts_with(&own) {
            down.insert((own.clone(), of[own.len()].clone()));
        }
    }
    up.retain(|pair, names| !names.is_empty() && down.contains(pair));
    up
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
    let from = |name: &str| owner(vec!["a".into(), name.into()], &known, &exported).0.join("::");
    assert_eq!(["X", "Z", "W", "V", "b"].map(from), ["a::b", "a::b", "a::c", "a::c", "a::b"]);
    let imports: Imports = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]
        .map(|(from, to)| ((from.to_string(), to.to_string()), PathBuf::new()))
        .into();
    assert_eq!(circles(&imports), [["a", "b", "c"].map(String::from).to_vec()].into());
    assert_eq!(listed("pub mod a;\npub(crate) mod b;\nmod c;\npub use a::X;"), ["a", "b", "c"]);
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
fn a_file_and_a_module_below_it_do_not_use_each_other() {
    let mut found = Vec::new();
    for (name, folder) in each_crate() {
        let tangles = tangles(&folder.join("src")).into_iter();
        found.extend(tangles.map(|((file, below), names)| (format!("{name} {} {below}", file.join("::")), names)));
    }
    assert!(found.is_empty(), "{found:#?}: move what both sides use into a file below them");
}

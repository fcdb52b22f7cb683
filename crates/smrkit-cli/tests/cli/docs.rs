//! The documentation: its examples run, its links lead somewhere, and each page has its place in the book.
//!
//! `UPDATE=1 cargo test -p smrkit-cli --test cli examples` writes what the commands print now in place of `…` in a line, so that a
//! page shows numbers.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Ran, Scratch, finish, root};

/// README and every page below docs/, save those of crates.
pub fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md"), root().join("CONTRIBUTING.md"), root().join("CHANGELOG.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|ending| ending == "md") => pages.push(path),
                false => {}
            }
        }
    }
    pages.sort();
    pages
}

/// An example: the page and the number of its line, the command, and the lines of output that are shown.
struct Example {
    page: PathBuf,
    line: usize,
    command: String,
    shown: Vec<String>,
}

/// The examples of a page: in blocks marked `console`, lines that begin with `$ smrkit`.
fn examples(page: &Path) -> Vec<Example> {
    let text = std::fs::read_to_string(page).unwrap();
    let (mut found, mut inside): (Vec<Example>, _) = (Vec::new(), false);
    let mut takes_output = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            inside = line.trim() == "```console";
            takes_output = false;
        } else if let (true, Some(command)) = (inside, line.strip_prefix("$ ")) {
            takes_output = command.starts_with("smrkit ");
            if takes_output {
                found.push(Example { page: page.into(), line: number, command: command.into(), shown: Vec::new() });
            }
        } else if takes_output && !line.is_empty() {
            found.last_mut().expect("a command came first").shown.push(line.into());
        }
    }
    found
}

/// Examples run where the project's own traces and a few names that the pages use lie.
fn stage(scratch: &Scratch) {
    for entry in std::fs::read_dir(root().join("testdata/traces")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, scratch.path(&path.file_name().unwrap().to_string_lossy())).unwrap();
    }
    std::fs::copy(root().join("crates/smrkit/drives/tiny.toml"), scratch.path("mine.toml")).unwrap();
    std::fs::copy(root().join("testdata/office.csv.gz"), scratch.path("office.csv.gz")).unwrap();
}

/// A real trace that a tutorial replays, which doesn't come with smrkit: from `$SMRKIT_TRACES`, or from shared/traces beside the project.
const REAL_TRACE: &str = "web_3.csv.zst";

fn stage_real_trace(scratch: &Scratch) -> bool {
    let folder = std::env::var_os("SMRKIT_TRACES").map_or(root().join("../shared/traces"), PathBuf::from);
    let is_here = std::fs::copy(folder.join(format!("msr_{REAL_TRACE}")), scratch.path(REAL_TRACE)).is_ok();
    if !is_here {
        println!("skipped: examples of a real trace: no msr_{REAL_TRACE} in $SMRKIT_TRACES or ../shared/traces");
    }
    is_here
}

/// Runs a command as somebody types it, who has `smrkit` on the path.
fn in_a_shell(typed: &str, scratch: &Scratch) -> Ran {
    let built = Path::new(env!("CARGO_BIN_EXE_smrkit")).parent().unwrap().to_path_buf();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    shell.args(["-c", typed]).current_dir(scratch.0.path());
    shell.env("PATH", std::env::join_paths([built].into_iter().chain(std::env::split_paths(&path))).unwrap());
    finish(shell)
}

#[test]
fn every_example_of_the_documentation_works() {
    let scratch = Scratch::new();
    stage(&scratch);
    let mut examples: Vec<Example> = pages().iter().flat_map(|page| examples(page)).collect();
    if !stage_real_trace(&scratch) {
        examples.retain(|example| !example.command.contains(REAL_TRACE));
    }
    assert!(examples.len() >= 15, "only {} examples were found", examples.len());
    // Studies are tried by the tests of the Python package.
    let own = examples.iter().filter(|example| !example.command.starts_with("smrkit reproduce"));
    let mut wrong = Vec::new();
    for example in own {
        let ran = in_a_shell(&example.command, &scratch);
        let is_kept = std::env::var_os("UPDATE").is_none() || ran.code != expected_code(&example.command);
        let example = if is_kept { example } else { &example.written(&ran) };
        wrong.extend(example.fault(&ran));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

impl Example {
    /// Fault of the page, if its command printed this. The lines shown must be lines of the output, in its order, the first one first.
    fn fault(&self, Ran { code, out, err }: &Ran) -> Option<String> {
        let mut printed = out.lines().chain(err.lines()).filter(|line| !line.is_empty());
        let first = printed.clone().next().unwrap_or_default();
        let begins = self.shown.first().is_none_or(|shown| agrees(shown, first));
        let lacks = self.shown.iter().find(|shown| *shown != "…" && !printed.any(|line| agrees(shown, line)));
        let is_right = *code == expected_code(&self.command) && begins && lacks.is_none();
        let Example { page, line, command, .. } = self;
        (!is_right)
            .then(|| format!("{}:{}: {command}\nlacks: {lacks:?}\nbegins: {first} ({code})", page.display(), line + 1))
    }

    /// Puts what was printed in place of the lines shown: what agrees, or else what has the same words before its colon.
    fn written(&self, Ran { out, err, .. }: &Ran) -> Example {
        let printed: Vec<&str> = out.lines().chain(err.lines()).collect();
        let mut rest = &printed[..];
        let text = std::fs::read_to_string(&self.page).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
        let is_shown = |line: &&mut String| !line.starts_with("```") && !line.starts_with("$ ");
        for shown in lines[self.line + 1..]
            .iter_mut()
            .take_while(is_shown)
            .filter(|shown| !shown.is_empty() && *shown != "…" && !shown.contains(HOSTS))
        {
            let of = |line: &str| line.split_once(':').map(|(head, _)| head.to_string());
            let head = of(shown);
            let same_head = || rest.iter().position(|line| head.is_some() && of(line) == head);
            let Some(at) = rest.iter().position(|line| agrees(shown, line)).or_else(same_head) else { continue };
            let line = rest[at];
            rest = &rest[at + 1..];
            let cut = line.char_indices().nth(WIDTH).and_then(|(at, _)| line[..at].rfind(' '));
            *shown = cut.map_or(line.trim_end().into(), |at| format!("{} …", &line[..at]));
        }
        std::fs::write(&self.page, lines.join("\n") + "\n").unwrap();
        let is_own = |example: &Example| example.line == self.line;
        examples(&self.page).into_iter().find(is_own).expect("the same examples")
    }
}

/// What is said of the host's room differs from machine to machine.
const HOSTS: &str = "room for";

/// Characters of a line that a page shows without scrolling.
const WIDTH: usize = 118;

/// `smrkit …   # exit 5` is an example of a failure.
fn expected_code(command: &str) -> i32 {
    command.rsplit_once("# exit ").map_or(0, |(_, code)| code.trim().parse().expect("an exit code"))
}

/// A shown line may be cut with `…`, in several places.
fn agrees(shown: &str, found: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = found.trim_end().strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    for (nth, part) in parts.iter().enumerate() {
        let last = nth + 1 == parts.len();
        let found = if last && rest.ends_with(part) { Some(rest.len() - part.len()) } else { rest.find(part) };
        let Some(at) = found else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty()
}

#[test]
fn links_between_pages_lead_somewhere() {
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for (_, rest) in text.match_indices("](").map(|(at, _)| text.split_at(at + 2)) {
            let link = rest.split(')').next().unwrap_or_default();
            if link.is_empty() || link.contains("://") {
                continue;
            }
            let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
            let target = if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            assert!(target.exists(), "{}: {link} is not there", page.display());
            let has_heading = |anchor: &str| anchors(&target).contains(&anchor.to_string());
            assert!(anchor.is_none_or(has_heading), "{}: {link} has no such heading", page.display());
        }
    }
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(page: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(page).unwrap();
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |c: &char| c.is_alphanumeric() || ['-', '_', ' '].contains(c);
    headings.map(|heading| heading.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")).collect()
}

#[test]
fn every_page_has_its_place_in_the_book() {
    let summary = std::fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let lacks = |page: &PathBuf| {
        let path = page.strip_prefix(root().join("docs")).unwrap();
        !path.ends_with("SUMMARY.md") && !summary.contains(&format!("]({})", path.display()))
    };
    let missing: Vec<_> =
        pages().into_iter().filter(|page| page.starts_with(root().join("docs")) && lacks(page)).collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md lacks {missing:?}");
}

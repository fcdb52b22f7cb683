//! The documentation: its examples run, its links lead somewhere, it names what there is, and it stays short.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Scratch, root};

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

/// An example: where it stands, the command, and the first line of output that is shown.
struct Example {
    place: String,
    command: String,
    first_line: Option<String>,
}

/// The examples of a page: in blocks marked `console`, lines that begin with `$ smrkit`.
fn examples(page: &Path) -> Vec<Example> {
    let text = std::fs::read_to_string(page).unwrap();
    let (mut found, mut inside): (Vec<Example>, _) = (Vec::new(), false);
    let mut wants_output = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            inside = line.trim() == "```console";
            wants_output = false;
        } else if let (true, Some(command)) = (inside, line.strip_prefix("$ ")) {
            wants_output = command.starts_with("smrkit ");
            if wants_output {
                let place = format!("{}:{}", page.display(), number + 1);
                found.push(Example { place, command: command.into(), first_line: None });
            }
        } else if inside && wants_output && !line.is_empty() {
            found.last_mut().expect("a command came first").first_line = Some(line.into());
            wants_output = false;
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
    std::fs::copy(root().join("drives/tiny.toml"), scratch.path("mine.toml")).unwrap();
    std::fs::copy(root().join("testdata/office.csv.gz"), scratch.path("office.csv.gz")).unwrap();
}

#[test]
fn every_example_of_the_documentation_works() {
    let scratch = Scratch::new();
    stage(&scratch);
    let folder = Path::new(env!("CARGO_BIN_EXE_smrkit")).parent().unwrap();
    let path = std::env::join_paths(
        [folder.to_path_buf()].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    )
    .unwrap();
    let (mut count, mut wrong) = (0, Vec::new());
    for example in pages().iter().flat_map(|page| examples(page)) {
        let output = Command::new("sh")
            .args(["-c", &example.command])
            .current_dir(scratch.0.path())
            .env("PATH", &path)
            .output()
            .unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let found = out.lines().chain(err.lines()).next().unwrap_or_default();
        let shown = example.first_line.as_deref().unwrap_or("…");
        if output.status.code() != Some(expected_code(&example.command)) || !agrees(shown, found) {
            let Example { place, command, .. } = &example;
            wrong.push(format!("{place}: {command}\nshown: {shown}\nfound: {found} ({})", output.status));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(count >= 15, "only {count} examples were found");
}

/// `smrkit …   # exit 5` is an example of a failure.
fn expected_code(command: &str) -> i32 {
    command.rsplit_once("# exit ").map_or(0, |(_, code)| code.trim().parse().expect("an exit code"))
}

/// A shown line may be cut with `…`.
fn agrees(shown: &str, found: &str) -> bool {
    match shown.split_once('…') {
        Some((begin, end)) => found.starts_with(begin) && found.ends_with(end),
        None => found == shown,
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for (_, rest) in text.match_indices("](").map(|(at, _)| text.split_at(at + 2)) {
            let link = rest.split([')', '#']).next().unwrap_or_default();
            if link.is_empty() || link.contains("://") {
                continue;
            }
            let target = page.parent().unwrap().join(link);
            assert!(target.exists(), "{}: {link} is not there", page.display());
        }
    }
}

#[test]
fn the_command_line_page_names_every_option() {
    let page = std::fs::read_to_string(root().join("docs/reference/command-line.md")).unwrap();
    for command in
        ["run", "advise", "reproduce", "trace info", "trace convert", "trace head", "drives show", "layers show", "age"]
    {
        let help = super::smrkit(&format!("{command} --help")).done();
        let options = help.lines().filter_map(|line| {
            let word = line.trim_start().split([' ', ',', '[']).find(|word| word.starts_with("--"))?;
            line.trim_start().starts_with('-').then(|| word.to_string())
        });
        for option in options.filter(|option| option != "--help") {
            assert!(page.contains(&format!("`{option}")), "docs/reference/command-line.md lacks {option} of {command}");
        }
    }
}

#[test]
fn the_readme_names_every_layer_and_drive() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    for spec in smrkit::layer::LAYERS {
        assert!(readme.contains(&format!("`{}`", spec.name)), "README.md lacks the layer {}", spec.name);
    }
    for (name, _) in smrkit::drive::DRIVES {
        assert!(readme.contains(&format!("`{name}`")), "README.md lacks the drive {name}");
    }
}

#[test]
fn the_documentation_stays_within_its_words() {
    let docs = root().join("docs");
    let words = |page: &PathBuf| std::fs::read_to_string(page).unwrap().split_whitespace().count();
    let count: usize = pages().iter().filter(|page| page.starts_with(&docs)).map(words).sum();
    assert!(count <= 35_000, "docs/ has {count} words: cut what is told twice, or nobody needs");
}

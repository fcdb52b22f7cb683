//! Options as `--help` tells them, and the parts of the command line's page that are made of them.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::smrkit;

/// Options of every command, which the page has once.
const GENERAL: [&str; 3] = ["--help", "--quiet", "--color"];

/// An option of a command.
#[derive(Debug, PartialEq)]
struct HelpedOption {
    /// Its names and its value: `-n, --count COUNT`.
    form: String,
    default: Option<String>,
    /// The first sentence of its help.
    help: String,
}

impl HelpedOption {
    /// From its names and value, and the text beside or below them.
    fn new(form: &str, text: &str) -> HelpedOption {
        let bracketed =
            |label: &str| text.split_once(label).map(|(_, rest)| rest.split(']').next().unwrap().to_string());
        let words: Vec<&str> = match text.split_once("Possible values: ") {
            Some((_, listed)) => listed.split("- ").filter_map(|one| Some(one.split_once(": ")?.0)).collect(),
            None => Vec::new(),
        };
        let words = bracketed("[possible values: ").map_or(words.join("|"), |words| words.replace(", ", "|"));
        let form = match form.split_once('<') {
            Some((names, _)) if !words.is_empty() => format!("{names}{words}"),
            _ => form.replace(['<', '>'], ""),
        };
        let help = ["Possible values: ", "[default: ", "[possible values: ", ". "]
            .iter()
            .fold(text, |text, end| text.split(end).next().unwrap());
        HelpedOption { form, default: bracketed("[default: "), help: help.trim_end_matches([' ', '.']).into() }
    }

    /// The name without its value.
    fn name(&self) -> &str {
        self.form.split(", ").last().unwrap().split([' ', '[', '=']).next().unwrap()
    }

    fn line(&self) -> String {
        let default = self.default.as_ref().map(|default| format!(" ({default})")).unwrap_or_default();
        format!("- `{}`{default}: {}", self.form, self.help)
    }
}

/// The options in a help text, those of every command left out.
fn parsed(help: &str) -> Vec<HelpedOption> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for line in help.lines() {
        let (indent, text) = (line.len() - line.trim_start().len(), line.trim());
        if indent == 6 && text.starts_with("--") || indent == 2 && is_short(text) {
            let (form, beside) = text.split_once("  ").unwrap_or((text, ""));
            found.push((form.into(), beside.trim().into()));
            inside = true;
        } else if indent >= 10 && inside {
            let words = &mut found.last_mut().expect("an option").1;
            *words = format!("{words} {text}").trim().to_string();
        } else if !text.is_empty() {
            inside = false;
        }
    }
    let all = found.iter().map(|(form, text)| HelpedOption::new(form, text));
    all.filter(|option| !GENERAL.contains(&option.name())).collect()
}

/// True for `-n, --count`.
fn is_short(text: &str) -> bool {
    text.get(2..6) == Some(", --")
}

/// The commands below `group` that have none below them, in the order of the help.
pub fn commands(group: &str) -> Vec<String> {
    let help = smrkit(&format!("{group} --help")).done();
    let Some((_, listed)) = help.split_once("\nCommands:\n") else { return vec![group.trim().into()] };
    let lines = listed.split("\n\n").next().unwrap().lines().filter(|line| !line.starts_with("   "));
    let names = lines.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    names.flat_map(|name| commands(format!("{group} {name}").trim())).collect()
}

/// The part of the page that a command stands in.
fn section(command: &str) -> &str {
    match command.split(' ').next().unwrap() {
        "sweep" | "results" | "report" => "sweeps",
        "trace" => "traces",
        "layers" | "drives" => "layers-and-drives",
        "create" | "snapshot" | "serve" | "attach" | "detach" | "inject" | "replay" => "served-drives",
        "mkfs" | "fsck" | "df" | "mount" | "mounts" | "umount" | "sync" | "backup" | "restore" | "top" | "scrub" => {
            "SMRfs"
        }
        other => other,
    }
}

/// Each part by its name: the commands, and those of their options whose words the last command before that has them does not say.
pub fn options() -> BTreeMap<String, String> {
    let mut parts: BTreeMap<String, String> = BTreeMap::new();
    let mut told: BTreeMap<String, String> = BTreeMap::new();
    for command in commands("").iter().filter(|command| !["completions", "man"].contains(&command.as_str())) {
        let help = smrkit(&format!("{command} --help")).done();
        let usage = help.lines().find_map(|line| line.strip_prefix("Usage: smrkit ")).expect("the usage");
        let usage = usage.replace("[OPTIONS] ", "").replace(" [OPTIONS]", "").replace(['<', '>'], "");
        let (known, new): (Vec<_>, Vec<_>) =
            parsed(&help).into_iter().partition(|option| told.get(option.name()) == Some(&option.line()));
        let known: Vec<String> = known.iter().map(|option| format!("`{}`", option.name())).collect();
        let known: String = known.iter().map(|name| format!(", {name}")).collect();
        let part = parts.entry(format!("options-of-{}", section(command))).or_default();
        write!(part, "{}**`{usage}`**{known}\n\n", if part.is_empty() { "" } else { "\n" }).unwrap();
        for option in &new {
            writeln!(part, "{}", option.line()).unwrap();
            told.insert(option.name().into(), option.line());
        }
        *part = format!("{}\n", part.trim_end());
    }
    parts
}

#[test]
fn options_are_read_from_both_forms_of_help() {
    let help = "\
Usage: smrkit x [OPTIONS]

Options:
      --queue <QUEUE>
          The order of
          waiting commands. More of it

          Possible values:
          - fcfs: First come, first served
          - sptf: Shortest first
          
          [default: fcfs]

  -n, --count <COUNT>  How many [default: 10] [possible values: 10,
                       20]
  -q, --quiet          Say nothing

Examples:
  smrkit x --count 2
  --queue sptf
";
    let option = |form: &str, default: &str, help: &str| HelpedOption {
        form: form.into(),
        default: Some(default.into()),
        help: help.into(),
    };
    let all = [
        option("--queue fcfs|sptf", "fcfs", "The order of waiting commands"),
        option("-n, --count 10|20", "10", "How many"),
    ];
    assert_eq!(parsed(help), all);
    assert_eq!(all.each_ref().map(HelpedOption::name), ["--queue", "--count"]);
}

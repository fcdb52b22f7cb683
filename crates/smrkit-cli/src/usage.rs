//! Help, and errors of the command line, in clap's words. On a terminal, headings and names are highlighted: clap could do so too, with
//! eight more crates.

use std::io::{self, Write};

use crate::style;

const ERROR: &str = "\x1b[1;31m";
const HEADING: &str = "\x1b[1;4m";
const NAME: &str = "\x1b[1m";
const END: &str = "\x1b[0m";
/// Indents of commands' and options' names; their descriptions are further right.
const OF_NAMES: std::ops::RangeInclusive<usize> = 2..=6;

/// Shows help, the version or an error (all of them errors to clap), and ends the process.
pub fn exit(error: &clap::Error) -> ! {
    let text = error.to_string();
    // Errors are ignored: the reader may have closed the pipe.
    let _ = match error.use_stderr() {
        true => show(io::stderr().lock(), &text, style::takes_colours(&io::stderr())),
        false => show(io::stdout().lock(), &text, style::takes_colours(&io::stdout())),
    };
    std::process::exit(error.exit_code())
}

fn show(mut to: impl Write, text: &str, is_coloured: bool) -> io::Result<()> {
    match is_coloured {
        true => to.write_all(text.split_inclusive('\n').map(set_off).collect::<String>().as_bytes())?,
        false => to.write_all(text.as_bytes())?,
    }
    to.flush()
}

/// A line of help with its heading or name highlighted.
fn set_off(line: &str) -> String {
    let text = line.trim_end();
    let indent = text.len() - text.trim_start().len();
    let (code, from, to) = match text {
        _ if text.starts_with("error:") => (ERROR, 0, "error:".len()),
        _ if text.starts_with("Usage:") => (HEADING, 0, "Usage:".len()),
        _ if indent == 0 && text.ends_with(':') => (HEADING, 0, text.len()),
        _ if OF_NAMES.contains(&indent) => (NAME, indent, indent + name_length(&text[indent..])),
        _ => return line.to_string(),
    };
    format!("{}{code}{}{END}{}", &line[..from], &line[from..to], &line[to..])
}

/// The bytes of the name at the start of an entry: an option without its value, or the first of two columns.
fn name_length(entry: &str) -> usize {
    let ends = ["  ", " <", "[="].iter().filter_map(|end| entry.find(end));
    ends.min().unwrap_or(if entry.starts_with('-') { entry.len() } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_and_names_are_set_off_and_nothing_else_changes() {
        let text = "error: no\n\nUsage: smrkit run\n\nOptions:\n  -q, --quiet  No words\n      --json[=<FILE>]\n          To a file\n";
        let mut shown = Vec::new();
        show(&mut shown, text, true).unwrap();
        let shown = String::from_utf8(shown).unwrap();
        for set_off in [
            "\x1b[1;31merror:\x1b[0m no",
            "\x1b[1;4mOptions:\x1b[0m\n",
            "\x1b[1m-q, --quiet\x1b[0m  No",
            "\x1b[1m--json\x1b[0m[=",
        ] {
            assert!(shown.contains(set_off), "{set_off:?} in {shown:?}");
        }
        let plain = [ERROR, HEADING, NAME, END].iter().fold(shown, |text, code| text.replace(code, ""));
        assert_eq!(plain, text);
        let mut shown = Vec::new();
        show(&mut shown, text, false).unwrap();
        assert_eq!(shown, text.as_bytes());
    }
}

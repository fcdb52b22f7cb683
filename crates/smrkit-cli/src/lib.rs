//! The command `smrkit`: a file for each subcommand, or for several that work on the same thing. Results go to standard output, messages to
//! standard error. The program `smrkit` and the Python package's command both call [`main`].

mod exit;
mod invocation;
mod paths;
mod output;
mod style;
mod interrupt;
mod commands;
mod usage;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use clap::{CommandFactory, Parser};
use smrkit_live::mount::helper::Helper;

/// Simulates and checks shingled disks: what would it be like to live with one?
#[derive(Parser)]
#[command(name = "smrkit", version = smrkit::VERSION, arg_required_else_help = true, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
    #[command(flatten)]
    style: style::Style,
}

/// Commands that end with the results so far when they are interrupted. A mount has a handler of its own.
const INTERRUPTIBLE: [&str; 5] = ["run", "sweep", "advise", "reproduce", "trace"];

/// The command line as clap parses it: `trace info --json -` becomes `--json=-`, because the option's value is optional and needs an `=`.
fn parsed_words() -> Vec<OsString> {
    let mut words = invocation::words().to_vec();
    if words.get(1).is_some_and(|command| command == "trace")
        && words.get(2).is_some_and(|what| what == "info")
        && let Some(at) = words.windows(2).position(|pair| pair[0] == "--json" && pair[1] == "-")
    {
        words.splice(at..at + 2, [OsString::from("--json=-")]);
    }
    words
}

/// Executes the command line `words`, whose first is the name that it was called by; returns the exit code. `program` is the path to start
/// the command again. To be called once per process.
pub fn main(words: Vec<OsString>, program: io::Result<PathBuf>) -> u8 {
    interrupt::survive_file_limit();
    invocation::set(words, program);
    let mut called = invocation::words().iter();
    if let Some(helper) = called.next().and_then(|name| Helper::called(name)) {
        return commands::help(helper, called.cloned());
    }
    // Before anything else, so that an interrupt is handled from the beginning.
    if called.next().is_some_and(|command| INTERRUPTIBLE.iter().any(|name| command == *name)) {
        interrupt::Interrupt::watch();
    }
    let cli = Cli::try_parse_from(parsed_words()).unwrap_or_else(|error| usage::exit(&error));
    style::choose(cli.style);
    exit::code(cli.command.execute(Cli::command))
}

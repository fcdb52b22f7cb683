//! The command `smrkit`: one short file a subcommand, results to standard output, the rest to standard error.

mod paths;
mod output;
mod remedy;
mod exit;
mod signals;
mod style;
mod interrupt;
mod commands;
mod usage;

use std::ffi::OsString;
use std::process::ExitCode;

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

/// Commands that end with what they have; a mount has a handler of its own.
const INTERRUPTIBLE: [&str; 5] = ["run", "sweep", "advise", "reproduce", "trace"];

/// The arguments; `--json -` of `trace info`, whose value is optional and takes `=`, becomes `--json=-`.
fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|command| command == "trace")
        && arguments.get(2).is_some_and(|what| what == "info")
        && let Some(at) = arguments.windows(2).position(|pair| pair[0] == "--json" && pair[1] == "-")
    {
        arguments.splice(at..at + 2, [OsString::from("--json=-")]);
    }
    arguments
}

fn main() -> ExitCode {
    let mut called = std::env::args_os();
    if let Some(helper) = called.next().as_deref().and_then(Helper::called) {
        return commands::help(helper, called);
    }
    // Before anything else, so that an interrupt finds a handler from the beginning.
    if called.next().is_some_and(|command| INTERRUPTIBLE.iter().any(|name| command == *name)) {
        interrupt::Interrupt::watch();
    }
    let cli = Cli::try_parse_from(arguments()).unwrap_or_else(|told| usage::exit(&told));
    style::choose(cli.style);
    exit::code(cli.command.execute(Cli::command))
}

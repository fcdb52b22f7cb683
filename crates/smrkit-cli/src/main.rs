//! The command `smrkit`: one short file a subcommand, results to standard output, the rest to standard error.

mod advise;
mod commands;
mod comparison;
mod exit;
mod input;
mod interrupt;
mod job;
mod merged;
mod options;
mod output;
mod plan;
mod pool;
mod progress;
mod records;
mod report;
mod reproduce;

use std::process::ExitCode;

use clap::Parser;

/// Simulates and checks shingled disks: what would it be like to live with one?
#[derive(Parser)]
#[command(name = "smrkit", version = exit::VERSION, arg_required_else_help = true, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    exit::code(cli.command.execute())
}

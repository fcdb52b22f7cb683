//! The command as a program of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(smrkit_cli::main(std::env::args_os().collect(), std::env::current_exe()))
}

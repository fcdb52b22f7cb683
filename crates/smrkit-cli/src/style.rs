//! Amount and colour of a command's text.

use std::io::IsTerminal;
use std::sync::OnceLock;

use clap::Args;
use smrkit_report::Terminal;

/// The least columns of a table, on any terminal.
const NARROWEST: usize = 40;

/// Options of every command.
#[derive(Args)]
pub struct Style {
    /// Show no progress and no warnings.
    #[arg(long, short, global = true)]
    quiet: bool,
    /// Use colours: on a terminal (unless NO_COLOR is set), always or never.
    #[arg(
        long,
        global = true,
        value_parser = ["auto", "always", "never"],
        default_value = "auto",
        value_name = "auto|always|never",
        hide_possible_values = true
    )]
    color: String,
}

static CHOSEN: OnceLock<Style> = OnceLock::new();

/// Stores the options, before a command begins.
pub fn choose(style: Style) {
    CHOSEN.get_or_init(|| style);
}

/// True if neither progress nor warnings are shown.
pub fn is_quiet() -> bool {
    CHOSEN.get().is_some_and(|style| style.quiet)
}

/// The terminal of standard output.
pub fn terminal() -> Terminal {
    let size = terminal_size::terminal_size_of(std::io::stdout());
    // A line of full width makes some terminals begin another one.
    let columns = size.map(|(width, _)| usize::from(width.0).saturating_sub(1).max(NARROWEST));
    let coloured = match CHOSEN.get().map_or("auto", |style| &style.color) {
        "always" => true,
        "never" => false,
        _ => takes_colours(&std::io::stdout()),
    };
    Terminal { columns, coloured }
}

/// True if a stream is a terminal, and NO_COLOR is not set.
pub fn takes_colours(stream: &impl IsTerminal) -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && stream.is_terminal()
}

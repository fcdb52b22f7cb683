//! `smrkit web`: opens the page that runs the simulator in a browser.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::bail;
use clap::Args;

use crate::invocation;
use crate::output::print;

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit web
  smrkit web --print                     the page's path, to copy it to a web server

The packages for Python and Debian bring the page. In a clone make web builds it, and the command of
that clone finds it. It is not hosted anywhere.")]
pub struct Web {
    /// Print the page's path and open nothing.
    #[arg(long)]
    print: bool,
}

/// Paths of the page, relative to any folder above the command: as packages install it, and as `make web` builds it in a clone.
const PLACES: [&str; 2] = ["share/smrkit/index.html", "out/web/index.html"];

impl Web {
    pub fn execute(self) -> anyhow::Result<()> {
        let places =
            invocation::program()?.ancestors().skip(1).flat_map(|folder| PLACES.map(|place| folder.join(place)));
        let Some(page) = places.into_iter().find(|page| page.is_file()) else {
            bail!(
                "the page is not installed with this command: in a clone, make web builds out/web/index.html, which the command of that clone finds"
            );
        };
        if !self.print && !opens(&page) {
            eprintln!("smrkit: no browser could be started: open the page by its path");
        }
        print(format!("{}\n", page.display()))
    }
}

/// Opens the page as the desktop does; returns `true` on success. Without a display it does nothing, because `xdg-open` would choose a
/// browser for the terminal.
fn opens(page: &Path) -> bool {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let has_display =
        cfg!(target_os = "macos") || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    has_display
        && Command::new(opener)
            .arg(page)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
}

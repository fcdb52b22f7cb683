//! Drive files of one's own: `smrkit drives measure`, a job for fio, `fit`, a drive file from its logs, and `import`, drive files from descriptions
//! in another format.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use clap::{Args, Subcommand};
use smrkit::drive::{Drive, import};
use smrkit::error::Error;
use smrkit::quantity::Bytes;
use smrkit_report::Grid;
use smrkit_trace::measure::{Fit, Logs, job, longest_s};

use crate::output::{print, print_as};

#[derive(Args)]
pub struct Measure {
    /// The disk, or a large file on it. The job destroys what is there.
    target: PathBuf,
    /// Run the job on this machine with fio instead of printing it; this takes over an hour.
    #[arg(long)]
    run: bool,
    /// Name the disk or file again, to confirm that everything on it may be destroyed.
    #[arg(long, value_name = "DEV|FILE")]
    destroy: Option<PathBuf>,
}

impl Measure {
    pub fn execute(self) -> anyhow::Result<()> {
        let text = job(&self.target.to_string_lossy());
        if !self.run {
            return print(text);
        }
        // A mounted disk needs no check here: fio refuses it.
        if self.destroy.as_ref() != Some(&self.target) {
            let name = self.target.display();
            let message = format!("everything on {name} would be destroyed: name it again, as --destroy {name}");
            return Err(Error::Usage(message).into());
        }
        let path = Path::new("measure.fio");
        write_new(path, &text)?;
        eprintln!("smrkit: fio measures {} for up to {} minutes", self.target.display(), longest_s() / 60);
        let status = Command::new("fio").arg(path).status().context("fio, which does the measuring")?;
        if !status.success() {
            return Err(Error::input(path, format!("fio ended with {status}")).into());
        }
        print("The logs are here: smrkit drives fit .\n")
    }
}

#[derive(Args)]
pub struct FitCommand {
    /// The folder in which fio ran the job, or its logs.
    #[arg(required = true)]
    logs: Vec<PathBuf>,
    /// The drive file to write.
    #[arg(long, value_name = "FILE.toml", default_value = "measured.toml")]
    to: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl FitCommand {
    pub fn execute(self) -> anyhow::Result<()> {
        let fit = Fit::of(&Logs::read(&self.logs)?)?;
        let name = self.to.file_stem().unwrap_or_default().to_string_lossy();
        let file = fit.drive_file(&name);
        if let Some(text) = &file {
            write_new(&self.to, text)?;
        }
        print_as(self.json, || &fit, || in_words(&fit, file.is_some().then_some(&*self.to)))
    }
}

fn in_words(fit: &Fit, file: Option<&Path>) -> String {
    let mut text = format!("{}\n\n{}\n\n", fit.kind.in_words(), fit.evidence.join("\n"));
    let number = |value: f64| format!("{value:.4}").trim_end_matches('0').trim_end_matches('.').to_string();
    let mut values = Grid::new(["value", "", "range"]);
    for (name, fitted) in &fit.values {
        let range = format!("{} to {}", number(fitted.low), number(fitted.high));
        values.rows.push(vec![name.to_string(), number(fitted.value), range]);
    }
    text += &(values.text() + "\n");
    if !fit.residuals.is_empty() {
        let mut beside = Grid::new(["check", "measured", "by these values"]);
        let rows = fit.residuals.iter();
        beside.rows.extend(rows.map(|one| vec![one.what.into(), number(one.measured), number(one.fitted)]));
        text += &format!("\n{}\n", beside.text());
    }
    text + &match file {
        Some(path) => format!("\n{0}: give it as --drive ./{0}\n", path.display()),
        None => "\nNo drive file: the logs don't say what kind of drive it is.\n".into(),
    }
}

#[derive(Subcommand)]
pub enum Import {
    /// DiskSim's .parv, .diskspecs, .model and .seek files: a drive file each, with the source of each value.
    Disksim {
        /// The folder of the description, or one of its files.
        dir: PathBuf,
        /// The folder to write drive files to.
        #[arg(long, value_name = "DIR", default_value = ".")]
        to: PathBuf,
    },
}

impl Import {
    pub fn execute(self) -> anyhow::Result<()> {
        let Import::Disksim { dir, to } = self;
        let drives = if dir.is_dir() {
            import::disksim(&dir)?
        } else {
            vec![import::disksim_file(&dir, &|path| std::fs::read(path))?]
        };
        // All are built before the first is written.
        let built =
            drives.iter().map(|drive| Drive::parse(&drive.from, &drive.text)).collect::<Result<Vec<_>, Error>>()?;
        std::fs::create_dir_all(&to).map_err(|error| Error::writing(&to, error))?;
        for (imported, drive) in drives.iter().zip(built) {
            let path = to.join(format!("{}.toml", imported.name));
            write_new(&path, &imported.text)?;
            print(format!(
                "{}: {} from {}\n",
                path.display(),
                Bytes::of_sectors(drive.geometry.sectors),
                imported.from.display()
            ))?;
        }
        Ok(())
    }
}

/// Writes a file, which must not exist yet.
fn write_new(path: &Path, text: &str) -> Result<(), Error> {
    let mut file = std::fs::File::create_new(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Error::Usage(format!(
            "{} is there already, and is not written over: remove it, or give another place with --to",
            path.display()
        )),
        _ => Error::writing(path, error),
    })?;
    file.write_all(text.as_bytes()).map_err(|error| Error::writing(path, error))
}

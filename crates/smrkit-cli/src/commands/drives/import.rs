//! `smrkit drives import`: drive files from descriptions in another format.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use smrkit::drive::{Drive, import};
use smrkit::error::Error;
use smrkit::quantity::Bytes;

use crate::output::print;

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
pub fn write_new(path: &Path, text: &str) -> Result<(), Error> {
    use std::io::Write;
    let mut file = std::fs::File::create_new(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Error::Usage(format!(
            "{} is there already, and is not written over: remove it, or give another place with --to",
            path.display()
        )),
        _ => Error::writing(path, error),
    })?;
    file.write_all(text.as_bytes()).map_err(|error| Error::writing(path, error))
}

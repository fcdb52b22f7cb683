//! Figures written as files: SVG or PNG.

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use smrkit::error::Error;
use smrkit_report::figure::Figure;
use smrkit_report::{png, svg};
use smrkit_trace::output::TargetFolder;

/// The format of a figure's file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FigureFormat {
    /// Lines and text; any size.
    #[default]
    Svg,
    /// Pixels.
    Png,
}

impl FigureFormat {
    /// The format that a path's ending asks for; SVG for any but `.png`.
    fn for_path(path: &Path) -> FigureFormat {
        match path.extension() {
            Some(end) if end.eq_ignore_ascii_case("png") => FigureFormat::Png,
            _ => FigureFormat::Svg,
        }
    }

    /// The ending of its files.
    pub fn ending(self) -> &'static str {
        match self {
            FigureFormat::Svg => "svg",
            FigureFormat::Png => "png",
        }
    }
}

/// Writes figures into `folder` under their names, and gives the paths. One that can't be written does not keep the others
/// from being written; the first error is returned.
pub fn write_all(figures: &[Figure], folder: &TargetFolder, format: FigureFormat) -> Result<Vec<PathBuf>, Error> {
    let write_one = |figure: &Figure| {
        let path = folder.path().join(format!("{}.{}", figure.name, format.ending()));
        write(figure, &path).map(|()| path)
    };
    let written: Vec<Result<PathBuf, Error>> = figures.iter().map(write_one).collect();
    written.into_iter().collect()
}

/// Writes one figure; PNG if the path ends so, else SVG.
pub fn write(figure: &Figure, path: &Path) -> Result<(), Error> {
    let failed = |error| Error::writing(path, error);
    let content = match FigureFormat::for_path(path) {
        FigureFormat::Svg => svg(figure).into_bytes(),
        FigureFormat::Png => png(figure).ok_or_else(|| failed(std::io::ErrorKind::OutOfMemory.into()))?,
    };
    fs::write(path, content).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use smrkit_report::figure::Axis;

    fn figures() -> Vec<Figure> {
        ["one", "two"].map(|name| Figure::lines(name, "", Axis::linear("x"), Axis::linear("y"), vec![])).into()
    }

    #[test]
    fn figures_are_written_under_their_names_in_either_format() {
        let dir = tempfile::tempdir().unwrap();
        let folder = TargetFolder::open(dir.path().join("figures")).unwrap();
        for (format, begin) in [(FigureFormat::Svg, &b"<svg"[..]), (FigureFormat::Png, b"\x89PNG")] {
            let written = write_all(&figures(), &folder, format).unwrap();
            let names = ["one", "two"].map(|name| folder.path().join(format!("{name}.{}", format.ending())));
            assert_eq!(written, names);
            assert!(written.iter().all(|path| fs::read(path).unwrap().starts_with(begin)));
        }
    }

    #[test]
    fn a_figure_that_can_not_be_written_names_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let error = write(&figures()[0], &dir.path().join("gone/lines.svg")).unwrap_err();
        assert!(error.to_string().contains("gone/lines.svg"), "{error}");
    }
}

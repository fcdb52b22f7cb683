//! `--requests` and `--accesses`: rows of one run, as Parquet.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use smrkit::disk::Recorder;
use smrkit::engine::saved::SavedState;
use smrkit::error::Error;
use smrkit::experiment::comparison::RunRecorders;
use smrkit::stats::rows::RequestRow;
use smrkit::tally::Access;

use crate::rows::{MemberAccess, Row, Rows};
use crate::target::TargetFile;

/// A table that a run fills; the first error is kept, and what comes after it is dropped.
struct Shared<R: Row>(Arc<Mutex<Option<Table<R>>>>);

type Table<R> = Result<Rows<R>, Error>;

impl<R: Row> Clone for Shared<R> {
    fn clone(&self) -> Self {
        Shared(self.0.clone())
    }
}

impl<R: Row> Shared<R> {
    fn create(path: &Path) -> Result<Shared<R>, Error> {
        Ok(Shared(Arc::new(Mutex::new(Some(Ok(Rows::create(path)?))))))
    }

    fn push(&self, row: &R) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Ok(rows)) = table.as_mut()
            && let Err(error) = rows.push(row)
        {
            *table = Some(Err(error));
        }
    }

    fn finish(self) -> Result<(), Error> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        table.map_or(Ok(()), |rows| rows?.finish())
    }
}

struct OfDrive(Shared<Access>);

impl Recorder for OfDrive {
    fn access(&mut self, access: &Access) {
        self.0.push(access);
    }
}

struct OfMember(u32, Shared<MemberAccess>);

impl Recorder for OfMember {
    fn access(&mut self, access: &Access) {
        self.1.push(&MemberAccess { member: self.0, access: *access });
    }
}

/// The files being filled.
#[derive(Default)]
pub struct RowFiles(Vec<Box<dyn FnOnce() -> Result<(), Error>>>);

impl RowFiles {
    fn create<R: Row + Send + 'static>(&mut self, path: &Path) -> Result<Shared<R>, Error> {
        let shared = Shared::create(path)?;
        let own = shared.clone();
        self.0.push(Box::new(move || own.finish()));
        Ok(shared)
    }

    /// Opens a file for the state at the end of the run that `records` is of. A run that does not come to its end leaves none.
    pub fn save_state(&mut self, path: &Path, records: &mut RunRecorders) -> Result<(), Error> {
        let (target, saved) = (TargetFile::open(path)?, Arc::new(Mutex::new(None)));
        let own = Arc::clone(&saved);
        records.state = Some(Box::new(move |state| *own.lock().unwrap_or_else(PoisonError::into_inner) = Some(state)));
        self.0.push(Box::new(move || {
            let state: Option<SavedState> = saved.lock().unwrap_or_else(PoisonError::into_inner).take();
            state.map_or(Ok(()), |state| target.write(state.bytes()))
        }));
        Ok(())
    }

    /// Writes the rest, and makes the files appear under their names.
    pub fn finish(self) -> Result<(), Error> {
        self.0.into_iter().try_for_each(|finish| finish())
    }
}

/// Opens the files asked for, and what fills them; `array` tells whether the run is of an array.
pub fn open(requests: Option<&Path>, accesses: Option<&Path>, array: bool) -> Result<(RunRecorders, RowFiles), Error> {
    let (mut records, mut files) = (RunRecorders::default(), RowFiles::default());
    if let Some(path) = requests {
        let shared = files.create::<RequestRow>(path)?;
        records.requests = Some(Box::new(move |row: &RequestRow| shared.push(row)));
    }
    records.accesses = match accesses {
        None => None,
        Some(path) if array => {
            let shared = files.create(path)?;
            Some(Box::new(move |drive| Box::new(OfMember(drive as u32, shared.clone()))))
        }
        Some(path) => {
            let shared = files.create(path)?;
            Some(Box::new(move |_| Box::new(OfDrive(shared.clone()))))
        }
    };
    Ok((records, files))
}

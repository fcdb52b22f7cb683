//! `--requests` and `--accesses`: rows of one run, as Parquet.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use smrkit::disk::Recorder;
use smrkit::error::Error;
use smrkit::stats::rows::{RequestRow, Row, Rows};
use smrkit::tally::Access;

use crate::comparison::Records;

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

struct AccessRecorder(Shared<Access>);

impl Recorder for AccessRecorder {
    fn access(&mut self, access: &Access) {
        self.0.push(access);
    }
}

/// The files being filled.
pub struct Files {
    requests: Option<Shared<RequestRow>>,
    accesses: Option<Shared<Access>>,
}

impl Files {
    /// Writes the rest, and makes the files appear under their names.
    pub fn finish(self) -> Result<(), Error> {
        self.requests.map_or(Ok(()), Shared::finish)?;
        self.accesses.map_or(Ok(()), Shared::finish)
    }
}

/// Opens the files asked for, and what fills them.
pub fn open(requests: Option<&Path>, accesses: Option<&Path>) -> Result<(Records, Files), Error> {
    let requests = requests.map(Shared::create).transpose()?;
    let accesses = accesses.map(Shared::create).transpose()?;
    let sink = requests.clone().map(|shared| {
        let push: crate::pool::RequestSink = Box::new(move |row: &RequestRow| shared.push(row));
        push
    });
    let recorder = accesses.clone().map(|shared| Box::new(AccessRecorder(shared)) as Box<dyn Recorder>);
    Ok((Records { requests: sink, accesses: recorder }, Files { requests, accesses }))
}

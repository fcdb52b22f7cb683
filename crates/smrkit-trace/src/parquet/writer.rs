//! Writes requests as Parquet, a row group at a time.
//!
//! The time column takes the coarsest unit that divides every time. It is chosen from the first row group; should a
//! later one need a finer unit, what was written is rewritten, at most once a unit.

use std::path::{Path, PathBuf};

use super::table::{Column, GROUP_ROWS, Packing, TableWriter, Values};
use super::{COLUMNS, FORMAT, KEY_FORMAT, KEY_ROWS, KEY_SOURCE_FORMAT, KEY_SOURCE_SHA256, KEY_TICK, KEY_VERSION};
use super::{KEY_VOLUME, Meta, ParquetReader, RequestColumns, TICKS, Tick, VERSION};
use crate::volume::Volume;
use smrkit::error::Error;
use smrkit::request::{Op, Request, Source};

/// Writes a trace; the file appears under its name at `finish`.
pub struct ParquetWriter {
    path: PathBuf,
    meta: Meta,
    table: Option<(TableWriter, Tick)>,
    /// The columns of the row group being gathered.
    group: RequestColumns,
    /// Rows of a whole row group.
    group_rows: usize,
    rows: u64,
    volumes_used: usize,
}

impl ParquetWriter {
    /// Starts the trace that will become `path`.
    pub fn create(path: &Path, meta: &Meta) -> Result<ParquetWriter, Error> {
        // Opened at once, so that a path that can't be written is known before the work.
        let table = TableWriter::create(path, &columns(TICKS[0]))?;
        Ok(ParquetWriter {
            path: path.to_path_buf(),
            meta: meta.clone(),
            table: Some((table, TICKS[0])),
            group: RequestColumns::default(),
            group_rows: GROUP_ROWS,
            rows: 0,
            volumes_used: 0,
        })
    }

    /// The trace in row groups of at most `rows`, for many files at once.
    pub fn with_group_rows(self, rows: usize) -> ParquetWriter {
        ParquetWriter { group_rows: rows.clamp(1, GROUP_ROWS), ..self }
    }

    /// Replaces what the file says about itself: volumes and hash may be known only once the source was read.
    pub fn set_meta(&mut self, meta: &Meta) {
        self.meta = meta.clone();
    }

    /// Appends requests, in any order of time.
    pub fn write(&mut self, requests: &[Request]) -> Result<(), Error> {
        let mut rest = requests;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(self.group_rows - self.group.time.len()));
            self.group.extend(now);
            rest = later;
            if self.group.time.len() == self.group_rows {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Writes the rest and the metadata, and makes the file appear under its name.
    pub fn finish(mut self) -> Result<(), Error> {
        self.flush()?;
        let metadata = self.metadata();
        match self.table.take() {
            Some((table, _)) => table.finish(metadata),
            None => Err(Error::writing(&self.path, std::io::Error::other("writing had failed before"))),
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        let rows = self.group.time.len();
        if rows == 0 {
            return Ok(());
        }
        let used = self.group.volume.iter().max().map_or(0, |&last| last as usize + 1);
        self.volumes_used = self.volumes_used.max(used);
        self.group.check().map_err(|why| Error::input(&self.path, format!("can't be written: {why}")))?;
        self.fit_tick()?;
        let Some((table, tick)) = &mut self.table else { return Ok(()) };
        self.group.write(table, *tick)?;
        self.rows += rows as u64;
        Ok(())
    }

    /// Goes over to a finer unit if the gathered times need one.
    fn fit_tick(&mut self) -> Result<(), Error> {
        let Some((table, tick)) = self.table.take() else { return Ok(()) };
        // What can't be read back can't be rewritten: a pipe gets nanoseconds from the start.
        let wanted = if table.can_be_read() { finest_needed(&self.group.time, tick) } else { TICKS[TICKS.len() - 1] };
        self.table = Some(if wanted == tick { (table, tick) } else { (self.rewrite(table, wanted)?, wanted) });
        Ok(())
    }

    fn rewrite(&self, old: TableWriter, tick: Tick) -> Result<TableWriter, Error> {
        let rows = self.rows;
        let file = old.abandon(self.metadata())?;
        let mut new = TableWriter::create(&self.path, &columns(tick))?;
        if rows == 0 {
            return Ok(new);
        }
        let mut reader = ParquetReader::from_file(&self.path, file)?;
        let (mut batch, mut group) = (Vec::new(), RequestColumns::default());
        loop {
            reader.fill(&mut batch)?;
            group.extend(&batch);
            if group.time.len() >= GROUP_ROWS || batch.is_empty() {
                if group.time.is_empty() {
                    return Ok(new);
                }
                group.write(&mut new, tick)?;
            }
        }
    }

    fn metadata(&self) -> Vec<(String, String)> {
        let tick = self.table.as_ref().map_or(1, |(_, tick)| tick.ns);
        let mut pairs = vec![
            (KEY_FORMAT.to_string(), FORMAT.to_string()),
            (KEY_VERSION.to_string(), VERSION.to_string()),
            (KEY_TICK.to_string(), tick.to_string()),
            (KEY_ROWS.to_string(), self.rows.to_string()),
            (KEY_SOURCE_FORMAT.to_string(), self.meta.source_format.clone()),
        ];
        if let Some(hash) = &self.meta.source_sha256 {
            pairs.push((KEY_SOURCE_SHA256.to_string(), hash.clone()));
        }
        // Requests may name volumes that the table lacks; the file's table never does.
        for index in 0..self.meta.volumes.len().max(self.volumes_used).max(1) {
            let unnamed = Volume { number: index as u64, name: String::new() };
            let volume = self.meta.volumes.get(index).unwrap_or(&unnamed);
            pairs.push((format!("{KEY_VOLUME}{index}"), format!("{} {}", volume.number, volume.name)));
        }
        pairs
    }
}

impl RequestColumns {
    fn extend(&mut self, requests: &[Request]) {
        self.time.extend(requests.iter().map(|request| request.time.0 as i64));
        self.op.extend(requests.iter().map(|request| request.op as i32));
        self.lba.extend(requests.iter().map(|request| request.lba.0 as i64));
        self.sectors.extend(requests.iter().map(|request| request.sectors as i32));
        self.volume.extend(requests.iter().map(|request| i32::from(request.volume)));
    }

    /// Refuses what the reader would refuse.
    fn check(&self) -> Result<(), &'static str> {
        let empty = |(&sectors, &op): (&i32, &i32)| sectors == 0 && op != Op::Flush as i32;
        if self.sectors.iter().zip(&self.op).fold(false, |any, row| any | empty(row)) {
            return Err("a request has 0 sectors; leave it out");
        }
        if self.lba.iter().fold(0, |bits, lba| bits | lba) < 0 {
            return Err("an LBA lies past the end of any disk (2^63 sectors)");
        }
        Ok(())
    }

    /// Writes them as a row group, and forgets them.
    fn write(&mut self, table: &mut TableWriter, tick: Tick) -> Result<(), Error> {
        let RequestColumns { time, op, lba, sectors, volume } = self;
        to_ticks(time, tick);
        let [time_values, lba_values] = [&*time, &*lba].map(|values| Values::Long(values.into()));
        let [op_values, sector_values, volume_values] =
            [&*op, &*sectors, &*volume].map(|values| Values::Int(values.into()));
        table.write_group(&[time_values, op_values, lba_values, sector_values, volume_values])?;
        [time, lba].into_iter().for_each(Vec::clear);
        [op, sectors, volume].into_iter().for_each(Vec::clear);
        Ok(())
    }
}

fn columns(tick: Tick) -> [Column<'static>; 5] {
    let time = Column { name: tick.column, bits: 64, packing: Packing::Delta };
    let [op, lba, sectors, volume] = COLUMNS;
    [time, op, lba, sectors, volume]
}

/// The coarsest unit, `from` or finer, that divides all times.
fn finest_needed(times: &[i64], from: Tick) -> Tick {
    let divides = |tick: &&Tick| tick.ns <= from.ns && divided_by(times, tick.ns);
    *TICKS.iter().find(divides).unwrap_or(&TICKS[TICKS.len() - 1])
}

fn divided_by(times: &[i64], ns: u64) -> bool {
    // The constants let the compiler multiply instead of divide.
    fn all<const NS: u64>(times: &[i64]) -> bool {
        times.chunks(256).all(|times| times.iter().fold(0, |left, &time| left | (time as u64 % NS)) == 0)
    }
    match ns {
        1_000_000_000 => all::<1_000_000_000>(times),
        1_000_000 => all::<1_000_000>(times),
        1_000 => all::<1_000>(times),
        100 => all::<100>(times),
        _ => true,
    }
}

fn to_ticks(times: &mut [i64], tick: Tick) {
    fn scale<const NS: u64>(times: &mut [i64]) {
        times.iter_mut().for_each(|time| *time = (*time as u64 / NS) as i64);
    }
    match tick.ns {
        1_000_000_000 => scale::<1_000_000_000>(times),
        1_000_000 => scale::<1_000_000>(times),
        1_000 => scale::<1_000>(times),
        100 => scale::<100>(times),
        _ => {}
    }
}

//! Figures 2 and 3, row by row: writes and deletes on a small Caveat-Scriptor disk, counted by the checker.

use std::sync::Arc;

use smrfs::data::Data;
use smrfs::device::caveat::{CaveatScriptor, WriteHistory};
use smrfs::device::modelled::{Contents, Modelled};
use smrfs::device::{Bands, HostManaged, Model, Shape};
use smrfs::error::{DeviceError, FsError};
use smrfs::safety::checker::Watched;
use smrfs::units::{Granule, Span};
use smrkit::drive::Drive;
use smrkit::error::Error;
use smrkit::tally::Cause;

use crate::{Item, Row, Shown};

const HEADING: &str = "Figures 2 and 3: row by row";
const DRIVE: &str = "tiny-constant";
/// LBAs of the disk.
const DISK: u64 = 200;
/// LBAs of an extent.
const EXTENT: u64 = 20;
/// Place of the first extent.
const AT: u64 = 30;
/// Figure 2 has DID > DPID: these are the values of the safety rule's closed forms.
const FIGURE_2: (u64, u64) = (8, 5);
/// Figure 3 has DID = DPID.
const FIGURE_3: (u64, u64) = (5, 5);

type Disk = Watched<CaveatScriptor<Modelled>>;

fn disk((did, dpid): (u64, u64)) -> Result<Disk, Error> {
    let bands = Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 };
    let shape = Shape { model: Model::Caveat, granule_bytes: 512, granules: DISK, did, dpid, bands };
    let platters = Arc::new(Modelled::new(Drive::load(DRIVE)?, Contents::Nothing, &shape)?);
    Ok(Watched::new(CaveatScriptor::new(platters, shape, WriteHistory::Untracked)?))
}

fn write(disk: &Disk, at: u64) -> Result<(), Error> {
    Ok(disk.write(Granule(at), Data::Blank(EXTENT * 512), Cause::Host).map_err(FsError::from)?)
}

/// R, NW, WO and W, as a row of the table has them.
fn counts(disk: &Disk) -> [u64; 4] {
    let counts = disk.counts();
    [counts.readable, counts.not_writable, counts.write_once, counts.writable]
}

fn words([readable, not_writable, write_once, _]: [u64; 4]) -> String {
    format!("R {readable}, NW {not_writable}, WO {write_once}")
}

/// A row that must come out as the rule's closed forms say.
fn row(name: &str, [readable, not_writable, write_once]: [u64; 3], ours: [u64; 4], why: &str) -> Row {
    let expected = [readable, not_writable, write_once, DISK - readable - not_writable - write_once];
    let sum: u64 = ours.iter().sum();
    let holds = ours == expected && sum == DISK;
    let reason = format!("equal, and all add up to the disk; {why}");
    Row::holds(name, words(expected), words(ours), "LBA", holds).because(reason).derived()
}

pub fn item() -> Result<Item, Error> {
    let rows: Vec<Row> = figure_2()?.into_iter().chain(figure_3()?).collect();
    let text = format!(
        "Extents of {EXTENT} LBAs on a disk of {DISK}; figure 2 with DID {} and DPID {}, figure 3 with DID and DPID {}. \
         The figures have no numbers: those next to ours follow from the rule's text.",
        FIGURE_2.0, FIGURE_2.1, FIGURE_3.0
    );
    Ok(Item::told(HEADING, Shown { text: vec![text], rows, ..Shown::default() }))
}

fn figure_2() -> Result<Vec<Row>, Error> {
    let (did, dpid) = FIGURE_2;
    let disk = disk(FIGURE_2)?;
    let mut rows = vec![row("figure 2, row 1: an empty disk", [0, 0, 0], counts(&disk), "all of it is writable")];
    write(&disk, AT)?;
    let why = "DID before the extent, DPID behind it";
    rows.push(row("figure 2, row 2: an extent is written", [EXTENT, did, dpid], counts(&disk), why));
    write(&disk, AT + EXTENT)?;
    let why = "the WO gap moves along";
    rows.push(row("figure 2, row 3: more behind it", [2 * EXTENT, did, dpid], counts(&disk), why));
    disk.discard(Span::new(AT + EXTENT, EXTENT));
    let why = "the gap behind has had its write: NW";
    rows.push(row("figure 2, row 4: that is deleted", [EXTENT, did + dpid, 0], counts(&disk), why));
    let nearest = nearest_write(&disk, AT + EXTENT)?;
    let free = nearest - (AT + EXTENT);
    let why = "the checker refuses nearer ones";
    rows.push(
        Row::exact("figure 2, row 5: LBAs left free by the nearest write", dpid, free, "LBA").because(why).derived(),
    );
    let why = "the gap between is NW";
    let name = "figure 2, row 5: an extent as close as possible";
    rows.push(row(name, [2 * EXTENT, did + dpid, dpid], counts(&disk), why));
    Ok(rows)
}

/// Writes an extent at the first place from `from` on where the checker lets it.
fn nearest_write(disk: &Disk, from: u64) -> Result<u64, Error> {
    for at in from..DISK - EXTENT {
        match disk.write(Granule(at), Data::Blank(EXTENT * 512), Cause::Host) {
            Ok(()) => return Ok(at),
            Err(DeviceError::Violation(_)) => {}
            Err(error) => return Err(FsError::from(error).into()),
        }
    }
    Ok(DISK)
}

fn figure_3() -> Result<Vec<Row>, Error> {
    let (did, dpid) = FIGURE_3;
    let disk = disk(FIGURE_3)?;
    let pitch = EXTENT + did + dpid;
    for i in 0..3 {
        write(&disk, AT + i * pitch)?;
    }
    let before = counts(&disk);
    let why = "three runs, each with its gaps";
    let mut rows = vec![row("figure 3, row 11: three runs", [3 * EXTENT, 3 * did, 3 * dpid], before, why)];
    disk.discard(Span::new(AT + pitch, EXTENT));
    let after = counts(&disk);
    let why = "the gaps of the run come back with it: free cleaning";
    rows.push(row("figure 3, rows 12 and 13: the middle one deleted", [2 * EXTENT, 2 * did, 2 * dpid], after, why));
    let gained = after[3] - before[3];
    rows.push(
        Row::exact("figure 3: LBAs gained", pitch, gained, "LBA")
            .because("the run, DID and DPID, in one piece")
            .derived(),
    );
    Ok(rows)
}

//! Contents of the platters: nothing, stamps, or bytes.
//!
//! One layer source serves all three, since layers move [`Buf`]s and never look inside. The shingling law is applied
//! here, on every write. What a second write destroys upstream (the DPID) needs the history that only stamps keep; on a
//! disk of bytes it is left out.

mod backing;
mod buf;
pub(crate) mod digest;
pub mod held;
pub mod interference;
pub mod label;
pub mod placement;
pub mod record;
pub mod stamps;

use std::io;
use std::sync::Arc;

use crate::error::DiskResult;
use crate::geometry::Geometry;
use crate::units::{Pba, SECTOR_BYTES};
pub use backing::{Backing, DESTROYED_BYTE, HeldSectors, MemoryBacking};
pub use buf::Buf;
use buf::{io_fault, range};
use held::HeldBuf;
use interference::Interference;
pub use label::Label;
pub use placement::{Ascending, Placement};
pub use record::{WritePart, record_sectors};
pub use stamps::{Damage, Stamp, Stamps};

/// Contents of sectors.
#[expect(clippy::large_enum_variant, reason = "a disk has one medium, and goes through it with each access")]
pub enum Medium {
    /// Nothing: only time is of interest.
    NoData,
    /// For each sector the number of the write that put its content there.
    Stamps(Stamps),
    /// Real bytes.
    Bytes(Box<dyn Backing>),
}

/// Sectors from which on a buffer holds them without a copy, where the backing can: fewer are copied as soon (assumption).
const HELD_SECTORS: u64 = 64;

impl Medium {
    /// Reads `n` sectors from `pba` into `buf` from sector `at` on.
    #[inline(always)]
    pub fn read(&self, pba: Pba, n: u64, buf: &mut Buf, at: u64) -> DiskResult {
        if matches!(self, Medium::NoData) { Ok(()) } else { self.read_data(pba, n, buf, at) }
    }

    fn read_data(&self, pba: Pba, n: u64, buf: &mut Buf, at: u64) -> DiskResult {
        match (self, buf) {
            (Medium::Stamps(stamps), Buf::Stamps(out)) => {
                stamps.read(pba, &mut out[range(at, n)]);
                Ok(())
            }
            (Medium::Bytes(backing), Buf::Bytes(out)) => {
                backing.read(pba, &mut out[range(at * SECTOR_BYTES, n * SECTOR_BYTES)]).map_err(io_fault)
            }
            (Medium::Bytes(backing), Buf::Held(out)) => {
                out.take(at, n, backing.hold(pba, n).map_err(io_fault)?);
                Ok(())
            }
            _ => unreachable!("a buffer of another medium"),
        }
    }

    /// Writes `n` sectors at `pba` from `buf`, sector `at` on, and destroys what the law says.
    #[inline(always)]
    pub fn write(&mut self, law: &Interference, g: &Geometry, pba: Pba, n: u64, buf: &Buf, at: u64) -> DiskResult {
        if matches!(self, Medium::NoData) { Ok(()) } else { self.write_data(law, g, pba, n, buf, at) }
    }

    fn write_data(&mut self, law: &Interference, g: &Geometry, pba: Pba, n: u64, buf: &Buf, at: u64) -> DiskResult {
        match (self, buf) {
            (Medium::Stamps(stamps), Buf::Stamps(data)) => {
                stamps.write(law, g, pba, &data[range(at, n)]);
                Ok(())
            }
            (Medium::Bytes(backing), Buf::Bytes(data)) => {
                let data = &data[range(at * SECTOR_BYTES, n * SECTOR_BYTES)];
                write_bytes(backing.as_mut(), law, g, (pba, n), |backing| backing.write(pba, data)).map_err(io_fault)
            }
            (Medium::Bytes(backing), Buf::Held(data)) => {
                let write = |backing: &mut dyn Backing| data.write(backing, pba, at, n);
                write_bytes(backing.as_mut(), law, g, (pba, n), write).map_err(io_fault)
            }
            _ => unreachable!("a buffer of another medium"),
        }
    }

    /// Writes `parts` one after another at `pba`, but no more than the first `limit` sectors of them.
    pub fn write_parts(
        &mut self,
        law: &Interference,
        geometry: &Geometry,
        pba: Pba,
        parts: &[WritePart],
        limit: u64,
    ) -> DiskResult {
        if matches!(self, Medium::NoData) {
            return Ok(());
        }
        let mut whole = self.buf(parts.iter().map(WritePart::sectors).sum());
        let mut at = 0;
        for part in parts {
            match *part {
                WritePart::Data { buf, at: from, sectors } | WritePart::Labelled { buf, at: from, sectors, .. } => {
                    whole.put(at, buf, from, sectors)?
                }
                WritePart::Record { words, sectors } => self.put_record(&mut whole, at, sectors, words),
            }
            at += part.sectors();
        }
        self.write(law, geometry, pba, at.min(limit), &whole, 0)?;
        self.label_parts(geometry, pba, parts, limit)
    }

    /// Labels what has been written of `parts`.
    fn label_parts(&mut self, geometry: &Geometry, pba: Pba, parts: &[WritePart], limit: u64) -> DiskResult {
        let mut at = 0;
        for part in parts {
            if let &WritePart::Labelled { labels, .. } = part
                && at < limit
            {
                let labels = &labels[..labels.len().min((limit - at) as usize)];
                match self {
                    Medium::Stamps(stamps) => stamps.label(pba + at, labels),
                    Medium::Bytes(backing) => {
                        label::write_bytes(backing.as_mut(), geometry.sectors(), pba + at, labels).map_err(io_fault)?;
                    }
                    Medium::NoData => {}
                }
            }
            at += part.sectors();
        }
        Ok(())
    }

    /// The labels of `n` sectors from `pba` on, by their place; those of damaged or overwritten sectors are gone.
    pub fn labels(&self, geometry: &Geometry, pba: Pba, n: u64) -> DiskResult<Vec<(u64, Label)>> {
        match self {
            Medium::NoData => Ok(Vec::new()),
            Medium::Stamps(stamps) => Ok(stamps.labels(pba, n)),
            Medium::Bytes(backing) => label::read_bytes(backing.as_ref(), geometry.sectors(), pba, n).map_err(io_fault),
        }
    }

    /// Takes note that nobody needs what `n` sectors from `pba` on hold.
    pub fn discard(&mut self, pba: Pba, n: u64) -> DiskResult {
        match self {
            Medium::Bytes(backing) => backing.discard(pba, n).map_err(io_fault),
            Medium::NoData | Medium::Stamps(_) => Ok(()),
        }
    }

    /// Takes the labels off `n` sectors from `pba` on.
    pub fn clear_labels(&mut self, geometry: &Geometry, pba: Pba, n: u64) -> DiskResult {
        match self {
            Medium::NoData => {}
            Medium::Stamps(stamps) => stamps.clear_labels(pba, n),
            Medium::Bytes(backing) => {
                label::clear_range(backing.as_mut(), geometry.sectors(), pba, n).map_err(io_fault)?;
            }
        }
        Ok(())
    }

    /// Puts a record into `sectors` sectors of `buf` from `at` on.
    fn put_record(&mut self, buf: &mut Buf, at: u64, sectors: u64, words: &[u64]) {
        assert!(record_sectors(words.len()) <= sectors, "a record of {} words in {sectors} sectors", words.len());
        match (self, buf) {
            (Medium::Stamps(stamps), Buf::Stamps(v)) => v[range(at, sectors)].fill(stamps.keep_record(words).0),
            (_, Buf::Bytes(v)) => record::encode(words, &mut v[range(at * SECTOR_BYTES, sectors * SECTOR_BYTES)]),
            (_, Buf::Held(v)) => {
                let mut bytes = vec![0; (sectors * SECTOR_BYTES) as usize];
                record::encode(words, &mut bytes);
                v.put_bytes(at, bytes);
            }
            _ => {}
        }
    }

    /// The record in `sectors` sectors from `pba` on, if a whole one is there.
    pub fn record_at(&self, pba: Pba, sectors: u64) -> DiskResult<Option<Vec<u64>>> {
        if matches!(self, Medium::Bytes(backing) if backing.is_hole(pba, sectors)) {
            return Ok(None);
        }
        let mut buf = self.buf(sectors);
        self.read(pba, sectors, &mut buf, 0)?;
        self.record(&buf, 0, sectors)
    }

    /// The record in `sectors` sectors of `buf` from `at` on, if a whole one is there.
    pub fn record(&self, buf: &Buf, at: u64, sectors: u64) -> DiskResult<Option<Vec<u64>>> {
        Ok(match (self, buf) {
            (Medium::Stamps(stamps), Buf::Stamps(v)) => stamps.record(&v[range(at, sectors)]),
            (_, Buf::Bytes(v)) => record::decode(&v[range(at * SECTOR_BYTES, sectors * SECTOR_BYTES)]),
            (_, Buf::Held(v)) => {
                let mut bytes = vec![0; (sectors * SECTOR_BYTES) as usize];
                v.read(at, &mut bytes).map_err(io_fault)?;
                record::decode(&bytes)
            }
            _ => None,
        })
    }

    /// Takes every LBA as written once, in order, where `placement` says. A medium of real bytes stays as
    /// it is.
    pub fn fill(&mut self, placement: Arc<dyn Placement>, sectors: u64) {
        if let Medium::Stamps(stamps) = self {
            stamps.fill(placement, sectors);
        }
    }

    /// Room for `n` sectors of what this medium holds.
    pub fn buf(&self, n: u64) -> Buf {
        match self {
            Medium::NoData => Buf::NoData,
            Medium::Stamps(_) => Buf::Stamps(vec![0; n as usize]),
            Medium::Bytes(backing) if n >= HELD_SECTORS && backing.can_hold() => Buf::Held(HeldBuf::default()),
            Medium::Bytes(_) => Buf::Bytes(vec![0; (n * SECTOR_BYTES) as usize]),
        }
    }
}

/// Lets `write` write `n` sectors at `pba`, and destroys what the law says. What goes loses its labels first.
fn write_bytes(
    backing: &mut dyn Backing,
    law: &Interference,
    geometry: &Geometry,
    (pba, n): (Pba, u64),
    write: impl FnOnce(&mut dyn Backing) -> io::Result<()>,
) -> io::Result<()> {
    let capacity = geometry.sectors();
    label::clear_bytes(backing, capacity, pba, n)?;
    write(backing)?;
    let mut result = Ok(());
    law.destroyed(geometry, pba, n, |at, sectors| {
        if result.is_ok() && !backing.is_destroyed(at, sectors) {
            let cleared = label::clear_bytes(backing, capacity, at, sectors);
            result = cleared.and_then(|()| backing.destroy(at, sectors));
        }
    });
    result
}

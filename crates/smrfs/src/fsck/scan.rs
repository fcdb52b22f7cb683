//! The first pass: every map by itself and against the disk.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use smrkit::tally::Cause;

use super::Findings;
use super::report::{Place, Problem};
use super::surface::{Surface, Wrong};
use crate::data::Room;
use crate::device::HostManaged;
use crate::error::{DeviceError, Errno, FsError, FsResult};
use crate::map::{self, Decoded, MapError, Piece};
use crate::meta::MetadataStore;
use crate::units::{Granule, NodeId, Span};

/// What is read at once when data is read.
const READ_BYTES: u64 = 1 << 20;

/// A run of granules in a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Extent {
    pub span: Span,
    pub file: NodeId,
    pub first: u64,
}

impl Extent {
    /// Whether `next` goes on where this ends, in the file and on the disk.
    pub fn continues(&self, next: &Extent) -> bool {
        let end = (self.file, self.span.end(), self.first + self.span.count);
        end == (next.file, next.span.at, next.first)
    }
}

/// What is to become of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Fix {
    /// Granules of the file that become holes.
    pub holes: Vec<(u64, u64)>,
    /// Its map is damaged: all of it becomes a hole.
    pub empty: bool,
    /// The size or the promise is impossible.
    pub head: bool,
}

/// Everything that the maps say.
#[derive(Default)]
pub(super) struct Scan {
    pub files: u64,
    pub extents: Vec<Extent>,
    /// Parts that maps name.
    pub parts: BTreeSet<u64>,
    pub fixes: BTreeMap<NodeId, Fix>,
    pub behind_end: u64,
    pub read: u64,
    /// Whether some map is not understood, so that nobody knows what parts it names.
    blind: bool,
    room: Vec<u8>,
}

impl Scan {
    pub fn run(
        &mut self,
        device: &dyn HostManaged,
        store: &dyn MetadataStore,
        surface: &Surface,
        read_all: bool,
        findings: &mut Findings,
    ) -> FsResult {
        store.scan(&mut |file, record| {
            self.files += 1;
            let Some(record) = record else { return Ok(()) };
            let Some(decoded) = self.decode(store, file, &record, findings)? else { return Ok(()) };
            self.parts.extend(decoded.stored.numbers());
            self.check_head(device, file, &decoded, findings);
            for piece in decoded.map.extents_from(0) {
                self.check_piece(device, surface, file, piece, read_all, findings)?;
            }
            Ok(())
        })
    }

    fn decode(
        &mut self,
        store: &dyn MetadataStore,
        file: NodeId,
        record: &[u8],
        findings: &mut Findings,
    ) -> FsResult<Option<Decoded>> {
        let missing = Cell::new(None);
        let load = |number| {
            store.load_spill(number).inspect_err(|error| {
                if matches!(error, FsError::Errno(Errno::ENOENT)) {
                    missing.set(Some(number));
                }
            })
        };
        let problem = match map::summary(record) {
            Err(error @ MapError::Version(_)) => {
                self.blind = true;
                findings.add_left(Problem::NewerMap { file: file.0, reason: error.to_string() });
                return Ok(None);
            }
            Err(error) => Problem::BadMap { file: file.0, reason: error.to_string() },
            Ok(_) => match map::decode(record, load) {
                Ok(decoded) => return Ok(Some(decoded)),
                Err(FsError::Corrupt(reason)) => Problem::BadMap { file: file.0, reason },
                Err(error) => match missing.get() {
                    Some(part) => Problem::MissingPart { file: file.0, part },
                    None => return Err(error),
                },
            },
        };
        self.fix(file).empty = true;
        findings.add(problem);
        Ok(None)
    }

    fn check_head(&mut self, device: &dyn HostManaged, file: NodeId, decoded: &Decoded, findings: &mut Findings) {
        let shape = device.shape();
        let head = &decoded.summary.head;
        if i64::try_from(head.size).is_err() {
            self.fix(file).head = true;
            findings.add(Problem::BadSize { file: file.0, bytes: head.size });
            return;
        }
        if head.promised > shape.granules {
            self.fix(file).head = true;
            findings.add(Problem::BadPromise { file: file.0, granules: head.promised });
        }
        let end = head.size.div_ceil(shape.granule_bytes);
        let behind = decoded.map.extents_from(end).map(|piece| piece.end() - piece.first.max(end));
        self.behind_end += behind.sum::<u64>();
    }

    fn check_piece(
        &mut self,
        device: &dyn HostManaged,
        surface: &Surface,
        file: NodeId,
        piece: Piece,
        read_all: bool,
        findings: &mut Findings,
    ) -> FsResult {
        let Some(whole) = piece.span() else { return Ok(()) };
        for (span, wrong) in surface.judge(whole) {
            let extent = Extent { span, file, first: piece.first + (span.at - whole.at) };
            let Some(wrong) = wrong else {
                match read_all {
                    true => self.read(device, extent, findings)?,
                    false => self.push(extent),
                }
                continue;
            };
            let place = self.hole(&extent);
            findings.add(match wrong {
                Wrong::OutOfRange => Problem::OutOfRange { place },
                Wrong::InGap => Problem::InGap { place },
                Wrong::BehindCursor => Problem::BehindCursor { place },
                Wrong::Offline => Problem::Offline { place },
            });
        }
        Ok(())
    }

    /// Adds an extent; what continues the last one in its file and on the disk is one with it.
    fn push(&mut self, extent: Extent) {
        match self.extents.last_mut().filter(|last| last.continues(&extent)) {
            Some(last) => last.span.count += extent.span.count,
            None => self.extents.push(extent),
        }
    }

    /// Reads an extent; what the disk does not read becomes a hole, granule by granule.
    fn read(&mut self, device: &dyn HostManaged, extent: Extent, findings: &mut Findings) -> FsResult {
        let each = (READ_BYTES / device.shape().granule_bytes).max(1);
        for begin in (0..extent.span.count).step_by(each as usize) {
            let piece = part(extent, begin, each.min(extent.span.count - begin));
            if self.reads(device, piece)?.is_none() {
                self.push(piece);
                continue;
            }
            for granule in (0..piece.span.count).map(|n| part(piece, n, 1)) {
                match self.reads(device, granule)? {
                    None => self.push(granule),
                    Some(reason) => {
                        let place = self.hole(&granule);
                        findings.add(Problem::Unreadable { place, reason });
                    }
                }
            }
        }
        self.read += extent.span.count;
        Ok(())
    }

    /// Reads a piece; tells why that is not possible.
    fn reads(&mut self, device: &dyn HostManaged, piece: Extent) -> FsResult<Option<String>> {
        self.room.resize((piece.span.count * device.shape().granule_bytes) as usize, 0);
        match device.read(piece.span.at, Room::Bytes(&mut self.room), Cause::Host) {
            Ok(()) => Ok(None),
            Err(DeviceError::PowerCut) => Err(FsError::PowerCut),
            Err(error) => Ok(Some(error.to_string())),
        }
    }

    /// Makes a hole of an extent.
    pub fn hole(&mut self, extent: &Extent) -> Place {
        self.fix(extent.file).holes.push((extent.first, extent.span.count));
        Place::new(extent.file, extent.first, extent.span)
    }

    fn fix(&mut self, file: NodeId) -> &mut Fix {
        self.fixes.entry(file).or_default()
    }

    /// The parts that no map names. Where a map is not understood, nobody knows.
    pub fn leaked(&self, store: &dyn MetadataStore) -> FsResult<Vec<u64>> {
        if self.blind {
            return Ok(Vec::new());
        }
        Ok(store.spills()?.into_iter().filter(|number| !self.parts.contains(number)).collect())
    }
}

/// `count` granules of an extent from `begin` on.
fn part(extent: Extent, begin: u64, count: u64) -> Extent {
    let at = Granule(extent.span.at.0 + begin);
    Extent { span: Span { at, count }, first: extent.first + begin, ..extent }
}

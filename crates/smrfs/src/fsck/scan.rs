//! The first pass: checks every map on its own and against the disk.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use smrkit::tally::Cause;

use super::Findings;
use super::report::{FilePlace, Problem};
use super::surface::{Surface, Wrong};
use crate::data::ReadBuffer;
use crate::device::HostManaged;
use crate::error::{DeviceError, Errno, FsError, FsResult, SealFault, SealedMap};
use crate::map::{self, Decoded, FilePiece, MapError, checksum};
use crate::meta::{MetadataStore, Time};
use crate::units::{NodeId, Owner, Span};

/// Number of bytes that are read at once.
const READ_BYTES: u64 = 1 << 20;

/// What is to be repaired in one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Fix {
    /// Granules of the file that become holes.
    pub holes: Vec<(u64, u64)>,
    /// True if its map is damaged, so that the whole file becomes a hole.
    pub empty: bool,
    /// True if its map was made for another owner, and is to be stored anew for this one.
    pub reseal: bool,
    /// True if size or promise are impossible.
    pub head: bool,
}

/// The result of reading a span.
enum Reading {
    Right,
    /// Some checksum differs from that in the map.
    Wrong,
    /// The disk can't read it, for this reason.
    Failed(String),
}

/// The contents of all maps.
#[derive(Default)]
pub(super) struct Scan {
    pub files: u64,
    pub extents: Vec<(Span, Owner)>,
    /// Shared extents, once for each further owner.
    pub shared: Vec<(Span, Owner)>,
    /// Files that may share extents with others.
    pub sharing: BTreeSet<NodeId>,
    /// Parts that maps name.
    pub parts: BTreeSet<u64>,
    pub fixes: BTreeMap<NodeId, Fix>,
    /// Files without a map.
    pub without_map: HashSet<NodeId>,
    pub behind_end: u64,
    pub read: u64,
    /// The mark of each map. Copies have the same mark.
    marks: Vec<(u64, NodeId)>,
    /// Files whose maps were made for another owner, with the message.
    of_other_owners: BTreeMap<NodeId, String>,
    /// True if some map can't be read, so that its parts are unknown.
    has_unknown_parts: bool,
    buffer: Vec<u8>,
}

impl Scan {
    /// Checks the map of every file of the store.
    pub fn run(
        &mut self,
        device: &dyn HostManaged,
        store: &dyn MetadataStore,
        surface: &Surface,
        read_all: bool,
        findings: &mut Findings,
    ) -> FsResult {
        store.inspect(&mut |file, found| {
            self.files += 1;
            if matches!(found, Ok(None)) {
                self.without_map.insert(file);
            }
            let Some(map) = self.open_seal(file, found, findings)? else { return Ok(()) };
            self.marks.push((map.mark, file));
            let Some(decoded) = self.decode(store, file, &map.record, findings)? else { return Ok(()) };
            self.parts.extend(decoded.stored.numbers());
            if decoded.summary.head.shares {
                self.sharing.insert(file);
            }
            self.check_head(device, file, &decoded, findings);
            for piece in decoded.map.extents_from(0) {
                let sums = read_all.then(|| decoded.map.sums(piece.first..piece.end()));
                self.check_piece(device, surface, file, piece, sums.as_deref(), findings)?;
            }
            Ok(())
        })
    }

    /// Returns the map if its seal is valid, or that of another owner. Reports an invalid seal.
    fn open_seal(
        &mut self,
        file: NodeId,
        found: FsResult<Option<SealedMap>>,
        findings: &mut Findings,
    ) -> FsResult<Option<SealedMap>> {
        let error = match found {
            Err(FsError::Seal(error)) => error,
            found => return found,
        };
        let reason = error.fault.to_string();
        match error.fault {
            SealFault::Damaged => {
                findings.add(Problem::BadMap { file: file.0, reason: "its checksum does not match".into() });
            }
            SealFault::Forged => findings.add(Problem::ForgedMap { file: file.0, reason }),
            SealFault::Version(_) => {
                self.has_unknown_parts = true;
                findings.add_left(Problem::NewerMap { file: file.0, reason });
                return Ok(None);
            }
            SealFault::Owner { map, .. } => {
                self.of_other_owners.insert(file, reason);
                return Ok(Some(map));
            }
        }
        self.fix(file).empty = true;
        Ok(None)
    }

    /// Decides which maps are copies: all but one of those with the same mark. A map of another owner whose mark is unique may come from a
    /// copy of the whole volume that changed owners; it is accepted only if `accept_owners` is true.
    pub fn resolve_marks(
        &mut self,
        store: &dyn MetadataStore,
        accept_owners: bool,
        findings: &mut Findings,
    ) -> FsResult {
        let mut marks = std::mem::take(&mut self.marks);
        marks.sort_unstable();
        let mut copies = BTreeSet::new();
        for same in marks.chunk_by(|(one, _), (other, _)| one == other) {
            let files = self.original_first(store, same.iter().map(|&(_, file)| file).collect())?;
            let original = files[0];
            for &copy in &files[1..] {
                self.of_other_owners.remove(&copy);
                copies.insert(copy);
                self.fixes.insert(copy, Fix { empty: true, ..Fix::default() });
                let reason = format!("it is a copy of the map of file {original}");
                findings.add(Problem::ForgedMap { file: copy.0, reason });
            }
            let Some(reason) = self.of_other_owners.remove(&original) else { continue };
            let problem = Problem::OtherOwner { file: original.0, reason };
            if accept_owners {
                findings.add(problem);
                self.fix(original).reseal = true;
            } else {
                findings.add_left(problem);
            }
        }
        if !copies.is_empty() {
            self.extents.retain(|(_, owner)| !copies.contains(&owner.file));
        }
        Ok(())
    }

    /// Sorts files with the same mark so that the one that keeps its map comes first: not one whose map was made for another owner, which
    /// is certainly a copy; and among the rest, the one that changed last.
    fn original_first(&self, store: &dyn MetadataStore, files: Vec<NodeId>) -> FsResult<Vec<NodeId>> {
        if files.len() == 1 {
            return Ok(files);
        }
        let mut ranked = Vec::with_capacity(files.len());
        for file in files {
            let changed = last_change(store, file)?;
            ranked.push((
                self.of_other_owners.contains_key(&file),
                Reverse(changed),
                store.attributes(file)?.ctime,
                file,
            ));
        }
        ranked.sort_unstable();
        Ok(ranked.into_iter().map(|(.., file)| file).collect())
    }

    /// Decodes a map. Returns `None` for a map of a newer version, and for a damaged one, which the fix makes empty.
    fn decode(
        &mut self,
        store: &dyn MetadataStore,
        file: NodeId,
        record: &[u8],
        findings: &mut Findings,
    ) -> FsResult<Option<Decoded>> {
        // A missing part is noted here, because the decoder passes on all errors of the store in the same way.
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
                self.has_unknown_parts = true;
                findings.add_left(Problem::NewerMap { file: file.0, reason: error.to_string() });
                return Ok(None);
            }
            Err(error) => Problem::BadMap { file: file.0, reason: error.to_string() },
            Ok(_) => match map::decode(record, load) {
                Ok(decoded) => return Ok(Some(decoded)),
                Err(FsError::Corrupt(reason)) => Problem::BadMap { file: file.0, reason },
                Err(error @ FsError::ForgedPart(_)) => Problem::ForgedMap { file: file.0, reason: error.to_string() },
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

    /// Checks size and promises of a map, and counts granules mapped behind the end of the file.
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

    /// Checks a piece of a map against the disk's surface, and against `sums` if they are given. Keeps the extents that can be read, and
    /// turns the rest into holes.
    fn check_piece(
        &mut self,
        device: &dyn HostManaged,
        surface: &Surface,
        file: NodeId,
        piece: FilePiece,
        sums: Option<&[u32]>,
        findings: &mut Findings,
    ) -> FsResult {
        let Some(whole) = piece.span() else { return Ok(()) };
        for (span, wrong) in surface.check_placement(whole) {
            let extent = (span, Owner { file, granule: piece.first }.further(span.at - whole.at));
            let Some(wrong) = wrong else {
                match sums {
                    Some(sums) => {
                        let skipped = (span.at - whole.at) as usize;
                        self.read(device, extent, &sums[skipped..skipped + span.count as usize], findings)?;
                    }
                    None => self.push(extent),
                }
                continue;
            };
            let place = self.hole(extent);
            findings.add(match wrong {
                Wrong::OutOfRange => Problem::OutOfRange { place },
                Wrong::InGap => Problem::InGap { place },
                Wrong::BehindCursor { band, cursor } => Problem::BehindCursor { place, band, cursor: cursor.0 },
                Wrong::Offline => Problem::Offline { place },
            });
        }
        Ok(())
    }

    /// Adds an extent, or joins it to the last one, if it continues the last one in the file and on the disk.
    fn push(&mut self, extent: (Span, Owner)) {
        match self.extents.last_mut().filter(|last| continues(**last, extent)) {
            Some((last, _)) => last.count += extent.0.count,
            None => self.extents.push(extent),
        }
    }

    /// Reads an extent. Granules that the disk can't read become holes. Those with a wrong checksum stay, because a hole would read as
    /// zeros without an error.
    fn read(
        &mut self,
        device: &dyn HostManaged,
        (span, owner): (Span, Owner),
        sums: &[u32],
        findings: &mut Findings,
    ) -> FsResult {
        let granules = (READ_BYTES / device.shape().granule_bytes).max(1);
        for begin in (0..span.count).step_by(granules as usize) {
            let piece = part((span, owner), begin, granules.min(span.count - begin));
            let sums = &sums[begin as usize..(begin + piece.0.count) as usize];
            if matches!(self.compare(device, piece.0, sums)?, Reading::Right) {
                self.push(piece);
                continue;
            }
            for (granule, sum) in (0..piece.0.count).map(|n| part(piece, n, 1)).zip(sums) {
                match self.compare(device, granule.0, &[*sum])? {
                    Reading::Right => self.push(granule),
                    Reading::Wrong => {
                        self.push(granule);
                        findings.add_left(Problem::WrongData { place: FilePlace::new(granule.0, granule.1) });
                    }
                    Reading::Failed(reason) => {
                        let place = self.hole(granule);
                        findings.add(Problem::Unreadable { place, reason });
                    }
                }
            }
        }
        self.read += span.count;
        Ok(())
    }

    /// Reads a span, and compares it with its checksums.
    fn compare(&mut self, device: &dyn HostManaged, span: Span, sums: &[u32]) -> FsResult<Reading> {
        self.buffer.resize((span.count * device.shape().granule_bytes) as usize, 0);
        match device.read(span.at, ReadBuffer::Bytes(&mut self.buffer), Cause::Host) {
            Ok(()) => {
                let mut granules = self.buffer.chunks_exact(device.shape().granule_bytes as usize).zip(sums);
                let is_right = granules.all(|(granule, &sum)| sum == 0 || checksum(granule) == sum);
                Ok(if is_right { Reading::Right } else { Reading::Wrong })
            }
            Err(DeviceError::PowerCut) => Err(FsError::PowerCut),
            Err(error) => Ok(Reading::Failed(error.to_string())),
        }
    }

    /// Lists an extent for the repair, which makes a hole of it.
    pub fn hole(&mut self, (span, owner): (Span, Owner)) -> FilePlace {
        self.fix(owner.file).holes.push((owner.granule, span.count));
        FilePlace::new(span, owner)
    }

    fn fix(&mut self, file: NodeId) -> &mut Fix {
        self.fixes.entry(file).or_default()
    }

    /// The parts that no map names. None are known if some map can't be read.
    pub fn leaked(&self, store: &dyn MetadataStore) -> FsResult<Vec<u64>> {
        if self.has_unknown_parts {
            return Ok(Vec::new());
        }
        Ok(store.spills()?.into_iter().filter(|number| !self.parts.contains(number)).collect())
    }
}

/// True if `next` continues the extent, in the file and on the disk.
pub(super) fn continues((span, owner): (Span, Owner), next: (Span, Owner)) -> bool {
    (span.end(), owner.further(span.count)) == (next.0.at, next.1)
}

/// Returns `count` granules of an extent from `begin` on.
fn part((span, owner): (Span, Owner), begin: u64, count: u64) -> (Span, Owner) {
    (Span { at: span.at + begin, count }, owner.further(begin))
}

/// Returns when a file was last changed, and the generation of its map. A map with an invalid seal counts as the oldest.
pub(super) fn last_change(store: &dyn MetadataStore, file: NodeId) -> FsResult<(Time, u64)> {
    let record = match store.load_map(file) {
        Err(FsError::Seal(_)) => None,
        record => record?,
    };
    let summary = record.and_then(|record| map::summary(&record).ok()).unwrap_or_default();
    Ok((summary.head.ctime, summary.generation))
}

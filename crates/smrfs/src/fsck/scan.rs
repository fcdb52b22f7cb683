//! The first pass: checks every map on its own and against the disk.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BTreeSet;

use smrkit::tally::Cause;

use super::Check;
use super::report::{FilePlace, Problem};
use super::surface::Wrong;
use crate::data::ReadBuffer;
use crate::error::{DeviceError, Errno, FsError, FsResult, SealFault, SealedMap};
use crate::map::{self, Decoded, FilePiece, Head, MapError, checksum};
use crate::meta::Time;
use crate::units::{NodeId, Owner, Span};

/// Number of bytes that are read at once.
const READ_BYTES: u64 = 1 << 20;

/// What is to be repaired in one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Fix {
    /// Granules of the file that become holes: the first, and how many.
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

impl Check<'_> {
    /// Checks the map of every file of the store.
    pub fn scan_maps(&mut self) -> FsResult {
        let store = self.store;
        store.inspect(&mut |file, found| {
            self.report.files += 1;
            if matches!(found, Ok(None)) {
                self.without_map.insert(file);
            }
            let Some(map) = self.open_seal(file, found)? else { return Ok(()) };
            self.marks.push((map.mark, file));
            let Some(decoded) = self.decode(file, &map.record)? else { return Ok(()) };
            self.parts.extend(decoded.stored.numbers());
            if decoded.summary.head.shares {
                self.sharing.insert(file);
            }
            self.check_head(file, &decoded);
            for piece in decoded.map.extents_from(0) {
                let sums = self.options.read_all.then(|| decoded.map.sums(piece.first..piece.end()));
                self.check_piece(file, piece, sums.as_deref())?;
            }
            Ok(())
        })
    }

    /// Returns the map if its seal is valid, or that of another owner. Reports an invalid seal.
    fn open_seal(&mut self, file: NodeId, found: FsResult<Option<SealedMap>>) -> FsResult<Option<SealedMap>> {
        let error = match found {
            Err(FsError::Seal(error)) => error,
            found => return found,
        };
        let reason = error.fault.to_string();
        match error.fault {
            SealFault::Damaged => {
                self.add_problem(Problem::BadMap { file: file.0, reason: "its checksum does not match".into() });
            }
            SealFault::Forged => self.add_problem(Problem::ForgedMap { file: file.0, reason }),
            SealFault::Version(_) => {
                self.has_unknown_parts = true;
                self.add_unrepairable(Problem::NewerMap { file: file.0, reason });
                return Ok(None);
            }
            SealFault::Owner { map, .. } => {
                // Whether it is accepted is decided when all marks are known.
                self.of_other_owners.insert(file, reason);
                return Ok(Some(map));
            }
        }
        self.fix(file).empty = true;
        Ok(None)
    }

    /// Decides which maps are copies: all but one of those with the same mark. A map that is no copy, but is of another owner, may come
    /// from a volume that was copied as a whole, with other owners; it is accepted only if `accept_owners` is true.
    pub fn resolve_marks(&mut self) -> FsResult {
        let mut marks = std::mem::take(&mut self.marks);
        marks.sort_unstable();
        let mut copies = BTreeSet::new();
        for same in marks.chunk_by(|(one, _), (other, _)| one == other) {
            let files = self.original_first(same.iter().map(|&(_, file)| file).collect())?;
            let original = files[0];
            for &copy in &files[1..] {
                self.of_other_owners.remove(&copy);
                copies.insert(copy);
                self.fixes.insert(copy, Fix { empty: true, ..Fix::default() });
                let reason = format!("it is a copy of the map of file {original}");
                self.add_problem(Problem::ForgedMap { file: copy.0, reason });
            }
            let Some(reason) = self.of_other_owners.remove(&original) else { continue };
            let problem = Problem::OtherOwner { file: original.0, reason };
            if self.options.accept_owners {
                self.add_problem(problem);
                self.fix(original).reseal = true;
            } else {
                self.add_unrepairable(problem);
            }
        }
        self.extents.retain(|(_, owner)| !copies.contains(&owner.file));
        Ok(())
    }

    /// Sorts files with the same mark so that the one that keeps its map comes first: not one whose map was made for another owner, which
    /// is certainly a copy; and among the rest, the one that changed last.
    fn original_first(&self, files: Vec<NodeId>) -> FsResult<Vec<NodeId>> {
        if files.len() == 1 {
            return Ok(files);
        }
        let mut ranked = Vec::with_capacity(files.len());
        for file in files {
            let (is_foreign, changed) = (self.of_other_owners.contains_key(&file), self.last_change(file)?);
            ranked.push((is_foreign, Reverse(changed), self.store.attributes(file)?.ctime, file));
        }
        ranked.sort_unstable();
        Ok(ranked.into_iter().map(|(.., file)| file).collect())
    }

    /// Decodes a map. Returns `None` for a map of a newer version, and for a damaged one, which the fix makes empty.
    fn decode(&mut self, file: NodeId, record: &[u8]) -> FsResult<Option<Decoded>> {
        // A missing part is noted here, because the decoder passes on all errors of the store in the same way.
        let missing = Cell::new(None);
        let load = |number| {
            self.store.load_spill(number).inspect_err(|error| {
                if matches!(error, FsError::Errno(Errno::ENOENT)) {
                    missing.set(Some(number));
                }
            })
        };
        let problem = match map::summary(record) {
            Err(error @ MapError::Version(_)) => {
                self.has_unknown_parts = true;
                self.add_unrepairable(Problem::NewerMap { file: file.0, reason: error.to_string() });
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
        self.add_problem(problem);
        Ok(None)
    }

    /// Checks size and promises of a map, and counts granules mapped behind the end of the file.
    fn check_head(&mut self, file: NodeId, decoded: &Decoded) {
        let Head { size, promised, .. } = decoded.summary.head;
        if i64::try_from(size).is_err() {
            self.fix(file).head = true;
            self.add_problem(Problem::BadSize { file: file.0, bytes: size });
            return;
        }
        if promised > self.surface.shape.granules {
            self.fix(file).head = true;
            self.add_problem(Problem::BadPromise { file: file.0, granules: promised });
        }
        let end = size.div_ceil(self.surface.shape.granule_bytes);
        let behind = decoded.map.extents_from(end).map(|piece| piece.end() - piece.first.max(end));
        self.report.behind_end += behind.sum::<u64>();
    }

    /// Checks a piece of a map against the disk's surface, and against `sums` if they are given. Keeps the extents that can be read, and
    /// turns the rest into holes.
    fn check_piece(&mut self, file: NodeId, piece: FilePiece, sums: Option<&[u32]>) -> FsResult {
        let Some(whole) = piece.span() else { return Ok(()) };
        for (span, wrong) in self.surface.check_placement(whole) {
            let skipped = span.at - whole.at;
            let extent = (span, Owner { file, granule: piece.first }.further(skipped));
            let Some(wrong) = wrong else {
                match sums {
                    Some(sums) => self.read(extent, &sums[skipped as usize..(skipped + span.count) as usize])?,
                    None => self.add_extent(extent),
                }
                continue;
            };
            let place = self.make_hole(extent);
            self.add_problem(match wrong {
                Wrong::OutOfRange => Problem::OutOfRange { place },
                Wrong::InGap => Problem::InGap { place },
                Wrong::BehindCursor { band, cursor } => Problem::BehindCursor { place, band, cursor: cursor.0 },
                Wrong::Offline => Problem::Offline { place },
            });
        }
        Ok(())
    }

    /// Adds an extent, or joins it to the last one, if it continues the last one in the file and on the disk.
    fn add_extent(&mut self, extent: (Span, Owner)) {
        match self.extents.last_mut().filter(|last| continues(**last, extent)) {
            Some((last, _)) => last.count += extent.0.count,
            None => self.extents.push(extent),
        }
    }

    /// Reads an extent. Granules that the disk can't read become holes. Those with a wrong checksum stay, because a hole would read as
    /// zeros without an error.
    fn read(&mut self, (span, owner): (Span, Owner), sums: &[u32]) -> FsResult {
        let granules = (READ_BYTES / self.surface.shape.granule_bytes).max(1);
        for begin in (0..span.count).step_by(granules as usize) {
            let piece = part((span, owner), begin, granules.min(span.count - begin));
            let sums = &sums[begin as usize..(begin + piece.0.count) as usize];
            if matches!(self.compare(piece.0, sums)?, Reading::Right) {
                self.add_extent(piece);
                continue;
            }
            // One by one, to find the granules that are wrong.
            for (granule, sum) in (0..piece.0.count).map(|n| part(piece, n, 1)).zip(sums) {
                match self.compare(granule.0, &[*sum])? {
                    Reading::Right => self.add_extent(granule),
                    Reading::Wrong => {
                        self.add_extent(granule);
                        self.add_unrepairable(Problem::WrongData { place: FilePlace::new(granule.0, granule.1) });
                    }
                    Reading::Failed(reason) => {
                        let place = self.make_hole(granule);
                        self.add_problem(Problem::Unreadable { place, reason });
                    }
                }
            }
        }
        self.report.read += span.count;
        Ok(())
    }

    /// Reads a span, and compares it with its checksums. A checksum of 0 is unknown.
    fn compare(&mut self, span: Span, sums: &[u32]) -> FsResult<Reading> {
        let granule_bytes = self.surface.shape.granule_bytes as usize;
        self.buffer.resize(span.count as usize * granule_bytes, 0);
        match self.device.read(span.at, ReadBuffer::Bytes(&mut self.buffer), Cause::Host) {
            Ok(()) => {
                let mut granules = self.buffer.chunks_exact(granule_bytes).zip(sums);
                let is_right = granules.all(|(granule, &sum)| sum == 0 || checksum(granule) == sum);
                Ok(if is_right { Reading::Right } else { Reading::Wrong })
            }
            Err(DeviceError::PowerCut) => Err(FsError::PowerCut),
            Err(error) => Ok(Reading::Failed(error.to_string())),
        }
    }

    /// Lists an extent for the repair, which makes a hole of it.
    pub fn make_hole(&mut self, (span, owner): (Span, Owner)) -> FilePlace {
        self.fix(owner.file).holes.push((owner.granule, span.count));
        FilePlace::new(span, owner)
    }

    fn fix(&mut self, file: NodeId) -> &mut Fix {
        self.fixes.entry(file).or_default()
    }

    /// The parts that no map names. None are known if some map can't be read.
    pub fn leaked_parts(&self) -> FsResult<Vec<u64>> {
        if self.has_unknown_parts {
            return Ok(Vec::new());
        }
        Ok(self.store.spills()?.into_iter().filter(|number| !self.parts.contains(number)).collect())
    }

    /// Returns when a file was last changed, and the generation of its map. A map with an invalid seal counts as the oldest.
    pub fn last_change(&self, file: NodeId) -> FsResult<(Time, u64)> {
        let record = match self.store.load_map(file) {
            Err(FsError::Seal(_)) => None,
            record => record?,
        };
        let summary = record.and_then(|record| map::summary(&record).ok()).unwrap_or_default();
        Ok((summary.head.ctime, summary.generation))
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

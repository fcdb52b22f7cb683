//! Maps of a volume that is not mounted yet: all of them are read, and the space learns what is live and whose it is.

use std::collections::HashSet;

use super::shared::Shared;
use crate::error::{FsError, FsResult, SealFault};
use crate::map::{self, Decoded, MapError};
use crate::meta::MetadataStore;
use crate::space::Space;
use crate::units::{NodeId, Owner, Span};

/// Room that the maps use.
#[derive(Debug, Default)]
pub struct Adopted {
    /// Regular files with data.
    pub files: u64,
    /// Granules in maps; what files share, once.
    pub mapped: u64,
    /// Granules promised by fallocate.
    pub promised: u64,
    /// Files whose maps can't be used.
    pub damaged: Vec<DamagedMap>,
    /// Extents that files share.
    pub(super) shared: Shared,
    /// Files with data, if they are known before their maps are read.
    pub(super) with_data: HashSet<NodeId>,
}

/// A file whose map can't be used: it can't be read, and the others can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedMap {
    /// The file.
    pub file: NodeId,
    /// The fault.
    pub reason: String,
}

/// Reads every map, and has a fresh `space` adopt what they name; `each` sees them. A map that makes no sense costs its file
/// alone. Errors: a map of a newer program, or one that can't be read now, whose data would be overwritten; and a map that names
/// what another has, without a word of sharing, which tells of an image and a directory of different moments.
pub fn adopt_maps(
    store: &dyn MetadataStore,
    space: &mut dyn Space,
    each: &mut dyn FnMut(NodeId, &Decoded),
) -> FsResult<Adopted> {
    let (mut adopted, mut sharing) = (Adopted::default(), HashSet::new());
    let mut of_others = Vec::new();
    store.inspect(&mut |id, found| {
        let mut reason = None;
        let record = match found {
            Ok(None) => return Ok(()),
            Ok(Some(map)) => map.record,
            Err(FsError::Seal(error)) => {
                let why = error.fault.to_string();
                match error.fault {
                    SealFault::Damaged | SealFault::Forged => {
                        adopted.damaged.push(DamagedMap { file: id, reason: why });
                        return Ok(());
                    }
                    SealFault::Version(_) => return Err(in_file(id, FsError::Corrupt(why))),
                    SealFault::Owner { map, .. } => {
                        reason = Some(why);
                        map.record
                    }
                }
            }
            Err(error) => return Err(in_file(id, error)),
        };
        if let Err(error @ MapError::Version(_)) = map::summary(&record) {
            return Err(in_file(id, error.into()));
        }
        let decoded = match map::decode(&record, |number| map::load_part(store, number)) {
            Err(error @ (FsError::Corrupt(_) | FsError::ForgedPart(_))) => {
                adopted.damaged.push(DamagedMap { file: id, reason: error.to_string() });
                return Ok(());
            }
            decoded => decoded?,
        };
        if let Some(reason) = reason {
            // It may be a copy of another file's map, which comes first.
            adopted.damaged.push(DamagedMap { file: id, reason });
            each(id, &decoded);
            of_others.push((id, decoded));
            return Ok(());
        }
        if decoded.summary.head.shares {
            sharing.insert(id);
        }
        adopted.files += u64::from(decoded.map.extents() > 0);
        for piece in decoded.map.extents_from(0) {
            let Some(span) = piece.span() else { continue };
            let may_share = |other: NodeId| sharing.contains(&id) && sharing.contains(&other);
            let owner = Owner { file: id, granule: piece.first };
            adopted.mapped += adopt(space, &mut adopted.shared, span, owner, may_share)?;
        }
        adopted.promised = adopted.promised.saturating_add(decoded.summary.head.promised);
        each(id, &decoded);
        Ok(())
    })?;
    // The owner may come back, and find the data as it was.
    for (id, decoded) in of_others {
        for piece in decoded.map.extents_from(0) {
            let Some(span) = piece.span() else { continue };
            if space.adopt(span, Owner { file: id, granule: piece.first }) {
                adopted.mapped += span.count;
            }
        }
    }
    Ok(adopted)
}

/// Adopts an extent that others may have as well, if `may_share` with their files; tells how many granules nobody had.
pub(super) fn adopt(
    space: &mut dyn Space,
    shared: &mut Shared,
    span: Span,
    owner: Owner,
    may_share: impl Fn(NodeId) -> bool,
) -> FsResult<u64> {
    if space.adopt(span, owner) {
        return Ok(span.count);
    }
    let others: Vec<(Span, Owner)> = space.live().cut_to(span).collect();
    if !others.iter().all(|(_, other)| may_share(other.file)) {
        return Err(not_there(span, owner));
    }
    let (mut at, mut adopted) = (span.at, 0);
    let ends = others.iter().map(|(other, _)| *other).chain([Span { at: span.end(), count: 0 }]);
    for other in ends {
        let before = Span { at, count: other.at - at };
        if !space.adopt(before, owner.further(at - span.at)) {
            return Err(not_there(span, owner));
        }
        adopted += before.count;
        shared.add(other, owner.further(other.at - span.at), space.live());
        at = other.end();
    }
    Ok(adopted)
}

pub(super) fn not_there(span: Span, owner: Owner) -> FsError {
    let file = owner.file;
    FsError::Corrupt(format!("the map of file {file} names {span}, which is another's or not there: run smrkit fsck"))
}

fn in_file(id: NodeId, error: FsError) -> FsError {
    match error {
        FsError::Corrupt(why) => FsError::Corrupt(format!("file {id}: {why}")),
        other => other,
    }
}

//! Maps of a volume that is not mounted yet: all of them are read, and the space learns what is live and whose it is.

use std::collections::HashSet;

use super::shared::Shared;
use crate::error::{FsError, FsResult};
use crate::map::{self, Decoded};
use crate::meta::MetadataStore;
use crate::space::Space;
use crate::units::{NodeId, Owner, Span};

/// Room that the maps use.
#[derive(Debug, Default)]
pub struct Adopted {
    /// Regular files.
    pub files: u64,
    /// Granules in maps; what files share, once.
    pub mapped: u64,
    /// Granules promised by fallocate.
    pub promised: u64,
    /// Extents that files share.
    pub(super) shared: Shared,
}

/// Reads every map, and has a fresh `space` adopt what they name; `each` sees them. Errors: a map that makes no sense, or
/// names what another has, without a word of sharing.
pub fn adopt_maps(
    store: &dyn MetadataStore,
    space: &mut dyn Space,
    each: &mut dyn FnMut(NodeId, &Decoded),
) -> FsResult<Adopted> {
    let (mut adopted, mut sharing) = (Adopted::default(), HashSet::new());
    store.scan(&mut |id, record| {
        adopted.files += 1;
        let Some(record) = record else { return Ok(()) };
        let decoded =
            map::decode(&record, |number| map::load_part(store, number)).map_err(|error| in_file(id, error))?;
        if decoded.summary.head.shares {
            sharing.insert(id);
        }
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

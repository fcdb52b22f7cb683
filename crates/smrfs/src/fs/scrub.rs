//! Reading what is live, to learn what the disk no longer reads before a program needs it.

use super::FileSystem;
use super::clean::is_damage;
use crate::error::{Errno, FsResult};
use crate::map::FilePiece;
use crate::units::{NodeId, Owner, Span};

/// The result of reading a piece of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that can't be read, or that belong to a file whose map is damaged.
    pub damaged_bytes: u64,
}

impl FileSystem {
    /// Reads what of `span` still belongs to its owner, who waits meanwhile: give it in small pieces.
    pub fn scrub(&self, span: Span, owner: Owner) -> FsResult<Scrubbed> {
        let file = match self.file(owner.file) {
            Err(error) if error.errno() == Errno::ENOENT => return Ok(Scrubbed::default()),
            Err(error) if is_damage(&error) => {
                return Ok(Scrubbed { read_bytes: 0, damaged_bytes: span.count * self.granule_bytes });
            }
            file => file?,
        };
        // The lock keeps what is read from being released meanwhile.
        let state = file.look();
        let mut scrubbed = Scrubbed::default();
        let places = FileSystem::placed(&state, owner.granule..owner.granule + span.count);
        for place in places.iter().filter_map(FilePiece::span) {
            if place.at >= span.at && place.end() <= span.end() {
                self.scrub_place(place, &mut scrubbed)?;
            }
        }
        Ok(scrubbed)
    }

    /// Reads it at once, or where that fails granule by granule.
    fn scrub_place(&self, place: Span, scrubbed: &mut Scrubbed) -> FsResult {
        let bytes = place.count * self.granule_bytes;
        match self.disk.read_span(place) {
            Ok(_) => scrubbed.read_bytes += bytes,
            Err(error) if !is_damage(&error) => return Err(error),
            Err(_) if place.count == 1 => scrubbed.damaged_bytes += bytes,
            Err(_) => {
                for i in 0..place.count {
                    self.scrub_place(Span { at: place.at + i, count: 1 }, scrubbed)?;
                }
            }
        }
        Ok(())
    }

    /// A path to the node from the root, for messages, where the store knows one.
    pub fn path_to(&self, id: NodeId) -> Option<Vec<u8>> {
        self.store.path_to(id)
    }
}

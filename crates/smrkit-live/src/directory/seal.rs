//! Seals: a keyed checksum by which a volume recognises its own maps, and the files that they belong to.
//!
//! SipHash-2-4 with a tag of 128 bits (Aumasson and Bernstein 2012), under a key that the superblock holds. A map's seal names
//! the owner of its file; a part is bound to its file by its number, which only a sealed map names. Not detected: an older map of the same
//! file that is put back, because its seal is valid.

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher24};
use smrfs::error::{FsError, FsResult, SealError, SealFault, SealedMap};
use smrfs::map::{sealed, unsealed};
use smrfs::superblock::VolumeKey;

/// The version of sealed maps and parts.
const VERSION: u8 = 2;
/// Version, owner, old owner, mark.
const HEAD_BYTES: usize = 1 + 4 + 4 + 8;
const TAG_BYTES: usize = 16;
const SUM_BYTES: usize = 4;
/// Bytes that sealing adds to a map.
pub const SEAL_BYTES: usize = HEAD_BYTES + TAG_BYTES + SUM_BYTES;

/// The domain of a seal is hashed first, so that the seal of a map is never valid for a part.
const MAP: u8 = b'M';
const PART: u8 = b'P';
/// A part is sealed for its number; a map has none.
const NO_PLACE: [u8; 0] = [];

/// The owner of the file that a map is for: two users while the owner changes, else the same user twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owners {
    /// The user that it belongs to.
    pub now: u32,
    /// The user that it belonged to until now.
    pub old: u32,
}

impl Owners {
    /// Owners that are this user alone.
    pub fn only(uid: u32) -> Owners {
        Owners { now: uid, old: uid }
    }
}

/// Seals the maps of one volume, and opens what it has sealed.
#[derive(Debug)]
pub struct Sealer {
    key: VolumeKey,
}

impl Sealer {
    /// With the key of a volume.
    pub fn new(key: VolumeKey) -> Sealer {
        Sealer { key }
    }

    /// Seals a map for the owners of its file. `mark` is the file's own ([`SealedMap::mark`]).
    pub fn seal_map(&self, record: &[u8], owners: Owners, mark: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(record.len() + SEAL_BYTES);
        out.push(VERSION);
        out.extend(owners.now.to_le_bytes());
        out.extend(owners.old.to_le_bytes());
        out.extend(mark.to_le_bytes());
        out.extend_from_slice(record);
        self.add_tag(MAP, &NO_PLACE, out)
    }

    /// Opens the map that file `file` of user `owner` has.
    pub fn open_map(&self, file: u64, owner: u32, stored: Vec<u8>) -> FsResult<SealedMap> {
        self.check_map(owner, &stored).map_err(|fault| FsError::Seal(Box::new(SealError { file, fault, stored })))
    }

    fn check_map(&self, owner: u32, stored: &[u8]) -> Result<SealedMap, SealFault> {
        let body = self.verify(MAP, &NO_PLACE, stored)?;
        let (head, record) = body.split_first_chunk::<HEAD_BYTES>().ok_or(SealFault::Damaged)?;
        let [_version, now0, now1, now2, now3, old0, old1, old2, old3, mark @ ..] = *head;
        let (now, old) = (u32::from_le_bytes([now0, now1, now2, now3]), u32::from_le_bytes([old0, old1, old2, old3]));
        let owners = Owners { now, old };
        let map = SealedMap { record: record.to_vec(), mark: u64::from_le_bytes(mark) };
        match owner == owners.now || owner == owners.old {
            true => Ok(map),
            false => Err(SealFault::Owner { sealed_for: owners.now, owner, map }),
        }
    }

    /// Seals part `number` of a map.
    pub fn seal_part(&self, number: u64, part: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(part.len() + 1 + TAG_BYTES + SUM_BYTES);
        out.push(VERSION);
        out.extend_from_slice(part);
        self.add_tag(PART, &number.to_le_bytes(), out)
    }

    /// Opens part `number` of a map.
    pub fn open_part(&self, number: u64, stored: &[u8]) -> FsResult<Vec<u8>> {
        match self.verify(PART, &number.to_le_bytes(), stored) {
            Ok(body) => Ok(body[1..].to_vec()),
            Err(SealFault::Forged) => Err(FsError::ForgedPart(number)),
            Err(_) => Err(FsError::Corrupt(format!("part {number} of a map is damaged; run smrkit fsck"))),
        }
    }

    fn add_tag(&self, domain: u8, place: &[u8], mut out: Vec<u8>) -> Vec<u8> {
        out.extend(self.tag(domain, place, &out));
        sealed(out)
    }

    /// Returns the contents before the tag, if the tag is valid. With a wrong checksum, which needs no key, they are damaged; with
    /// a newer version unknown; else forged.
    fn verify<'a>(&self, domain: u8, place: &[u8], stored: &'a [u8]) -> Result<&'a [u8], SealFault> {
        let whole = unsealed(stored).ok_or(SealFault::Damaged)?;
        match whole.first() {
            Some(&VERSION) => {}
            Some(&newer) if newer > VERSION => return Err(SealFault::Version(newer)),
            // Seals began with this version.
            _ => return Err(SealFault::Forged),
        }
        let (body, tag) = whole.split_last_chunk::<TAG_BYTES>().ok_or(SealFault::Forged)?;
        // The first byte may have been one of the tag, so the body may lack its version.
        if is_same(&self.tag(domain, place, body), tag) && !body.is_empty() { Ok(body) } else { Err(SealFault::Forged) }
    }

    fn tag(&self, domain: u8, place: &[u8], body: &[u8]) -> [u8; TAG_BYTES] {
        let mut hasher = SipHasher24::new_with_key(&self.key.0);
        hasher.write(&[domain]);
        hasher.write(place);
        hasher.write(body);
        hasher.finish128().as_bytes()
    }
}

/// Compares in constant time, so that the duration does not show where a difference is.
fn is_same(one: &[u8; TAG_BYTES], other: &[u8; TAG_BYTES]) -> bool {
    one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealer() -> Sealer {
        Sealer::new(VolumeKey([7; 16]))
    }

    fn fault(opened: FsResult<SealedMap>) -> SealFault {
        match opened {
            Err(FsError::Seal(error)) => error.fault,
            other => panic!("{other:?}"),
        }
    }

    /// A flipped byte with the checksum made anew, as whoever does not know the key can.
    fn forged(stored: &[u8], at: usize) -> Vec<u8> {
        let mut forged = stored[..stored.len() - SUM_BYTES].to_vec();
        forged[at] ^= 1;
        sealed(forged)
    }

    #[test]
    fn a_sealed_map_comes_back_to_its_owner_alone() {
        let stored = sealer().seal_map(b"record", Owners::only(5), 9);
        assert_eq!(stored.len(), 6 + SEAL_BYTES);
        let map = SealedMap { record: b"record".to_vec(), mark: 9 };
        assert_eq!(sealer().open_map(1, 5, stored.clone()).unwrap(), map);
        assert_eq!(
            fault(sealer().open_map(1, 6, stored)),
            SealFault::Owner { sealed_for: 5, owner: 6, map: map.clone() }
        );
        let between = sealer().seal_map(b"record", Owners { now: 5, old: 6 }, 9);
        assert!([5, 6].iter().all(|&owner| sealer().open_map(1, owner, between.clone()).unwrap() == map));
        assert!(sealer().open_map(1, 7, between).is_err());
    }

    #[test]
    fn no_byte_of_a_sealed_map_can_be_changed_without_the_key() {
        let stored = sealer().seal_map(b"record", Owners::only(5), 9);
        for at in 0..stored.len() - SUM_BYTES {
            let found = fault(sealer().open_map(1, 5, forged(&stored, at)));
            assert_eq!(found, if at == 0 { SealFault::Version(3) } else { SealFault::Forged }, "byte {at}");
            let mut damaged = stored.clone();
            damaged[at] ^= 1;
            assert_eq!(fault(sealer().open_map(1, 5, damaged)), SealFault::Damaged, "byte {at}");
        }
        assert_eq!(fault(Sealer::new(VolumeKey([8; 16])).open_map(1, 5, stored.clone())), SealFault::Forged);
        (0..stored.len()).for_each(|cut| drop(fault(sealer().open_map(1, 5, stored[..cut].to_vec()))));
    }

    #[test]
    fn a_part_is_opened_under_its_own_number_alone() {
        let stored = sealer().seal_part(3, b"part");
        assert_eq!(sealer().open_part(3, &stored).unwrap(), b"part");
        let other = sealer().open_part(4, &stored).unwrap_err().to_string();
        assert!(other.contains("not made by this volume"), "{other}");
        assert!(sealer().open_part(3, &forged(&stored, 2)).is_err());
        assert!(sealer().open_part(3, &sealer().seal_map(b"part", Owners::only(0), 0)).is_err());
        (0..stored.len()).for_each(|cut| assert!(sealer().open_part(3, &stored[..cut]).is_err()));
    }
}

//! Parses the header of a Parquet page: the few fields of Thrift's compact protocol that a reader needs.
//!
//! Field numbers from the Parquet format's `parquet.thrift`. Anything unexpected gives `None`.

/// Nested structures deeper than this are refused.
const DEPTH: u32 = 8;

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageKind {
    /// Values, or their places in the dictionary.
    Data,
    /// The distinct values of the column chunk.
    Dictionary,
}

/// The header of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageHeader {
    pub(super) kind: PageKind,
    pub(super) compressed_bytes: usize,
    pub(super) plain_bytes: usize,
    pub(super) values: usize,
    /// As numbered by the format: 0 plain, 2 and 8 dictionary, 5 delta.
    pub(super) encoding: u64,
    pub(super) is_compressed: bool,
    /// Whether repetition or definition levels, or nulls, are present.
    pub(super) has_levels: bool,
}

impl PageHeader {
    /// Parses the header at the start of `bytes`; also gives its length.
    pub(super) fn parse(bytes: &[u8]) -> Option<(PageHeader, usize)> {
        let mut rest = bytes;
        let (mut kind, mut plain, mut compressed, mut inner) = (None, None, None, None);
        structure(&mut rest, &mut |id, kind_of, rest| {
            match (id, kind_of) {
                (1, I32) => kind = Some(signed(rest)?),
                (2, I32) => plain = Some(signed(rest)?),
                (3, I32) => compressed = Some(signed(rest)?),
                (5 | 7 | 8, STRUCT) => inner = Some((id, inner_header(rest, id)?)),
                _ => skip(rest, kind_of, DEPTH)?,
            }
            Some(())
        })?;
        let (id, inner) = inner?;
        let kind = match (kind?, id) {
            (0, 5) | (3, 8) => PageKind::Data,
            (2, 7) => PageKind::Dictionary,
            _ => return None,
        };
        let header = PageHeader {
            kind,
            compressed_bytes: usize::try_from(compressed?).ok()?,
            plain_bytes: usize::try_from(plain?).ok()?,
            values: usize::try_from(inner.values?).ok()?,
            encoding: u64::try_from(inner.encoding?).ok()?,
            is_compressed: inner.is_compressed,
            has_levels: inner.has_levels,
        };
        Some((header, bytes.len() - rest.len()))
    }
}

struct Inner {
    values: Option<i64>,
    encoding: Option<i64>,
    is_compressed: bool,
    has_levels: bool,
}

/// The header of a data page (`id` 5), a dictionary page (7) or a data page of version 2 (8).
fn inner_header(rest: &mut &[u8], id: i64) -> Option<Inner> {
    let mut inner = Inner { values: None, encoding: None, is_compressed: true, has_levels: false };
    structure(rest, &mut |field, kind, rest| {
        match (id, field, kind) {
            (_, 1, I32) => inner.values = Some(signed(rest)?),
            (5 | 7, 2, I32) | (8, 4, I32) => inner.encoding = Some(signed(rest)?),
            (8, 2 | 5 | 6, I32) => inner.has_levels |= signed(rest)? != 0,
            (8, 7, TRUE | FALSE) => inner.is_compressed = kind == TRUE,
            _ => skip(rest, kind, DEPTH)?,
        }
        Some(())
    })?;
    Some(inner)
}

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const I32: u8 = 5;
const STRUCT: u8 = 12;

/// Takes the value of a field: its number, its type, and the bytes from it on.
type Field<'a> = &'a mut dyn FnMut(i64, u8, &mut &[u8]) -> Option<()>;

/// Walks the fields of a structure; `field` takes the value of each.
fn structure(rest: &mut &[u8], field: Field) -> Option<()> {
    let mut id = 0_i64;
    loop {
        let first = byte(rest)?;
        if first == 0 {
            return Some(());
        }
        id = if first >> 4 == 0 { signed(rest)? } else { id.checked_add(i64::from(first >> 4))? };
        field(id, first & 15, rest)?;
    }
}

fn skip(rest: &mut &[u8], kind: u8, depth: u32) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    match kind {
        TRUE | FALSE => Some(()),
        3 => byte(rest).map(|_| ()),
        4..=6 => varint(rest).map(|_| ()),
        7 => advance(rest, 8),
        8 => {
            let length = usize::try_from(varint(rest)?).ok()?;
            advance(rest, length)
        }
        9 | 10 => skip_list(rest, depth),
        STRUCT => structure(rest, &mut |_, kind, rest| skip(rest, kind, depth)),
        _ => None,
    }
}

fn skip_list(rest: &mut &[u8], depth: u32) -> Option<()> {
    let first = byte(rest)?;
    let count = if first >> 4 == 15 { varint(rest)? } else { u64::from(first >> 4) };
    let kind = first & 15;
    for _ in 0..count {
        // In a list a truth value takes a byte, so that each element shortens the rest and the loop ends.
        if kind <= FALSE { byte(rest).map(|_| ())? } else { skip(rest, kind, depth)? }
    }
    Some(())
}

fn byte(rest: &mut &[u8]) -> Option<u8> {
    let (first, tail) = rest.split_first()?;
    *rest = tail;
    Some(*first)
}

fn advance(rest: &mut &[u8], bytes: usize) -> Option<()> {
    *rest = rest.get(bytes..)?;
    Some(())
}

/// An unsigned number of seven bits a byte, the least significant first.
pub(super) fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let next = byte(rest)?;
        value |= u64::from(next & 127) << shift;
        if next < 128 {
            return Some(value);
        }
    }
    None
}

fn signed(rest: &mut &[u8]) -> Option<i64> {
    let value = varint(rest)?;
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}

//! Numbers of the NBD protocol, and the chunks and replies that are made of them.
//!
//! From the protocol's specification, `doc/proto.md` of NetworkBlockDevice/nbd. All numbers are big-endian.

use smrkit::units::SECTOR_BYTES;

use crate::block::drive::CommandError;

pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Flags of the handshake, the server's and the client's.
pub const FIXED_NEWSTYLE: u16 = 1;
pub const NO_ZEROES: u16 = 2;

/// Flags of an export: has flags, flush, FUA, rotational, trim, write zeroes, don't fragment, several connections.
pub const EXPORT_FLAGS: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8;

/// Flag of an export that can't be written.
pub const READ_ONLY: u16 = 1 << 1;

pub mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const START_TLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

pub mod reply {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    const ERROR: u32 = 1 << 31;
    pub const UNSUPPORTED: u32 = ERROR + 1;
    pub const POLICY: u32 = ERROR + 2;
    pub const INVALID: u32 = ERROR + 3;
    pub const TLS_REQUIRED: u32 = ERROR + 5;
    pub const TOO_BIG: u32 = ERROR + 9;
}

pub mod info {
    pub const EXPORT: u16 = 0;
    pub const BLOCK_SIZE: u16 = 3;
}

pub mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISCONNECT: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
    /// Flags of commands.
    pub const FUA: u16 = 1;
    pub const NO_HOLE: u16 = 2;
    pub const DONT_FRAGMENT: u16 = 4;
    pub const ONE_EXTENT: u16 = 8;
}

/// The context of block status that tells holes from data: its name and its number.
pub const ALLOCATION: &str = "base:allocation";
pub const ALLOCATION_ID: u32 = 1;

/// Status of sectors that the host has not written: a hole, and zeros.
const HOLE_AND_ZEROS: u32 = 3;

const DONE: u16 = 1;
const TYPE_NONE: u16 = 0;
const TYPE_DATA: u16 = 1;
const TYPE_BLOCK_STATUS: u16 = 5;
const TYPE_ERROR: u16 = 1 << 15 | 1;

/// A reply to an option.
pub fn option_reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    [option, kind, data.len() as u32].iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
    out.extend_from_slice(data);
}

fn simple(out: &mut Vec<u8>, error: u32, cookie: u64) {
    out.extend_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&error.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
}

fn chunk(out: &mut Vec<u8>, kind: u16, cookie: u64, length: usize) {
    out.extend_from_slice(&CHUNK_MAGIC.to_be_bytes());
    // Every reply is one chunk.
    out.extend_from_slice(&DONE.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&(length as u32).to_be_bytes());
}

/// The reply to a command that has nothing to tell.
pub fn done(out: &mut Vec<u8>, structured: bool, cookie: u64) {
    if structured { chunk(out, TYPE_NONE, cookie, 0) } else { simple(out, 0, cookie) }
}

/// The reply to a command that failed.
pub fn failed(out: &mut Vec<u8>, structured: bool, cookie: u64, error: CommandError) {
    if !structured {
        return simple(out, error as u32, cookie);
    }
    chunk(out, TYPE_ERROR, cookie, 6);
    out.extend_from_slice(&(error as u32).to_be_bytes());
    out.extend_from_slice(&0u16.to_be_bytes());
}

/// Header that goes before the data of a read.
pub fn before_data(out: &mut Vec<u8>, structured: bool, cookie: u64, offset: u64, length: usize) {
    if !structured {
        return simple(out, 0, cookie);
    }
    chunk(out, TYPE_DATA, cookie, 8 + length);
    out.extend_from_slice(&offset.to_be_bytes());
}

/// The reply to a block status: the lengths of extents in sectors, and whether they are holes.
pub fn block_status(out: &mut Vec<u8>, cookie: u64, extents: &[(u64, bool)]) {
    chunk(out, TYPE_BLOCK_STATUS, cookie, 4 + 8 * extents.len());
    out.extend_from_slice(&ALLOCATION_ID.to_be_bytes());
    for &(sectors, is_hole) in extents {
        out.extend_from_slice(&((sectors * SECTOR_BYTES) as u32).to_be_bytes());
        out.extend_from_slice(&(if is_hole { HOLE_AND_ZEROS } else { 0 }).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_as_the_protocol_has_them() {
        let written = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = vec![0xee];
            write(&mut out);
            out.split_off(1)
        };
        let words = |words: &[&[u8]]| words.concat();
        let cookie = 0x0102_0304_0506_0708;
        let own = [1, 2, 3, 4, 5, 6, 7, 8];
        let (simple, chunk) = ([0x67, 0x44, 0x66, 0x98], [0x66, 0x8e, 0x33, 0xef]);
        let ok = [0; 4];
        assert_eq!(written(&|out| done(out, false, cookie)), words(&[&simple, &ok, &own]));
        assert_eq!(written(&|out| done(out, true, cookie)), words(&[&chunk, &[0, 1, 0, 0], &own, &ok]));
        let refused = written(&|out| failed(out, false, cookie, CommandError::NoSpace));
        assert_eq!(refused, words(&[&simple, &[0, 0, 0, 28], &own]));
        let refused = written(&|out| failed(out, true, cookie, CommandError::Overflow));
        assert_eq!(refused, words(&[&chunk, &[0, 1, 0x80, 1], &own, &[0, 0, 0, 6], &[0, 0, 0, 75], &[0, 0]]));
        let data = written(&|out| before_data(out, false, cookie, 9, 512));
        assert_eq!(data, words(&[&simple, &ok, &own]));
        let data = written(&|out| before_data(out, true, cookie, 9, 512));
        assert_eq!(data, words(&[&chunk, &[0, 1, 0, 1], &own, &[0, 0, 2, 8], &[0, 0, 0, 0, 0, 0, 0, 9]]));
        let status = written(&|out| block_status(out, cookie, &[(1, false), (8, true)]));
        let told = [&[0, 0, 0, 1][..], &[0, 0, 2, 0], &ok, &[0, 0, 16, 0], &[0, 0, 0, 3]].concat();
        assert_eq!(status, words(&[&chunk, &[0, 1, 0, 5], &own, &[0, 0, 0, 20], &told]));
    }
}

//! The server's side of the NBD protocol: fixed newstyle handshake, structured replies, and commands. From the protocol's specification,
//! `doc/proto.md` of NetworkBlockDevice/nbd. All numbers are big-endian.
//!
//! A connection parses bytes into commands and formats replies. It knows nothing of the drive, and never blocks. An invalid command gets an
//! error; a client that breaks the framing is disconnected.

mod memory;
mod stream;
mod tls;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

pub use memory::{HeldMemory, SharedMemory};
pub use stream::Listener;
pub use tls::TlsCertificates;
use tls::Transport;

use crate::block::drive::{Command, CommandError, CommandKind};
use smrkit::units::SECTOR_BYTES;

const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Flags of the handshake, the server's and the client's.
const FIXED_NEWSTYLE: u16 = 1;
const NO_ZEROES: u16 = 2;

/// Flags of an export: has flags, flush, FUA, rotational, trim, write zeroes, don't fragment, several connections.
const EXPORT_FLAGS: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8;

/// Flag of an export that can't be written.
const READ_ONLY: u16 = 1 << 1;

mod option {
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

mod reply {
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

mod info {
    pub const EXPORT: u16 = 0;
    pub const BLOCK_SIZE: u16 = 3;
}

mod command {
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
const ALLOCATION: &str = "base:allocation";
const ALLOCATION_ID: u32 = 1;

/// Status of sectors that the host has not written: a hole, and zeros.
const HOLE_AND_ZEROS: u32 = 3;

const DONE: u16 = 1;
const TYPE_NONE: u16 = 0;
const TYPE_DATA: u16 = 1;
const TYPE_BLOCK_STATUS: u16 = 5;
const TYPE_ERROR: u16 = 1 << 15 | 1;

/// The longest read or write, as the protocol's specification has it.
const LONGEST_BYTES: u32 = 32 << 20;
/// Most extents in a reply to a block status (assumption).
const EXTENTS_MAX: u32 = 1 << 15;
/// Memory for a reply without its data: twice the longest one, because a buffer of many replies doubles when it grows.
const REPLY_BYTES: usize = 64;
/// The same for the replies to an option, at most.
const OPTION_REPLY_BYTES: usize = 512;
/// Bytes of an extent in a reply to a block status.
const EXTENT_BYTES: usize = 8;
/// Preferred size of reads and writes.
const PREFERRED_BYTES: u32 = 4096;
/// Bytes of a request without its payload.
const REQUEST_BYTES: usize = 28;
/// Bytes of an option without its data.
const OPTION_BYTES: usize = 16;
/// Options with more data than this are refused (assumption; names have at most 4096 bytes).
const OPTION_DATA_MAX: usize = 32 << 10;
/// Size of the input buffer.
const INPUT_BYTES: usize = 64 << 10;
/// Read data of at least this length is sent from the command's own buffer, without a copy (assumption).
const LONG_BYTES: usize = 16 << 10;
/// A client that neither sends nor receives anything for this long is closed if others need its place or its memory (assumption).
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Most buffers of one `writev`.
const PARTS: usize = 16;

enum Phase {
    Flags,
    Options,
    Requests,
    /// Receives the payload of a write, of which `got` bytes have come.
    Payload {
        command: Box<Command>,
        got: usize,
    },
    /// Skips this many bytes of an option or a payload that is refused, and then sends the reply.
    Skip {
        left: usize,
        reply: Output,
    },
    Closing,
}

/// Bytes to be sent, and the memory that they count as.
#[derive(Default)]
struct Output {
    bytes: Vec<u8>,
    memory: HeldMemory,
}

/// A connected client.
pub struct Connection {
    pub stream: Transport,
    phase: Phase,
    agreed: Agreed,
    /// Input, of which `start..end` is not parsed yet.
    input: Box<[u8]>,
    start: usize,
    end: usize,
    /// Short replies are gathered here. They come behind `output`.
    short_replies: Output,
    /// Buffers to be sent, and how many bytes of the first one are sent already.
    output: VecDeque<Output>,
    first_sent: usize,
    memory: SharedMemory,
    /// Memory that the next command in the input buffer waits for; 0 if there was no time for it, `None` if there may be none.
    awaited_bytes: Option<usize>,
    /// True if the connection is closed, by the client or by the server.
    pub is_ended: bool,
    /// When the client last sent or received anything.
    last_active: Instant,
}

impl Connection {
    /// A new client, which is sent the greeting.
    pub fn new(stream: File, memory: SharedMemory) -> Connection {
        Connection {
            stream: Transport::new(stream),
            phase: Phase::Flags,
            agreed: Agreed::default(),
            input: vec![0; INPUT_BYTES].into(),
            start: 0,
            end: 0,
            short_replies: Output { bytes: greeting(), memory: memory.hold(REPLY_BYTES) },
            output: VecDeque::new(),
            first_sent: 0,
            memory,
            awaited_bytes: None,
            is_ended: false,
            last_active: Instant::now(),
        }
    }

    /// True if the connection can be removed: it has ended, and all replies are sent. Every command without a reply holds memory.
    pub fn is_over(&self) -> bool {
        self.is_ended || matches!(self.phase, Phase::Closing) && self.memory.held() == 0 && !self.wants_to_send()
    }

    /// True if the client may send more.
    pub fn is_open(&self) -> bool {
        !self.is_ended && !matches!(self.phase, Phase::Closing)
    }

    /// When to close the connection if the client stays silent; `None` if it may be silent. It may not during the handshake, nor when
    /// memory is short and the client could free some by sending or receiving.
    pub fn idle_deadline(&self) -> Option<Instant> {
        let is_in_handshake = self.handshake_idle_since().is_some();
        let holds_memory = matches!(self.phase, Phase::Payload { .. }) || self.wants_to_send();
        (!self.is_ended && (is_in_handshake || holds_memory && self.memory.is_short()))
            .then(|| self.last_active + IDLE_TIMEOUT)
    }

    /// When the client was last active, if its handshake is not over.
    pub fn handshake_idle_since(&self) -> Option<Instant> {
        let is_in_handshake = !self.agreed.is_handshake_over && !matches!(self.phase, Phase::Closing);
        (!self.is_ended && is_in_handshake).then_some(self.last_active)
    }

    /// True if the client may send more, and there is room for it.
    pub fn wants_to_receive(&self) -> bool {
        self.is_open() && (self.payload_is_whole() == Some(false) || self.end - self.start < self.input.len())
    }

    /// Whether all data of a write have come; `None` if none are expected.
    fn payload_is_whole(&self) -> Option<bool> {
        let Phase::Payload { command, got } = &self.phase else { return None };
        Some(*got == command.data.len())
    }

    /// The server has not read from this client, so that its silence does not count.
    pub fn note_not_polled(&mut self) {
        if !self.wants_to_send() {
            self.last_active = Instant::now();
        }
    }

    /// True if the connection ended without a disconnect request.
    pub fn is_broken(&self) -> bool {
        self.is_ended && !matches!(self.phase, Phase::Closing)
    }

    /// True if there may be a command for which there is memory, without waiting for the socket.
    pub fn has_more(&self) -> bool {
        self.awaited_bytes.is_some_and(|needed| self.memory.has_room(needed)) || self.has_unread()
    }

    /// True if TLS has buffered input for which there is space, which polling the socket does not show.
    pub fn has_unread(&self) -> bool {
        self.wants_to_receive() && self.stream.has_unread
    }

    /// Reads from the socket.
    pub fn receive(&mut self) {
        self.last_active = Instant::now();
        if let Err(error) = self.try_receive()
            && error.kind() != io::ErrorKind::WouldBlock
        {
            self.is_ended = true;
        }
    }

    fn try_receive(&mut self) -> io::Result<()> {
        if let Phase::Payload { command, got } = &mut self.phase
            && self.start == self.end
            && *got < command.data.len()
        {
            // Not in a loop: a short read means that the socket is empty.
            *got += nonzero(self.stream.read(&mut command.data[*got..])?)?;
            return Ok(());
        }
        if self.start > 0 {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end < self.input.len() {
            self.end += nonzero(self.stream.read(&mut self.input[self.end..])?)?;
        }
        Ok(())
    }

    /// Parses input up to the next command for the drive. Returns `None` if the input has no complete command, there is too little memory for
    /// the next one, or the server is busy. Options and invalid commands get their replies here.
    pub fn next_command(&mut self, export: &Export, is_busy: bool) -> Option<Command> {
        let is_left = self.start < self.end || self.payload_is_whole() == Some(true);
        self.awaited_bytes = (is_busy && is_left).then_some(0);
        if is_busy {
            return None;
        }
        loop {
            if let ControlFlow::Break(command) = self.parse_step(export) {
                return command;
            }
        }
    }

    fn parse_step(&mut self, export: &Export) -> Parsed {
        let input = &self.input[self.start..self.end];
        match &mut self.phase {
            Phase::Flags => {
                let Some(flags) = self.take::<4>() else { return ControlFlow::Break(None) };
                let known = self.agreed.take_flags(u32::from_be_bytes(flags));
                self.phase = if known { Phase::Options } else { Phase::Closing };
            }
            Phase::Options => return self.parse_option(export),
            Phase::Requests => return self.begin_request(export),
            Phase::Payload { command, got } => {
                let missing = &mut command.data[*got..];
                let count = missing.len().min(input.len());
                missing[..count].copy_from_slice(&input[..count]);
                (*got, self.start) = (*got + count, self.start + count);
                if *got < command.data.len() {
                    return ControlFlow::Break(None);
                }
                let command = std::mem::take(&mut **command);
                self.phase = Phase::Requests;
                return ControlFlow::Break(Some(command));
            }
            Phase::Skip { left, reply } => {
                let count = (*left).min(input.len());
                (*left, self.start) = (*left - count, self.start + count);
                if *left > 0 {
                    return ControlFlow::Break(None);
                }
                self.short_replies.bytes.append(&mut reply.bytes);
                self.short_replies.memory.add(std::mem::take(&mut reply.memory));
                self.phase = if self.agreed.is_handshake_over { Phase::Requests } else { Phase::Options };
            }
            Phase::Closing => return ControlFlow::Break(None),
        }
        ControlFlow::Continue(())
    }

    /// Takes `N` bytes of the input, if there are so many.
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = *self.input[self.start..self.end].first_chunk::<N>()?;
        self.start += N;
        Some(bytes)
    }

    /// Sets memory aside for what comes next in the input, or notes that it has to wait for that.
    fn hold(&mut self, bytes: usize) -> Option<HeldMemory> {
        let held = self.memory.hold_in_turn(bytes);
        self.awaited_bytes = held.is_none().then_some(bytes);
        held
    }

    fn parse_option(&mut self, export: &Export) -> Parsed {
        let input = &self.input[self.start..self.end];
        let Some(head) = input.first_chunk::<OPTION_BYTES>() else { return ControlFlow::Break(None) };
        let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if head[..8] != OPTION_MAGIC.to_be_bytes() {
            self.phase = Phase::Closing;
            return ControlFlow::Continue(());
        }
        let (option, length) = (word(8), word(12) as usize);
        if length > OPTION_DATA_MAX {
            let Some(memory) = self.hold(OPTION_REPLY_BYTES) else { return ControlFlow::Break(None) };
            self.start += OPTION_BYTES;
            let mut reply = Output { memory, ..Output::default() };
            put_option_reply(&mut reply.bytes, option, reply::TOO_BIG, &[]);
            self.phase = Phase::Skip { left: length, reply };
            return ControlFlow::Continue(());
        }
        if input.len() < OPTION_BYTES + length {
            return ControlFlow::Break(None);
        }
        let Some(memory) = self.hold(OPTION_REPLY_BYTES) else { return ControlFlow::Break(None) };
        let data = &self.input[self.start + OPTION_BYTES..][..length];
        let replies = &mut self.short_replies;
        let before = replies.bytes.len();
        let next = self.agreed.answer(option, data, export, &mut replies.bytes);
        // Some options have no reply, and no memory may seem to be held then.
        replies.memory.add(memory.shrink_to(2 * (replies.bytes.len() - before)));
        self.start += OPTION_BYTES + length;
        self.phase = match next {
            Next::Option => Phase::Options,
            Next::Tls if self.begin_tls(export) => Phase::Options,
            Next::Commands => {
                self.agreed.is_handshake_over = true;
                Phase::Requests
            }
            Next::Tls | Next::Close => Phase::Closing,
        };
        ControlFlow::Continue(())
    }

    /// Sends the reply to STARTTLS in the clear, and begins TLS. Returns false if the client has sent more in the clear without waiting for the
    /// reply: an attacker could have injected it.
    fn begin_tls(&mut self, export: &Export) -> bool {
        self.send();
        let client_waits = self.start == self.end && !self.wants_to_send();
        client_waits && export.tls.as_ref().is_some_and(|tls| self.stream.begin_tls(tls).is_ok())
    }

    fn begin_request(&mut self, export: &Export) -> Parsed {
        let Some(bytes) = self.take::<REQUEST_BYTES>() else { return ControlFlow::Break(None) };
        let Some((kind, mut command, checked)) = parse_request(&bytes, export, self.agreed.tells_allocation) else {
            self.phase = Phase::Closing;
            return ControlFlow::Continue(());
        };
        if kind == command::DISCONNECT {
            self.phase = Phase::Closing;
            return ControlFlow::Continue(());
        }
        // Nothing is set aside for the payload of a refused write, which is skipped.
        let data_bytes = if checked.is_ok() { data_bytes(&command) } else { 0 };
        let Some(memory) = self.hold(REPLY_BYTES + data_bytes) else {
            self.start -= REQUEST_BYTES;
            return ControlFlow::Break(None);
        };
        match checked {
            Err(error) => {
                let left = if kind == command::WRITE { command.bytes as usize } else { 0 };
                let mut reply = Output { memory, ..Output::default() };
                put_error(&mut reply.bytes, self.agreed.structured, command.cookie, error);
                self.phase = Phase::Skip { left, reply };
                ControlFlow::Continue(())
            }
            Ok(()) => {
                command.memory = memory;
                if kind != command::WRITE {
                    return ControlFlow::Break(Some(command));
                }
                command.data = vec![0; data_bytes];
                self.phase = Phase::Payload { command: Box::new(command), got: 0 };
                ControlFlow::Continue(())
            }
        }
    }

    /// Queues the reply to a command. Long data is sent from the command's own buffer.
    pub fn reply(&mut self, command: Command, result: Result<(), CommandError>) {
        let Command { kind, cookie, offset, data, memory, .. } = command;
        let (out, structured, is_read) =
            (&mut self.short_replies.bytes, self.agreed.structured, kind == CommandKind::Read);
        let mut data_bytes = 0;
        match result {
            Err(error) => put_error(out, structured, cookie, error),
            Ok(()) if !is_read => put_done(out, structured, cookie),
            Ok(()) => {
                put_data_head(out, structured, cookie, offset, data.len());
                if data.len() >= LONG_BYTES {
                    self.queue_short_replies();
                    return self.output.push_back(Output { bytes: data, memory });
                }
                out.extend_from_slice(&data);
                data_bytes = data.len();
            }
        }
        self.short_replies.memory.add(memory.shrink_to(REPLY_BYTES + data_bytes));
    }

    /// Queues the reply to a block status: the lengths of extents in sectors, and whether they are holes.
    pub fn reply_status(&mut self, command: Command, extents: &[(u64, bool)]) {
        put_block_status(&mut self.short_replies.bytes, command.cookie, extents);
        let data_bytes = EXTENT_BYTES * extents.len();
        self.short_replies.memory.add(command.memory.shrink_to(REPLY_BYTES + data_bytes));
    }

    /// Moves the gathered short replies to the output queue.
    fn queue_short_replies(&mut self) {
        if !self.short_replies.bytes.is_empty() {
            self.output.push_back(std::mem::take(&mut self.short_replies));
        }
    }

    /// True if there is output to send.
    pub fn wants_to_send(&self) -> bool {
        !self.short_replies.bytes.is_empty() || !self.output.is_empty() || self.stream.wants_to_send()
    }

    /// Sends as much as the socket takes.
    pub fn send(&mut self) {
        if let Err(error) = self.try_send()
            && error.kind() != io::ErrorKind::WouldBlock
        {
            self.is_ended = true;
        }
    }

    fn try_send(&mut self) -> io::Result<()> {
        loop {
            // Not earlier: while a client takes nothing, each short reply would else have a buffer of its own.
            if self.output.is_empty() {
                self.queue_short_replies();
            }
            let mut parts = [IoSlice::new(&[]); PARTS];
            for (number, (part, Output { bytes, .. })) in parts.iter_mut().zip(&self.output).enumerate() {
                *part = IoSlice::new(if number == 0 { &bytes[self.first_sent..] } else { bytes });
            }
            let count = self.output.len().min(PARTS);
            if count == 0 {
                break;
            }
            self.first_sent += nonzero(self.stream.write_vectored(&parts[..count])?)?;
            self.last_active = Instant::now();
            while self.output.front().is_some_and(|first| first.bytes.len() <= self.first_sent)
                && let Some(first) = self.output.pop_front()
            {
                self.first_sent -= first.bytes.len();
            }
            // A short write means that the socket is full.
            if self.first_sent > 0 {
                break;
            }
        }
        self.stream.flush()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.memory.stop_waiting();
    }
}

/// A reply to an option.
fn put_option_reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    [option, kind, data.len() as u32].iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
    out.extend_from_slice(data);
}

fn put_simple_reply(out: &mut Vec<u8>, error: u32, cookie: u64) {
    out.extend([&SIMPLE_REPLY_MAGIC.to_be_bytes()[..], &error.to_be_bytes(), &cookie.to_be_bytes()].concat());
}

/// The head of a structured reply, which has one chunk.
fn put_chunk_head(out: &mut Vec<u8>, kind: u16, cookie: u64, length: usize) {
    out.extend([CHUNK_MAGIC.to_be_bytes().as_slice(), &DONE.to_be_bytes(), &kind.to_be_bytes()].concat());
    out.extend([&cookie.to_be_bytes()[..], &(length as u32).to_be_bytes()].concat());
}

/// The reply to a command that has nothing to tell.
fn put_done(out: &mut Vec<u8>, structured: bool, cookie: u64) {
    if structured { put_chunk_head(out, TYPE_NONE, cookie, 0) } else { put_simple_reply(out, 0, cookie) }
}

/// The reply to a command that failed.
fn put_error(out: &mut Vec<u8>, structured: bool, cookie: u64, error: CommandError) {
    if !structured {
        return put_simple_reply(out, error as u32, cookie);
    }
    put_chunk_head(out, TYPE_ERROR, cookie, 6);
    out.extend_from_slice(&(error as u32).to_be_bytes());
    out.extend_from_slice(&0u16.to_be_bytes());
}

/// Header that goes before the data of a read.
fn put_data_head(out: &mut Vec<u8>, structured: bool, cookie: u64, offset: u64, length: usize) {
    if !structured {
        return put_simple_reply(out, 0, cookie);
    }
    put_chunk_head(out, TYPE_DATA, cookie, 8 + length);
    out.extend_from_slice(&offset.to_be_bytes());
}

/// The reply to a block status: the lengths of extents in sectors, and whether they are holes.
fn put_block_status(out: &mut Vec<u8>, cookie: u64, extents: &[(u64, bool)]) {
    put_chunk_head(out, TYPE_BLOCK_STATUS, cookie, 4 + EXTENT_BYTES * extents.len());
    out.extend_from_slice(&ALLOCATION_ID.to_be_bytes());
    for &(sectors, is_hole) in extents {
        out.extend_from_slice(&((sectors * SECTOR_BYTES) as u32).to_be_bytes());
        out.extend_from_slice(&(if is_hole { HOLE_AND_ZEROS } else { 0 }).to_be_bytes());
    }
}

/// A count of 0 means that the client has closed the connection.
fn nonzero(count: usize) -> io::Result<usize> {
    if count > 0 { Ok(count) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Memory for the data of a command or its reply.
fn data_bytes(command: &Command) -> usize {
    match command.kind {
        CommandKind::Read | CommandKind::Write => command.bytes as usize,
        CommandKind::BlockStatus => EXTENT_BYTES * command.extents_max,
        _ => 0,
    }
}

/// `Continue` if there is more to parse, `Break` with the next command, or with `None` if more input is needed.
type Parsed = ControlFlow<Option<Command>>;

/// Parses a request: its kind, the command, and whether it can be served. Returns `None` if it is no request of NBD.
fn parse_request(
    bytes: &[u8; REQUEST_BYTES],
    export: &Export,
    tells_allocation: bool,
) -> Option<(u16, Command, Result<(), CommandError>)> {
    let short = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let word = |at: usize| u32::from(short(at)) << 16 | u32::from(short(at + 2));
    let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
    if word(0) != REQUEST_MAGIC {
        return None;
    }
    let (flags, number, length) = (short(4), short(6), word(24));
    let has = |flag: u16| flags & flag != 0;
    let known = match number {
        command::READ => Some((CommandKind::Read, command::DONT_FRAGMENT)),
        command::WRITE => Some((CommandKind::Write, 0)),
        command::FLUSH => Some((CommandKind::Flush, 0)),
        command::TRIM => Some((CommandKind::Trim, 0)),
        command::WRITE_ZEROES => Some((CommandKind::WriteZeroes, command::NO_HOLE)),
        command::BLOCK_STATUS if tells_allocation => Some((CommandKind::BlockStatus, command::ONE_EXTENT)),
        _ => None,
    };
    let (kind, own_flags) = known.unwrap_or_default();
    let command = Command {
        cookie: long(8),
        fua: has(command::FUA),
        no_hole: has(command::NO_HOLE),
        extents_max: if has(command::ONE_EXTENT) { 1 } else { EXTENTS_MAX.min(length / SECTOR_BYTES as u32) as usize },
        ..Command::new(kind, long(16), length.into(), Vec::new())
    };
    let carries_data = matches!(kind, CommandKind::Read | CommandKind::Write);
    let checked = match () {
        () if known.is_none() || has(!(own_flags | command::FUA)) => Err(CommandError::Invalid),
        () if kind == CommandKind::Flush && length > 0 => Err(CommandError::Invalid),
        () if carries_data && length > LONGEST_BYTES => Err(CommandError::Overflow),
        () => command.check(export.bytes, export.is_read_only),
    };
    Some((number, command, checked))
}

/// The export, as clients see it.
#[derive(Clone, Debug)]
pub struct Export {
    pub bytes: u64,
    pub is_read_only: bool,
    /// If present, clients must begin TLS before they can ask for the export.
    pub tls: Option<TlsCertificates>,
}

impl Export {
    fn flags(&self) -> u16 {
        EXPORT_FLAGS | if self.is_read_only { READ_ONLY } else { 0 }
    }
}

/// Result of the handshake.
#[derive(Clone, Debug, Default)]
pub struct Agreed {
    pub structured: bool,
    /// True if the client may ask for block status.
    pub tells_allocation: bool,
    no_zeroes: bool,
    has_tls: bool,
    /// True once the client may send commands.
    is_handshake_over: bool,
}

/// Step that follows an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Option,
    Tls,
    Commands,
    Close,
}

/// The server's first words.
pub fn greeting() -> Vec<u8> {
    let flags = FIXED_NEWSTYLE | NO_ZEROES;
    [&INIT_MAGIC.to_be_bytes()[..], &OPTION_MAGIC.to_be_bytes(), &flags.to_be_bytes()].concat()
}

impl Agreed {
    /// Takes the client's flags. Returns false if one is unknown.
    pub fn take_flags(&mut self, flags: u32) -> bool {
        self.no_zeroes = flags & u32::from(NO_ZEROES) != 0;
        flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) == 0
    }

    /// Answers an option.
    pub fn answer(&mut self, option: u32, data: &[u8], export: &Export, out: &mut Vec<u8>) -> Next {
        let mut say = |kind: u32, data: &[u8]| put_option_reply(out, option, kind, data);
        let needs_tls = export.tls.is_some() && !self.has_tls;
        match option {
            option::ABORT => {
                say(reply::ACK, &[]);
                return Next::Close;
            }
            option::START_TLS if needs_tls && data.is_empty() => {
                say(reply::ACK, &[]);
                self.has_tls = true;
                return Next::Tls;
            }
            // EXPORT_NAME has no error reply.
            option::EXPORT_NAME if needs_tls => return Next::Close,
            option::EXPORT_NAME => return self.export_name(export, out),
            _ if needs_tls => say(reply::TLS_REQUIRED, b"begin TLS first"),
            option::LIST if data.is_empty() => {
                // The one export has an empty name.
                say(reply::SERVER, &0u32.to_be_bytes());
                say(reply::ACK, &[]);
            }
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                say(reply::ACK, &[]);
            }
            option::INFO | option::GO if !is_info_request(data) => say(reply::INVALID, &[]),
            option::INFO | option::GO => {
                let shown =
                    [&info::EXPORT.to_be_bytes()[..], &export.bytes.to_be_bytes(), &export.flags().to_be_bytes()];
                let sizes = [SECTOR_BYTES as u32, PREFERRED_BYTES, LONGEST_BYTES].map(u32::to_be_bytes).concat();
                say(reply::INFO, &shown.concat());
                say(reply::INFO, &[&info::BLOCK_SIZE.to_be_bytes()[..], &sizes].concat());
                say(reply::ACK, &[]);
                return if option == option::GO { Next::Commands } else { Next::Option };
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => match asked_contexts(data) {
                None => say(reply::INVALID, &[]),
                Some(_) if option == option::SET_META_CONTEXT && !self.structured => {
                    say(reply::INVALID, b"ask for structured replies first");
                }
                Some(contexts) => {
                    let lists = option == option::LIST_META_CONTEXT;
                    let is_asked = |asked: &&[u8]| *asked == ALLOCATION.as_bytes() || lists && *asked == b"base:";
                    let is_wanted = contexts.iter().any(is_asked) || lists && contexts.is_empty();
                    if is_wanted {
                        say(reply::META_CONTEXT, &[&ALLOCATION_ID.to_be_bytes()[..], ALLOCATION.as_bytes()].concat());
                    }
                    if !lists {
                        self.tells_allocation = is_wanted;
                    }
                    say(reply::ACK, &[]);
                }
            },
            option::START_TLS if self.has_tls => say(reply::INVALID, b"this is TLS already"),
            option::START_TLS => say(reply::POLICY, b"this server has no certificates"),
            option::LIST | option::STRUCTURED_REPLY => say(reply::INVALID, b"this option takes no data"),
            _ => say(reply::UNSUPPORTED, &[]),
        }
        Next::Option
    }

    /// Replies to EXPORT_NAME, the old way to ask for an export.
    fn export_name(&self, export: &Export, out: &mut Vec<u8>) -> Next {
        out.extend_from_slice(&export.bytes.to_be_bytes());
        out.extend_from_slice(&export.flags().to_be_bytes());
        if !self.no_zeroes {
            out.extend_from_slice(&[0; 124]);
        }
        Next::Commands
    }
}

/// Splits off a field that is preceded by its length.
fn length_prefixed(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

/// True if the data of INFO or GO is well-formed: a name, of which any is accepted for the one export, and a list of wanted information,
/// which is ignored, because all of it is sent.
fn is_info_request(data: &[u8]) -> bool {
    let list = length_prefixed(data).and_then(|(_, rest)| rest.split_first_chunk::<2>());
    list.is_some_and(|(count, infos)| infos.len() == 2 * usize::from(u16::from_be_bytes(*count)))
}

/// Parses LIST_META_CONTEXT or SET_META_CONTEXT: the contexts that are asked for, after the export's name.
fn asked_contexts(data: &[u8]) -> Option<Vec<&[u8]>> {
    let (_, rest) = length_prefixed(data)?;
    let (count, mut rest) = rest.split_first_chunk::<4>()?;
    let mut contexts = Vec::new();
    for _ in 0..u32::from_be_bytes(*count) {
        let (context, after) = length_prefixed(rest)?;
        contexts.push(context);
        rest = after;
    }
    rest.is_empty().then_some(contexts)
}

#[cfg(test)]
mod tests;

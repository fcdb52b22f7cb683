//! Clients that are heard, and that are not, on pairs of sockets.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use super::memory::{OWN_BYTES, RESERVED_BYTES, SHARED_BYTES};
use super::*;

const EXPORT: Export = Export { bytes: 1 << 30, is_read_only: false, tls: None };

fn new_connection() -> (UnixStream, Connection) {
    let (client, own) = UnixStream::pair().unwrap();
    own.set_nonblocking(true).unwrap();
    (client, Connection::new(File::from(OwnedFd::from(own)), SharedMemory::default()))
}

/// Another client holds all but `room`.
fn leave(connection: &Connection, room: usize) -> HeldMemory {
    let others = connection.memory.of_new_client();
    others.hold(SHARED_BYTES - connection.memory.held_by_all() - room)
}

/// A client whose handshake is over, and its connection.
fn connected() -> (UnixStream, Connection) {
    let (mut client, mut connection) = new_connection();
    client.write_all(&u32::from(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes()).unwrap();
    client.write_all(&OPTION_MAGIC.to_be_bytes()).unwrap();
    client.write_all(&[0, 0, 0, 1, 0, 0, 0, 0]).unwrap();
    connection.receive();
    assert!(connection.next_command(&EXPORT, false).is_none());
    connection.send();
    client.read_exact(&mut [0; 28]).unwrap();
    (client, connection)
}

fn ask(client: &mut UnixStream, kind: u16, bytes: u32) {
    let mut request = REQUEST_MAGIC.to_be_bytes().to_vec();
    request.extend([0u16, kind].map(u16::to_be_bytes).concat());
    request.extend([0u64, 0].map(u64::to_be_bytes).concat());
    request.extend(bytes.to_be_bytes());
    client.write_all(&request).unwrap();
}

#[test]
fn a_client_that_has_said_goodbye_is_answered_and_not_heard() {
    let (mut client, mut connection) = connected();
    ask(&mut client, command::READ, 512);
    ask(&mut client, command::DISCONNECT, 0);
    connection.receive();
    let read = connection.next_command(&EXPORT, false);
    assert!(read.is_some() && connection.is_open());
    assert!(connection.next_command(&EXPORT, false).is_none() && !connection.is_open());
    assert!(!connection.is_over(), "a read is outstanding");
    drop(read);
    assert!(connection.is_over(), "a command that times out is never answered");
    let (mut client, mut connection) = connected();
    assert!(connection.is_open());
    client.shutdown(std::net::Shutdown::Both).unwrap();
    client.flush().unwrap();
    connection.receive();
    assert!(!connection.is_open() && connection.is_over());
}

#[test]
fn a_command_waits_for_room_and_a_payload_that_has_begun_does_not() {
    let (mut client, mut connection) = connected();
    let needed = REPLY_BYTES + 4096;
    ask(&mut client, command::READ, 4096);
    ask(&mut client, command::WRITE, 4096);
    connection.receive();
    let mut next = |room: usize, is_busy: bool| {
        let _others = leave(&connection, room);
        connection.next_command(&EXPORT, is_busy)
    };
    assert!(next(needed, true).is_none() && next(needed - 1, false).is_none());
    let read = next(needed, false).unwrap();
    assert!(read.kind == CommandKind::Read && next(needed, false).is_none(), "the payload has still to come");
    assert_eq!(connection.memory.held(), 2 * needed, "what is to be read, and what is to be written");
    client.write_all(&[7; 4096]).unwrap();
    ask(&mut client, command::DISCONNECT, 0);
    connection.receive();
    let _others = leave(&connection, 0);
    let written = connection.next_command(&EXPORT, false).unwrap();
    assert_eq!((written.kind, written.data.len()), (CommandKind::Write, 4096));
    assert_eq!(connection.memory.held(), 2 * needed, "until it is answered");
    drop((read, written));
    assert_eq!(connection.memory.held(), 0);
    connection.receive();
    assert!(connection.next_command(&EXPORT, false).is_none() && !connection.is_open(), "a goodbye needs no memory");
}

#[test]
fn a_payload_that_came_while_the_server_was_busy_is_not_forgotten() {
    let (mut client, mut connection) = connected();
    ask(&mut client, command::WRITE, 4096);
    connection.receive();
    assert!(connection.next_command(&EXPORT, false).is_none());
    client.write_all(&[7; 4096]).unwrap();
    connection.receive();
    assert!(connection.next_command(&EXPORT, true).is_none() && connection.has_more());
    // What comes after it goes elsewhere.
    ask(&mut client, command::FLUSH, 0);
    connection.receive();
    assert!(!connection.is_over());
    let [write, flush] = [(); 2].map(|()| connection.next_command(&EXPORT, false).unwrap());
    assert_eq!((write.data, flush.kind), (vec![7; 4096], CommandKind::Flush));
}

#[test]
fn the_last_memory_is_for_clients_that_hold_little() {
    let (mut client, mut connection) = connected();
    let own = OWN_BYTES - REPLY_BYTES;
    for bytes in [own, 4096, 0] {
        ask(&mut client, if bytes > 0 { command::READ } else { command::FLUSH }, bytes as u32);
    }
    connection.receive();
    let mut begun = Vec::new();
    let mut next = |room: usize| {
        let others = leave(&connection, room);
        let command = connection.next_command(&EXPORT, false);
        let is_next = command.is_some();
        drop(others);
        let has_more = [room, room + 1].map(|room| {
            let _others = leave(&connection, if is_next { 0 } else { room });
            connection.has_more()
        });
        begun.extend(command);
        (is_next, has_more)
    };
    assert_eq!(next(OWN_BYTES - 1), (false, [false, true]));
    assert_eq!(next(OWN_BYTES), (true, [false, false]));
    let more = RESERVED_BYTES + REPLY_BYTES;
    assert_eq!(next(more + 4095), (false, [false, true]), "it holds all that is its own");
    assert_eq!(next(more + 4096), (true, [false, false]));
    assert_eq!(next(more - 1), (false, [false, true]), "the reply to a flush needs memory, too");
    assert_eq!(next(more), (true, [false, false]));
}

#[test]
fn a_long_command_gets_memory_before_those_that_came_after_it() {
    let shared = SharedMemory::default();
    let [long, short, small] = [(); 3].map(|()| shared.of_new_client());
    let much = 4 * OWN_BYTES;
    let held = shared.hold(SHARED_BYTES - RESERVED_BYTES - much);
    assert!(long.hold_in_turn(2 * much).is_none());
    assert!(!short.has_room(much) && short.hold_in_turn(much).is_none(), "there is room, but not for this one");
    assert!(small.hold_in_turn(OWN_BYTES).is_some());
    drop(held);
    assert!(long.has_room(2 * much) && !short.has_room(much));
    // The next one of the same client comes after the others.
    let begun = long.hold_in_turn(2 * much).unwrap();
    assert!(long.hold_in_turn(SHARED_BYTES).is_none() && short.hold_in_turn(much).is_some());
    assert!(short.hold_in_turn(much).is_none());
    long.stop_waiting();
    assert!(short.hold_in_turn(much).is_some(), "a client that has gone has no turn");
    drop(begun);
}

/// Replies that a client does not take count as they did before they were made, and what was set aside for longer ones comes back.
#[test]
fn replies_that_are_not_taken_are_counted() {
    let (mut client, mut connection) = connected();
    connection.agreed.tells_allocation = true;
    for (kind, bytes) in [(command::BLOCK_STATUS, 1 << 20), (command::FLUSH, 0), (command::WRITE, 512), (99, 0)] {
        ask(&mut client, kind, bytes);
        client.write_all(&vec![0; if kind == command::WRITE { bytes as usize } else { 0 }]).unwrap();
    }
    connection.receive();
    let commands: Vec<_> = std::iter::from_fn(|| connection.next_command(&EXPORT, false)).collect();
    let status = EXTENT_BYTES << 11;
    assert_eq!((commands.len(), connection.memory.held()), (3, 4 * REPLY_BYTES + status + 512));
    for command in commands {
        match command.kind {
            CommandKind::BlockStatus => connection.reply_status(command, &[(1 << 11, true)]),
            _ => connection.reply(command, Ok(())),
        }
    }
    assert_eq!(connection.memory.held(), 4 * REPLY_BYTES + EXTENT_BYTES);
    connection.send();
    assert_eq!(connection.memory.held(), 0);
}

/// A client that asks for options, or flushes, and takes no replies.
#[test]
fn no_client_is_answered_without_bounds() {
    let mut option = OPTION_MAGIC.to_be_bytes().to_vec();
    option.extend([option::LIST, 0].map(u32::to_be_bytes).concat());
    for is_in_handshake in [true, false] {
        let (mut client, mut connection) = if is_in_handshake { new_connection() } else { connected() };
        if is_in_handshake {
            client.write_all(&u32::from(FIXED_NEWSTYLE).to_be_bytes()).unwrap();
        }
        let _others = leave(&connection, RESERVED_BYTES);
        for _ in 0..OWN_BYTES / REPLY_BYTES + 10 {
            match is_in_handshake {
                true => client.write_all(&option).unwrap(),
                false => ask(&mut client, command::FLUSH, 0),
            }
            connection.receive();
            if let Some(flush) = connection.next_command(&EXPORT, false) {
                connection.reply(flush, Ok(()));
            }
        }
        assert!((OWN_BYTES - OPTION_REPLY_BYTES..=OWN_BYTES).contains(&connection.memory.held()));
        assert!(connection.short_replies.bytes.len() < OWN_BYTES && !connection.has_more());
    }
}

#[test]
fn a_payload_in_pieces_ends_where_the_next_command_begins() {
    let (mut client, mut connection) = connected();
    ask(&mut client, command::WRITE, 1024);
    client.write_all(&[7; 300]).unwrap();
    connection.receive();
    assert!(connection.next_command(&EXPORT, false).is_none(), "most of it is missing");
    client.write_all(&[8; 724]).unwrap();
    ask(&mut client, command::READ, 4096);
    connection.receive();
    let written = connection.next_command(&EXPORT, false).unwrap();
    assert_eq!(written.data, [vec![7; 300], vec![8; 724]].concat());
    connection.receive();
    assert!(connection.next_command(&EXPORT, false).is_some_and(|read| read.data.is_empty()));
}

fn head(flags: u16, kind: u16, offset: u64, bytes: u32) -> [u8; REQUEST_BYTES] {
    let mut request = REQUEST_MAGIC.to_be_bytes().to_vec();
    request.extend([flags, kind].map(u16::to_be_bytes).concat());
    request.extend([1, offset].map(u64::to_be_bytes).concat());
    request.extend(bytes.to_be_bytes());
    request.try_into().unwrap()
}

#[test]
fn a_request_is_parsed_word_for_word() {
    let mut bytes = [0; REQUEST_BYTES];
    bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
    (4..REQUEST_BYTES).for_each(|at| bytes[at] = 0x10 + at as u8);
    let (kind, command, checked) = parse_request(&bytes, &EXPORT, true).unwrap();
    assert_eq!((kind, command.bytes, checked), (0x1617, 0x2829_2a2b, Err(CommandError::Invalid)));
    assert_eq!((command.cookie, command.offset), (0x1819_1a1b_1c1d_1e1f, 0x2021_2223_2425_2627));
    // Flags 0x1415.
    assert_eq!([command.fua, command.no_hole, command.extents_max == 1], [true, false, false]);
    bytes[3] ^= 1;
    assert!(parse_request(&bytes, &EXPORT, true).is_none());
}

#[test]
fn a_command_is_aligned_inside_the_export_and_has_its_own_flags() {
    use command::*;
    let end = EXPORT.bytes;
    let parsed = |head: [u8; REQUEST_BYTES], tells_allocation: bool| {
        let (_, command, checked) = parse_request(&head, &EXPORT, tells_allocation).unwrap();
        checked.map(|()| command.kind)
    };
    let kind = |head: [u8; REQUEST_BYTES]| parsed(head, true);
    for (number, expected) in [
        (READ, CommandKind::Read),
        (WRITE, CommandKind::Write),
        (TRIM, CommandKind::Trim),
        (WRITE_ZEROES, CommandKind::WriteZeroes),
        (BLOCK_STATUS, CommandKind::BlockStatus),
    ] {
        assert_eq!(kind(head(0, number, 512, 512)), Ok(expected));
        assert_eq!(kind(head(FUA, number, end - 512, 512)), Ok(expected));
        let beyond = match number {
            READ | BLOCK_STATUS => CommandError::Invalid,
            _ => CommandError::NoSpace,
        };
        assert_eq!(kind(head(0, number, end - 512, 1024)), Err(beyond));
        assert_eq!(kind(head(0, number, u64::MAX - 511, 512)), Err(beyond));
        for (offset, bytes) in [(512, 0), (511, 512), (512, 511), (1, 1)] {
            assert_eq!(kind(head(0, number, offset, bytes)), Err(CommandError::Invalid));
        }
        let own = [NO_HOLE, DONT_FRAGMENT, ONE_EXTENT, 16].map(|flag| kind(head(flag, number, 0, 512)).is_ok());
        let expected = [number == WRITE_ZEROES, number == READ, number == BLOCK_STATUS, false];
        assert_eq!(own, expected, "{number}");
    }
    assert_eq!(kind(head(0, FLUSH, 0, 0)), Ok(CommandKind::Flush));
    assert_eq!(kind(head(FUA, FLUSH, 0, 0)), Ok(CommandKind::Flush));
    for wrong in [head(0, FLUSH, 512, 0), head(0, FLUSH, 0, 512), head(0, DISCONNECT, 0, 0), head(0, 5, 0, 512)] {
        assert_eq!(kind(wrong), Err(CommandError::Invalid));
    }
    let unagreed = parsed(head(0, BLOCK_STATUS, 0, 512), false);
    assert_eq!(unagreed, Err(CommandError::Invalid), "no context was agreed");
    let longest = LONGEST_BYTES;
    assert_eq!(kind(head(0, READ, 0, longest)), Ok(CommandKind::Read));
    assert_eq!(kind(head(0, READ, 0, longest + 512)), Err(CommandError::Overflow));
    assert_eq!(kind(head(0, TRIM, 0, longest + 512)), Ok(CommandKind::Trim));
}

/// The command for a read that was served.
fn served(cookie: u64, data: Vec<u8>) -> Command {
    Command { cookie, ..Command::new(CommandKind::Read, 0, data.len() as u64, data) }
}

#[test]
fn replies_are_sent_in_order() {
    let (mut client, mut connection) = connected();
    for bytes in [512, LONG_BYTES as u32, 1024] {
        ask(&mut client, command::READ, bytes);
    }
    ask(&mut client, command::FLUSH, 0);
    connection.receive();
    assert_eq!(std::iter::from_fn(|| connection.next_command(&EXPORT, false)).count(), 4);
    assert!(!connection.wants_to_send());
    connection.reply(served(7, vec![1; 512]), Ok(()));
    connection.reply(served(8, vec![2; LONG_BYTES]), Ok(()));
    connection.reply(served(9, vec![3; 1024]), Ok(()));
    let flush = Command { cookie: 10, ..Command::new(CommandKind::Flush, 0, 0, Vec::new()) };
    connection.reply(flush, Err(CommandError::Io));
    assert!(connection.wants_to_send());
    connection.send();
    assert!(!connection.wants_to_send());
    let mut reply = |error: u32, cookie: u64, length: usize, fill: u8| {
        let mut bytes = vec![0; 16 + length];
        client.read_exact(&mut bytes).unwrap();
        let head = [&0x6744_6698u32.to_be_bytes()[..], &error.to_be_bytes(), &cookie.to_be_bytes()].concat();
        assert!(bytes == [head, vec![fill; length]].concat(), "reply {cookie}");
    };
    reply(0, 7, 512, 1);
    reply(0, 8, LONG_BYTES, 2);
    reply(0, 9, 1024, 3);
    reply(5, 10, 0, 0);
}

/// The rest that does not fit into the socket waits, and is sent from where it was cut.
#[test]
fn a_reply_longer_than_the_socket_takes_is_sent_in_parts() {
    let (mut client, mut connection) = connected();
    let bytes: Vec<u8> = (0..3 << 20).map(|at: u32| (at / 1000 * 7) as u8).collect();
    for cookie in [1, 2] {
        let memory = connection.memory.hold(bytes.len());
        connection.reply(Command { memory, ..served(cookie, bytes.clone()) }, Ok(()));
    }
    let flush = Command { cookie: 3, ..Command::new(CommandKind::Flush, 0, 0, Vec::new()) };
    connection.reply(flush, Ok(()));
    let all = 2 * (16 + bytes.len()) + 16;
    let (mut came, mut sends) = (Vec::new(), 0);
    client.set_nonblocking(true).unwrap();
    while came.len() < all {
        connection.send();
        sends += 1;
        let mut some = vec![0; 1 << 20];
        while let Ok(count) = client.read(&mut some) {
            came.extend_from_slice(&some[..count]);
        }
        assert!(sends < 10_000);
    }
    assert!(sends > 1 && !connection.wants_to_send() && connection.memory.held() == 0);
    let part = 16 + bytes.len();
    assert!(came[16..part] == bytes && came[part + 16..2 * part] == bytes);
    assert_eq!([7, part + 15, all - 1].map(|at| came[at]), [0, 2, 3]);
}

#[test]
fn what_is_too_long_is_skipped_and_refused() {
    let (mut client, mut connection) = connected();
    let longest = LONGEST_BYTES;
    ask(&mut client, command::WRITE, longest + 1);
    connection.receive();
    assert!(connection.next_command(&EXPORT, false).is_none());
    assert!(matches!(connection.phase, Phase::Skip { left, .. } if left == longest as usize + 1));
    if let Phase::Skip { left, .. } = &mut connection.phase {
        *left = 5;
    }
    client.write_all(&[1; 5]).unwrap();
    ask(&mut client, command::READ, 512);
    connection.receive();
    assert!(connection.next_command(&EXPORT, false).is_some());
    connection.send();
    let mut reply = [0; 16];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(reply[7], CommandError::Overflow as u8);
    ask(&mut client, command::WRITE, longest);
    connection.receive();
    assert!(connection.next_command(&EXPORT, false).is_none());
    assert!(matches!(&connection.phase, Phase::Payload { command, got: 0 } if command.data.len() == longest as usize));
}

#[test]
fn a_client_that_has_gone_while_it_was_answered_is_over() {
    let (client, mut connection) = connected();
    connection.reply(Command::new(CommandKind::Flush, 0, 0, Vec::new()), Ok(()));
    drop(client);
    assert!(connection.wants_to_send() && !connection.is_over());
    connection.send();
    assert!(connection.is_over() && !connection.is_open());
}

#[test]
fn a_handshake_that_stays_mute_ends_and_a_client_with_nothing_to_ask_does_not() {
    let (_client, mute) = new_connection();
    assert!(mute.idle_deadline().is_some_and(|until| until <= Instant::now() + IDLE_TIMEOUT));
    let (mut client, mut connection) = connected();
    ask(&mut client, command::WRITE, 4096);
    connection.receive();
    let idle_when_short = |connection: &Connection| {
        let _others = leave(connection, RESERVED_BYTES);
        connection.idle_deadline().is_some()
    };
    assert!(!idle_when_short(&connection), "it holds none");
    assert!(connection.next_command(&EXPORT, false).is_none());
    assert_eq!(connection.idle_deadline(), None, "it may take its time");
    assert!(idle_when_short(&connection), "others want the memory");
}

#[test]
fn an_old_export_is_padded_unless_the_client_wants_no_zeroes() {
    let export = EXPORT;
    let (fixed, no_zeroes) = (u32::from(FIXED_NEWSTYLE), u32::from(NO_ZEROES));
    for (flags, bytes) in [(0, 134), (fixed, 134), (no_zeroes, 10), (fixed | no_zeroes, 10)] {
        let (mut agreed, mut out) = (Agreed::default(), Vec::new());
        assert!(agreed.take_flags(flags));
        assert_eq!(agreed.answer(option::EXPORT_NAME, b"", &export, &mut out), Next::Commands);
        assert_eq!(out.len(), bytes, "{flags}");
    }
    assert!(!Agreed::default().take_flags(1 << 5));
}

/// A reply to an option.
fn said(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut out = 0x0003_e889_0455_65a9u64.to_be_bytes().to_vec();
    [option, kind, data.len() as u32].iter().for_each(|word| out.extend(word.to_be_bytes()));
    [&out, data].concat()
}

fn with_length(data: &[u8]) -> Vec<u8> {
    [&(data.len() as u32).to_be_bytes()[..], data].concat()
}

/// A request for contexts of the export `name`.
fn contexts(name: &[u8], asked: &[&[u8]]) -> Vec<u8> {
    let all: Vec<u8> = asked.iter().flat_map(|context| with_length(context)).collect();
    [with_length(name), (asked.len() as u32).to_be_bytes().to_vec(), all].concat()
}

#[test]
fn options_are_answered_word_for_word() {
    use option::*;
    let mut agreed = Agreed::default();
    let mut answer = |option: u32, data: &[u8]| {
        let mut out = Vec::new();
        let next = agreed.answer(option, data, &EXPORT, &mut out);
        (next, out)
    };
    let go_on = |option: u32, replies: &[(u32, &[u8])]| {
        let all = replies.iter().flat_map(|(kind, data)| said(option, *kind, data)).collect();
        (Next::Option, all)
    };
    let no_data: &[u8] = b"this option takes no data";
    assert_eq!(answer(LIST, b""), go_on(LIST, &[(reply::SERVER, &[0; 4]), (reply::ACK, b"")]));
    assert_eq!(answer(LIST, b"x"), go_on(LIST, &[(reply::INVALID, no_data)]));
    assert_eq!(answer(ABORT, b""), (Next::Close, said(ABORT, reply::ACK, b"")));
    assert_eq!(answer(99, b"x"), go_on(99, &[(reply::UNSUPPORTED, b"")]));
    assert_eq!(answer(EXPORT_NAME, b"other").0, Next::Commands);
    let export = [&[0, 0][..], &EXPORT.bytes.to_be_bytes(), &[1, 0xfd]].concat();
    let sizes = [&[0, 3][..], &[0, 0, 2, 0], &[0, 0, 16, 0], &[2, 0, 0, 0]].concat();
    let told = [(reply::INFO, &export[..]), (reply::INFO, &sizes), (reply::ACK, b"")];
    let named = |name: &[u8], infos: &[u8]| {
        [with_length(name), ((infos.len() / 2) as u16).to_be_bytes().to_vec(), infos.to_vec()].concat()
    };
    assert_eq!(answer(INFO, &named(b"", b"")), go_on(INFO, &told));
    assert_eq!(answer(GO, &named(b"", &[0, 3])), (Next::Commands, go_on(GO, &told).1));
    assert_eq!(answer(GO, &named(b"a", b"")), (Next::Commands, go_on(GO, &told).1));
    for wrong in [&[][..], &[0; 5], &[0, 0, 0, 1, 0], &named(b"", &[0, 3])[..7], &[named(b"", b""), vec![1]].concat()] {
        assert_eq!(answer(INFO, wrong), go_on(INFO, &[(reply::INVALID, b"")]), "{wrong:?}");
    }
    let holes = [&[0, 0, 0, 1][..], b"base:allocation"].concat();
    let one = contexts(b"", &[b"base:allocation"]);
    let first: &[u8] = b"ask for structured replies first";
    assert_eq!(answer(SET_META_CONTEXT, &one), go_on(SET_META_CONTEXT, &[(reply::INVALID, first)]));
    let list = |asked: &[&[u8]]| contexts(b"", asked);
    let found = |option, all: &[&[u8]]| {
        let replies = all.iter().map(|data| (reply::META_CONTEXT, *data)).chain([(reply::ACK, &b""[..])]);
        go_on(option, &replies.collect::<Vec<_>>())
    };
    for (asked, all) in [
        (list(&[]), vec![&holes[..]]),
        (list(&[b"base:"]), vec![&holes]),
        (list(&[b"none:"]), vec![]),
        (list(&[b"base"]), vec![]),
        (list(&[b"base:allocation", b"none:x"]), vec![&holes]),
    ] {
        assert_eq!(answer(LIST_META_CONTEXT, &asked), found(LIST_META_CONTEXT, &all), "{asked:?}");
    }
    assert_eq!(answer(STRUCTURED_REPLY, b"x"), go_on(STRUCTURED_REPLY, &[(reply::INVALID, no_data)]));
    assert_eq!(answer(STRUCTURED_REPLY, b""), go_on(STRUCTURED_REPLY, &[(reply::ACK, b"")]));
    for (asked, all) in [(list(&[]), vec![]), (list(&[b"base:"]), vec![]), (one.clone(), vec![&holes[..]])] {
        assert_eq!(answer(SET_META_CONTEXT, &asked), found(SET_META_CONTEXT, &all), "{asked:?}");
    }
    let other = contexts(b"a", &[]);
    assert_eq!(answer(LIST_META_CONTEXT, &other), found(LIST_META_CONTEXT, &[&holes]));
    for wrong in [&one[..one.len() - 1], &[one.clone(), vec![0]].concat(), b"", &one[..6]] {
        assert_eq!(answer(SET_META_CONTEXT, wrong), go_on(SET_META_CONTEXT, &[(reply::INVALID, b"")]));
    }
    assert!(agreed.structured);
    assert!(agreed.tells_allocation);
    assert_eq!(greeting(), *b"NBDMAGICIHAVEOPT\0\x03");
}

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
    assert_eq!(written(&|out| put_done(out, false, cookie)), words(&[&simple, &ok, &own]));
    assert_eq!(written(&|out| put_done(out, true, cookie)), words(&[&chunk, &[0, 1, 0, 0], &own, &ok]));
    let refused = written(&|out| put_error(out, false, cookie, CommandError::NoSpace));
    assert_eq!(refused, words(&[&simple, &[0, 0, 0, 28], &own]));
    let refused = written(&|out| put_error(out, true, cookie, CommandError::Overflow));
    assert_eq!(refused, words(&[&chunk, &[0, 1, 0x80, 1], &own, &[0, 0, 0, 6], &[0, 0, 0, 75], &[0, 0]]));
    let data = written(&|out| put_data_head(out, false, cookie, 9, 512));
    assert_eq!(data, words(&[&simple, &ok, &own]));
    let data = written(&|out| put_data_head(out, true, cookie, 9, 512));
    assert_eq!(data, words(&[&chunk, &[0, 1, 0, 1], &own, &[0, 0, 2, 8], &[0, 0, 0, 0, 0, 0, 0, 9]]));
    let status = written(&|out| put_block_status(out, cookie, &[(1, false), (8, true)]));
    let told = [&[0, 0, 0, 1][..], &[0, 0, 2, 0], &ok, &[0, 0, 16, 0], &[0, 0, 0, 3]].concat();
    assert_eq!(status, words(&[&chunk, &[0, 1, 0, 5], &own, &[0, 0, 0, 20], &told]));
}

//! Clients that are heard, and that are not, on pairs of sockets.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use super::*;

const EXPORT: Export = Export { bytes: 1 << 30, sector_bytes: 512, preferred_bytes: 4096, longest_bytes: 64 << 20 };

/// A client whose handshake is over, and its connection.
fn connected() -> (UnixStream, Connection) {
    let (mut client, own) = UnixStream::pair().unwrap();
    own.set_nonblocking(true).unwrap();
    let mut connection = Connection::new(Stream::Unix(own));
    client.write_all(&u32::from(wire::FIXED_NEWSTYLE | wire::NO_ZEROES).to_be_bytes()).unwrap();
    client.write_all(&wire::OPTION_MAGIC.to_be_bytes()).unwrap();
    client.write_all(&[0, 0, 0, 1, 0, 0, 0, 0]).unwrap();
    connection.receive();
    assert!(connection.next(&EXPORT, &mut Vec::new()).is_none());
    connection.send(&mut Vec::new());
    client.read_exact(&mut [0; 28]).unwrap();
    (client, connection)
}

fn ask(client: &mut UnixStream, kind: u16, bytes: u32) {
    let mut request = wire::REQUEST_MAGIC.to_be_bytes().to_vec();
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
    assert!(connection.next(&EXPORT, &mut Vec::new()).is_some() && connection.is_open());
    assert!(connection.next(&EXPORT, &mut Vec::new()).is_none() && !connection.is_open());
    assert!(!connection.is_over(), "a read is outstanding");
    let (mut client, mut connection) = connected();
    assert!(connection.is_open());
    client.shutdown(std::net::Shutdown::Both).unwrap();
    client.flush().unwrap();
    connection.receive();
    assert!(!connection.is_open() && connection.is_over());
}

#[test]
fn a_full_client_is_heard_once_it_has_taken_something() {
    let (mut client, mut connection) = connected();
    let read = 64 << 20;
    (0..3).for_each(|_| ask(&mut client, command::READ, read));
    connection.receive();
    let next = |connection: &mut Connection| connection.next(&EXPORT, &mut Vec::new()).is_some();
    assert!(!connection.has_more(), "it was never full");
    assert!(next(&mut connection) && next(&mut connection) && connection.is_full());
    assert!(!next(&mut connection) && !connection.has_more());
    connection.reading_bytes -= read as usize;
    assert!(connection.has_more());
    assert!(next(&mut connection) && !connection.has_more());
}

#[test]
fn a_payload_in_pieces_ends_where_the_next_command_begins() {
    let (mut client, mut connection) = connected();
    ask(&mut client, command::WRITE, 1024);
    client.write_all(&[7; 300]).unwrap();
    connection.receive();
    assert!(connection.next(&EXPORT, &mut Vec::new()).is_none(), "most of it is missing");
    client.write_all(&[8; 724]).unwrap();
    ask(&mut client, command::READ, 4096);
    connection.receive();
    let written = connection.next(&EXPORT, &mut Vec::new()).unwrap();
    assert_eq!(written.data, [vec![7; 300], vec![8; 724]].concat());
    connection.receive();
    assert!(connection.next(&EXPORT, &mut Vec::new()).is_some_and(|read| read.data.is_empty()));
}

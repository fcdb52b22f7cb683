//! Mistakes of clients: every one is answered, and none ends the service.

use std::io::{Read, Write};

use rand::{RngExt, SeedableRng};
use smrkit_live::block::control::InjectedFault;

use super::Served;
use super::client::{self, Client, FLUSH, FUA, READ, TRIM, WRITE, WRITE_ZEROES};

const IO: u32 = 5;
const INVALID: u32 = 22;
pub const NO_SPACE: u32 = 28;
const OVERFLOW: u32 = 75;

#[test]
fn mistakes_are_answered_and_the_connection_goes_on() {
    let served = Served::new("in-place");
    let mut client = Client::new(&served.socket);
    let end = client.bytes;
    let longer = (32 << 20) + 512;
    for (flags, kind, offset, bytes, error) in [
        (0, READ, 1, 512, INVALID),
        (0, READ, 0, 100, INVALID),
        (0, READ, 0, 0, INVALID),
        (0, READ, end, 512, INVALID),
        (0, READ, u64::MAX - 511, 512, INVALID),
        (0, READ, 0, longer, OVERFLOW),
        (1 << 9, READ, 0, 512, INVALID),
        (0, WRITE, end, 512, NO_SPACE),
        (0, WRITE, 7, 512, INVALID),
        (0, WRITE, 0, longer, OVERFLOW),
        (0, TRIM, end, 512, NO_SPACE),
        (1 << 4, WRITE_ZEROES, 0, 512, INVALID),
        (0, FLUSH, 0, 512, INVALID),
        (0, 7, 0, 512, INVALID),
        (0, 99, 0, 512, INVALID),
    ] {
        let payload = if kind == WRITE { vec![1; bytes as usize] } else { Vec::new() };
        assert_eq!(client.ask(flags, kind, offset, bytes, &payload), error, "{kind} at {offset} of {bytes}");
    }
    client.write(0, &[5; 1024]);
    assert_eq!(client.ask(FUA, WRITE, 1024, 512, &[6; 512]), 0);
    assert_eq!(client.read(512, 1536), [vec![5; 512], vec![6; 512], vec![0; 512]].concat());
}

pub fn option(number: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &number.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

#[test]
fn after_options_without_sense_the_next_one_gets_its_reply() {
    let served = Served::new("in-place");
    let mut stream = client::connect(&served.socket);
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    stream.write_all(&3u32.to_be_bytes()).unwrap();
    let (unsupported, invalid, too_big) = (0x8000_0001u32, 0x8000_0003, 0x8000_0009);
    for (sent, kind) in [
        (option(50, &[]), unsupported),
        (option(8, &[1]), invalid),
        (option(3, &[1, 2]), invalid),
        (option(7, &[0, 0, 0, 9, 1]), invalid),
        (option(10, &[0, 0, 0, 0, 0, 0, 0, 0]), invalid),
        (option(9, &[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]), invalid),
        (option(6, &vec![0; 100_000]), too_big),
    ] {
        stream.write_all(&sent).unwrap();
        let mut reply = [0; 20];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply[8..12], sent[8..12], "the option comes back");
        assert_eq!(u32::from_be_bytes(reply[12..16].try_into().unwrap()), kind);
        let mut words = vec![0; u32::from_be_bytes(reply[16..].try_into().unwrap()) as usize];
        stream.read_exact(&mut words).unwrap();
    }
    stream.write_all(&option(8, &[])).unwrap();
    let mut reply = [0; 20];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply[12..16], 1u32.to_be_bytes(), "structured replies are acknowledged");
}

#[test]
fn noise_ends_a_connection_at_most() {
    let served = Served::new("in-place");
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(7);
    for round in 0..300 {
        let mut stream = client::connect(&served.socket);
        let mut said = vec![0, 0, 0, 3];
        for _ in 0..random.random_range(0..6) {
            let number = random.random_range(0..12);
            let data: Vec<u8> = (0..random.random_range(0..40)).map(|_| random.random_range(0..4)).collect();
            said.extend(option(number, &data));
        }
        let at = random.random_range(0..said.len());
        said[at] ^= 1 << random.random_range(0..8);
        said.extend((0..random.random_range(0..200)).map(|_| random.random::<u8>()));
        // It may have hung up already.
        let _ = stream.write_all(&said);
        if round % 2 == 0 {
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
    }
    Client::new(&served.socket).write(0, &[1; 512]);
}

#[test]
fn a_client_that_takes_nothing_is_not_heard_until_it_does() {
    let served = Served::new("in-place");
    let mut client = Client::new(&served.socket);
    let cookies: Vec<u64> = (0..12).map(|_| client.send(0, READ, 0, 32 << 20, &[])).collect();
    // Another one is. What is answered to the first is what may wait for clients that hold much, 96 MiB.
    let mut other = Client::new(&served.socket);
    other.write(4096, &[7; 512]);
    assert_eq!(other.read(4096, 512), [7; 512]);
    assert_eq!(served.report()["completed"], 3 + 2);
    let mut data = vec![0; 32 << 20];
    for cookie in cookies {
        assert_eq!(client.reply(), (0, cookie));
        client.stream.read_exact(&mut data).unwrap();
    }
    assert_eq!(data[4096..4608], [7; 512]);
    assert_eq!(other.read(4096, 512), [7; 512]);
}

#[test]
fn a_command_behind_reads_that_fail_is_heard_at_once() {
    let served = Served::new("in-place");
    served.inject(InjectedFault::BadSector(0));
    let mut client = Client::new(&served.socket);
    // They come together, so that no further byte wakes the server once it may hear the last one.
    let reads = (0..4).flat_map(|_| client.command(0, READ, 0, 32 << 20, &[])).collect::<Vec<u8>>();
    let all = [reads, client.command(0, FLUSH, 0, 0, &[])].concat();
    client.stream.write_all(&all).unwrap();
    assert_eq!([0; 5].map(|_| client.reply()), [(IO, 1), (IO, 2), (IO, 3), (IO, 4), (0, 5)]);
}

#[test]
fn a_socket_is_its_users_alone() {
    use std::os::unix::fs::PermissionsExt;
    let served = Served::new("in-place");
    let mode = std::fs::metadata(&served.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let socket = served.socket.clone();
    served.stop();
    assert!(!socket.exists(), "the socket goes with the server");
}

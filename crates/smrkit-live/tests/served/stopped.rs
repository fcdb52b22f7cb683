//! Servers that are asked to stop, and clients that ask for more than they take.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use smrkit::settings::Queue;
use smrkit::units::Nanos;
use smrkit_live::block::control::InjectedFault;
use smrkit_live::block::pace::Pace;
use tempfile::TempDir;

use super::client::{self, Client, READ, WRITE};
use super::protocol::option;
use super::{ServeOptions, Served, image, open_image};

const DEPTH: u64 = 32;
/// Time in which a server has to end: half of it is for what the drive has begun.
const SOON: Duration = Duration::from_secs(1);

/// Stops a server at the drive's own pace, under a client that goes on asking; errors that the client was told.
fn stop_under_load(layer: &str, fault: Option<InjectedFault>) -> usize {
    let folder = TempDir::new().unwrap();
    let path = image(folder.path(), layer);
    let options = ServeOptions { pace: Pace::Times(1.0), queue: Queue::Sptf };
    let served = Served::open(&path, options, None);
    let mut client = Client::new(&served.socket);
    let mut sent = 0;
    let mut send = move |client: &mut Client| {
        sent += 1;
        let words = client.command(0, WRITE, sent % 1000 * 900_000 / 512 * 512, 4096, &[1; 4096]);
        client.stream.write_all(&words).is_ok()
    };
    (0..DEPTH).for_each(|_| assert!(send(&mut client)));
    if let Some(fault) = fault {
        served.inject(fault);
    }
    let load = std::thread::spawn(move || {
        let (mut reply, mut errors) = ([0; 16], 0);
        while client.stream.read_exact(&mut reply).is_ok() {
            errors += usize::from(reply[4..8] != [0; 4]);
            send(&mut client);
        }
        errors
    });
    std::thread::sleep(Duration::from_millis(200));
    let begun = Instant::now();
    served.stop();
    assert!(begun.elapsed() < SOON, "{layer}, {fault:?}: {:?}", begun.elapsed());
    assert!(open_image(&path).was_clean);
    load.join().unwrap()
}

#[test]
fn a_paced_server_stops_at_once_under_load_and_closes_its_image() {
    for layer in ["drive-managed", "raid1:disks=2,layer=log"] {
        stop_under_load(layer, None);
        let errors = stop_under_load(layer, Some(InjectedFault::Slow(Nanos(3_600_000_000_000))));
        assert!(errors > 0, "{layer}: what the drive has begun and not ended fails");
    }
}

#[test]
fn a_client_is_served_while_others_have_asked_for_much() {
    let served = Served::new("in-place");
    let mut greedy: Vec<Client> = (0..8).map(|_| Client::new(&served.socket)).collect();
    for client in &mut greedy {
        for _ in 0..4 {
            client.send(0, READ, 0, 32 << 20, &[]);
        }
    }
    // They are gone before anything is read for them.
    drop(greedy);
    let begun = Instant::now();
    let mut other = Client::new(&served.socket);
    other.write(0, &[1; 512]);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let report = served.report();
    assert!(report["completed"].as_u64().unwrap() < 32, "reads of clients that are gone are left out: {report}");
}

/// Waits for it until the server's report says so.
fn wait_until(served: &Served, what: &str, holds: impl Fn(&serde_json::Value) -> bool) {
    let begun = Instant::now();
    while !holds(&served.report()) {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}: {}", served.report());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The drive will not end what they have asked for, and one has sent more than the server takes in.
#[test]
fn clients_that_hang_up_leave_neither_memory_nor_a_connection_behind() {
    let folder = TempDir::new().unwrap();
    let options = ServeOptions { pace: Pace::Times(1.0), queue: Queue::Fcfs };
    let served = Served::open(&image(folder.path(), "in-place"), options, None);
    served.inject(InjectedFault::Slow(Nanos(3_600_000_000_000)));
    for (reads, bytes) in [(3, 32 << 20), (6000, 512)] {
        let mut client = Client::new(&served.socket);
        let asked: Vec<u8> = (0..reads).flat_map(|_| client.command(0, READ, 0, bytes, &[])).collect();
        client.stream.write_all(&asked).unwrap();
        wait_until(&served, "heard", |report| report["waiting"].as_u64() >= Some(reads.min(1000)));
        drop(client);
        wait_until(&served, "gone", |report| report["clients"] == 0 && report["held_bytes"].as_u64() < Some(1 << 20));
    }
}

/// Clients of which half send no payload and half take no reply. Another one's small command is served at once; a long one when they have
/// been silent for ten seconds, and are closed.
pub fn share_memory<S: Read + Write>(served: &Served, connect: impl Fn() -> Client<S>) {
    let ask_much = |number: u16| {
        let mut client = connect();
        for _ in 0..4 {
            client.send(0, if number.is_multiple_of(2) { READ } else { WRITE }, 0, 32 << 20, &[]);
        }
        client
    };
    let greedy: Vec<Client<S>> = (0..4).map(ask_much).collect();
    let begun = Instant::now();
    let mut other = connect();
    other.write(0, &[1; 512]);
    assert!(begun.elapsed() < Duration::from_secs(5), "written after {:?}", begun.elapsed());
    let held = served.report()["held_bytes"].as_u64().unwrap();
    assert!(held < 129 << 20, "{held} bytes are held");
    assert_eq!(other.read(0, 32 << 20)[..512], [1; 512]);
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    drop(greedy);
}

#[test]
fn clients_hold_no_more_memory_together_than_one_may() {
    let served = Served::new("in-place");
    share_memory(&served, || Client::new(&served.socket));
}

/// The replies to many small reads take as much memory as those to a few long ones.
#[test]
fn clients_that_take_no_replies_shut_nobody_out() {
    let served = Served::new("in-place");
    let deaf: Vec<Client> = (0..62)
        .map(|_| {
            let mut client = Client::new(&served.socket);
            let reads: Vec<u8> = (0..2000).flat_map(|_| client.command(0, READ, 0, 4096, &[])).collect();
            client.stream.write_all(&reads).unwrap();
            client
        })
        .collect();
    // All that they may hold together: what is left is less than the other client asks for, and the reserve.
    let begun = Instant::now();
    while served.report()["held_bytes"].as_u64() < Some((96 << 20) - 8192) {
        assert!(begun.elapsed() < Duration::from_secs(60), "they hold little");
    }
    let begun = Instant::now();
    assert_eq!(Client::new(&served.socket).read(0, 65_536).len(), 65_536);
    assert!(begun.elapsed() < Duration::from_secs(5), "read after {:?}", begun.elapsed());
    drop(deaf);
}

/// At every moment one client has more commands in its socket than the server queues, or than it has time for.
#[test]
fn a_client_that_never_stops_asking_shuts_nobody_out() {
    const STATUS: u16 = 7;
    for (kind, bytes) in [(READ, 512), (STATUS, 16 << 20)] {
        let served = Served::new("in-place");
        let mut stream = client::connect(&served.socket);
        client::greet(&mut stream);
        let context = [&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 15], b"base:allocation".as_slice()].concat();
        stream.write_all(&[option(8, &[]), option(10, &context)].concat()).unwrap();
        stream.read_exact(&mut [0; 20 + 20 + 19 + 20]).unwrap();
        let mut busy = Client::of_export(stream);
        if kind == STATUS {
            let mut writer = Client::new(&served.socket);
            (0..2048).for_each(|at| writer.write(at * 8192, &[1; 4096]));
        }
        let asked: Vec<u8> = (0..4000).flat_map(|_| busy.command(0, kind, 0, bytes, &[])).collect();
        let mut replies = busy.stream.try_clone().unwrap();
        let taking = std::thread::spawn(move || drop(std::io::copy(&mut replies, &mut std::io::sink())));
        let asking = std::thread::spawn(move || while busy.stream.write_all(&asked).is_ok() {});
        std::thread::sleep(Duration::from_millis(200));
        let begun = Instant::now();
        assert_eq!(Client::new(&served.socket).read(4096, 512), [0; 512]);
        assert!(begun.elapsed() < Duration::from_secs(5), "{kind}: read after {:?}", begun.elapsed());
        served.stop();
        [taking, asking].into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn a_client_waits_for_a_place_until_another_hangs_up() {
    let served = Served::new("in-place");
    let mut idle: Vec<Client> = (0..64).map(|_| Client::new(&served.socket)).collect();
    let mut waiting = client::connect(&served.socket);
    waiting.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(waiting.read(&mut [0]).is_err(), "it is neither greeted nor closed");
    drop(idle.pop());
    waiting.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    waiting.read_exact(&mut [0; 18]).unwrap();
}

#[test]
fn handshakes_that_stay_mute_shut_nobody_out() {
    let served = Served::new("in-place");
    let _mute: Vec<_> = (0..364).map(|_| client::connect(&served.socket)).collect();
    Client::new(&served.socket).write(0, &[1; 512]);
}

/// Ten seconds of the wall clock.
#[test]
fn a_handshake_that_stays_mute_ends() {
    let served = Served::new("in-place");
    let [mut mute, mut idle] = [client::connect(&served.socket), Client::new(&served.socket).stream];
    let begun = Instant::now();
    let mut told = Vec::new();
    mute.read_to_end(&mut told).unwrap();
    assert!(told.len() == 18 && begun.elapsed() > Duration::from_secs(9), "the greeting, and the end");
    idle.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(idle.read(&mut [0]).is_err(), "it has said all that it has to say for now");
}

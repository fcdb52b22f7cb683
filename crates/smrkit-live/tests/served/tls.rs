//! Clients under TLS, those that do without, and those that misuse it.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use smrkit::settings::Queue;
use smrkit_live::block::drive::ServedDrive;
use smrkit_live::block::pace::Pace;
use smrkit_live::block::server::TlsCertificates;
use tempfile::TempDir;

use super::client::{self, Client, READ, WRITE, greet};
use super::protocol::option;
use super::stopped::share_memory;
use super::{Served, image, open_image};

const EXPORT_NAME: u32 = 1;
const START_TLS: u32 = 5;

/// Certificates of an authority for `localhost` and for a client, good until 2120.
fn certificates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tls")
}

/// A server that asks for TLS, and its clients for certificates.
fn serve() -> Served {
    let folder = TempDir::new().unwrap();
    let path = image(folder.path(), "in-place");
    let (drive, _) = ServedDrive::open(open_image(&path), None, Queue::Fcfs).unwrap();
    let certificates = TlsCertificates::read(&certificates()).unwrap();
    assert!(certificates.checks_clients);
    let mut served = Served::start_with(drive, &path.with_extension("sock"), Pace::None, Some(certificates));
    served.folder = Some(folder);
    served
}

/// A client that has been greeted, and has sent options.
fn say(served: &Served, options: &[Vec<u8>]) -> UnixStream {
    let mut stream = client::connect(&served.socket);
    greet(&mut stream);
    stream.write_all(&options.concat()).unwrap();
    stream
}

/// The kind of the reply to an option.
fn reply_kind(stream: &mut UnixStream) -> u32 {
    let mut head = [0; 20];
    stream.read_exact(&mut head).unwrap();
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    stream.read_exact(&mut vec![0; word(16) as usize]).unwrap();
    word(12)
}

/// A client that may begin TLS.
fn before_tls(served: &Served) -> UnixStream {
    let mut stream = say(served, &[option(START_TLS, &[])]);
    assert_eq!(reply_kind(&mut stream), 1);
    stream
}

/// A client under TLS, with a certificate or without.
fn under_tls(served: &Served, has_certificate: bool) -> StreamOwned<ClientConnection, UnixStream> {
    let at = |name: &str| certificates().join(name);
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(at("ca-cert.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let config = match has_certificate {
        true => {
            let chain = vec![CertificateDer::from_pem_file(at("client-cert.pem")).unwrap()];
            let key = PrivateKeyDer::from_pem_file(at("client-key.pem")).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
        false => builder.with_no_client_auth(),
    };
    let tls = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    StreamOwned::new(tls, before_tls(served))
}

fn client(served: &Served) -> Client<StreamOwned<ClientConnection, UnixStream>> {
    Client::of_export(under_tls(served, true))
}

#[test]
fn without_tls_a_client_learns_nothing_of_the_drive() {
    let served = serve();
    let mut stream =
        say(&served, &[option(3, &[]), option(6, &[0; 6]), option(7, &[0; 6]), option(8, &[]), option(2, &[])]);
    let kinds: Vec<u32> = (0..5).map(|_| reply_kind(&mut stream)).collect();
    assert_eq!(kinds, [0x8000_0005, 0x8000_0005, 0x8000_0005, 0x8000_0005, 1]);
    let mut told = Vec::new();
    say(&served, &[option(EXPORT_NAME, &[])]).read_to_end(&mut told).unwrap();
    assert!(told.is_empty(), "this option has no reply that refuses it: {told:?}");
    let without = Served::new("in-place");
    let refused = reply_kind(&mut say(&without, &[option(START_TLS, &[])]));
    assert_eq!(refused, 0x8000_0002, "a server without certificates");
}

/// Somebody between client and server could put it there.
#[test]
fn nothing_counts_that_comes_in_the_clear_behind_the_option() {
    let served = serve();
    let mut told = Vec::new();
    say(&served, &[option(START_TLS, &[]), option(EXPORT_NAME, &[])]).read_to_end(&mut told).unwrap();
    assert_eq!(told.len(), 20, "the reply to the first option, and the end");
}

#[test]
fn commands_and_data_go_under_tls() {
    let served = serve();
    let mut client = client(&served);
    let longest: Vec<u8> = (0..8u32 << 20).flat_map(u32::to_le_bytes).collect();
    client.write(4096, &longest);
    assert!(client.read(4096, longest.len()) == longest);
    client.flush();
    // Many in one piece: what the socket has no more of, TLS may still have.
    for payload in [512usize, 3584, 16_384, 65_536, 66_048] {
        let count = 200_000 / payload + 3;
        let mut words = Vec::new();
        for at in 0..count as u64 {
            words.extend(client.command(0, WRITE, at * payload as u64, payload as u32, &vec![at as u8 | 1; payload]));
        }
        client.stream.write_all(&words).unwrap();
        (0..count).for_each(|_| assert_eq!(client.reply().0, 0));
        let words: Vec<u8> = (0..count as u64)
            .flat_map(|at| client.command(0, READ, at * payload as u64, payload as u32, &[]))
            .collect();
        client.stream.write_all(&words).unwrap();
        for at in 0..count {
            assert_eq!(client.reply().0, 0);
            let mut data = vec![0; payload];
            client.stream.read_exact(&mut data).unwrap();
            assert!(data == vec![at as u8 | 1; payload], "{payload}: {at}");
        }
    }
    let mut stream = under_tls(&served, true);
    stream.write_all(&option(START_TLS, &[])).unwrap();
    let mut head = [0; 20];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(head[12..16], 0x8000_0003u32.to_be_bytes());
}

#[test]
fn who_has_no_certificate_or_speaks_no_tls_is_closed_and_others_go_on() {
    let served = serve();
    let mut stream = under_tls(&served, false);
    let refused = stream.write_all(&option(EXPORT_NAME, &[])).and_then(|()| stream.read_exact(&mut [0])).unwrap_err();
    // A connection that is closed before all of it was read is reset, and the alert may be lost with it.
    let is_reset = matches!(refused.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe);
    assert!(is_reset || refused.to_string().contains("CertificateRequired"), "{refused}");
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 70_000], &[22, 3, 1, 255, 255, 1, 0, 0, 0], &[0x16; 70_000]] {
        let mut stream = before_tls(&served);
        // It may be closed before all of it is sent.
        let _ = stream.write_all(garbage).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
        let begun = Instant::now();
        while stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
    client(&served).write(0, &[1; 512]);
    assert_eq!(served.report()["completed"], 1);
}

/// Ten seconds of the wall clock.
#[test]
fn those_that_stay_mute_in_the_midst_of_tls_shut_nobody_out_and_end() {
    let served = serve();
    let mut mute: Vec<UnixStream> = (0..64).map(|_| before_tls(&served)).collect();
    // One has begun to say hello.
    mute[63].write_all(&[22, 3, 1, 1, 0, 1]).unwrap();
    let begun = Instant::now();
    client(&served).write(0, &[1; 512]);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(mute[63].read(&mut [0]).unwrap(), 0);
    assert!(begun.elapsed() > Duration::from_secs(9));
}

#[test]
fn clients_under_tls_hold_no_more_memory_together_than_one_may() {
    let served = serve();
    share_memory(&served, || client(&served));
}

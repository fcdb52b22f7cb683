//! Sockets of clients, in the clear or under TLS 1.3 with certificates.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, ServerConfig, ServerConnection, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{Error, RootCertStore};

use crate::error::LiveError;

/// The server's certificate, and the authority whose certificates clients must have.
#[derive(Clone, Debug)]
pub struct TlsCertificates {
    config: Arc<ServerConfig>,
    /// True if clients need a certificate.
    pub checks_clients: bool,
}

impl TlsCertificates {
    /// Reads `server-cert.pem` and `server-key.pem` in `directory`, and the authority of clients in `ca-cert.pem`, if it exists. qemu-nbd and
    /// nbdkit use the same layout.
    pub fn read(directory: &Path) -> Result<TlsCertificates, LiveError> {
        let [certificate, key, authority] =
            ["server-cert.pem", "server-key.pem", "ca-cert.pem"].map(|name| directory.join(name));
        let unread = |path: &Path, error: PemError| match error {
            PemError::Io(error) => LiveError::io(path, error),
            error => LiveError::image(path, format!("{error}: give a PEM file")),
        };
        let certificates = |path: &Path| -> Result<Vec<CertificateDer<'static>>, LiveError> {
            CertificateDer::pem_file_iter(path).and_then(Iterator::collect).map_err(|error| unread(path, error))
        };
        let chain = certificates(&certificate)?;
        let private = PrivateKeyDer::from_pem_file(&key).map_err(|error| unread(&key, error))?;
        let unfit = |path: &Path, error: &dyn ToString| LiveError::image(path, error.to_string());
        let provider = Arc::new(ring::default_provider());
        let checks_clients = authority.exists();
        let verifier = match checks_clients {
            true => {
                let mut roots = RootCertStore::empty();
                let added = certificates(&authority)?.into_iter().try_for_each(|one| roots.add(one));
                added.map_err(|error| unfit(&authority, &error))?;
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
                verifier.map_err(|error| unfit(&authority, &error))?
            }
            false => WebPkiClientVerifier::no_client_auth(),
        };
        let made = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .and_then(|builder| builder.with_client_cert_verifier(verifier).with_single_cert(chain, private));
        let mut config = made.map_err(|error: Error| unfit(&certificate, &error))?;
        // A session lasts as long as the drive is in use, so that resuming it would save nothing.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(TlsCertificates { config: Arc::new(config), checks_clients })
    }
}

/// A nonblocking socket, with or without TLS. TLS buffers at most 64 KiB of output and one record of input.
pub struct Transport {
    socket: File,
    tls: Option<Box<ServerConnection>>,
    /// True if TLS may have buffered input, which polling the socket does not show.
    pub has_unread: bool,
}

impl Transport {
    pub fn new(socket: File) -> Transport {
        Transport { socket, tls: None, has_unread: false }
    }

    /// Begins TLS, with the client's hello.
    pub fn begin_tls(&mut self, certificates: &TlsCertificates) -> io::Result<()> {
        let tls = ServerConnection::new(certificates.config.clone()).map_err(io::Error::other)?;
        self.tls = Some(Box::new(tls));
        Ok(())
    }

    /// True if TLS has something to send.
    pub fn wants_to_send(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }
}

impl Read for Transport {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.socket.read(bytes) };
        self.has_unread = false;
        loop {
            match tls.reader().read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => {
                    self.has_unread = read.as_ref().is_ok_and(|&count| count == bytes.len());
                    return read;
                }
            }
            // At the end of the stream the reader returns an error, unless the client has sent close_notify.
            tls.read_tls(&mut self.socket)?;
            if let Err(error) = tls.process_new_packets() {
                // Sends the alert.
                let _ = tls.write_tls(&mut self.socket);
                return Err(io::Error::other(error));
            }
        }
    }
}

impl Write for Transport {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        // Sends earlier output first, so that TLS does not buffer more than the client receives.
        self.flush()?;
        let Some(tls) = &mut self.tls else { return self.socket.write_vectored(parts) };
        tls.writer().write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        while tls.wants_write() {
            tls.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

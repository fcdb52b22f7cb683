//! Sockets that listen for clients: of Unix, open to this user alone, or TCP.

use std::fmt::{self, Write as _};
use std::fs;
use std::io::{self, IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;

/// A connected socket that doesn't block.
pub enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    pub fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(bytes),
            Stream::Tcp(stream) => stream.read(bytes),
        }
    }

    pub fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write_vectored(parts),
            Stream::Tcp(stream) => stream.write_vectored(parts),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

/// A socket that listens for clients; one of Unix is removed in the end.
pub enum Listener {
    /// Of Unix, and its path.
    Unix(UnixListener, PathBuf),
    /// TCP.
    Tcp(TcpListener),
}

impl Listener {
    /// Listens at a path, for this user alone. A socket that nobody listens at any more is taken over.
    pub fn unix(path: &Path) -> io::Result<Listener> {
        let before = rustix::process::umask(Mode::from_raw_mode(0o177));
        let bound = UnixListener::bind(path).or_else(|error| {
            let is_left = error.kind() == io::ErrorKind::AddrInUse
                && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
            if !is_left {
                return Err(error);
            }
            fs::remove_file(path)?;
            UnixListener::bind(path)
        });
        rustix::process::umask(before);
        let listener = bound?;
        listener.set_nonblocking(true)?;
        Ok(Listener::Unix(listener, path.to_path_buf()))
    }

    /// Listens at an address such as `127.0.0.1:10809`.
    pub fn tcp(address: &str) -> io::Result<Listener> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Listener::Tcp(listener))
    }

    /// The next client that waits; none if there is none.
    pub fn accept(&self) -> io::Result<Option<Stream>> {
        let accepted = match self {
            Listener::Unix(listener, _) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
            Listener::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
        };
        match accepted {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
            Ok(Stream::Unix(stream)) => stream.set_nonblocking(true).map(|()| Some(Stream::Unix(stream))),
            Ok(Stream::Tcp(stream)) => {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                Ok(Some(Stream::Tcp(stream)))
            }
        }
    }
}

/// The URI that clients of NBD understand.
impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listener::Unix(_, path) => {
                f.write_str("nbd+unix:///?socket=")?;
                path.as_os_str().as_bytes().iter().try_for_each(|&byte| match byte {
                    b'/' | b'-' | b'.' | b'_' | b'~' => f.write_char(byte.into()),
                    _ if byte.is_ascii_alphanumeric() => f.write_char(byte.into()),
                    _ => write!(f, "%{byte:02X}"),
                })
            }
            Listener::Tcp(listener) => match listener.local_addr() {
                Ok(address) => write!(f, "nbd://{address}"),
                Err(_) => f.write_str("nbd://"),
            },
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix(listener, _) => listener.as_fd(),
            Listener::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            // Somebody may have taken it away already.
            let _ = fs::remove_file(path);
        }
    }
}

//! Listening sockets: Unix sockets that only this user can open, or TCP.

use std::env;
use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::process::geteuid;

/// A listening socket. A Unix socket is removed at the end, unless it was inherited.
pub enum Listener {
    /// A Unix socket. Unless it was inherited, with its path, and the device and inode that `bind` created there.
    Unix(UnixListener, Option<(PathBuf, (u64, u64))>),
    /// TCP.
    Tcp(TcpListener),
}

impl Listener {
    /// Listens at a path, for this user alone. A socket that a dead server left there is replaced; any other file is refused.
    pub fn unix(path: &Path) -> io::Result<Listener> {
        let before = rustix::process::umask(Mode::from_raw_mode(0o177));
        let bound = UnixListener::bind(path).or_else(|error| match error.kind() {
            io::ErrorKind::AddrInUse => {
                remove_dead_socket(path)?;
                UnixListener::bind(path)
            }
            // The standard library's message names no remedy.
            io::ErrorKind::InvalidInput => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a socket's path has 107 bytes at most: give a shorter one (unix:PATH)",
            )),
            _ => Err(error),
        });
        rustix::process::umask(before);
        let listener = bound?;
        listener.set_nonblocking(true)?;
        Ok(Listener::Unix(listener, Some((path.to_path_buf(), identity(path)?))))
    }

    /// Listens at an address such as `127.0.0.1:10809`.
    pub fn tcp(address: &str) -> io::Result<Listener> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Listener::Tcp(listener))
    }

    /// The socket that systemd (or a compatible program) has passed to this process, if any.
    pub fn inherited() -> Option<io::Result<Listener>> {
        let is_ours = env::var("LISTEN_PID").ok()?.parse() == Ok(std::process::id());
        let count = env::var("LISTEN_FDS").ok().filter(|_| is_ours)?;
        if count != "1" {
            let problem = format!("{count} sockets were passed on by LISTEN_FDS: pass one");
            return Some(Err(io::Error::new(io::ErrorKind::InvalidInput, problem)));
        }
        Some(Listener::of_first_descriptor())
    }

    /// The first descriptor that a process inherits by the protocol of `sd_listen_fds(3)`.
    #[allow(unsafe_code)]
    fn of_first_descriptor() -> io::Result<Listener> {
        // SAFETY: LISTEN_PID names this process, so descriptor 3 was passed to it, and nothing else here uses it.
        let unix = UnixListener::from(unsafe { OwnedFd::from_raw_fd(3) });
        unix.set_nonblocking(true)?;
        match unix.local_addr() {
            Ok(_) => Ok(Listener::Unix(unix, None)),
            // Its address is no Unix path.
            Err(_) => Ok(Listener::Tcp(TcpListener::from(OwnedFd::from(unix)))),
        }
    }

    /// Accepts the next waiting client, if any, as a nonblocking socket.
    pub fn accept(&self) -> io::Result<Option<File>> {
        let accepted = match self {
            Listener::Unix(listener, _) => listener.accept().map(|(stream, _)| OwnedFd::from(stream)),
            Listener::Tcp(listener) => listener.accept().and_then(|(stream, _)| {
                stream.set_nodelay(true)?;
                Ok(stream.into())
            }),
        };
        match accepted {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
            Ok(stream) => {
                rustix::io::ioctl_fionbio(&stream, true)?;
                Ok(Some(stream.into()))
            }
        }
    }
}

/// The URI that clients of NBD understand.
impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listener::Unix(listener, _) => {
                f.write_str("nbd+unix:///?socket=")?;
                let address = listener.local_addr().ok();
                let path = address.as_ref().and_then(|address| address.as_pathname()).unwrap_or(Path::new(""));
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
            Listener::Unix(listener, ..) => listener.as_fd(),
            Listener::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, Some((path, made))) = self
            && identity(path).is_ok_and(|found| found == *made)
        {
            // Another server may have replaced it in between: it is not missed then.
            let _ = fs::remove_file(path);
        }
    }
}

/// Device and inode of what is at a path; of a link itself.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Removes the socket of a dead server. `connect` fails with the same error for dead sockets and regular files, so the type is checked first.
fn remove_dead_socket(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    let is_socket = found.file_type().is_socket();
    // Root could remove another user's socket, but should not do so unasked.
    if !is_socket || found.uid() != geteuid().as_raw() {
        let what = if is_socket { "another user's socket" } else { "a file that is no socket" };
        let problem = format!("{what} is there: give another path for the socket, or remove it");
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, problem));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there: give another path")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_socket_is_replaced_and_a_live_one_is_not() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("socket");
        drop(UnixListener::bind(&path).unwrap());
        let listener = Listener::unix(&path).unwrap();
        assert!(Listener::unix(&path).is_err_and(|error| error.to_string().contains("another server")));
        UnixStream::connect(&path).unwrap();
        // Somebody else's socket by now: the first server must leave it.
        fs::remove_file(&path).unwrap();
        let other = UnixListener::bind(&path).unwrap();
        drop(listener);
        UnixStream::connect(&path).unwrap();
        drop(other);
        drop(Listener::unix(&path).unwrap());
        assert!(!path.exists());
        drop(UnixListener::bind(&path).unwrap());
        // Only root can make it another user's.
        if std::os::unix::fs::lchown(&path, Some(65_534), None).is_ok() {
            assert!(Listener::unix(&path).is_err_and(|error| error.to_string().contains("another user's socket")));
            assert!(path.exists());
        }
        let long = folder.path().join("s".repeat(120));
        assert!(Listener::unix(&long).is_err_and(|error| error.to_string().contains("give a shorter one")));
    }
}

//! Publishes the report of a served drive for Prometheus: in a file that is replaced every few seconds, or over HTTP at a socket.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use serde_json::Value;
use smrkit::error::Error;

use super::control::{ControlRequest, Controller, ask};
use super::nbd::Listener;
use super::pace::timespec;

/// Interval of writes of the file. Prometheus scrapes every 15 s by default (assumption).
const INTERVAL: Duration = Duration::from_secs(5);
/// How long a scraper may take to send its request and receive the reply (assumption).
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of checks whether the server has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Most scrapers at a time. If another one connects, the oldest connection is closed (assumption).
const SCRAPERS_MAX: usize = 16;
/// Most bytes of a scraper's request.
const REQUEST_BYTES: usize = 8192;
/// The first bytes of a metrics file. A file that begins otherwise is never replaced.
const BEGINNING: &[u8] = b"# HELP smrkit_";

/// Where to publish the metrics.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricsTarget {
    /// A file.
    File(PathBuf),
    /// A Unix socket, by its path.
    Unix(PathBuf),
    /// An address and a port.
    Tcp(String),
}

impl FromStr for MetricsTarget {
    type Err = Error;
    fn from_str(text: &str) -> Result<MetricsTarget, Error> {
        // A server in the background changes its working directory.
        let path = |path: &str| std::path::absolute(path).map_err(|error| Error::Usage(format!("'{text}': {error}")));
        let is_port = text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        match text.strip_prefix("unix:") {
            Some(socket) => Ok(MetricsTarget::Unix(path(socket)?)),
            None if is_port && !text.contains('/') => Ok(MetricsTarget::Tcp(text.into())),
            None => Ok(MetricsTarget::File(path(text)?)),
        }
    }
}

impl fmt::Display for MetricsTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetricsTarget::File(path) | MetricsTarget::Unix(path) => path.display().fmt(f),
            MetricsTarget::Tcp(address) => f.write_str(address),
        }
    }
}

/// A thread that publishes metrics until this is dropped.
pub struct Metrics {
    /// The file, if the target is one.
    file: Option<PathBuf>,
    /// Formats a report.
    text: fn(&Value) -> String,
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Metrics {
    /// Publishes the server's report, formatted by `text`. Errors: another file is at the path, or the address can't be bound.
    pub fn publish(target: &MetricsTarget, controller: Controller, text: fn(&Value) -> String) -> io::Result<Metrics> {
        let report = move || {
            let report = ask(&controller, ControlRequest::Report, |report| report);
            if report["error"].is_null() { Some(text(&report)) } else { None }
        };
        let (stop, stopped) = mpsc::channel::<()>();
        let publish: Box<dyn FnOnce() + Send> = match target {
            MetricsTarget::File(path) => {
                refuse_other(path)?;
                // Reports at once if the directory can't be written to.
                create_beside(path).and_then(|(_, new)| fs::remove_file(new))?;
                let path = path.clone();
                Box::new(move || {
                    while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                        // An error is ignored: the next write may succeed, and the server should not end for it.
                        report().into_iter().for_each(|text| drop(replace(&path, &text)));
                    }
                })
            }
            MetricsTarget::Unix(path) => {
                let listener = Listener::unix(path)?;
                Box::new(move || answer_scrapers(&listener, &stopped, &report))
            }
            MetricsTarget::Tcp(address) => {
                let listener = Listener::tcp(address)?;
                Box::new(move || answer_scrapers(&listener, &stopped, &report))
            }
        };
        let file = if let MetricsTarget::File(path) = target { Some(path.clone()) } else { None };
        let thread = thread::Builder::new().name("metrics".into()).spawn(publish)?;
        Ok(Metrics { file, text, thread: Some((stop, thread)) })
    }

    /// Stops publishing, and writes the last report if the target is a file.
    pub fn finish(mut self, report: &Value) -> io::Result<()> {
        self.end();
        self.file.as_ref().map_or(Ok(()), |path| replace(path, &(self.text)(report)))
    }

    fn end(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.end();
    }
}

/// Refuses a path with a file that holds no metrics.
fn refuse_other(path: &Path) -> io::Result<()> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let mut begins = [0; BEGINNING.len()];
    match File::options().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(file) if file.read_exact_at(&mut begins, 0).is_ok() && begins == BEGINNING => Ok(()),
        _ => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "something else is there: give another path for metrics"))
        }
    }
}

/// Replaces the file atomically, so that nobody reads half of it.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    refuse_other(path)?;
    let (mut file, new) = create_beside(path)?;
    file.write_all(text.as_bytes()).and_then(|()| fs::rename(&new, path)).inspect_err(|_| drop(fs::remove_file(&new)))
}

/// Creates a temporary file beside `path`, and removes one that is already there.
fn create_beside(path: &Path) -> io::Result<(File, PathBuf)> {
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{}", std::process::id()));
    let new = PathBuf::from(new);
    let _ = fs::remove_file(&new);
    Ok((File::create_new(&new)?, new))
}

/// A client of the metrics socket.
struct Scraper {
    client: File,
    /// What it has sent so far.
    request: Vec<u8>,
    deadline: Instant,
}

/// Answers the clients of a metrics socket until the server has ended.
fn answer_scrapers(listener: &Listener, stopped: &Receiver<()>, report: &dyn Fn() -> Option<String>) {
    let mut scrapers: Vec<Scraper> = Vec::new();
    while stopped.try_recv() == Err(TryRecvError::Empty) {
        let clients = scrapers.iter().map(|scraper| PollFd::new(&scraper.client, PollFlags::IN));
        let mut files: Vec<PollFd> = clients.chain([PollFd::new(listener, PollFlags::IN)]).collect();
        let _ = rustix::event::poll(&mut files, Some(&timespec(POLL_INTERVAL)));
        let ready: Vec<bool> = files.iter().map(|file| !file.revents().is_empty()).collect();
        let mut is_ready = ready.into_iter();
        // Scrapers that hang up or send nothing are dropped.
        scrapers.retain_mut(|scraper| match is_ready.next() {
            Some(true) => scraper.receive(report).unwrap_or(false),
            _ => Instant::now() < scraper.deadline,
        });
        match listener.accept() {
            Ok(Some(client)) => {
                if scrapers.len() == SCRAPERS_MAX {
                    scrapers.remove(0);
                }
                scrapers.push(Scraper { client, request: Vec::new(), deadline: Instant::now() + SCRAPE_TIMEOUT });
            }
            Ok(None) => {}
            // Most likely too many files are open, so that trying again at once would not help.
            Err(_) => thread::sleep(POLL_INTERVAL),
        }
    }
}

impl Scraper {
    /// Receives a part of the request, and replies when it is complete. Returns false if the client has hung up or got its reply.
    fn receive(&mut self, report: &dyn Fn() -> Option<String>) -> io::Result<bool> {
        let mut bytes = [0; 1024];
        let count = self.client.read(&mut bytes)?;
        self.request.extend_from_slice(&bytes[..count]);
        if self.request.windows(4).any(|end| end == b"\r\n\r\n") || self.request.len() >= REQUEST_BYTES {
            answer(&self.client, &self.request, self.deadline, report)?;
            return Ok(false);
        }
        Ok(count > 0)
    }
}

/// Sends a scraper its reply.
fn answer(mut client: &File, request: &[u8], deadline: Instant, report: &dyn Fn() -> Option<String>) -> io::Result<()> {
    let (status, text) = match report() {
        _ if !request.starts_with(b"GET ") => ("405 Method Not Allowed", String::new()),
        Some(text) => ("200 OK", text),
        None => ("503 Service Unavailable", String::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    let reply = head + &text;
    let mut left = reply.as_bytes();
    while !left.is_empty() {
        // The socket does not block: a client that takes nothing has to be given up at the deadline.
        let timeout = timespec(deadline.saturating_duration_since(Instant::now()));
        if rustix::event::poll(&mut [PollFd::new(client, PollFlags::OUT)], Some(&timeout))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        left = &left[client.write(left)?..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_socket_a_port_or_else_a_file() {
        let of = |text: &str| text.parse::<MetricsTarget>().unwrap();
        assert_eq!(of("unix:/run/m"), MetricsTarget::Unix("/run/m".into()));
        for address in ["127.0.0.1:9100", "[::1]:9100", "localhost:0"] {
            assert_eq!(of(address), MetricsTarget::Tcp(address.into()));
        }
        for file in ["/tmp/a:9100", "/tmp/a.prom", "/tmp/70000:70000"] {
            assert_eq!(of(file), MetricsTarget::File(file.into()));
        }
        assert!(matches!(of("a.prom"), MetricsTarget::File(path) if path.is_absolute()));
    }

    #[test]
    fn no_file_that_holds_something_else_is_replaced() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("m");
        replace(&path, "# HELP smrkit_drive_info What it is.\n").unwrap();
        replace(&path, "# HELP smrkit_drive_info 2\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "# HELP smrkit_drive_info 2\n");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(replace(&link, "").is_err());
        // A link at the name of the new file leads nowhere.
        let (_, new) = create_beside(&path).unwrap();
        fs::remove_file(&new).unwrap();
        std::os::unix::fs::symlink(&link, &new).unwrap();
        replace(&path, "# HELP smrkit_drive_info 3\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "# HELP smrkit_drive_info 3\n");
        assert!(fs::read_link(&link).is_ok() && !new.exists());
        for other in ["", "thesis", "# HELP node_load1\n"] {
            fs::write(&path, other).unwrap();
            assert!(replace(&path, "new").unwrap_err().to_string().contains("another path"));
            assert_eq!(fs::read_to_string(&path).unwrap(), other);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}

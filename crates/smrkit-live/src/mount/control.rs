//! The control socket: a line of JSON for each command, and a line for each reply.
//!
//! `{"command": "report"}` tells usage and statistics, `survey` what lies where; `unmount`, `sync`, `keep`, `kept`,
//! `scrub` and `inject` (with a `fault`) do something. An answer has `"ok": true` or an `"error"`.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::MountError;
use super::run_directory;

/// Request of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ControlCommand {
    /// Report on the mount: its files, its fill and its counters.
    Report,
    /// Survey of the disk ([`crate::survey`]).
    Survey,
    /// Unmounts, and answers when all is durable and the image is free.
    Unmount {
        /// True to unmount even if some data can't be saved.
        #[serde(default)]
        give_up: bool,
    },
    /// Makes everything durable.
    Sync,
    /// Makes everything durable and keeps it unchanged, so that it can be copied: the directory until the client's next line, the image's data until
    /// the client hangs up.
    Keep,
    /// Fails if some of the data is no longer kept.
    Kept,
    /// Reads all live data, and answers with what can't be read.
    Scrub,
    /// Injects a fault into a served drive.
    Inject {
        /// The fault, as text.
        fault: String,
    },
}

/// Longest line that a client may send.
const LINE_BYTES_MAX: u64 = 4096;
/// Time for which an ending daemon waits until a client has read its reply (assumption).
const REPLY_LIMIT: Duration = Duration::from_secs(5);
/// The pause after a connection that could not be accepted (assumption).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A connection to the daemon of a mount.
pub struct ControlClient {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

impl ControlClient {
    /// Connects to the daemon that serves `mount_point` ([`super::canonical`]).
    pub fn connect(mount_point: &Path) -> Result<ControlClient, MountError> {
        let client = ControlClient::reach(run_directory::socket(mount_point)?)?;
        client.ok_or_else(|| MountError::NotMounted(mount_point.to_path_buf()))
    }

    /// Connects to the socket at `path`; `None` if no process listens there.
    fn reach(path: PathBuf) -> Result<Option<ControlClient>, MountError> {
        match UnixStream::connect(&path) {
            Ok(stream) => Ok(Some(ControlClient { path, stream: BufReader::new(stream) })),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
                Ok(None)
            }
            Err(error) => Err(MountError::Control { path, error }),
        }
    }

    /// Asks, and waits for the answer.
    pub fn ask(&mut self, command: ControlCommand) -> Result<Value, MountError> {
        let answer = self.exchange(command).map_err(|error| MountError::Control { path: self.path.clone(), error })?;
        match answer.get("error").and_then(Value::as_str) {
            Some(_) if answer["ending"] == true => Err(MountError::Ending),
            Some(error) => {
                if answer["ended"] == true {
                    self.wait_for_end();
                }
                Err(MountError::Daemon(error.to_string()))
            }
            None => Ok(answer),
        }
    }

    /// Waits until the daemon has ended.
    pub fn wait_for_end(&mut self) {
        // However the connection ends, it has.
        let _ = io::copy(&mut self.stream, &mut io::sink());
    }

    fn exchange(&mut self, command: ControlCommand) -> io::Result<Value> {
        send(self.stream.get_mut(), &serde_json::to_value(command)?)?;
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the daemon ended without an answer; see its log",
            ));
        }
        Ok(serde_json::from_str(&line)?)
    }
}

/// Reports of this user's mounts, in the order of their mount points. Left out are mounts that end in the meantime, and processes that send no
/// report, such as a served drive that is busy.
pub fn mounts() -> Result<Vec<Value>, MountError> {
    let mut reports = Vec::new();
    for path in run_directory::sockets()? {
        let Some(mut client) = ControlClient::reach(path)? else { continue };
        match client.ask(ControlCommand::Report) {
            Err(MountError::Ending | MountError::Control { .. } | MountError::Daemon(_)) => {}
            report => reports.push(report?),
        }
    }
    // A served drive is no mount.
    reports.retain(|report| report["kind"] != "drive");
    reports.sort_by_key(|report| value_path(&report["mount_point"]));
    Ok(reports)
}

/// True if a daemon serves that mount point.
pub fn is_alive(mount_point: &Path) -> bool {
    ControlClient::connect(mount_point).is_ok()
}

/// A reply, and senders that are dropped to signal what the client has done since.
pub(crate) struct ControlReply {
    pub value: Value,
    /// Dropped once the answer has been sent.
    pub until_sent: Option<Sender<()>>,
    /// Dropped at the client's next line, or when it hangs up.
    pub until_next: Option<Sender<()>>,
    /// Dropped when the client hangs up.
    pub until_end: Option<Box<dyn Send>>,
}

impl From<Value> for ControlReply {
    fn from(value: Value) -> ControlReply {
        ControlReply { value, until_sent: None, until_next: None, until_end: None }
    }
}

impl ControlReply {
    /// Makes the reply to a client that waits for the daemon's end. `pass_on` hands the client to the thread that ends the daemon.
    pub(crate) fn of_end(pass_on: impl FnOnce(EndClient)) -> ControlReply {
        let (outcome, result) = mpsc::channel();
        let (until_sent, reply_sent) = mpsc::channel();
        pass_on(EndClient { outcome, reply_sent });
        // Without an outcome, the thread has ended the daemon already.
        let value = result.recv().unwrap_or_else(|_| ending());
        ControlReply { until_sent: Some(until_sent), ..value.into() }
    }
}

/// A client that waits until a daemon has ended.
#[derive(Debug)]
pub struct EndClient {
    /// Receives the reply.
    outcome: Sender<Value>,
    /// Disconnected once the reply was sent.
    reply_sent: Receiver<()>,
}

impl EndClient {
    /// Reports the outcome to the client, and waits until the reply was sent.
    pub fn tell<E: ToString>(self, ended: &Result<(), E>) {
        let reply = match ended {
            Ok(()) => done(),
            Err(error) => json!({"error": error.to_string(), "ended": true}),
        };
        // A client that has gone does not matter; one that does not listen is not waited for.
        let _ = self.outcome.send(reply);
        let _ = self.reply_sent.recv_timeout(REPLY_LIMIT);
    }

    /// Reports that the daemon does not end.
    pub(super) fn refuse(self, error: &MountError) {
        let _ = self.outcome.send(failure(error));
    }
}

/// The daemon's side of the socket. Dropping it removes the socket; clients that are connected stay connected.
pub struct ControlServer {
    path: PathBuf,
}

impl ControlServer {
    /// Listens for clients of `mount_point`, and calls `answer` with their commands, on a thread for each client.
    pub(crate) fn start(
        mount_point: &Path,
        answer: impl Fn(ControlCommand) -> ControlReply + Clone + Send + 'static,
    ) -> Result<ControlServer, MountError> {
        let path = run_directory::socket(mount_point)?;
        let failed = |error| MountError::Control { path: path.clone(), error };
        // A daemon that was killed may have left it. The caller has checked that none is alive.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(failed)?;
        // The directory keeps others out already.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        thread::Builder::new()
            .name("control".to_string())
            .spawn(move || {
                for stream in listener.incoming() {
                    let Ok(stream) = stream else {
                        // Most likely too many files are open, so that trying again at once would not help.
                        thread::sleep(ACCEPT_PAUSE);
                        continue;
                    };
                    let answer = answer.clone();
                    // Without a thread the client sees its connection close.
                    let _ = thread::Builder::new().name("client".to_string()).spawn(move || serve(stream, answer));
                }
            })
            .map_err(failed)?;
        Ok(ControlServer { path })
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn serve(stream: UnixStream, answer: impl Fn(ControlCommand) -> ControlReply) {
    let mut reader = BufReader::new(stream);
    let (mut until_next, mut until_end) = (None, Vec::new());
    loop {
        let mut line = Vec::new();
        match io::Read::take(&mut reader, LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        drop(until_next.take());
        let reply = match serde_json::from_slice(&line) {
            Ok(command) => answer(command),
            Err(error) => failure(format!("not understood: {error}")).into(),
        };
        until_next = reply.until_next;
        until_end.extend(reply.until_end);
        // The rest of a line that is too long would be taken for another command.
        let is_sent = send(reader.get_mut(), &reply.value).is_ok();
        drop(reply.until_sent);
        if !is_sent || !line.ends_with(b"\n") {
            return;
        }
    }
}

fn send(stream: &mut UnixStream, value: &Value) -> io::Result<()> {
    stream.write_all((value.to_string() + "\n").as_bytes())
}

/// A path in JSON: text, or an array of its bytes if they are not UTF-8.
pub fn path_value(path: &Path) -> Value {
    path.to_str().map_or_else(|| json!(path.as_os_str().as_bytes()), |text| json!(text))
}

/// The path of a value that [`path_value`] made.
pub fn value_path(value: &Value) -> Option<PathBuf> {
    match value {
        Value::String(text) => Some(PathBuf::from(text)),
        Value::Array(bytes) => {
            let bytes: Option<Vec<u8>> = bytes.iter().map(|byte| byte.as_u64()?.try_into().ok()).collect();
            Some(PathBuf::from(OsString::from_vec(bytes?)))
        }
        _ => None,
    }
}

/// Appends the fields of another record.
pub fn joined(mut record: Value, more: Value) -> Value {
    if let (Value::Object(record), Value::Object(more)) = (&mut record, more) {
        record.extend(more);
    }
    record
}

/// The reply to a command that failed.
pub(crate) fn failure(what: impl ToString) -> Value {
    json!({"error": what.to_string()})
}

/// The reply of a mount that is about to end.
pub(crate) fn ending() -> Value {
    json!({"error": MountError::Ending.to_string(), "ending": true})
}

/// The reply to a command that was carried out.
pub(crate) fn done() -> Value {
    json!({"ok": true})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connected(answer: impl Fn(ControlCommand) -> ControlReply + Send + 'static) -> ControlClient {
        let (ours, theirs) = UnixStream::pair().unwrap();
        thread::spawn(move || serve(theirs, answer));
        ControlClient { path: PathBuf::new(), stream: BufReader::new(ours) }
    }

    /// All answers to what is sent, until the server hangs up or has nothing more to say.
    fn answers(sent: &[u8]) -> Vec<Value> {
        let mut client = connected(|_| done().into());
        // It may have hung up before it has read all.
        let _ = client.stream.get_mut().write_all(sent);
        let _ = client.stream.get_mut().shutdown(std::net::Shutdown::Write);
        client.stream.lines().map_while(Result::ok).map(|line| serde_json::from_str(&line).unwrap()).collect()
    }

    #[test]
    fn what_is_no_command_gets_one_answer_that_says_so() {
        for garbage in
            [&b"\xff\xfe\n"[..], b"\n", b"{\"command\":\"erase\"}\n", b"{\"command\":\"report\"", &[b'x'; 3 * 4096]]
        {
            let answers = answers(garbage);
            assert_eq!(answers.len(), 1, "{answers:?}");
            assert!(answers[0]["error"].as_str().unwrap().contains("not understood"));
        }
        let sent = b"what?\n{\"command\":\"report\"}\n{\"command\":\"sync\"}";
        let answers = answers(sent);
        assert_eq!(answers.iter().map(|answer| answer["ok"] == true).collect::<Vec<_>>(), [false, true, true]);
    }

    #[test]
    fn a_path_survives_json_whatever_its_bytes_are() {
        for bytes in [&b"/srv/disk.img"[..], b"/srv/\xff\xfe.img"] {
            let path = PathBuf::from(OsString::from_vec(bytes.to_vec()));
            assert_eq!(value_path(&path_value(&path)), Some(path));
        }
        assert_eq!(value_path(&json!([256])), None);
    }

    #[test]
    fn a_mount_that_is_ending_is_told_from_one_that_fails() {
        let mut client = connected(|command| match command {
            ControlCommand::Sync => failure("a broken disk").into(),
            _ => ending().into(),
        });
        assert!(matches!(client.ask(ControlCommand::Report), Err(MountError::Ending)));
        assert!(matches!(client.ask(ControlCommand::Sync), Err(MountError::Daemon(_))));
    }
}

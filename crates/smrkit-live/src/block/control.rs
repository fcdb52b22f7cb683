//! Control requests to the server: reports, faults and its end. They come over the control socket of an image, or from a signal.
//!
//! A request is sent over a channel, and a byte on a socket wakes the server, which polls that socket beside those of its clients.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use serde_json::Value;
use smrkit::error::Error;
use smrkit::names::known;
use smrkit::quantity::{exact_duration, parse_count, parse_duration, parse_number};
use smrkit::request::Op;
use smrkit::units::Nanos;

use crate::mount::MountError;
use crate::mount::control::{ControlCommand, ControlReply, ControlServer, EndClient, done, ending, failure};

/// How long to wait for the reply of a busy server (assumption).
const REPLY_TIMEOUT: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 20_000 });

/// A fault that is injected into a drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InjectedFault {
    /// The power is cut at the next physical write. The seed decides how much of it reaches the platters.
    PowerCut(u64),
    /// Reads of a sector fail until it is written.
    BadSector(u64),
    /// The next request takes this much longer.
    Slow(Nanos),
    /// The next command never gets a reply.
    Timeout,
    /// This much of the drive's time passes at once, without commands.
    Idle(Nanos),
    /// A member of an array fails.
    FailMember(u32),
    /// A new drive replaces a failed member.
    ReplaceMember(u32),
    /// Commands that match fail or read wrong data.
    Aimed(AimedFault),
    /// Cancels aimed faults, and makes all sectors readable.
    Clear,
}

const FAULTS: [&str; 10] =
    ["power-cut", "bad-sector", "slow", "timeout", "idle", "fail", "corrupt", "clear", "fail-member", "replace-member"];

/// A fault of commands that match an operation and a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AimedFault {
    /// True if reads return wrong data; false if commands fail.
    pub corrupts: bool,
    /// The operation that fails; all if `None`.
    pub op: Option<Op>,
    /// First sector of the range that commands must touch. Flushes match any range.
    pub first: u64,
    /// End of the range, exclusive.
    pub end: u64,
    /// Most commands that fail.
    pub count: u64,
    /// Only every nth command that matches fails.
    pub every: u64,
    /// Probability that such an nth command fails.
    pub probability: f64,
}

impl AimedFault {
    const OPS: [Op; 4] = [Op::Read, Op::Write, Op::Flush, Op::Discard];

    fn parse(text: &str, corrupts: bool, words: &str) -> Result<AimedFault, Error> {
        let mut fault = AimedFault {
            corrupts,
            op: corrupts.then_some(Op::Read),
            first: 0,
            end: u64::MAX,
            count: u64::MAX,
            every: 1,
            probability: 1.0,
        };
        for word in words.split_whitespace() {
            let wrong = || {
                let known = "read, write, flush or discard, lba=FIRST..END, count=N, every=N, probability=P";
                Error::Usage(format!("'{text}': `{word}` is none of {known}"))
            };
            let op = AimedFault::OPS.into_iter().find(|op| op.name() == word);
            match (op, word.split_once('=')) {
                (Some(_), _) if fault.op.is_some() && !corrupts => {
                    let problem = "one operation at most: inject a fault for each, or leave it out for all";
                    return Err(Error::Usage(format!("'{text}': {problem}")));
                }
                (Some(op), _) if !corrupts => fault.op = Some(op),
                (_, Some(("lba", range))) => {
                    let (first, end) = range.split_once("..").ok_or_else(wrong)?;
                    (fault.first, fault.end) = (parse_count(first)?, parse_count(end)?);
                    if fault.first >= fault.end {
                        let problem = "no sector is in that range: the end comes after the last one";
                        return Err(Error::Usage(format!("'{text}': {problem}")));
                    }
                }
                (_, Some(("count", count))) => fault.count = parse_count(count)?,
                (_, Some(("every", every))) => fault.every = parse_count(every)?.max(1),
                (_, Some(("probability", share))) => {
                    fault.probability = parse_number(share)?;
                    if !(0.0..=1.0).contains(&fault.probability) {
                        return Err(wrong());
                    }
                }
                _ => return Err(wrong()),
            }
        }
        Ok(fault)
    }
}

impl fmt::Display for AimedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.corrupts { "corrupt" } else { "fail" })?;
        if let (Some(op), false) = (self.op, self.corrupts) {
            write!(f, " {}", op.name())?;
        }
        if (self.first, self.end) != (0, u64::MAX) {
            write!(f, " lba={}..{}", self.first, self.end)?;
        }
        if self.count < u64::MAX {
            write!(f, " count={}", self.count)?;
        }
        if self.every > 1 {
            write!(f, " every={}", self.every)?;
        }
        if self.probability < 1.0 {
            write!(f, " probability={}", self.probability)?;
        }
        Ok(())
    }
}

impl fmt::Display for InjectedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InjectedFault::PowerCut(seed) => write!(f, "power-cut {seed}"),
            InjectedFault::BadSector(lba) => write!(f, "bad-sector {lba}"),
            InjectedFault::Slow(span) => write!(f, "slow {}", exact_duration(*span)),
            InjectedFault::Timeout => f.write_str("timeout"),
            InjectedFault::Idle(span) => write!(f, "idle {}", exact_duration(*span)),
            InjectedFault::FailMember(disk) => write!(f, "fail-member {disk}"),
            InjectedFault::ReplaceMember(disk) => write!(f, "replace-member {disk}"),
            InjectedFault::Aimed(fault) => fault.fmt(f),
            InjectedFault::Clear => f.write_str("clear"),
        }
    }
}

impl FromStr for InjectedFault {
    type Err = Error;
    fn from_str(text: &str) -> Result<InjectedFault, Error> {
        let (name, value) = text.split_once(' ').unwrap_or((text, ""));
        let number = |default: Option<u64>| match (value, default) {
            ("", Some(default)) => Ok(default),
            _ => {
                parse_count(value).map_err(|_| Error::Usage(format!("'{text}': expected a whole number after {name}")))
            }
        };
        let member = || number(None).map(|disk| u32::try_from(disk).unwrap_or(u32::MAX));
        match name {
            "fail-member" => Ok(InjectedFault::FailMember(member()?)),
            "replace-member" => Ok(InjectedFault::ReplaceMember(member()?)),
            "power-cut" => Ok(InjectedFault::PowerCut(number(Some(1))?)),
            "bad-sector" => Ok(InjectedFault::BadSector(number(None)?)),
            "slow" | "idle" if value.is_empty() => {
                Err(Error::Usage(format!("'{text}': the duration is missing: {name} TIME, as in {name} 8s")))
            }
            "slow" => Ok(InjectedFault::Slow(parse_duration(value)?)),
            "idle" => Ok(InjectedFault::Idle(parse_duration(value)?)),
            "timeout" if value.is_empty() => Ok(InjectedFault::Timeout),
            "clear" if value.is_empty() => Ok(InjectedFault::Clear),
            "timeout" | "clear" => Err(Error::Usage(format!("'{text}': {name} takes nothing more"))),
            "fail" => AimedFault::parse(text, false, value).map(InjectedFault::Aimed),
            "corrupt" => AimedFault::parse(text, true, value).map(InjectedFault::Aimed),
            _ => Err(Error::Usage(format!("'{text}': {}", known(name, FAULTS.into_iter())))),
        }
    }
}

/// A request to the server from another thread.
#[derive(Debug)]
pub enum ControlRequest {
    /// End soon; at the second request, end now.
    Stop,
    /// End, too, and reply how the image was closed.
    End(EndClient),
    /// Inject a fault.
    Inject(InjectedFault, Sender<Result<(), String>>),
    /// Report on the drive and its queue.
    Report(Sender<Value>),
}

/// The server's end of a channel, with a socket that wakes it.
pub struct WakingReceiver<T> {
    pub(super) receiver: Receiver<T>,
    woken: UnixStream,
}

impl<T> WakingReceiver<T> {
    /// Takes all messages.
    pub(super) fn receive(&self) -> impl Iterator<Item = T> {
        let mut bytes = [0; 64];
        while (&self.woken).read(&mut bytes).is_ok_and(|count| count == bytes.len()) {}
        self.receiver.try_iter()
    }
}

/// Becomes readable when a message arrives.
impl<T> AsFd for WakingReceiver<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }
}

/// Sends messages to a server that may be asleep in poll, and wakes it.
pub struct WakingSender<T> {
    sender: Sender<T>,
    waker: Arc<UnixStream>,
}

impl<T> Clone for WakingSender<T> {
    fn clone(&self) -> WakingSender<T> {
        WakingSender { sender: self.sender.clone(), waker: self.waker.clone() }
    }
}

impl<T> WakingSender<T> {
    /// Sends a message. It is dropped if the server has ended.
    pub fn send(&self, message: T) {
        let _ = self.sender.send(message);
        // May fail because the socket is full of bytes that are not read yet. Those wake the server as well.
        let _ = (&*self.waker).write(&[1]);
    }
}

/// A channel to a server that may be asleep in poll.
pub(super) fn waking_channel<T>() -> io::Result<(WakingSender<T>, WakingReceiver<T>)> {
    let (sender, receiver) = mpsc::channel();
    let (waker, woken) = UnixStream::pair()?;
    waker.set_nonblocking(true)?;
    woken.set_nonblocking(true)?;
    Ok((WakingSender { sender, waker: Arc::new(waker) }, WakingReceiver { receiver, woken }))
}

/// Sends requests to a server.
pub type Controller = WakingSender<ControlRequest>;
/// The requests to a server.
pub type ControlRequests = WakingReceiver<ControlRequest>;

/// Both ends of a channel for control requests.
pub fn control() -> io::Result<(Controller, ControlRequests)> {
    waking_channel()
}

/// Listens at the control socket of `image` ([`crate::mount::canonical`]), and passes requests on to the server.
///
/// Before a request to end, `detach` is called. If it fails, the server goes on.
pub fn listen(
    image: &Path,
    controller: &Controller,
    detach: impl Fn() -> Result<(), String> + Clone + Send + 'static,
) -> Result<ControlServer, MountError> {
    let controller = controller.clone();
    ControlServer::start(image, move |command| answer(&controller, &detach, command))
}

fn answer(controller: &Controller, detach: &dyn Fn() -> Result<(), String>, command: ControlCommand) -> ControlReply {
    match command {
        ControlCommand::Report => ask(controller, ControlRequest::Report, |report| report),
        ControlCommand::Inject { fault } => match fault.parse::<InjectedFault>() {
            Ok(fault) => {
                let request = |reply| ControlRequest::Inject(fault, reply);
                ask(controller, request, |injected| injected.map_or_else(failure, |()| done()))
            }
            Err(error) => failure(error),
        },
        ControlCommand::Unmount { .. } => match detach() {
            Ok(()) => return ControlReply::of_end(|client| controller.send(ControlRequest::End(client))),
            Err(error) => failure(error),
        },
        _ => failure("a served drive is no file system: serve it, mount what is on it, and ask there"),
    }
    .into()
}

/// Sends a request to the server and waits for the reply, at most for `REPLY_TIMEOUT`.
pub(super) fn ask<T>(
    controller: &Controller,
    request: impl FnOnce(Sender<T>) -> ControlRequest,
    reply: impl FnOnce(T) -> Value,
) -> Value {
    let (sender, receiver) = mpsc::channel();
    controller.send(request(sender));
    match receiver.recv_timeout(REPLY_TIMEOUT) {
        Ok(answer) => reply(answer),
        Err(RecvTimeoutError::Disconnected) => ending(),
        Err(RecvTimeoutError::Timeout) => failure("the drive is busy, and does what was asked after that"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_server_keeps_nobody_waiting_for_its_report() {
        let (controller, server) = control().unwrap();
        let reply = ask(&controller, ControlRequest::Report, |report| report);
        assert!(reply["error"].as_str().unwrap().contains("the drive is busy"), "{reply}");
        drop(server);
        assert_eq!(ask(&controller, ControlRequest::Report, |report| report), ending());
    }

    #[test]
    fn faults_are_named_as_they_are_asked_for() {
        let table = [
            ("power-cut 7", InjectedFault::PowerCut(7)),
            ("bad-sector 90", InjectedFault::BadSector(90)),
            ("slow 30ms", InjectedFault::Slow(Nanos(30_000_000))),
            ("timeout", InjectedFault::Timeout),
            ("idle 1h", InjectedFault::Idle(Nanos(3_600_000_000_000))),
            ("clear", InjectedFault::Clear),
            ("fail-member 2", InjectedFault::FailMember(2)),
            ("replace-member 2", InjectedFault::ReplaceMember(2)),
        ];
        for (name, fault) in table {
            assert_eq!((fault.to_string().as_str(), name.parse::<InjectedFault>().unwrap()), (name, fault));
        }
        let aimed = [
            "fail",
            "fail flush",
            "fail write lba=8..16 count=3 every=2 probability=0.25",
            "corrupt",
            "corrupt lba=0..100 count=1",
        ];
        for text in aimed {
            assert_eq!(text.parse::<InjectedFault>().unwrap().to_string(), text);
        }
        let read = ["power-cut", "power-cut 1k", "bad-sector 1_000"].map(|text| text.parse::<InjectedFault>().unwrap());
        assert_eq!(read, [InjectedFault::PowerCut(1), InjectedFault::PowerCut(1000), InjectedFault::BadSector(1000)]);
        for (wrong, remedy) in [
            ("power-cut soon", "expected a whole number after power-cut"),
            ("bad-sector", "expected a whole number after bad-sector"),
            ("bad-sector -1", "expected a whole number after bad-sector"),
            ("slow", "the duration is missing: slow TIME, as in slow 8s"),
            ("timeout 5", "timeout takes nothing more"),
            ("idle", "the duration is missing: idle TIME"),
            ("clear 1", "clear takes nothing more"),
            ("fail reads", "`reads` is none of read, write"),
            ("fail read write", "one operation at most"),
            ("fail lba=8..8", "no sector is in that range"),
            ("fail lba=8", "`lba=8` is none of"),
            ("fail probability=2", "`probability=2` is none of"),
            ("corrupt write", "`write` is none of"),
            ("fail-member", "expected a whole number after fail-member"),
            ("powr-cut", "did you mean `power-cut`?"),
            (
                "fire",
                "known: power-cut, bad-sector, slow, timeout, idle, fail, corrupt, clear, fail-member, replace-member",
            ),
        ] {
            let said = wrong.parse::<InjectedFault>().unwrap_err().to_string();
            assert!(said.contains(wrong) && said.contains(remedy), "{said}");
        }
        assert!("slow soon".parse::<InjectedFault>().is_err());
    }
}

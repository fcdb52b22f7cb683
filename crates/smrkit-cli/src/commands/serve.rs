//! `smrkit serve`: serves a drive in an image as a block device, to NBD clients or to this machine's kernel.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::str::FromStr;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use anyhow::Context;
use clap::Args;
use serde_json::Value;
use smrkit::error::Error;
use smrkit::schema::{Switch, ValueKind};
use smrkit::settings::Queue;
use smrkit_live::block::control::{ControlRequest, Controller, control, listen};
use smrkit_live::block::drive::ServedDrive;
use smrkit_live::block::image::{self, DriveImage};
use smrkit_live::block::log::{FoundState, LogWriter};
use smrkit_live::block::metrics::{Metrics, MetricsTarget};
use smrkit_live::block::pace::Pace;
use smrkit_live::block::server::{DriveServer, Frontend, Listener, TlsCertificates, UblkDevice};
use smrkit_options::value::one_of;
use smrkit_report::{activity, metrics};
use tempfile::TempDir;

use super::create::DriveChoice;
use crate::exit::Done;
use crate::interrupt::handle_signals;
use crate::output::{print, print_json};

/// Address at which clients find the drive.
#[derive(Clone, Debug)]
enum Listen {
    Unix(PathBuf),
    Tcp(String),
}

impl Listen {
    fn parse(text: &str) -> Result<Listen, Error> {
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Listen::Unix(path.into())),
            Some(("tcp", address)) if address.contains(':') => Ok(Listen::Tcp(address.into())),
            _ => Err(Error::Usage(format!("'{text}': expected unix:PATH or tcp:ADDRESS:PORT, as tcp:127.0.0.1:10809"))),
        }
    }
}

/// Options of serving a drive, over NBD or attached.
#[derive(Args)]
pub struct DriveOptions {
    /// Speed of the drive's time: none, so that replies come at once; real; or X times as fast as real time.
    #[arg(long, value_name = "none|real|X", value_parser = Pace::from_str, default_value = "real")]
    pace: Pace,
    /// Order in which waiting commands are served [default: drive].
    #[arg(long, value_parser = one_of(&Queue::ALL))]
    queue: Option<Queue>,
    /// Log every request with its times, as a trace and for smrkit replay. If the file is moved away, a new one begins.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Publish metrics for Prometheus: in a file, or by HTTP at a socket or a port.
    #[arg(long, value_name = "FILE|unix:SOCKET|HOST:PORT", value_parser = MetricsTarget::from_str)]
    metrics: Option<MetricsTarget>,
    /// Let a flush wait until the image is durable on the host, too. Off: a crash of the host may lose what was
    /// flushed, and its disk never delays a reply.
    #[arg(long, value_name = "on|off", value_parser = |text: &str| Switch.read(text, true), default_value = "on", action = clap::ArgAction::Set)]
    durable: bool,
    /// Refuse writes. The drive's state stays as it is.
    #[arg(long)]
    read_only: bool,
    #[command(flatten)]
    choice: DriveChoice,
}

impl DriveOptions {
    /// Opens the drive in `image`; returns it and its pace. Errors: it is host-managed, and `shows_zones` is false.
    pub fn open(&self, image: &Path, shows_zones: bool) -> anyhow::Result<(ServedDrive, Pace)> {
        let open = if self.read_only { DriveImage::open_to_read } else { DriveImage::open };
        let image = open(image, |sectors| self.choice.record(Some(sectors)).map(Some))?;
        if !shows_zones && image::is_host_managed(&image.system) {
            let remedy = "a host sees no zones over NBD or on a loop device, so that it can't keep to a host-managed disk's rules: \
                          use smrkit serve --ublk, or create the drive with dm-zoned or zone-log";
            return Err(Error::Impossible(remedy.into()).into());
        }
        match &image.note {
            Some(note) if image::is_host_managed(&image.system) && !self.choice.is_made() => {
                let problem =
                    "and would forget up to where each zone is written: serve it with the smrkit that saved it";
                return Err(Error::Impossible(format!("{note}, {problem}")).into());
            }
            Some(note) => eprintln!("smrkit: {note}"),
            None if self.choice.is_made() => {
                let state_path = image::state_path(&image.path).display().to_string();
                let problem = format!("{state_path} says which drive it is: leave out the options of create");
                return Err(Error::Usage(problem).into());
            }
            None => {}
        }
        let log = self.log.as_deref().map(|path| LogWriter::open(path, &image.run)).transpose()?;
        // The default of smrkit run, too, so that a run and a server predict the same.
        let (mut drive, found) = ServedDrive::open(image, log, self.queue.unwrap_or_default())?;
        if found == FoundState::Recovered {
            let path = drive.image.path.display();
            eprintln!("smrkit: {path} was not closed cleanly: the drive goes on after the last request in {path}.smr");
        }
        drive.is_durable = self.durable;
        Ok((drive, self.pace))
    }

    /// Publishes the server's reports as metrics, if that is asked for.
    pub fn publish(&self, controller: &Controller) -> anyhow::Result<Option<Metrics>> {
        if let Some(MetricsTarget::Tcp(address)) = &self.metrics
            && !["127.", "[::1]", "localhost:"].iter().any(|own| address.starts_with(own))
        {
            eprintln!("smrkit: anyone who reaches {address} can read the metrics, and the image's path in them");
        }
        let publish =
            |target| Metrics::publish(target, controller.clone(), metrics::text).with_context(|| target.to_string());
        self.metrics.as_ref().map(publish).transpose()
    }
}

/// Writes the last metrics. A failure is only printed, as the drive has ended.
pub(super) fn finish_metrics(metrics: Option<Metrics>, report: &Value) {
    if let Some(Err(error)) = metrics.map(|metrics| metrics.finish(report)) {
        eprintln!("smrkit: the metrics can't be written: {error}");
    }
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit serve disk.img --listen unix:/tmp/disk.sock
  smrkit serve disk.img --pace real --queue drive --log disk.log
  smrkit serve disk.img -- qemu-img info '$uri'                 runs the command, and stops with its status
  smrkit serve zoned.img --ublk -- blkzone report '$uri'        a block device with zones (root, Linux 6.6 on)")]
pub struct Serve {
    /// The image, made by smrkit create; or any raw file or block device.
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    #[command(flatten)]
    how: DriveOptions,
    /// Address for clients [default: the socket that systemd passes on, else unix:IMAGE.sock].
    #[arg(long, value_name = "unix:PATH|tcp:ADDRESS:PORT", value_parser = Listen::parse)]
    listen: Option<Listen>,
    /// Serve clients only over TLS, with server-cert.pem and server-key.pem from this directory. If it has ca-cert.pem,
    /// a client needs a certificate of that authority; else everybody is served.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "ublk")]
    tls_certificates: Option<PathBuf>,
    /// Make a block device (/dev/ublkbN) instead, with zones if the drive is host-managed. For root, on Linux from 6.5
    /// on, or 6.6 for zones.
    #[arg(long, conflicts_with = "listen")]
    ublk: bool,
    /// At the end, print what the drive did as JSON.
    #[arg(long)]
    json: bool,
    /// A command to run with the drive's address as $uri, which is the device of --ublk; its end is the server's.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Serve {
    pub fn execute(self) -> anyhow::Result<Done> {
        let image = image::canonical(&self.image)?;
        // The socket is opened before the image is marked as in use, so that an address in use is reported first.
        let inherited = if self.ublk { None } else { Listener::inherited().transpose()? };
        let is_inherited = inherited.is_some();
        let tls = self.tls_certificates.as_deref().map(TlsCertificates::read).transpose()?;
        let nbd = if self.ublk { None } else { Some(self.listener(inherited, tls.as_ref())?) };
        let (controller, requests) = control().context("a pair of sockets")?;
        let metrics = self.how.publish(&controller)?;
        let (drive, pace) = self.how.open(&self.image, self.ublk)?;
        let _socket = listen(&image, &controller, || Ok(()))?;
        let stop = controller.clone();
        handle_signals(move || stop.send(ControlRequest::Stop))?;
        let (tell_uri, uri) = mpsc::channel();
        let (frontend, _socket_directory) = match nbd {
            Some((listener, socket_directory)) => {
                let uri = listener.to_string();
                let _ = tell_uri.send(if tls.is_some() { uri.replacen("nbd", "nbds", 1) } else { uri });
                (Frontend::Nbd(listener), socket_directory)
            }
            None => {
                let ready = move |device: &Path| drop(tell_uri.send(device.display().to_string()));
                (Frontend::Ublk(Box::new(UblkDevice::new(&drive, ready)?)), None)
            }
        };
        // A process that passed a socket on knows its address, and may use standard output for something else.
        let is_silent = is_inherited && self.command.is_empty();
        // Started before the server raises its priority, which the command would inherit.
        let command = (!is_silent).then(|| self.start(uri, controller));
        let mut server = DriveServer::new(drive, frontend, pace);
        if let Some(tls) = tls {
            server.require_tls(tls);
        }
        let (report, closed) = server.run(requests);
        print_report(&report);
        finish_metrics(metrics, &report);
        if self.json {
            print_json(&report)?;
        }
        closed?;
        let Some(command) = command else { return Ok(Done::All) };
        let status = command.join().map_err(|_| anyhow::anyhow!("the command could not be waited for"))??;
        Ok(status.map_or(Done::All, |status| Done::Code(status.code().map_or(1, |code| code as u8))))
    }

    /// Opens the socket. Returns it and, if it is there for one command, the temporary directory that holds it.
    fn listener(
        &self,
        inherited: Option<Listener>,
        tls: Option<&TlsCertificates>,
    ) -> anyhow::Result<(Listener, Option<TempDir>)> {
        if let Some(inherited) = inherited {
            let is_alone = self.listen.is_none() && self.command.is_empty();
            let problem = "a socket was passed on by LISTEN_FDS: leave out --listen and the command";
            return if is_alone { Ok((inherited, None)) } else { Err(Error::Usage(problem.into()).into()) };
        }
        let at_path = |path: &Path| Listener::unix(path).with_context(|| path.display().to_string());
        let listener = match &self.listen {
            Some(Listen::Unix(path)) => at_path(&std::path::absolute(path)?)?,
            Some(Listen::Tcp(address)) => {
                let listener = Listener::tcp(address).with_context(|| address.clone())?;
                let lack = match tls {
                    None => Some("there is no password and no TLS (--tls-certificates has both)"),
                    Some(tls) if tls.checks_clients => None,
                    Some(_) => Some("without ca-cert.pem, no certificate is asked for"),
                };
                if let Some(lack) = lack {
                    eprintln!("smrkit: anyone who reaches {address} can read and write the drive: {lack}");
                }
                listener
            }
            None if !self.command.is_empty() => {
                let directory = tempfile::tempdir().context("a directory for the socket")?;
                return Ok((at_path(&directory.path().join("nbd.sock"))?, Some(directory)));
            }
            None => {
                let mut path = std::path::absolute(&self.image)?.into_os_string();
                path.push(".sock");
                at_path(Path::new(&path))?
            }
        };
        Ok((listener, None))
    }

    /// Prints the drive's address once it is known; or, if there is a command, runs it with the address, asks the server to stop, and returns
    /// the command's status.
    fn start(
        &self,
        uri: Receiver<String>,
        controller: Controller,
    ) -> thread::JoinHandle<anyhow::Result<Option<ExitStatus>>> {
        let words = self.command.clone();
        thread::spawn(move || {
            // There is no address if the device could not be made, which the server reports.
            let Ok(uri) = uri.recv() else { return Ok(None) };
            let mut command = match &words[..] {
                [] => {
                    let printed = print(format!("{uri}\n")).map(|()| None);
                    return printed.inspect_err(|_| controller.send(ControlRequest::Stop));
                }
                [line] => {
                    let mut shell = Command::new("sh");
                    shell.arg("-c").arg(line);
                    shell
                }
                [program, arguments @ ..] => {
                    let mut command = Command::new(program);
                    command.args(arguments.iter().map(|argument| with_uri(argument, &uri)));
                    command
                }
            };
            let status = command.env("uri", uri).status().with_context(|| words[0].display().to_string());
            controller.send(ControlRequest::Stop);
            status.map(Some)
        })
    }
}

/// An argument with the address in place of `$uri`.
fn with_uri(argument: &OsString, uri: &str) -> OsString {
    argument.to_str().map_or_else(|| argument.clone(), |text| text.replace("${uri}", uri).replace("$uri", uri).into())
}

/// Prints the drive's activity, if it had any requests.
pub fn print_report(report: &Value) {
    if report["completed"] != 0 || report["has_failed"] == true {
        eprint!("{}", activity::page(report, None));
    }
}

#[cfg(test)]
#[path = "../../tests/units/serve.rs"]
mod tests;

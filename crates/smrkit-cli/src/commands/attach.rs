//! `smrkit attach` and `smrkit detach`: a drive in an image as a file and a loop device, served in the background.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use smrkit::error::Error;
use smrkit_live::block::attached::{self, Attached};
use smrkit_live::block::control::{ControlRequest, Controller, control, listen};
use smrkit_live::block::image;
use smrkit_live::block::server::{DriveServer, Frontend};
use smrkit_live::daemon::{self, Started};
use smrkit_live::mount::control::{ControlClient, ControlCommand};
use smrkit_live::mount::{self, MountError, run_directory};

use smrkit_report::activity;

use super::serve::{DriveOptions, finish_metrics, print_report};
use crate::exit;
use crate::interrupt::handle_signals;
use crate::invocation;
use crate::output::{print, print_as};

/// A second signal counts only after this time (assumption): a closed terminal, and systemd, may send two at once.
const SECOND_SIGNAL_AFTER: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  smrkit attach disk.img                       prints /dev/loopN (root), or the path of a file
  smrkit attach disk.img --pace none --log disk.log
  smrkit detach disk.img";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Attach {
    /// The image, made by smrkit create.
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    #[command(flatten)]
    how: DriveOptions,
    /// Stay in the foreground.
    #[arg(long)]
    foreground: bool,
    /// Serve, as the process in the background.
    #[arg(long, hide = true, conflicts_with = "foreground")]
    daemon: bool,
}

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Detach {
    /// The image that is attached, or served.
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// Print what the drive did as JSON.
    #[arg(long)]
    json: bool,
}

impl Attach {
    pub fn execute(self) -> anyhow::Result<()> {
        let image = image::canonical(&self.image)?;
        if !self.foreground && !self.daemon {
            let file = mount_directory(&image)?.join("disk");
            // The file of a killed server is removed instead.
            if file.exists() && ControlClient::connect(&image).is_ok() {
                let problem =
                    format!("attached already, as {}: use that, or detach it (smrkit detach)", shown(&file).display());
                return Err(Error::input(&image, problem).into());
            }
            invocation::start_daemon("attach", invocation::arguments("attach"), &run_directory::log(&image)?)?;
            return print(format!("{}\n", shown(&mount_directory(&image)?.join("disk")).display()));
        }
        let served = self.serve(&image);
        if let (Err(error), true) = (&served, self.daemon) {
            daemon::tell(&exit::failed(error))?;
        }
        served
    }

    /// Serves until it is detached, or a signal comes.
    fn serve(&self, image: &Path) -> anyhow::Result<()> {
        mount::check_system()?;
        let (controller, requests) = control().context("a pair of sockets")?;
        let metrics = self.how.publish(&controller)?;
        let (drive, pace) = self.how.open(image, false)?;
        if self.daemon {
            // Only now, because all of the user's paths, which may be relative, have been opened.
            daemon::detach()?;
        }
        let (file, file_requests) = attached::file_of(&drive).context("a pair of sockets")?;
        let server = DriveServer::new(drive, Frontend::File(file_requests), pace);
        let serving = thread::spawn(move || server.run(requests));
        let attached =
            Attached::new(file, &mount_directory(image)?).inspect_err(|_| controller.send(ControlRequest::Stop));
        let attached = match attached {
            Ok(attached) => Arc::new(Mutex::new(attached)),
            Err(error) => {
                // Waits until the image is closed, before the failure is reported.
                let _ = serving.join();
                return Err(error).context("the drive can't be shown as a file or a loop device");
            }
        };
        let to_detach = attached.clone();
        let detach = move || to_detach.lock().unwrap_or_else(PoisonError::into_inner).detach();
        let _socket = listen(image, &controller, detach)?;
        let lock = || attached.lock().unwrap_or_else(PoisonError::into_inner);
        stop_at_signals(controller, attached.clone())?;
        match self.daemon {
            true => daemon::tell(&Started::Ready)?,
            false => {
                let attached = lock();
                print(format!("{}\n", attached.device().unwrap_or(&attached.file()).display()))?;
            }
        }
        let (report, closed) = serving.join().map_err(|_| anyhow::anyhow!("the server has failed"))?;
        lock().end();
        print_report(&report);
        finish_metrics(metrics, &report);
        closed?;
        Ok(())
    }
}

/// Stops the server at a signal, but while the device is in use only at a second one.
fn stop_at_signals(server: Controller, attached: Arc<Mutex<Attached>>) -> anyhow::Result<()> {
    let is_forced = attached.lock().unwrap_or_else(PoisonError::into_inner).is_forced.clone();
    let mut first_signal: Option<Instant> = None;
    handle_signals(move || {
        // If the lock is taken, detach waits for users of the device, which is then not mounted any more.
        let is_in_use = attached.try_lock().is_ok_and(|attached| attached.is_taken());
        match first_signal {
            Some(at) if is_in_use && at.elapsed() < SECOND_SIGNAL_AFTER => {}
            None if is_in_use => {
                first_signal = Some(Instant::now());
                eprintln!(
                    "smrkit: the device is in use: unmount what is on it, or take it out of its array; a second signal ends it all the same"
                );
            }
            // Requests fail from now on, so that users of the device end soon.
            None => {
                first_signal = Some(Instant::now());
                server.send(ControlRequest::Stop);
            }
            Some(_) => {
                is_forced.store(true, Ordering::Relaxed);
                server.send(ControlRequest::Stop);
                // A second stop does not wait for requests in flight.
                server.send(ControlRequest::Stop);
            }
        }
    })
}

/// The directory, beside the control socket, where the drive in an image is mounted as a file.
fn mount_directory(image: &Path) -> Result<PathBuf, MountError> {
    Ok(run_directory::socket(image)?.with_extension("mnt"))
}

/// The loop device on a file, or the file itself if there is none.
fn shown(file: &Path) -> PathBuf {
    let mut ask = Program::new("losetup");
    ask.args(["--noheadings", "--output", "NAME", "--associated"]).arg(file);
    let device = ask.output().map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string());
    device.ok().filter(|name| !name.is_empty()).map_or_else(|| file.to_path_buf(), PathBuf::from)
}

impl Detach {
    pub fn execute(self) -> anyhow::Result<()> {
        // A drive whose image is gone is found by its name.
        let image = match self.image.canonicalize() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let path = std::path::absolute(&self.image)?;
                match (path.parent().map(Path::canonicalize), path.file_name()) {
                    (Some(Ok(folder)), Some(name)) => folder.join(name),
                    _ => path,
                }
            }
            _ => image::canonical(&self.image)?,
        };
        let mut client = match ControlClient::connect(&image) {
            // The mount of a killed process is removed.
            Err(MountError::NotMounted(_)) if attached::clear(&mount_directory(&image)?)? => return Ok(()),
            Err(MountError::NotMounted(path)) => {
                return Err(Error::input(path, "not attached: nothing is to be done").into());
            }
            client => client?,
        };
        // A drive that is too busy gives no report, and is detached all the same.
        let report = client.ask(ControlCommand::Report).ok();
        client.ask(ControlCommand::Unmount { give_up: false })?;
        client.wait_for_end();
        if let Some(report) = report {
            print_as(self.json, || &report, || activity::page(&report, None))?;
        }
        Ok(())
    }
}

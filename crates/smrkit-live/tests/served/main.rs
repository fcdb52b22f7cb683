//! Served drives, as hosts see them: clients of NBD, ours and others', against drives under every layer.

mod client;
mod clients;
#[path = "../../../smrkit/tests/common/count.rs"]
mod count;
mod data;
mod durable;
mod faults;
mod protocol;
mod paths;
mod replayed;
mod room;
mod stopped;
mod tls;
mod zones;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use serde_json::Value;
use smrkit::device::spec::ArraySpec;
use smrkit::experiment::system::AskedCapacity;
use smrkit::experiment::system::{System, Systems};
use smrkit::settings::{Queue, Settings};
use smrkit_live::block::control::{ControlRequest, Controller, InjectedFault, control};
use smrkit_live::block::drive::ServedDrive;
use smrkit_live::block::image::{self, DriveImage};
use smrkit_live::block::log::LogWriter;
use smrkit_live::block::pace::Pace;
use smrkit_live::block::server::{DriveServer, Frontend, Listener, TlsCertificates};
use tempfile::TempDir;

const LAYERS: [&str; 14] = [
    "in-place",
    "rmw",
    "set-assoc",
    "s-block",
    "drive-managed",
    "vguard",
    "track-map",
    "smart",
    "log",
    "dm-zoned",
    "zone-log",
    "imr",
    "host-aware",
    "h-swd",
];

/// Arrays of drives of 1 GB: every kind, and layers that recover in different ways.
const ARRAYS: [&str; 6] = [
    "raid5:disks=4,chunk=16KiB,layer=drive-managed",
    "raid1:disks=2,layer=log",
    "raid10:disks=3,chunk=16KiB,layer=s-block",
    "raid6:disks=5,chunk=8KiB,layer=vguard",
    "raid0:disks=3,chunk=16KiB,layer=drive-managed",
    "span:disks=2,layer=in-place",
];

/// Drives with a write cache of their own.
const CACHED: [&str; 2] = ["in-place on st8000as0002", "drive-managed on st8000as0002"];

/// An image of a drive of 1 GB, or 8 GB, under `layer`, whose regions are small, or of an array.
fn image(folder: &Path, layer: &str) -> PathBuf {
    let path = folder.join("drive.img");
    let (layer, drive) = layer.split_once(" on ").unwrap_or((layer, "st5000as0011"));
    let system = match ArraySpec::parse(layer) {
        Ok(array) => System::array(array).and_drive("st5000as0011"),
        // Layers on zones are for host-managed disks.
        Err(_) if ["dm-zoned", "zone-log"].contains(&layer) => System::drive("wdc-2tb").layer(layer),
        Err(_) => System::drive(drive).layer(layer),
    };
    // smart keeps tracks of each recording zone free.
    let sectors = if layer == "smart" { 16_000_000 } else { 2_000_000 };
    let mut system = system.capacity(AskedCapacity::Sectors(sectors));
    if matches!(layer, "rmw" | "set-assoc" | "h-swd") {
        system = system.set(&format!("{layer}.region_sectors"), 4096);
    }
    let planned = Systems::new(&system).unwrap().runs(&[Settings::default()], None).unwrap().pop().unwrap();
    image::create(&path, image::complete_record(&planned), false).unwrap();
    path
}

/// Opens an image that was made.
fn open_image(path: &Path) -> DriveImage {
    DriveImage::open(path, |_| Ok(None)).unwrap()
}

/// Opens the drive in an image that was made.
fn open_drive(path: &Path) -> ServedDrive {
    ServedDrive::open(open_image(path), None, Queue::Fcfs).unwrap().0
}

/// Checks the drive's maps, or those of an array's drives.
fn check_image(path: &Path) {
    let drive = open_drive(path);
    drive.check().unwrap();
    drive.close().unwrap();
}

/// Pace and order of a served drive.
#[derive(Clone, Copy, Default)]
struct ServeOptions {
    pace: Pace,
    queue: Queue,
}

/// A server in a thread, until it is stopped or dropped.
struct Served {
    socket: PathBuf,
    uri: String,
    controller: Controller,
    serving: Option<JoinHandle<Value>>,
    /// Folder of the image, if it is this server's own.
    folder: Option<TempDir>,
}

impl Served {
    /// Serves a new drive as fast as it goes.
    fn new(layer: &str) -> Served {
        Served::ordered(layer, Queue::Fcfs)
    }

    /// Serves a new drive as fast as it goes, in this order.
    fn ordered(layer: &str, queue: Queue) -> Served {
        // What an address must not have in it as it is.
        let folder = tempfile::Builder::new().prefix("100% of a drive? #1 & ").tempdir().unwrap();
        let path = image(folder.path(), layer);
        let mut served = Served::open(&path, ServeOptions { pace: Pace::None, queue }, None);
        served.folder = Some(folder);
        served
    }

    /// Serves the image at `path`.
    fn open(path: &Path, options: ServeOptions, log: Option<&Path>) -> Served {
        let image = open_image(path);
        let log = log.map(|log| LogWriter::open(log, &image.run).unwrap());
        let socket = path.with_extension("sock");
        let (drive, _) = ServedDrive::open(image, log, options.queue).unwrap();
        Served::start(drive, &socket, options.pace)
    }

    /// Serves a drive at `socket`.
    fn start(drive: ServedDrive, socket: &Path, pace: Pace) -> Served {
        Served::start_with(drive, socket, pace, None)
    }

    fn start_with(drive: ServedDrive, socket: &Path, pace: Pace, tls: Option<TlsCertificates>) -> Served {
        let listener = Listener::unix(socket).unwrap();
        let uri = listener.to_string();
        let (controller, requests) = control().unwrap();
        let serving = std::thread::spawn(move || {
            let mut server = DriveServer::new(drive, Frontend::Nbd(listener), pace);
            tls.into_iter().for_each(|tls| server.require_tls(tls));
            let (report, closed) = server.run(requests);
            if report["has_failed"] == false {
                closed.unwrap();
            }
            report
        });
        Served { socket: socket.into(), uri, controller, serving: Some(serving), folder: None }
    }

    fn inject(&self, fault: InjectedFault) {
        self.ask(|sender| ControlRequest::Inject(fault, sender)).unwrap();
    }

    fn report(&self) -> Value {
        self.ask(ControlRequest::Report)
    }

    fn ask<T>(&self, request: impl FnOnce(Sender<T>) -> ControlRequest) -> T {
        let (sender, answer) = channel();
        self.controller.send(request(sender));
        answer.recv().unwrap()
    }

    fn stop(mut self) -> Value {
        self.controller.send(ControlRequest::Stop);
        self.serving.take().unwrap().join().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.controller.send(ControlRequest::Stop);
        if let Some(serving) = self.serving.take() {
            // A test that fails already need not hear of this too.
            let _ = serving.join();
        }
        drop(self.folder.take());
    }
}

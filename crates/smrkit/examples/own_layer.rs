//! A layer of one's own: every third track is used, so that no write damages data. It costs two thirds of the disk.
//!
//! `cargo run -p smrkit --example own_layer` checks it, alone and in a RAID 5, and compares it with two published layers.

use std::sync::Arc;

use smrkit::disk::Disk;
use smrkit::drive::Drive;
use smrkit::error::{DiskResult, Error};
use smrkit::experiment::Experiment;
use smrkit::experiment::demand::GeneratedDemand;
use smrkit::experiment::system::System;
use smrkit::layer::{self, Capacity, Layer, LayerSpec};
use smrkit::medium::{Ascending, Buf, Placement};
use smrkit::settings::Settings;
use smrkit::tally::Cause;
use smrkit::units::{Lba, Pba, Track};
use smrkit::workload::Workload;

/// The used tracks: the first LBA of each and where it lies, ascending; the end last.
type Tracks = Arc<[(Lba, Pba)]>;

struct Spaced {
    tracks: Tracks,
    raw_sectors: u64,
}

impl Spaced {
    fn new(drive: &Drive) -> Spaced {
        let (mut tracks, mut lba) = (Vec::new(), Lba(0));
        for track in (0..drive.geometry.tracks).step_by(3).map(Track) {
            tracks.push((lba, drive.geometry.track_start(track)));
            lba += drive.geometry.track_sectors(track);
        }
        tracks.push((lba, Pba(drive.geometry.sectors)));
        Spaced { tracks: tracks.into(), raw_sectors: drive.geometry.sectors }
    }

    fn sectors(&self) -> u64 {
        self.tracks[self.tracks.len() - 1].0.0
    }

    /// Hands each piece on one track to `each`: where it lies, its sectors, and how many came before.
    fn pieces(&self, lba: Lba, n: u64, mut each: impl FnMut(Pba, u64, u64) -> DiskResult) -> DiskResult {
        let mut done = 0;
        while done < n {
            let first = lba + done;
            let at = self.tracks.partition_point(|(start, _)| *start <= first);
            let sectors = (n - done).min(self.tracks[at].0.0 - first.0);
            each(place(&self.tracks, first), sectors, done)?;
            done += sectors;
        }
        Ok(())
    }
}

fn place(tracks: &[(Lba, Pba)], lba: Lba) -> Pba {
    let (start, pba) = tracks[tracks.partition_point(|(start, _)| *start <= lba) - 1];
    pba + (lba.0 - start.0)
}

impl Layer for Spaced {
    fn capacity(&self) -> Capacity {
        let (raw_sectors, host_sectors) = (self.raw_sectors, self.sectors());
        Capacity { raw_sectors, host_sectors, guard_sectors: raw_sectors - host_sectors, ..Capacity::default() }
    }

    fn read(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        self.pieces(lba, n, |pba, sectors, at| disk.read(pba, sectors, Cause::Host, out, at))
    }

    fn write(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        self.pieces(lba, n, |pba, sectors, at| disk.write(pba, sectors, Cause::Host, data, at))
    }

    fn discard(&mut self, _disk: &mut Disk, _lba: Lba, _n: u64) -> DiskResult {
        Ok(())
    }

    fn fill(&mut self) -> Arc<dyn Placement> {
        let tracks = Arc::clone(&self.tracks);
        Arc::new(Ascending::new(self.sectors(), move |lba| place(&tracks, lba)))
    }

    // Nothing changes that a layer built alike does not know.
    fn state(&self) -> Vec<u8> {
        Vec::new()
    }

    fn restore(&mut self, _saved: &[u8]) -> DiskResult {
        Ok(())
    }

    fn locate(&self, lba: Lba) -> Pba {
        place(&self.tracks, lba)
    }

    fn check(&self) -> DiskResult {
        Ok(())
    }
}

fn main() -> Result<(), Error> {
    let built = |drive: &Drive| -> Result<Box<dyn Layer>, Error> { Ok(Box::new(Spaced::new(drive))) };
    let capacity = |drive: &Drive| Ok(Spaced::new(drive).capacity());
    layer::register(LayerSpec::from_closures("spaced", "Every third track is used.", capacity, built))?;

    let layers = ["spaced", "rmw", "set-assoc"];
    let tiny = layers.iter().fold(System::drive("tiny"), |system, layer| system.layer(*layer));
    let tiny = tiny.set("rmw.region_sectors", 300).set("set-assoc.region_sectors", 300);
    let array = System { array: Some("raid5:disks=3,chunk=16KiB".parse()?), ..tiny.clone() };
    let settings = Settings { check: true, ..Settings::default() };
    for system in [tiny, array] {
        let demand = GeneratedDemand::from(Workload::parse("random-write:count=2k")?);
        for outcome in Experiment::new(system, demand).settings(settings).compare()? {
            let array = outcome.array.as_deref().unwrap_or("one drive");
            println!("{:10} {array}: {}", outcome.layer, outcome.verdict.text);
        }
    }
    Ok(())
}

//! Interlaced recording, updated by read-modify-write: the rules of IMRSim (Zeng et al., "IMRSim: A Disk Simulator for Interlaced
//! Magnetic Recording Technology", 2022), which puts the usual scheme of the field into a device mapper target.
//!
//! Every other track is a bottom track, overlapped by a top track on either side. Writing a top track does no harm. A write to a bottom
//! track destroys the sectors beside it on both top tracks, so those in use are read before it and written back afterwards. LBAs fill the
//! tracks in two or three phases, bottom tracks first, so that nothing has to be rewritten until half of the space is used.
//!
//! Assumptions: LBAs have fixed places, while IMRSim gives places in the order of first writes; top and bottom tracks are equally long, and
//! sectors of the same number lie beside each other; the drive's tracks are interlaced, whatever law of shingling its file has; sectors
//! being rewritten are in memory only, so that a power cut loses them.

use std::sync::Arc;

use super::track_map::{TrackLayout, TrackPiece};
use crate::layer::prelude::*;
use crate::medium::interference::is_bottom;
use crate::pages::LbaSet;

pub(super) const SPEC: LayerSpec = LayerSpec::new::<ImrKeys>(
    "imr",
    "Interlaced tracks: a write to a bottom track reads the top tracks beside it first, and then writes them back.",
    "Zeng et al. 2022 (IMRSim)",
    &Form::ALL,
);

keys! {
    struct ImrKeys {
        /// Order in which tracks fill. 1: in the order of tracks; 2: all bottom tracks, then all top tracks; 3: all
        /// bottom tracks, then every other top track, then the remaining ones.
        phases: Phases = Phases::WORDS, "2";
    }
}

words! {
    enum Phases {
        One = "1",
        Two = "2",
        Three = "3",
    }
}

impl Phases {
    /// The order in the notation of `track-map`, in which odd tracks are top tracks. IMRSim fills each zone of 256 MiB in this order; here it
    /// is the whole disk.
    fn scheme(self) -> &'static str {
        match self {
            Phases::One => "12",
            Phases::Two => "R(21)",
            Phases::Three => "24R(13)",
        }
    }
}

impl LayerKeys for ImrKeys {
    fn build(&self, drive: &Drive) -> Result<Box<dyn Layer>, Error> {
        // Bands need no guard, because a write restores the tracks that it damages.
        let (width, random_tracks) = (1, 0);
        let layout = TrackLayout::new("imr", drive, &self.phases.scheme().parse()?, width, random_tracks)?;
        Ok(Box::new(Imr {
            capacity: Capacity::new(drive, layout.sectors, 0, 0),
            layout: Arc::new(layout),
            valid: LbaSet::default(),
            counts: ImrCounts::default(),
        }))
    }
}

struct Imr {
    layout: Arc<TrackLayout>,
    capacity: Capacity,
    /// LBAs that hold data of the host.
    valid: LbaSet,
    counts: ImrCounts,
}

counts! {
    ImrCounts {
        top_writes,
        bottom_writes,
        /// Runs of sectors on top tracks that were rewritten.
        tops_rewritten
    }
}

state! { Imr { values: valid, counts; built: layout, capacity; } }

impl Imr {
    /// The sectors beside a piece of a bottom track, on the track before or after it, from the first in use to the last.
    fn beside(&self, piece: &TrackPiece, is_after: bool) -> Option<(Pba, u64)> {
        let first = self.layout.beside(piece, is_after)?;
        let lba = self.layout.lba(first)?;
        let mut runs = self.valid.runs(lba, piece.sectors);
        let (from, sectors) = runs.next()?;
        let end = runs.last().map_or(from + sectors, |(last, sectors)| last + sectors);
        Some((first + (from - lba), end - from))
    }

    /// Writes sectors of one track. A write to a bottom track first reads its top neighbours, and rewrites them afterwards.
    fn write_piece(&mut self, disk: &mut Disk, piece: &TrackPiece, data: &Buf) -> DiskResult {
        let pba = self.layout.pba(piece);
        let is_bottom = is_bottom(disk.geometry(), disk.geometry().track_of(pba));
        if !is_bottom {
            self.counts.top_writes += 1;
            return disk.write(pba, piece.sectors, Cause::Host, data, piece.at);
        }
        self.counts.bottom_writes += 1;
        let mut tops = Vec::new();
        for (pba, sectors) in [false, true].into_iter().filter_map(|is_after| self.beside(piece, is_after)) {
            let mut data = disk.buf(sectors);
            disk.read(pba, sectors, Cause::Clean, &mut data, 0)?;
            tops.push((pba, sectors, data));
        }
        disk.write(pba, piece.sectors, Cause::Host, data, piece.at)?;
        for (pba, sectors, data) in &tops {
            disk.write(*pba, *sectors, Cause::Clean, data, 0)?;
            self.counts.tops_rewritten += 1;
            self.counts.first_cleaning_request.get_or_insert(disk.requests());
        }
        Ok(())
    }
}

impl Layer for Imr {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn read(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        self.layout
            .pieces(lba, n)
            .try_for_each(|piece| disk.read(self.layout.pba(&piece), piece.sectors, Cause::Host, out, piece.at))
    }

    fn write(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        let layout = Arc::clone(&self.layout);
        for piece in layout.pieces(lba, n) {
            self.write_piece(disk, &piece, data)?;
            // Noted at once, because a later piece of this request may lie beside it.
            self.valid.insert(lba + piece.at, piece.sectors);
        }
        Ok(())
    }

    fn discard(&mut self, _disk: &mut Disk, lba: Lba, n: u64) -> DiskResult {
        self.valid.remove(lba, n);
        Ok(())
    }

    fn fill(&mut self) -> Arc<dyn Placement> {
        self.valid = LbaSet::all();
        Arc::clone(&self.layout) as Arc<dyn Placement>
    }

    fn interlaces(&self) -> bool {
        true
    }

    fn rewrites_in_place(&self) -> bool {
        true
    }

    /// Forgets which sectors are in use: all count as used.
    fn power_cut(&mut self) {
        self.valid = LbaSet::all();
    }

    layer_state!();

    fn locate(&self, lba: Lba) -> Pba {
        self.layout.pba(&self.layout.piece(lba, 1))
    }

    fn check(&self) -> DiskResult {
        Ok(())
    }

    fn map_bytes(&self) -> u64 {
        self.valid.bytes()
    }

    layer_counts!();

    fn bands_moved(&self) -> u64 {
        self.counts.tops_rewritten
    }
}

//! Zones as platters: addresses, cursors as the device reports them, and resets.

use std::sync::Arc;

use smrkit::tally::Cause;
use smrkit::units::Nanos;

use super::cursors::CursorTable;
use super::{Zone, ZoneKind, ZonedDevice, ZonedError, ZonedLayout};
use crate::data::{Data, ReadBuffer};
use crate::device::platters::Platters;
use crate::device::strict::StrictAppend;
use crate::device::{BandReport, BandState};
use crate::error::DeviceResult;
use crate::units::{Granule, HostJournal, Span};

/// Bytes of zeros that are written at a time where only their number is known.
const ZEROS: u64 = 1 << 20;

/// The zones of a device, beneath [`StrictAppend`].
pub struct Zones<D> {
    device: Arc<D>,
    layout: ZonedLayout,
    table: Option<CursorTable>,
    /// False if nothing may be changed.
    writable: bool,
}

impl<D: ZonedDevice> Zones<D> {
    /// A blank disk on that device, or an error of its zones. What lies in them is still there: it is to be reset.
    pub fn format(device: Arc<D>, granule_bytes: u64) -> Result<StrictAppend<Zones<D>>, ZonedError> {
        let layout = layout(&*device, granule_bytes)?;
        let table = (layout.first_zone > 0).then(|| CursorTable::format(&*device, &layout)).transpose()?;
        Zones { device, layout, table, writable: true }.disk()
    }

    /// The disk that is on the device. The write pointers are believed.
    pub fn open(device: Arc<D>, granule_bytes: u64, writable: bool) -> Result<StrictAppend<Zones<D>>, ZonedError> {
        let layout = layout(&*device, granule_bytes)?;
        let table = (layout.first_zone > 0).then(|| CursorTable::load(&*device, &layout)).transpose()?;
        Zones { device, layout, table, writable }.disk()
    }

    /// The device beneath.
    pub fn device(&self) -> &Arc<D> {
        &self.device
    }

    /// Assignment of the zones.
    pub fn layout(&self) -> &ZonedLayout {
        &self.layout
    }

    fn disk(self) -> Result<StrictAppend<Zones<D>>, ZonedError> {
        let zones = self.device.report(self.layout.first_zone, self.layout.shape.bands.count)?;
        let reports: Vec<BandReport> = (0..).zip(&zones).map(|(band, zone)| self.judged(band, zone)).collect();
        let shape = self.layout.shape;
        Ok(StrictAppend::reported(Arc::new(self), shape, &reports)?)
    }

    /// A zone as a band. A pointer amid a granule is one that a power cut has torn: the granule is filled up with zeros.
    fn judged(&self, band: u64, zone: &Zone) -> BandReport {
        let (span, granule) = (self.layout.shape.bands.span(band), self.layout.shape.granule_bytes);
        let in_table = self.table.as_ref().filter(|_| band < self.layout.conventional);
        let filled = match (zone.state, in_table) {
            (BandState::Offline, _) => 0,
            // The device does not tell how far such a zone is written; what the maps name can be read.
            (BandState::ReadOnly, _) => span.count,
            (_, Some(table)) => table.filled(band),
            (BandState::Full, None) => span.count,
            (BandState::Empty, None) => 0,
            (BandState::Open, None) => {
                let written = zone.pointer.saturating_sub(zone.start).min(zone.capacity);
                let torn = written % granule;
                let is_filled = torn > 0 && self.writable && {
                    let zeros = vec![0; (granule - torn) as usize];
                    self.device.write(zone.pointer, &zeros).is_ok()
                };
                written / granule + u64::from(is_filled)
            }
        };
        let lost = match zone.state {
            state if state.is_lost() => Some(state),
            // Conventional zones behind others have no place in the table.
            _ if in_table.is_none() && zone.kind == ZoneKind::Conventional => Some(BandState::Offline),
            _ => None,
        };
        BandReport::new(span, filled, lost)
    }

    fn byte(&self, at: Granule) -> u64 {
        self.layout.start(0) + at.0 * self.layout.shape.granule_bytes
    }
}

fn layout(device: &impl ZonedDevice, granule_bytes: u64) -> Result<ZonedLayout, ZonedError> {
    let geometry = device.geometry();
    Ok(ZonedLayout::new(&geometry, &device.report(0, geometry.zones)?, granule_bytes)?)
}

impl<D: ZonedDevice> Platters for Zones<D> {
    fn read(&self, at: Granule, room: ReadBuffer<'_>, _cause: Cause) -> DeviceResult {
        match room {
            ReadBuffer::Bytes(bytes) => self.device.read(self.byte(at), bytes),
            ReadBuffer::Blank(_) => Ok(()),
        }
    }

    fn expect(&self, span: Span) {
        self.device.expect(self.byte(span.at), span.count * self.layout.shape.granule_bytes);
    }

    fn write(&self, at: Granule, data: Data<'_>, _cause: Cause) -> DeviceResult {
        let bytes = match data {
            Data::Bytes(bytes) => return self.device.write(self.byte(at), bytes),
            Data::Blank(bytes) => bytes,
        };
        let zeros = vec![0; ZEROS.min(bytes) as usize];
        (0..bytes).step_by(ZEROS as usize).try_for_each(|done| {
            let part = ZEROS.min(bytes - done) as usize;
            self.device.write(self.byte(at) + done, &zeros[..part])
        })
    }

    fn destroy(&self, _span: Span, _by: Granule) -> DeviceResult {
        Ok(())
    }

    fn keep_cursor(&self, band: u64, cursor: Granule) -> DeviceResult {
        let filled = cursor - self.layout.shape.bands.span(band).at;
        match &self.table {
            Some(table) if band < self.layout.conventional => table.note(band, filled),
            _ if filled == 0 => self.device.reset(self.layout.first_zone + band)?,
            _ => {}
        }
        Ok(())
    }

    fn band(&self, band: u64) -> DeviceResult<Option<BandReport>> {
        let zones = self.device.report(self.layout.first_zone + band, 1)?;
        Ok(zones.first().map(|zone| self.judged(band, zone)))
    }

    fn flush_with(&self, _journal: Option<HostJournal>) -> DeviceResult {
        if let Some(table) = &self.table {
            table.write(&*self.device)?;
        }
        self.device.flush()
    }

    fn now(&self) -> Nanos {
        self.device.now()
    }
}

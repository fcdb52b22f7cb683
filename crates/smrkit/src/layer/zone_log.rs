//! A zoned file system's allocator: its log over the zones of a host-managed disk, with the extents of its files as the map.
//!
//! From XFS on zones (Linux 6.15, fs/xfs/xfs_zone_alloc.c and xfs_zone_gc.c): open zones of which a file keeps one while it is
//! written, else the one written longest ago is taken; the zone cleaned next by used share in ten buckets; zones that the host
//! may not take, so that cleaning always has one to move data to; a zone is reset as soon as nothing in it is live. From f2fs
//! (Lee et al., FAST 2015): a log of its own for moved data, cleaning in idle time, metadata in conventional zones. The log
//! itself is that of `log`. Left out: files (stretches of LBAs stand in for them), the writes of metadata, and the time of a reset.

use super::interface::IdleKeys;
use super::log::layout::{SEGMENT_SECTORS_MAX, SegmentLayout};
use super::log::victims::VictimPolicy;
use super::log::{BYTES_A_SEGMENT, HostShare, HostStream, Log, LogRules, OpenFiles};
use super::zones::{ZoneKeys, ZoneLayout};
use super::{Capacity, Layer, LayerKeys, LayerSpec};
use crate::drive::Drive;
use crate::error::Error;
use crate::keys;
use crate::medium::interference::Form;
use crate::schema::{Count, percent};

pub(super) const SPEC: LayerSpec = LayerSpec::new::<ZoneLogKeys>(
    "zone-log",
    "A zoned file system's allocator: data is appended to open zones, and the emptiest zones are cleaned.",
    "Linux, XFS on zones; f2fs (Lee et al. 2015)",
    &Form::ALL,
)
.putting_rewriting_off();

keys! {
    /// The parameters.
    #[derive(Clone)]
    struct ZoneLogKeys {
        /// The zones.
        zones: ZoneKeys;
        /// Zones open for the host; cleaning has one more.
        open_zones: u64 = Count(1, 127), "4";
        /// Free zones beyond the reserve below which cleaning is due; with as many as open_zones no write waits for a zone.
        clean_below_zones: u64 = Count(1, 1 << 20), "4";
        /// Share of the zones not offered to the host, beyond those that are open, reserved, or wanted free.
        spare_percent: f64 = percent(0.1, 90.0), "7";
        /// Use of idle time, for zones less than half live.
        idle: IdleKeys;
    }
}

/// Free zones that only cleaning may take, besides its open one: enough that it always has one to move data to.
const RESERVE_ZONES: u64 = 2;

struct ZoneLogPlan {
    zones: ZoneLayout,
    share: HostShare,
    capacity: Capacity,
}

impl ZoneLogKeys {
    fn plan(&self, drive: &Drive) -> Result<ZoneLogPlan, Error> {
        let zones = ZoneLayout::new(drive, &self.zones, BYTES_A_SEGMENT)?;
        if zones.size() > SEGMENT_SECTORS_MAX {
            return Err(Error::Impossible(format!(
                "a zone of {} sectors is longer than {SEGMENT_SECTORS_MAX}: lower zone-log.zone_bytes",
                zones.size()
            )));
        }
        let sequential = zones.count() - zones.conventional;
        let kept = self.open_zones + 1 + RESERVE_ZONES + self.clean_below_zones;
        let share = HostShare::of(sequential * zones.size(), kept * zones.size(), self.spare_percent);
        let share = share.ok_or_else(|| {
            Error::Impossible(format!(
                "the drive holds {sequential} zones that are written in order, and {kept} are open, reserved or wanted free: \
                 lower zone_bytes, conventional_percent, open_zones or clean_below_zones of zone-log, or take a larger \
                 drive"
            ))
        })?;
        let all = zones.capacity(drive);
        let spare_sectors = all.host_sectors - share.host_sectors;
        let capacity = Capacity { host_sectors: share.host_sectors, spare_sectors, ..all };
        Ok(ZoneLogPlan { zones, share, capacity })
    }
}

impl LayerKeys for ZoneLogKeys {
    fn capacity(&self, drive: &Drive) -> Result<Capacity, Error> {
        Ok(self.plan(drive)?.capacity)
    }

    fn settled(self, drive: &Drive) -> ZoneLogKeys {
        ZoneLogKeys { zones: self.zones.settled(drive), ..self }
    }

    fn build(&self, drive: &Drive) -> Result<Box<dyn Layer>, Error> {
        let ZoneLogPlan { zones, share, capacity } = self.plan(drive)?;
        let open_zones = self.open_zones as usize;
        let rules = LogRules {
            streams: open_zones + 1,
            host: HostStream::Files(OpenFiles::new(open_zones, zones.size())),
            survivors_apart: true,
            policy: VictimPolicy::Emptiest,
            reserve: RESERVE_ZONES,
            clean_below: self.clean_below_zones,
            resets: true,
            spare_outer: false,
            shared_writes: 1,
            append: None,
            sector_ps: 0,
            idle: self.idle.delay(),
            whole_sectors: share.whole_sectors,
            wears: drive.interference.upstream(),
        };
        let (layout, places) = SegmentLayout::of_zones(zones);
        Ok(Box::new(Log::by_rules(layout, places, capacity, rules)))
    }
}

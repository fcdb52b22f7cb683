//! A zoned file system's allocator: its log over the zones of a host-managed disk, with the extents of its files as the map.
//!
//! `host` names the file system whose rules apply. Those of `xfs`, `btrfs` and `f2fs` are Linux's as of 2026; [`Host::rules`] gives each
//! with its source. `mixed` is older: XFS's cleaning, with the separate log for moved data of f2fs (Lee et al., FAST 2015). The log itself
//! is that of `log`. Left out: files (stretches of LBAs stand in for them), writes of metadata, the time of a reset, XFS's packing of
//! closed files, and cleaning in parallel with requests (due cleaning is done before the next request).

use super::interface::IdleKeys;
use super::log::segments::{FreeOrder, SEGMENT_SECTORS_MAX, SegmentLayout};
use super::log::victims::VictimPolicy;
use super::log::{BYTES_A_SEGMENT, HostShare, HostStream, Log, LogRules, OpenFiles};
use super::zones::{ZoneKeys, ZoneLayout};
use crate::layer::prelude::*;
use crate::schema::{Sectors, Word};

pub(super) const SPEC: LayerSpec = LayerSpec::new::<ZoneLogKeys>(
    "zone-log",
    "A zoned file system's allocator: data is appended to open zones, and the emptiest zones are cleaned.",
    "Linux, XFS on zones; f2fs (Lee et al. 2015)",
    &Form::ALL,
)
.putting_rewriting_off();

keys! {
    struct ZoneLogKeys {
        /// File system whose rules set the parameters that are auto.
        host: Host = Host::WORDS, "mixed";
        /// The zones.
        zones: ZoneKeys;
        /// Number of zones open for host data; cleaning has one more, except with f2fs, which moves data to its log for
        /// cold data. auto is 4; for xfs 127 or a quarter of all zones, for btrfs 1, for f2fs 3.
        open_zones: Option<u64> = Or("auto", Count(1, 127)), "auto";
        /// Number of free zones, not counting the reserve, below which cleaning is due; if it is as large as
        /// `open_zones`, few writes wait for a zone. auto is 4; for xfs `open_zones`, for btrfs a quarter of all zones, for
        /// f2fs what its mkfs reserves.
        clean_below_zones: Option<u64> = Or("auto", Count(1, 1 << 20)), "auto";
        /// Share of the zones that is not offered to the host, in addition to zones that are open, reserved or kept
        /// free.
        spare_percent: f64 = percent(0.1, 90.0), "7";
        /// Use of idle time, for zones less than half live.
        idle: IdleKeys;
        /// Which free zone is used next: the one freed first (oldest), the one with the lowest number (lowest), or the
        /// next one after the last that was used (round-robin). auto is oldest; for xfs and btrfs lowest, for f2fs
        /// round-robin.
        free_zones: Option<FreeOrder> = Or("auto", FreeOrder::WORDS), "auto";
        /// Which zone is cleaned: the one with the least live data, found by ten buckets (emptiest) or exactly
        /// (greedy); the best by age and live share (cost-benefit); or cost-benefit in idle time and greedy otherwise
        /// (greedy-cost-benefit). auto is emptiest; for btrfs greedy, for f2fs greedy-cost-benefit.
        policy: Option<VictimPolicy> = Or("auto", POLICY), "auto";
        /// Share of a zone that must be garbage before the zone is cleaned. auto is 0; for btrfs 75.
        reclaim_percent: Option<f64> = Or("auto", percent(0.0, 100.0)), "auto";
        /// Share of the unused space that cleaning keeps ready to be written (`zonegc_low_space` of XFS).
        low_space_percent: f64 = percent(0.0, 100.0), "0";
        /// Whether a source's number is the lifetime hint of its data, as in fcntl(2): 2 short, 3 medium, 4 long, 5
        /// extreme.
        hints: bool = Switch, "off";
        /// Length of the stretch of LBAs that stands for a file; auto is the size of a zone.
        file_bytes: Option<u64> = Or("auto", Sectors(8, 1 << 32)), "auto";
    }
}

const POLICY: Word<VictimPolicy> = Word(&[
    ("emptiest", VictimPolicy::Emptiest),
    ("greedy", VictimPolicy::Greedy),
    ("cost-benefit", VictimPolicy::CostBenefit),
    ("greedy-cost-benefit", VictimPolicy::GreedyCostBenefit),
]);

/// Free zones that only cleaning may take, besides its open one, so that it can always move data. XFS_GC_ZONES of
/// fs/xfs/libxfs/xfs_zones.h; an assumption for the other file systems.
const RESERVE_ZONES: u64 = 2;

words! {
    /// File systems.
    enum Host {
        Mixed = "mixed",
        Xfs = "xfs",
        Btrfs = "btrfs",
        F2fs = "f2fs",
    }
}

/// The rules of a host on a disk, which parameters other than auto override.
struct HostRules {
    open_zones: u64,
    clean_below_zones: u64,
    free_zones: FreeOrder,
    policy: VictimPolicy,
    reclaim_percent: f64,
}

/// f2fs has logs for data (hot, warm, cold) and for nodes, which hold metadata: NR_CURSEG_DATA_TYPE and NR_CURSEG_NODE_TYPE of
/// include/linux/f2fs_fs.h. Together they are the six logs of `active_logs` (Documentation/filesystems/f2fs.rst).
const F2FS_DATA_LOGS: u64 = 3;
const F2FS_NODE_LOGS: u64 = 3;

impl Host {
    /// The rules on a disk of `zones` sequential zones.
    fn rules(self, zones: u64, spare_percent: f64) -> HostRules {
        let mixed = HostRules {
            open_zones: 4,
            clean_below_zones: 4,
            free_zones: FreeOrder::Oldest,
            policy: VictimPolicy::Emptiest,
            reclaim_percent: 0.0,
        };
        match self {
            Host::Mixed => mixed,
            Host::Xfs => {
                // The constants are those of fs/xfs/libxfs/xfs_zones.h.
                let (min_zones, min_open_zones, default_max_open_zones, open_gc_zones) = (5, 2, 128, 1);
                // xfs_max_open_zones (fs/xfs/xfs_zone_alloc.c) keeps a zone in reserve for each open one, and at least three quarters closed.
                let max_open_zones = (zones / 4).min(zones.saturating_sub(min_zones) / 2 + min_open_zones);
                let open_zones = max_open_zones.clamp(min_open_zones, default_max_open_zones) - open_gc_zones;
                // As many zones are kept free as may be open (xfs_zoned_need_gc, fs/xfs/xfs_zone_gc.c). The lowest free zone is next since
                // commit 01a28961549a (January 2026); before, it was the next one after the last.
                HostRules { open_zones, clean_below_zones: open_zones, free_zones: FreeOrder::Lowest, ..mixed }
            }
            // A block group is a zone. Data goes to one of them, and relocated data to another (btrfs_data_reloc_bg, fs/btrfs/zoned.c). The
            // first hole is next (find_free_dev_extent, fs/btrfs/volumes.c). Groups with 75 % unusable (BTRFS_DEFAULT_RECLAIM_THRESH,
            // fs/btrfs/zoned.h) are relocated once 75 % of the disk is allocated (btrfs_zoned_should_reclaim), the least used first
            // (reclaim_bgs_cmp, fs/btrfs/block-group.c).
            Host::Btrfs => HostRules {
                open_zones: 1,
                clean_below_zones: (zones / 4).max(1),
                free_zones: FreeOrder::Lowest,
                policy: VictimPolicy::Greedy,
                reclaim_percent: 75.0,
            },
            // A section is a zone. Each log takes the next free section after its own (get_new_segment, fs/f2fs/segment.c). Cleaning is due
            // when only the reserve (mkfs/f2fs_format.c of f2fs-tools) is free (has_not_enough_free_secs, fs/f2fs/segment.h). It is greedy
            // then, and uses cost-benefit in the background (select_gc_type, fs/f2fs/gc.c). spare_percent is the overprovision ratio.
            Host::F2fs => {
                let mkfs_reserve = (100.0 / spare_percent) as u64 + 1 + F2FS_DATA_LOGS + F2FS_NODE_LOGS;
                HostRules {
                    open_zones: F2FS_DATA_LOGS,
                    clean_below_zones: mkfs_reserve - RESERVE_ZONES,
                    free_zones: FreeOrder::RoundRobin,
                    policy: VictimPolicy::GreedyCostBenefit,
                    reclaim_percent: 0.0,
                }
            }
        }
    }
}

impl ZoneLogKeys {
    /// The host's rules on a disk of `zones` sequential zones, overridden by the parameters that are not auto.
    fn rules(&self, zones: u64) -> HostRules {
        let host = self.host.rules(zones, self.spare_percent);
        let open_zones = self.open_zones.unwrap_or(host.open_zones);
        // XFS cleans when fewer zones are free than it may have open, so this follows that parameter.
        let clean_below_zones = if self.host == Host::Xfs { open_zones } else { host.clean_below_zones };
        HostRules {
            open_zones,
            clean_below_zones: self.clean_below_zones.unwrap_or(clean_below_zones),
            free_zones: self.free_zones.unwrap_or(host.free_zones),
            policy: self.policy.unwrap_or(host.policy),
            reclaim_percent: self.reclaim_percent.unwrap_or(host.reclaim_percent),
        }
    }
}

impl LayerKeys for ZoneLogKeys {
    fn settled(self, drive: &Drive) -> ZoneLogKeys {
        let zones = ZoneLayout::new(drive, &self.zones, BYTES_A_SEGMENT);
        // A drive without zones is refused when the layer is built.
        let rules = self.rules(zones.map_or(0, |zones| zones.count() - zones.conventional));
        let zones = self.zones.settled(drive);
        ZoneLogKeys {
            open_zones: Some(rules.open_zones),
            clean_below_zones: Some(rules.clean_below_zones),
            free_zones: Some(rules.free_zones),
            policy: Some(rules.policy),
            reclaim_percent: Some(rules.reclaim_percent),
            file_bytes: self.file_bytes.or(zones.zone_bytes),
            zones,
            ..self
        }
    }

    fn build(&self, drive: &Drive) -> Result<Box<dyn Layer>, Error> {
        let zones = ZoneLayout::new(drive, &self.zones, BYTES_A_SEGMENT)?;
        if zones.size() > SEGMENT_SECTORS_MAX {
            return Err(Error::Impossible(format!(
                "a zone of {} sectors is longer than {SEGMENT_SECTORS_MAX}: lower zone-log.zone_bytes",
                zones.size()
            )));
        }
        let sequential = zones.count() - zones.conventional;
        let host = self.rules(sequential);
        // XFS and btrfs let the host fill the zones that cleaning would like to keep free, so only the zone that a round of cleaning gains
        // is kept from it.
        let wanted = match self.host {
            Host::Mixed => host.clean_below_zones,
            Host::F2fs => host.clean_below_zones + F2FS_NODE_LOGS,
            Host::Xfs | Host::Btrfs => 1,
        };
        // f2fs moves data to its log for cold data, which the host has open.
        let open_for_cleaning = u64::from(self.host != Host::F2fs);
        let reserved = host.open_zones + open_for_cleaning + RESERVE_ZONES + wanted;
        let share = HostShare::new(sequential * zones.size(), reserved * zones.size(), self.spare_percent);
        let Some(share) = share else {
            return Err(Error::Impossible(format!(
                "the drive holds {sequential} zones that are written in order, and {reserved} are open, reserved or wanted free: \
                 lower zone_bytes, conventional_percent, open_zones or clean_below_zones of zone-log, or take a larger \
                 drive"
            )));
        };
        let capacity = zones.capacity(drive, share.host_sectors);
        let open_zones = host.open_zones as usize;
        let (streams, files) = match self.host {
            Host::F2fs => (open_zones, None),
            Host::Mixed | Host::Xfs | Host::Btrfs => {
                let files = OpenFiles::new(open_zones, self.file_bytes.unwrap_or(zones.size()));
                (open_zones + 1, Some(files))
            }
        };
        let rules = LogRules {
            streams,
            host: HostStream::Temperature,
            survivors_apart: true,
            policy: host.policy,
            free_order: host.free_zones,
            reserve: RESERVE_ZONES,
            clean_below: host.clean_below_zones,
            low_space: self.low_space_percent / 100.0,
            least_dead: host.reclaim_percent / 100.0,
            hints: self.hints,
            resets: true,
            spare_outer: false,
            shared_writes: 1,
            append: None,
            sector_ps: 0,
            idle: self.idle.delay(),
            whole_sectors: share.whole_sectors,
            dpid_sectors: drive.interference.upstream(),
        };
        let (layout, places) = SegmentLayout::of_zones(zones);
        Ok(Box::new(Log::by_rules(layout, places, capacity, rules, files)))
    }
}

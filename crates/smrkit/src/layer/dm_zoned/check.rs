//! The invariants of the maps, in full.

use super::DmZoned;
use super::maps::NONE;
use crate::error::DiskResult;
use crate::layer::inconsistent;

impl DmZoned {
    /// Every zone has one use; a block is valid in one zone of its chunk, in a sequential one before the write pointer.
    pub(super) fn check_maps(&self) -> DiskResult {
        let (layout, maps, owners) = (&self.layout, &self.maps, self.maps.owners());
        let mut uses = vec![0; owners.len()];
        for (chunk, zones) in (0..).zip(maps.chunks()) {
            for zone in zones.each() {
                if zone < layout.first_data() || owners[zone as usize] != chunk {
                    return inconsistent(format!("chunk {chunk} is mapped to zone {zone}, which is not its own"));
                }
                uses[zone as usize] += 1;
            }
            if zones.buffer != NONE
                && (!layout.is_random(zones.buffer) || zones.data == NONE || layout.is_random(zones.data))
            {
                return inconsistent(format!("chunk {chunk} has a buffer but no sequential zone: {zones:?}"));
            }
            if zones.buffer != NONE {
                self.check_apart(zones.data, zones.buffer)?;
            }
        }
        for zone in self.unused.each().chain(self.zone_in_the_making()) {
            uses[zone as usize] += 1;
            let valid = maps.valid(zone).count();
            if owners[zone as usize] != NONE || valid > 0 {
                return inconsistent(format!("zone {zone} is free, and {valid} blocks are valid"));
            }
        }
        if let Some(zone) = (layout.first_data() as usize..uses.len()).find(|&zone| uses[zone] != 1) {
            return inconsistent(format!("zone {zone} has {} uses", uses[zone]));
        }
        let beyond = |&zone: &u32| maps.valid(zone).end() > self.pointers[zone as usize];
        match (layout.first_sequential()..owners.len() as u32).find(beyond) {
            Some(zone) => inconsistent(format!("zone {zone} has valid blocks behind its write pointer")),
            None => Ok(()),
        }
    }

    fn check_apart(&self, data: u32, buffer: u32) -> DiskResult {
        let mut at = 0;
        while let Some((first, n)) = self.maps.valid(buffer).next_valid(at, self.layout.blocks()) {
            at = first + n;
            let (valid, alike) = self.maps.valid(data).run(first, at);
            if valid || alike < n {
                return inconsistent(format!("zones {data} and {buffer} both hold block {first} or one soon after"));
            }
        }
        Ok(())
    }
}

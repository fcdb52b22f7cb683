//! The invariants of the maps, in full.

use super::{DmZoned, NONE};
use crate::error::DiskResult;
use crate::layer::inconsistent;

impl DmZoned {
    /// Every zone has one use; a block is valid in one zone of its chunk, in a sequential one before the write pointer.
    pub(super) fn check_maps(&self) -> DiskResult {
        let mut uses = vec![0; self.owners.len()];
        for (chunk, zones) in self.chunks.iter().enumerate() {
            for zone in [zones.data, zones.buffer].into_iter().filter(|&zone| zone != NONE) {
                if zone < self.first_data || self.owners[zone as usize] != chunk as u32 {
                    return inconsistent(format!("chunk {chunk} is mapped to zone {zone}, which is not its own"));
                }
                uses[zone as usize] += 1;
            }
            if zones.buffer != NONE
                && (!self.is_random(zones.buffer) || zones.data == NONE || self.is_random(zones.data))
            {
                return inconsistent(format!("chunk {chunk} has a buffer but no sequential zone: {zones:?}"));
            }
            if zones.buffer != NONE {
                self.check_apart(zones.data, zones.buffer)?;
            }
        }
        let free = self.free_random.iter().chain(&self.free_sequential).chain(&self.freed);
        for zone in free.copied().chain(self.zone_in_the_making()) {
            uses[zone as usize] += 1;
            if self.owners[zone as usize] != NONE || self.valid[zone as usize].count() > 0 {
                return inconsistent(format!(
                    "zone {zone} is free, and {} blocks are valid",
                    self.valid[zone as usize].count()
                ));
            }
        }
        if let Some(zone) = (self.first_data as usize..uses.len()).find(|&zone| uses[zone] != 1) {
            return inconsistent(format!("zone {zone} has {} uses", uses[zone]));
        }
        let beyond = |&zone: &usize| self.valid[zone].end() > self.pointers[zone];
        match (self.first_sequential as usize..uses.len()).find(beyond) {
            Some(zone) => inconsistent(format!("zone {zone} has valid blocks behind its write pointer")),
            None => Ok(()),
        }
    }

    fn check_apart(&self, data: u32, buffer: u32) -> DiskResult {
        let mut at = 0;
        while let Some((first, n)) = self.valid[buffer as usize].next_valid(at, self.blocks) {
            at = first + n;
            let (valid, alike) = self.valid[data as usize].run(first, at);
            if valid || alike < n {
                return inconsistent(format!("zones {data} and {buffer} both hold block {first} or one soon after"));
            }
        }
        Ok(())
    }
}

//! A log to which every LBA was appended once, in order, sector by sector: as many segments as that takes are full, the last
//! of them is open, and the rest is free.

use std::sync::Arc;

use super::Log;
use super::label::{LabelKind, LogLabel};
use crate::extent_map::ExtentMap;
use crate::medium::{Ascending, Placement};
use crate::units::{Lba, Pba};

impl Log {
    pub(super) fn fill_in_order(&mut self) -> Arc<dyn Placement> {
        let host = self.capacity.host_sectors;
        // The first LBA and the first PBA of each segment in use.
        let mut runs: Vec<(Lba, Pba)> = Vec::with_capacity(self.segments.free().len());
        let mut done = 0;
        while done < host
            && let Some((start, sectors)) = self.segments.fill(Lba(done), host - done)
        {
            runs.push((Lba(done), start));
            done += sectors;
        }
        (self.age, self.serial) = (host, host);
        let ends = runs.iter().skip(1).map(|run| run.0).chain([Lba(host)]);
        self.map = ExtentMap::of_runs(runs.iter().zip(ends).map(|(&(first, pba), end)| (pba, end - first)));
        let place = move |lba: Lba| {
            let (first, pba) = runs[runs.partition_point(|run| run.0 <= lba) - 1];
            pba + (lba - first)
        };
        Arc::new(Ascending::new(host, place).labelled(|lba| Some(label(lba).words())))
    }
}

/// Label of the sector of an LBA: as if that had been a request of its own.
fn label(lba: Lba) -> LogLabel {
    let number = lba.0 + 1;
    LogLabel { lba, left: 0, order: 2 * number, kind: LabelKind::Host, serial: number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_sectors_of_a_full_disk_have_higher_even_orders() {
        let orders: Vec<u64> = (0..4).map(|lba| label(Lba(lba)).order).collect();
        assert!(orders.is_sorted_by(|a, b| a < b) && orders.iter().all(|order| order % 2 == 0), "{orders:?}");
    }
}

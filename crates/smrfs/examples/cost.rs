//! temp
use rand::{RngExt, SeedableRng};
use smrfs::data::Data;
use smrfs::device::caveat::*;
use smrfs::device::modelled::*;
use smrfs::device::*;
use smrfs::safety::checker::*;
use smrfs::units::*;
use smrkit::tally::Cause;
fn run(disk: &dyn HostManaged, n: u64, did: u64, dpid: u64) -> (u64, f64) {
    let mut r = rand_pcg::Pcg64Mcg::seed_from_u64(1);
    let mut slots: Vec<(u64, u64, u64)> = vec![];
    let mut at = did;
    while at + 6000 < disk.shape().granules {
        let l = r.random_range(100..4000u64);
        slots.push((at, l, 0));
        at += l + did + dpid;
    }
    let t = std::time::Instant::now();
    let mut writes = 0;
    while writes < n {
        let i = r.random_range(0..slots.len());
        let (at, len, filled) = slots[i];
        if filled > 0 {
            let mut x = 0;
            while x < filled {
                let c = 256.min(filled - x);
                disk.discard(Span::new(at + x, c));
                x += c;
            }
            slots[i].2 = 0;
        } else {
            let mut x = 0;
            while x < len {
                let c = 256.min(len - x);
                disk.write(Granule(at + x), Data::Blank(c * 4096), Cause::Host).unwrap();
                x += c;
                writes += 1;
            }
            slots[i].2 = len;
        }
    }
    (writes, t.elapsed().as_secs_f64())
}
fn main() {
    for (did, dpid) in [(256, 256), (768, 256)] {
        let bands = Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 };
        let shape = Shape { model: Model::Caveat, granule_bytes: 4096, granules: 26_000_000, did, dpid, bands };
        for (name, past) in [("untracked", Past::Untracked), ("history", Past::Blank)] {
            let drive = || smrkit::drive::Drive::load("st5000as0011").unwrap();
            let d =
                CaveatScriptor::new(Modelled::new(drive(), Contents::Nothing, &shape).unwrap(), shape, past).unwrap();
            let (n, s) = run(&d, 2_000_000, did, dpid);
            println!("{did}/{dpid} {name} bare: {:.2} us a write", s * 1e6 / n as f64);
            let d =
                CaveatScriptor::new(Modelled::new(drive(), Contents::Nothing, &shape).unwrap(), shape, past).unwrap();
            let w = Watched::new(d);
            let (n, s) = run(&w, 2_000_000, did, dpid);
            println!("{did}/{dpid} {name} watched: {:.2} us a write (with its discard)", s * 1e6 / n as f64);
        }
    }
}

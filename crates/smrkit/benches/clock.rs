//! Nanoseconds per access of the clocks, and per pick of the shortest positioning time among 32.
//!
//! `cargo bench -p smrkit --bench clock`; the best of five rounds, on addresses made beforehand.

use std::hint::black_box;
use std::time::Instant;

use smrkit::drive::{Drive, Position};
use smrkit::units::{Nanos, Pba};

const ACCESSES: usize = 1 << 20;

/// Addresses from a linear congruence, the same every time.
fn random(sectors: u64) -> Vec<Pba> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Pba(((u128::from(state) * u128::from(sectors - 8)) >> 64) as u64)
    };
    (0..ACCESSES).map(|_| next()).collect()
}

fn best(label: &str, count: usize, mut round: impl FnMut() -> u64) {
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        black_box(round());
        best = best.min(start.elapsed().as_nanos() as f64 / count as f64);
    }
    println!("{label:<44} {best:7.2} ns");
}

fn main() {
    for name in ["cassuto-table1", "st5000as0011"] {
        let Ok(drive) = Drive::load(name) else { continue };
        let g = &drive.geometry;
        let sequential: Vec<Pba> = (0..ACCESSES as u64).map(|i| Pba(i * 8)).collect();
        for (kind, addresses) in [("random", random(g.sectors)), ("sequential", sequential)] {
            let mut clock = drive.clock.clone();
            best(&format!("{name}, access, {kind}"), ACCESSES, || {
                let mut now = Nanos::ZERO;
                for &pba in &addresses {
                    now = clock.access(g, now, true, pba, 8);
                }
                now.0
            });
        }
        picks(&drive);
    }
}

/// The engine's choice among 32 waiting requests.
fn picks(drive: &Drive) {
    let positions: Vec<Position> =
        random(drive.geometry.sectors).iter().map(|&pba| drive.clock.position(&drive.geometry, pba)).collect();
    best(&format!("{}, pick among 32", drive.name), ACCESSES / 32, || {
        let mut now = Nanos::ZERO;
        for waiting in positions.chunks_exact(32) {
            let shortest = waiting.iter().map(|p| drive.clock.estimate_at(p, now)).min();
            now += shortest.unwrap_or_default() + Nanos(1);
        }
        now.0
    });
}

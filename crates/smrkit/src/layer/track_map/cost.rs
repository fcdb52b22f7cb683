//! The cost model of He & Du, HotStorage 2014, equations (1) and (2), for any number of tracks, head width, scheme and fill.
//!
//! A write to a track takes the occupied tracks downstream with it: those within W − 1 tracks after it, or after one
//! taken so; empty tracks are jumped. Each is read and written once, the tracks asked for are written once. The write
//! amplification ratio (WAR) is requests made per track asked for; the paper defines it for one track only.

use super::scheme::Scheme;
use crate::state::state;

/// Equation (1): capacity gained by a head `width` tracks wide in bands of `tracks` tracks.
pub fn space_gain(tracks: u64, width: u64) -> f64 {
    let (n, w) = (tracks as f64, width as f64);
    w * n / (n + w - 1.0)
}

/// Number of tracks, not asked for, that a write to the tracks `own` takes with it (the set D).
pub fn taken_along(occupied: &[bool], own: &[bool], width: usize) -> u64 {
    let (mut count, mut last) = (0, None);
    for track in 0..occupied.len() {
        let reached = last.is_some_and(|last| track - last < width);
        if own[track] {
            last = Some(track);
        } else if reached && occupied[track] {
            (count, last) = (count + 1, Some(track));
        }
    }
    count
}

/// Requests for a write to one track.
fn requests(occupied: &[bool], track: u32, width: usize) -> f64 {
    let mut own = vec![false; occupied.len()];
    own[track as usize] = true;
    (1 + 2 * taken_along(occupied, &own, width)) as f64
}

/// The mean WAR of updates over all used LBAs where `fill` (0 to 1) of the space is used: the closed form, for very many
/// bands of equal tracks. `None` on an empty disk.
pub fn update_war(scheme: &Scheme, width: usize, fill: f64) -> Option<f64> {
    let mut occupied = vec![false; scheme.tracks()];
    let mut left = fill * scheme.tracks() as f64;
    let mean = |bands: &[(&[bool], f64)]| {
        let (mut sum, mut tracks) = (0.0, 0.0);
        for &(occupied, share) in bands {
            for track in (0..occupied.len() as u32).filter(|&track| occupied[track as usize]) {
                sum += share * requests(occupied, track, width);
                tracks += share;
            }
        }
        (tracks > 0.0).then(|| sum / tracks)
    };
    for group in scheme.groups() {
        let before = occupied.clone();
        group.iter().for_each(|&track| occupied[track as usize] = true);
        // The last group in use has reached this share of the bands.
        let share = left / group.len() as f64;
        if share < 1.0 {
            return mean(&[(&occupied, share), (&before, 1.0 - share)]);
        }
        left -= group.len() as f64;
    }
    mean(&[(&occupied, 1.0)])
}

/// Cost of the first write to each track, in the order in which the tracks of a band are used, when an empty disk is
/// filled in order.
pub fn cold_requests(scheme: &Scheme, width: usize) -> Vec<f64> {
    let mut occupied = vec![false; scheme.tracks()];
    let cost = |&track: &u32| {
        let cost = requests(&occupied, track, width);
        occupied[track as usize] = true;
        cost
    };
    scheme.order().iter().map(cost).collect()
}

/// Counts of writes by tracks.
#[derive(Clone, Default)]
pub(super) struct TrackCounts {
    /// Updates by track of a band: writes over sectors that had been written before.
    pub updates: Vec<u64>,
    /// First writes by track of a band.
    pub cold_writes: Vec<u64>,
    /// Tracks taken along by updates, and by first writes.
    pub taken: [u64; 2],
    /// Tracks rewritten upstream, because of the limit of overwriting.
    pub refreshed: u64,
    /// Times that a write took other tracks of its band with it.
    pub bands_rewritten: u64,
}

state! {
    TrackCounts {
        sized: updates, cold_writes;
        values: taken, refreshed, bands_rewritten;
    }
}

impl TrackCounts {
    pub fn new(tracks: usize) -> TrackCounts {
        TrackCounts { updates: vec![0; tracks], cold_writes: vec![0; tracks], ..TrackCounts::default() }
    }

    /// WAR of updates, of first writes, and of both; `None` where there was none.
    pub fn wars(&self) -> [Option<f64>; 3] {
        let own = [&self.updates, &self.cold_writes].map(|list| list.iter().sum::<u64>());
        let war = |taken: u64, own: u64| (own > 0).then(|| (own + 2 * taken) as f64 / own as f64);
        let all = war(self.taken[0] + self.taken[1] + self.refreshed, own[0] + own[1]);
        [war(self.taken[0], own[0]), war(self.taken[1], own[1]), all]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scheme(text: &str) -> Scheme {
        text.parse::<Scheme>().unwrap()
    }

    /// The table of the paper's figure 2, and its text, in thirds.
    const TABLE: [(&str, [f64; 4]); 4] = [
        ("1234", [4.0, 4.0, 4.0, 4.0]),
        ("R(4123)", [1.0, 1.0, 5.0 / 3.0, 4.0]),
        ("124R(3)", [5.0 / 3.0, 5.0 / 3.0, 5.0 / 3.0, 4.0]),
        ("14R(23)", [1.0, 1.0, 5.0 / 3.0, 4.0]),
    ];

    /// A disk of whole tracks, on which every used track is updated and what a write destroys is put back, by nothing
    /// but that: the head destroys the `width − 1` tracks after the one it writes.
    fn brute_force(scheme: &Scheme, width: usize, bands: usize, used_tracks: usize) -> f64 {
        let mut used = vec![vec![false; scheme.tracks()]; bands];
        let mut left = used_tracks;
        for group in scheme.groups() {
            for band in &mut used {
                for &track in group {
                    band[track as usize] = left > 0;
                    left = left.saturating_sub(1);
                }
            }
        }
        let (mut requests, mut updates) = (0u64, 0u64);
        for band in &used {
            for track in (0..band.len()).filter(|&track| band[track]) {
                let mut spoilt = vec![false; band.len()];
                let mut write = |at: usize, spoilt: &mut Vec<bool>| {
                    requests += 1;
                    spoilt[at] = false;
                    for next in (at + 1..at + width).filter(|&next| next < band.len()) {
                        spoilt[next] = band[next];
                    }
                };
                write(track, &mut spoilt);
                let mut reads = 0;
                while let Some(at) = spoilt.iter().position(|&spoilt| spoilt) {
                    reads += 1;
                    write(at, &mut spoilt);
                }
                requests += reads;
                updates += 1;
            }
        }
        requests as f64 / updates as f64
    }

    #[test]
    fn the_table_is_exact_by_brute_force_and_by_the_closed_form() {
        for (text, expected) in TABLE {
            for (i, war) in expected.into_iter().enumerate() {
                let fill = (i + 1) as f64 / 4.0;
                assert!((update_war(&scheme(text), 2, fill).unwrap() - war).abs() < 1e-12, "{text} at {fill}");
                assert!((brute_force(&scheme(text), 2, 12, 12 * (i + 1)) - war).abs() < 1e-12, "{text} at {fill}");
            }
        }
    }

    #[test]
    fn full_bands_follow_equation_2_and_gains_equation_1() {
        for tracks in 1..12u64 {
            let text: Vec<String> = (1..=tracks).map(|track| track.to_string()).collect();
            let scheme = scheme(&text.join("-"));
            for width in 2..6 {
                assert_eq!(update_war(&scheme, width, 1.0), Some(tracks as f64));
            }
            assert_eq!(update_war(&scheme, 1, 1.0), Some(1.0));
        }
        assert_eq!([space_gain(4, 2), space_gain(4, 1), space_gain(1, 3)], [1.6, 1.0, 1.0]);
        assert!((space_gain(5, 3) - 15.0 / 7.0).abs() < 1e-12);
    }

    #[test]
    fn filling_in_order_is_free_and_the_last_quarter_costs_three() {
        assert_eq!(cold_requests(&scheme("1234"), 2), [1.0; 4]);
        for text in ["R(4123)", "124R(3)", "14R(23)"] {
            assert_eq!(cold_requests(&scheme(text), 2), [1.0, 1.0, 1.0, 3.0], "{text}");
        }
    }

    #[test]
    fn a_request_over_several_tracks_costs_their_union() {
        let taken = |occupied: [u8; 5], own: [u8; 5], width| {
            taken_along(&occupied.map(|bit| bit > 0), &own.map(|bit| bit > 0), width)
        };
        assert_eq!(taken([1, 1, 1, 1, 1], [1, 1, 0, 0, 0], 2), 3);
        assert_eq!(taken([1, 1, 1, 1, 1], [1, 0, 1, 0, 0], 2), 3);
        assert_eq!(taken([1, 1, 0, 1, 1], [1, 0, 0, 1, 0], 2), 2);
        assert_eq!(taken([1, 0, 1, 0, 1], [1, 0, 0, 0, 0], 2), 0);
        assert_eq!(taken([1, 0, 1, 0, 1], [1, 0, 0, 0, 0], 3), 2);
        assert_eq!(taken([0, 0, 0, 0, 0], [0, 1, 1, 0, 0], 3), 0);
    }

    proptest! {
        #[test]
        fn brute_force_and_closed_form_agree_for_any_scheme(
            (order, cuts) in (1usize..9).prop_flat_map(|n| (
                Just((1..=n).collect::<Vec<usize>>()).prop_shuffle(),
                prop::collection::vec(any::<bool>(), n),
            )),
            width in 1usize..6,
            sixtieths in 1usize..=60,
        ) {
            let items: Vec<String> =
                order.iter().zip(&cuts).map(|(t, &r)| if r { format!("R({t})") } else { t.to_string() }).collect();
            let scheme = items.concat().parse::<Scheme>().unwrap();
            // Bands enough that every group ends a band at each sixtieth: its length divides 840.
            let bands = 840;
            let used = bands * scheme.tracks() * sixtieths / 60;
            let whole = scheme.groups().map(<[u32]>::len).scan(0, |done, k| {
                let start = *done;
                *done += k * bands;
                Some((start, k))
            }).all(|(start, k)| used <= start || (used - start).is_multiple_of(k));
            prop_assume!(whole);
            let closed = update_war(&scheme, width, sixtieths as f64 / 60.0).unwrap();
            prop_assert!((brute_force(&scheme, width, bands, used) - closed).abs() < 1e-9);
        }
    }
}

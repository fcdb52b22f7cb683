use clap::Parser;
use smrfs::device::Model;
use smrkit::units::Nanos;

use super::*;

#[derive(Parser)]
struct Given {
    #[command(flatten)]
    ageing: Ageing,
    #[command(flatten)]
    simulation: Simulation,
}

fn given(text: &str) -> Result<Given, String> {
    let words = std::iter::once("age").chain(text.split_whitespace());
    Given::try_parse_from(words).map_err(|error| error.to_string())
}

fn course(text: &str) -> Result<CourseOptions, String> {
    let ageing = given(text)?.ageing;
    ageing.course(1_000_000_000, ageing.seed).map_err(|error| error.to_string())
}

#[test]
fn a_fill_is_percent_or_a_size() {
    let target = |text: &str| course(&format!("--fill {text}")).map(|course| course.ager.target_bytes);
    let fills = [
        ("70", 700_000_000),
        ("1", 10_000_000),
        ("0.5%", 5_000_000),
        ("100", 1_000_000_000),
        ("250MB", 250_000_000),
        ("1GB", 1_000_000_000),
    ];
    for (text, bytes) in fills {
        assert_eq!(target(text), Ok(bytes), "{text}");
    }
    for (text, said) in [
        ("0.5", "write 50, or 0.5% if so little is meant"),
        ("0", "a fill of nothing"),
        ("2GB", "lower --fill"),
        ("1000000001B", "lower --fill"),
        ("x", "--fill"),
    ] {
        let error = target(text).unwrap_err();
        assert!(error.contains(said), "{text}: {error}");
    }
}

#[test]
fn a_course_is_as_it_was_asked_for() {
    let text = "--fill 50 --bytes 2GB --size-factor 0.5 --idle 40 --interleave 4 --seed 9";
    let found = course(text).unwrap();
    let ager = &found.ager;
    assert_eq!((ager.target_bytes, ager.seed, ager.size_factor), (500_000_000, 9, 0.5));
    assert_eq!((found.duty.idle_percent, found.duty.spell), (40.0, Nanos(10_000_000_000)));
    assert_eq!((found.before_bytes, found.until_bytes, found.sample_bytes), (2_000_000_000, 2_000_000_000, 4_000_000));
    assert_eq!(found.record_from_bytes, 0);
    assert_eq!(
        (found.interleave, found.benchmarks.len(), found.ends_with_benchmarks),
        (Interleave::Blocks(4), 0, true)
    );

    let usual = course("--benchmarks").unwrap();
    assert_eq!((usual.before_bytes, usual.until_bytes), (8_000_000_000, u64::MAX));
    assert_eq!((usual.benchmarks.len(), usual.interleave), (4, Interleave::Blocks(8)));
    assert_eq!(course("--bytes 3B").unwrap().sample_bytes, 1);
    assert_eq!(course("--interleave file").unwrap().interleave, Interleave::WholeFile);
}

#[test]
fn what_would_never_end_or_begin_is_refused() {
    for (text, said) in [("--idle 100", "leaves no time"), ("--interleave 0", "turns of 0 blocks")] {
        let error = course(text).err().unwrap();
        assert!(error.contains(said), "{text}: {error}");
    }
    assert!(course("--idle 99").is_ok());
}

#[test]
fn a_simulated_disk_is_as_it_was_asked_for() {
    let world = |text: &str| {
        let worlds = given(text)?.simulation.worlds().map_err(|error| error.to_string())?;
        Ok::<_, String>(worlds.into_iter().next())
    };
    assert!(world("").unwrap().is_none());
    let text = "--simulate caveat --size 5GB --did 2MiB --dpid 3MiB --granule 4KiB --placement best-fit --defragment";
    let found = world(text).unwrap().unwrap();
    assert_eq!((found.model, found.disk_bytes, found.granule_bytes), (Model::Caveat, 5_000_000_000, 4096));
    assert_eq!((found.did_bytes, found.dpid_bytes), (2 << 20, 3 << 20));
    assert_eq!((found.caveat.placement, found.caveat.defragment), (Placement::BestFit, true));
    let usual = world("--simulate strict-append").unwrap().unwrap();
    assert_eq!((usual.model, usual.drive.name.as_str()), (Model::StrictAppend, "wdc-2tb"));
    assert_eq!((usual.granule_bytes, usual.caveat.defragment), (64 << 10, false));
    for granule in ["0", "2MiB", "96KiB"] {
        let error = world(&format!("--simulate caveat --granule {granule}")).err().unwrap();
        assert!(error.contains("a divisor of 1MiB"), "{granule}: {error}");
    }
    assert!(world("--simulate caveat --granule 1MiB").is_ok());
}

#[test]
fn a_fill_by_size_gives_disks_of_any_size_the_same_benchmarks() {
    let benchmarks = |disk| given("--fill 700MB --benchmarks").unwrap().ageing.course(disk, 1).unwrap().benchmarks;
    assert_eq!(benchmarks(3_000_000_000), benchmarks(1_000_000_000));
    assert_eq!(benchmarks(3_000_000_000), course("--fill 70 --benchmarks").unwrap().benchmarks);
}

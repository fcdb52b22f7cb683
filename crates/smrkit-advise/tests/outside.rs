//! A layer of another crate, built by closures, in comparisons, arrays, check mode, advice and reports.

use std::sync::Arc;

use smrkit::drive::Drive;
use smrkit::experiment::Experiment;
use smrkit::experiment::demand::GeneratedDemand;
use smrkit::experiment::pool::Unwatched;
use smrkit::experiment::system::{System, Systems};
use smrkit::layer::{self, LayerSpec};
use smrkit::settings::Settings;
use smrkit::workload::Workload;
use smrkit_advise::screen::{self, Screen};
use smrkit_advise::{Load, LoadKind, Question, Silent, advise};

/// Read-modify-write under another name: what is compared with the original must be equal.
fn registered() -> &'static LayerSpec {
    let rmw = layer::find("rmw").unwrap();
    let parameters = rmw.resolve(&[("region_sectors".into(), "300".into())]).unwrap();
    let own = parameters.clone();
    let capacity = move |drive: &Drive| (rmw.capacity)(drive, &own);
    let build = move |drive: &Drive| (rmw.build)(drive, &parameters);
    layer::register(LayerSpec::from_closures("outside", "Read-modify-write by another name.", capacity, build)).unwrap()
}

#[test]
fn a_layer_of_another_crate_works_wherever_a_layer_is_named() {
    let spec = registered();
    assert!(layer::register(LayerSpec { name: "rmw", ..*spec }).is_err(), "smrkit's names are taken");
    let workload = || GeneratedDemand::from(Workload::parse("random-write:count=300").unwrap());
    let single = System::drive("tiny").layer("outside").layer("rmw").set("rmw.region_sectors", 300);
    let array = System { array: Some("raid5:disks=3,chunk=16KiB".parse().unwrap()), ..single.clone() };
    for system in [single.clone(), array] {
        let settings = Settings { check: true, ..Settings::default() };
        let runs = Experiment::new(system, workload()).settings(settings).compare().unwrap();
        assert_eq!((runs[0].layer.as_str(), runs[1].layer.as_str()), ("outside", "rmw"));
        assert_eq!((runs[0].elapsed_ns, runs[0].slowdown), (runs[1].elapsed_ns, runs[1].slowdown));
        assert_eq!(runs[0].physical_written_sectors, runs[1].physical_written_sectors);
        let (text, page) = (smrkit_report::text(&runs), smrkit_report::report(&runs, None, None));
        assert!(text.contains("outside") && page.contains("outside"));
    }
    let one = Systems::new(&System { layers: vec!["outside".into()], set: Vec::new(), ..single }).unwrap();
    let settings = [Settings::default()];
    let run = one.runs(&settings, None).unwrap().pop().unwrap();
    let demand = Arc::new(workload());
    let loads = vec![Load { kind: LoadKind::Asked, demand, settings: settings[0], is_even: false }];
    let question = Question::of(run, loads);
    let advice = advise(&question, &Unwatched, &mut Silent).unwrap().unwrap();
    assert_eq!(advice.system.layer, "outside");
    assert!(screen::text(&advice, Screen { details: true, ..Screen::default() }).contains("under outside"));
}

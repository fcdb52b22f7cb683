use super::*;

use crate::plan::Sweep;
use smrkit::experiment::pool::Unwatched;

#[test]
fn what_another_version_found_has_another_key() {
    assert!(program(&[]).unwrap().starts_with(smrkit::VERSION));
}

#[test]
fn a_task_is_computed_unless_interrupted_or_of_another_version() {
    struct Ended;
    impl Monitor for Ended {
        fn goes_on(&self) -> bool {
            false
        }
    }
    let scratch = tempfile::tempdir().unwrap();
    let store = Store::create(scratch.path()).unwrap();
    let text = "drive = 'tiny'\nlayer = 'rmw'\nset = {'rmw.region_sectors' = 300}\nworkload = 'random-write:count=9'";
    let sweep = Sweep::parse("test", text).unwrap();
    let task = Task::plan(&sweep.comparisons[0], &mut FileHashes::default()).unwrap();
    assert_eq!(task.runs, 1);
    assert_eq!(task.compute(&store, &Ended, 0).unwrap(), None);
    assert!(!store.has(&task.key));
    assert_eq!(task.compute(&store, &Unwatched, 0).unwrap(), Some(1));
    assert!(store.has(&task.key));
    let sent: Task = serde_json::from_str(&serde_json::to_string(&task).unwrap()).unwrap();
    assert_eq!(sent, task);
    let other = Task { program: "9.9".into(), ..sent };
    assert!(other.compute(&store, &Unwatched, 0).unwrap_err().to_string().contains("install one version"));
    let within = Within { monitor: &Ended, threads: 7 };
    assert_eq!((within.goes_on(), within.threads(), within.commit()), (false, 7, None));
}

#[test]
fn an_error_names_the_options_that_it_is_about() {
    let options = [("drive", "tiny"), ("layer", "none")].map(|(name, value)| (name.to_string(), value.to_string()));
    assert_eq!(words(&options), "drive tiny, layer none");
    let error = Task::plan(&options, &mut FileHashes::default()).err().unwrap().to_string();
    assert!(error.contains("drive tiny, layer none"), "{error}");
}

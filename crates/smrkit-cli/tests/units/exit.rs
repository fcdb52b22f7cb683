use std::path::PathBuf;

use smrkit::error::Error;

use super::*;

#[test]
fn each_kind_of_error_has_its_exit_code() {
    let of = |error: Error| number(&error.into());
    assert_eq!(of(Error::Usage("x".into())), 2);
    assert_eq!(of(Error::input("/x", "damaged")), 3);
    assert_eq!(of(Error::Impossible("x".into())), 4);
    let io = |writing| Error::Io { path: "/x".into(), error: io::ErrorKind::NotFound.into(), writing };
    assert_eq!((of(io(false)), of(io(true))), (3, 1));
    assert_eq!(of(Error::SecondVolume("/x".into())), 1);
    assert_eq!(of(Error::Usage("x".into()).about("a run")), 2, "what it is about does not count");
    assert_eq!(number(&anyhow::anyhow!("x")), 1);
    assert_eq!(number(&ChildError { error: "x".into(), code: 77 }.into()), 77);
    assert_eq!(ChildError { error: "why".into(), code: 77 }.to_string(), "why");
}

#[test]
fn errors_of_mounts_and_images_have_theirs() {
    let path = || PathBuf::from("/x");
    let live = |error: LiveError| [number(&error.into())];
    assert_eq!(live(LiveError::Impossible("x".into())), [4]);
    assert_eq!(live(LiveError::NoAttributes(path())), [4]);
    assert_eq!(live(LiveError::ShortAttributes { path: path(), bytes: 1 }), [4]);
    assert_eq!((live(LiveError::Full(path())), live(LiveError::FullToMark(path()))), ([1], [1]));
    assert_eq!((live(LiveError::Corrupt("x".into())), live(LiveError::InUse(path()))), ([5], [3]));
    let mount = |error: MountError| number(&error.into());
    assert_eq!(mount(MountError::PointMissing(path())), 3);
    assert_eq!(mount(MountError::PointNotDirectory(path())), 3);
    assert_eq!(mount(MountError::PointNotEmpty(path())), 3);
    assert_eq!(mount(MountError::PointInMetadata { path: path(), meta: path() }), 4);
    assert_eq!(mount(MountError::NoDevice), 1);
    assert_eq!(mount(MountError::Volume(LiveError::Corrupt("x".into()))), 5);
}

#[test]
fn only_a_closed_pipe_is_no_error() {
    let of = |kind: io::ErrorKind| is_closed_pipe(&anyhow::Error::from(io::Error::from(kind)).context("output"));
    assert_eq!([io::ErrorKind::BrokenPipe, io::ErrorKind::NotFound].map(of), [true, false]);
    assert!(!is_closed_pipe(&anyhow::anyhow!("x")));
}

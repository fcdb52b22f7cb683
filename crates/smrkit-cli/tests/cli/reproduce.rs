//! `smrkit reproduce` hands its options to the studies of the Python package, whose own tests run them.

use std::os::unix::fs::PermissionsExt;

use super::{Ran, Scratch, command, finish};

fn with_python(python: &str, arguments: &str) -> Ran {
    let mut run = command();
    run.args(arguments.split_whitespace()).env("SMRKIT_PYTHON", python);
    finish(run)
}

/// A Python that has the studies, prints what it is asked for, and ends with 7.
fn python(scratch: &Scratch) -> String {
    let path = scratch.path("python");
    std::fs::write(&path, "#!/bin/sh\n[ \"$1\" = -c ] && exit 0\necho \"$@\"\necho \"$SMRKIT\"\nexit 7\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_python_without_the_package_says_how_to_install_it() {
    for python in ["false", "/nowhere/python"] {
        let ran = with_python(python, "reproduce vguard");
        assert_eq!((ran.code, ran.err.lines().count()), (1, 1), "{}", ran.err);
        assert!(
            ran.err.contains("pip install") && ran.err.contains("make wheel") && ran.err.contains(python),
            "{}",
            ran.err
        );
    }
}

#[test]
fn options_reach_the_study_and_its_exit_code_comes_back() {
    let scratch = Scratch::new();
    let python = python(&scratch);
    let ran =
        with_python(&python, "reproduce he-du --quick --traces t --json - --figures out --figure-format png --seed 3");
    let said = "-m smrkit.reproduce he-du --seed 3 --quick --json - --figures out --figure-format png --traces t";
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!((ran.code, lines[0]), (7, said), "{}", ran.err);
    assert!(lines[1].ends_with("smrkit"), "the study calls this command in turn: {}", lines[1]);
    let ran = with_python(&python, "reproduce all --report papers.html");
    assert!(ran.out.contains("smrkit.reproduce all --seed 1 --report papers.html --figure-format svg"), "{}", ran.out);
}

//! Refusals to mount, in words that help; nothing is changed.

use std::fs;

use super::{Bench, kill};

#[test]
fn a_mount_point_that_will_not_do_is_refused() {
    let Some(bench) = Bench::new("caveat", "64MiB") else { return };
    let image = bench.path("disk.img");
    let at = |point: &str| bench.smrkit(&["mount", &image, &bench.path(point)]);
    at("nowhere").says(3, &["nowhere", "make the directory"]);
    fs::write(bench.path("file"), "").unwrap();
    at("file").says(3, &["not a directory", "empty directory"]);
    fs::create_dir(bench.path("full")).unwrap();
    fs::write(bench.path("full/file"), "").unwrap();
    at("full").says(3, &["not empty"]);
    fs::create_dir(bench.path("meta/tree/inside")).unwrap();
    at("meta/tree/inside").says(4, &["meta/tree/inside", "metadata directory", "another mount point"]);
    bench.smrkit(&["umount", &bench.path("full")]).says(1, &["no SMRfs mounted"]);
    bench.smrkit(&["top", "--once", &bench.path("full")]).says(1, &["no SMRfs mounted"]);
}

#[test]
fn an_image_in_use_is_refused() {
    let Some(bench) = Bench::new("strict-append", "64MiB") else { return };
    fs::create_dir(bench.path("other")).unwrap();
    bench.mount().done();
    bench.mount().says(1, &["mounted already", "smrkit umount"]);
    bench.smrkit(&["mount", &bench.path("disk.img"), &bench.path("other")]).says(3, &["in use"]);
    bench.umount().done();
    bench.is_in_order();
}

#[test]
fn an_image_that_is_none_is_refused() {
    let Some(bench) = Bench::new("caveat", "64MiB") else { return };
    fs::write(bench.path("text"), "not an image").unwrap();
    bench.smrkit(&["mount", &bench.path("text"), &bench.path("mnt")]).says(3, &["text"]);
    bench.smrkit(&["mount", &bench.path("nowhere"), &bench.path("mnt")]).says(3, &["nowhere"]);
    assert_eq!(fs::read_to_string(bench.path("text")).unwrap(), "not an image");
}

#[test]
fn a_wrong_metadata_directory_is_refused() {
    let Some(bench) = Bench::new("caveat", "64MiB") else { return };
    let (other, meta) = (bench.path("other.img"), bench.path("other"));
    bench.smrkit(&["mkfs", "--model", "caveat", "--size", "64MiB", &other, "--meta", &meta]).done();
    bench.smrkit(&["mount", "--meta", &meta, &bench.path("disk.img"), &bench.path("mnt")]).says(3, &["--meta"]);
    fs::create_dir(bench.path("empty")).unwrap();
    let empty = bench.path("empty");
    bench.smrkit(&["mount", "--meta", &empty, &bench.path("disk.img"), &bench.path("mnt")]).says(3, &["--meta"]);
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
}

#[test]
fn a_dead_mount_is_named_and_removed() {
    let Some(bench) = Bench::new("caveat", "64MiB") else { return };
    bench.mount().done();
    kill(bench.process());
    bench.mount().says(1, &["dead mount", "smrkit umount"]);
    bench.umount().done();
    bench.mount().done();
    bench.umount().done();
}

#[test]
fn a_run_directory_that_others_can_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let Some(bench) = Bench::new("caveat", "64MiB") else { return };
    fs::create_dir(bench.path("shared")).unwrap();
    fs::set_permissions(bench.path("shared"), fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = bench.command(&["mount", &bench.path("disk.img"), &bench.path("mnt")]);
    let ran = command.env("SMRKIT_RUN_DIR", bench.path("shared")).output().unwrap();
    super::Ran(ran).says(1, &["control socket", "SMRKIT_RUN_DIR"]);
}

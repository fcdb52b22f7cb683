//! The kernel's word on a block device in /sys: its kind of zones and its limits.

use std::fs::{File, read_to_string};
use std::os::unix::fs::MetadataExt;

fn attribute(device: &File, name: &str) -> Option<String> {
    let number = device.metadata().ok()?.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let text = read_to_string(format!("/sys/dev/block/{major}:{minor}/queue/{name}")).ok()?;
    Some(text.trim().to_string())
}

/// Attribute `name` as a number; 0 if there is none.
pub(super) fn number(device: &File, name: &str) -> u64 {
    attribute(device, name).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The model of its zones: `none`, `host-aware` or `host-managed`; none if the kernel does not tell.
pub(super) fn zoned(device: &File) -> Option<String> {
    attribute(device, "zoned")
}

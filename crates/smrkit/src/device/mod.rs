//! Devices that requests are sent to: a drive with its queue, or an array of drives and arrays.

pub mod address;
mod command;
mod drive_contents;
mod event_queue;
pub mod health;
mod layered;
pub mod level;
mod member;
mod member_drive;
mod plan;
mod queue;
mod redundancy;
mod shadow;
pub mod spec;
mod work;
mod write_cache;

pub use command::{Command, Completion, FirstStamps, Served};
pub use drive_contents::DriveContents;
pub use layered::LayeredDisk;
pub use member::{Array, Member};
pub use member_drive::MemberDrive;
pub use queue::{NCQ_COMMANDS, Queueing};
pub use shadow::Shadow;
pub use work::DonePart;

//! Devices that requests are sent to: a drive with its queue, or an array of drives and arrays.

pub mod address;
mod command;
mod dispatch;
mod drive_contents;
mod event_queue;
pub mod health;
mod layered;
pub mod level;
mod locks;
mod member;
mod member_drive;
mod outage;
mod plan;
mod queue;
mod redundancy;
mod shadow;
pub mod spec;
mod watch;
mod work;

pub use command::{Command, Completion, FirstStamps, Served};
pub use dispatch::NCQ_COMMANDS;
pub use drive_contents::DriveContents;
pub use layered::LayeredDisk;
pub use member::{Array, Member};
pub use member_drive::MemberDrive;
pub use queue::Queueing;
pub use shadow::Shadow;
pub use work::DonePart;

//! Devices that requests are sent to: a drive with its queue, or an array of drives and arrays.

pub mod address;
mod background;
mod check;
mod command;
mod dispatch;
mod event_queue;
pub mod health;
mod layered;
pub mod level;
mod locks;
mod member;
mod member_drive;
mod outage;
mod parity;
mod plan;
mod queue;
mod shadow;
pub mod spec;
mod watch;
mod work;
mod work_steps;

pub use command::{Command, Completion, FirstStamps, SectorStamps, Served, Stamped};
pub use dispatch::NCQ_COMMANDS;
pub use layered::{LayerBuilder, LayeredDisk};
pub use member::Member;
pub use member::array::{Array, DonePart};
pub use member_drive::MemberDrive;
pub use queue::{Queueing, Waiting};
pub use shadow::Shadow;

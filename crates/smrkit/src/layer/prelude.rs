//! What nearly every layer is written with.

pub(super) use super::interface::{ensure, inconsistent};
pub(super) use super::stats::{counts, layer_counts};
pub(super) use super::{Capacity, Gauge, Gauges, Layer, LayerKeys, LayerSpec, LayerStats, Need, QueuedWrite, Scalar};
pub(super) use crate::disk::Disk;
pub(super) use crate::drive::Drive;
pub(super) use crate::error::{DiskResult, Error};
pub(super) use crate::keys;
pub(super) use crate::medium::interference::Form;
pub(super) use crate::medium::{Ascending, Buf, Placement};
pub(super) use crate::schema::{Count, Or, Switch, percent, words};
pub(super) use crate::state::{layer_state, state};
pub(super) use crate::tally::Cause;
pub(super) use crate::units::{Lba, Nanos, Pba};

//! Runs of drives and arrays as the library offers them: one program, since each takes its time to build.

#[path = "../common/mod.rs"]
mod common;

mod array_accesses;
mod array_bars;
mod capacity;
mod closed_forms;
mod closed_forms_log;
mod conservation;
mod degraded;
mod determinism;
mod dm_zoned;
mod drive_managed;
mod full_disk;
mod h_swd;
mod host_aware;
mod idle;
mod imr;
mod known;
mod long;
mod merge;
mod plan;
mod rebuild;
mod s_block;
mod saved_state;
mod skylight;
mod smart;
mod steady;
mod timeouts;
mod track_map;
mod vguard;
mod write_cache;
mod zone_log;
mod zoned;

//! Counters of physical accesses, by cause.

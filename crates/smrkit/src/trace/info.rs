//! Statistics of a trace.

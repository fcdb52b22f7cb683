//! Traces: readers, one file a format; a writer; statistics.

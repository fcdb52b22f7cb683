//! Sizes and durations as people write them.

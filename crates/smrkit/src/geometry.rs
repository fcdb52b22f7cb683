//! Recording zones, tracks, bands and guards: pure arithmetic.

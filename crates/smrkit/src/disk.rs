//! The only door to the platters.

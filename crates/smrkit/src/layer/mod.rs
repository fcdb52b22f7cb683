//! Translation layers: one file a published scheme.

//! What a comparison runs: layers and their parameters, on a drive or as the members of an array, in the size asked for.

pub mod arrays;
pub mod settings;
pub mod size;

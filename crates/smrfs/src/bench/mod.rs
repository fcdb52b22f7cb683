//! The benchmarks of Kadekodi et al. 2015 (section 5) as seeded workloads: Postmark's and the Filebench file server's.
//!
//! Only what they ask of a file system; their volumes are not given in the paper and are assumptions.

pub mod fileserver;
pub mod postmark;

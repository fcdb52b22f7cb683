//! Ageing a file system, after Kadekodi et al. 2015 (section 5): the tool, its distributions, and the course of figure 4.

pub mod ager;
pub mod course;
pub mod distribution;
pub mod world;

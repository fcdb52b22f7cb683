//! The shingling law: which sectors a write destroys.

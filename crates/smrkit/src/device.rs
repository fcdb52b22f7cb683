//! A drive, or an array of drives.

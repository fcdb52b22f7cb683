//! When it happens: the clock of a drive, and the files that describe drives.

//! Closed forms and single behaviours of the drive-managed layer.

//! The closed forms of the safety rule, and the ledger beside a disk kept granule by granule.

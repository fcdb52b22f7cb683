//! Where a file's data lies: extents in memory, and their code in the metadata store.

//! The map from LBA to PBA that layers share.

//! SMRfs, a file system for host-managed shingled disks, without FUSE and without an operating system.
//!
//! The systems of Kadekodi, Pimpale and Gibson, "Caveat-Scriptor: Write Anywhere Shingled Disks" (2015): both models of a host-managed
//! disk, and the file system on both. The same code runs mounted and on the model's clock. The modules are listed in the order of their
//! dependencies: each uses only those above it, except for `testing`, which may use any.

/// Methods that forward their calls to the expression after `=>`, or to the methods of a trait, if two have methods of that name.
macro_rules! pass_on {
    ($me:ident => $by:ident::; $(fn $name:ident(&self $(, $arg:ident: $type:ty)*) $(-> $out:ty)?;)*) => {
        $(fn $name(&$me $(, $arg: $type)*) $(-> $out)? { $by::$name($me $(, $arg)*) })*
    };
    ($me:ident => $to:expr; $(fn $name:ident(&self $(, $arg:ident: $type:ty)*) $(-> $out:ty)?;)*) => {
        $(fn $name(&$me $(, $arg: $type)*) $(-> $out)? { $to.$name($($arg),*) })*
    };
}

pub mod units;
pub mod error;
pub mod data;
pub mod device;
pub mod meta;
pub mod map;
pub mod safety;
pub mod superblock;
pub mod space;
pub mod fs;
pub mod fsck;
pub mod workload;
pub mod bench;
pub mod age;
#[cfg(any(test, feature = "testing"))]
#[path = "../tests/testing/mod.rs"]
pub mod testing;

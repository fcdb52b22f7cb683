//! A node's place in the tree.

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeName {
    /// The directory.
    pub parent: u64,
    /// The name.
    pub name: Box<[u8]>,
}

impl NodeName {
    /// The name `name` in `parent`.
    pub fn new(parent: u64, name: &[u8]) -> NodeName {
        NodeName { parent, name: name.into() }
    }

    /// True if it is this one.
    pub fn is(&self, parent: u64, name: &[u8]) -> bool {
        self.parent == parent && *self.name == *name
    }
}

//! Data on its way: bytes, or in simulation only how many.

/// Data to be written.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// The bytes of memory.
    Bytes(&'a [u8]),
    /// A number of bytes of no interest (simulation). They read back as zeros.
    Blank(u64),
}

impl<'a> Data<'a> {
    /// Its bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Data::Bytes(bytes) => bytes.len() as u64,
            Data::Blank(bytes) => *bytes,
        }
    }

    /// `count` bytes of it from `from` on.
    pub fn part(&self, from: u64, count: u64) -> Data<'a> {
        match self {
            Data::Bytes(bytes) => Data::Bytes(&bytes[from as usize..(from + count) as usize]),
            Data::Blank(_) => Data::Blank(count),
        }
    }
}

/// Buffer that reads fill.
#[derive(Debug)]
pub enum ReadBuffer<'a> {
    /// Into these bytes, all of them.
    Bytes(&'a mut [u8]),
    /// Nowhere: this many bytes are read for their time (simulation).
    Blank(u64),
}

impl ReadBuffer<'_> {
    /// The bytes it takes.
    pub fn bytes(&self) -> u64 {
        match self {
            ReadBuffer::Bytes(bytes) => bytes.len() as u64,
            ReadBuffer::Blank(bytes) => *bytes,
        }
    }

    /// `count` bytes of it from `from` on.
    pub fn part(&mut self, from: u64, count: u64) -> ReadBuffer<'_> {
        match self {
            ReadBuffer::Bytes(bytes) => ReadBuffer::Bytes(&mut bytes[from as usize..(from + count) as usize]),
            ReadBuffer::Blank(_) => ReadBuffer::Blank(count),
        }
    }

    /// Fills it with zeros, as a hole reads.
    pub fn clear(&mut self) {
        if let ReadBuffer::Bytes(bytes) = self {
            bytes.fill(0);
        }
    }
}

//! The volumes of a trace, in order of first sight; a row names one by its index.

use std::collections::HashMap;

use crate::row::Bad;
use crate::row::{Field, Problem};
use crate::volume::Volume;

/// The most volumes of one trace: a request's index has 16 bits.
pub(crate) const VOLUMES_MAX: usize = 65_535;

/// Numbers below this are found in a flat table, others in a map.
const FLAT: u64 = 1 << 16;

/// The table of volumes, filled as rows are seen.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    list: Vec<Volume>,
    /// Index plus one by number.
    flat: Vec<u16>,
    numbers: HashMap<u64, u16>,
    names: HashMap<Vec<u8>, u16>,
}

impl Volumes {
    /// The volumes so far.
    pub fn list(&self) -> &[Volume] {
        &self.list
    }

    /// The index of the volume with this number; a new one is called `name`. `field` is where it stands.
    pub fn numbered(&mut self, number: u64, field: Field, name: impl FnOnce() -> String) -> Result<u16, Bad> {
        if number < FLAT {
            if let Some(index) = self.flat.get(number as usize).and_then(|plus_one| plus_one.checked_sub(1)) {
                return Ok(index);
            }
            let index = self.add(number, name()).ok_or_else(|| field.bad(Problem::TooManyVolumes))?;
            if self.flat.len() <= number as usize {
                self.flat.resize(number as usize + 1, 0);
            }
            self.flat[number as usize] = index + 1;
            return Ok(index);
        }
        if let Some(index) = self.numbers.get(&number) {
            return Ok(*index);
        }
        let index = self.add(number, name()).ok_or_else(|| field.bad(Problem::TooManyVolumes))?;
        self.numbers.insert(number, index);
        Ok(index)
    }

    /// The index of the volume with this number, which is also its name.
    pub fn plain(&mut self, field: Field) -> Result<u16, Bad> {
        let number = field.integer()?;
        self.numbered(number, field, || number.to_string())
    }

    /// The index of the volume that `key` names; a new one gets `number`, or the next free one.
    pub fn named(&mut self, key: &[u8], number: Option<u64>, field: Field) -> Result<u16, Bad> {
        if let Some(index) = self.names.get(key) {
            return Ok(*index);
        }
        let number = number.unwrap_or(self.list.len() as u64);
        let name = String::from_utf8_lossy(key).into_owned();
        let index = self.add(number, name).ok_or_else(|| field.bad(Problem::TooManyVolumes))?;
        self.names.insert(key.to_vec(), index);
        Ok(index)
    }

    fn add(&mut self, number: u64, name: String) -> Option<u16> {
        let index = u16::try_from(self.list.len()).ok().filter(|_| self.list.len() < VOLUMES_MAX)?;
        self.list.push(Volume { number, name });
        Some(index)
    }
}

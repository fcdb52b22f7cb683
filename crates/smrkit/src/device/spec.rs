//! The description of an array as users write it, a short text.
//!
//! It is `LEVEL:key=value,…`, with `member=(…)` for each drive where they differ. Values with commas, parentheses or blanks are put in
//! double quotes, and quotes inside them doubled. Names of layers and drives are not looked up here. `docs/reference/arrays.md` has the
//! keys.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use super::level::{CHUNK_SECTORS, Level};
use crate::error::Error;
use crate::keys;
use crate::names::known;
use crate::quantity::exact_bytes;
use crate::schema::{Count, Key, Keyed, Maybe, Sectors, Size, TextPiece, ValueKind, Values};
use crate::units::SECTOR_BYTES;

/// The most drives of an array (assumption: no controller has more).
pub const DRIVES_MAX: usize = 4096;

/// An array; `Display` gives its canonical text, which parses to the same array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArraySpec {
    /// Its kind.
    pub level: Level,
    /// The level's name as it was written: that of ZFS or that of md.
    pub name: &'static str,
    /// Sectors of a chunk; without effect where there are no chunks.
    pub chunk_sectors: u64,
    /// The members, in order.
    pub members: Vec<DriveSpec>,
}

/// A drive or an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SystemSpec {
    /// A drive with a layer.
    Drive(DriveSpec),
    /// An array of drives.
    Array(ArraySpec),
}

/// A drive with a layer. Values that are not given are those of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriveSpec {
    /// The layer's name.
    pub layer: Option<String>,
    /// The drive's name, or its file.
    pub drive: Option<String>,
    /// The drive's size in sectors.
    pub capacity_sectors: Option<u64>,
    /// Parameters of the layer, as text.
    pub set: Vec<(String, String)>,
}

impl DriveSpec {
    /// A drive by its name under a layer with these parameters.
    pub fn of(drive: impl Into<String>, layer: impl Into<String>, set: Vec<(String, String)>) -> DriveSpec {
        DriveSpec { layer: Some(layer.into()), drive: Some(drive.into()), capacity_sectors: None, set }
    }
}

impl ArraySpec {
    /// An array with chunks of the usual size.
    pub fn new(level: Level, members: Vec<DriveSpec>) -> ArraySpec {
        ArraySpec { level, name: level.name(), chunk_sectors: CHUNK_SECTORS, members }
    }

    /// The keys that are values: those of an array, then those of a drive in it.
    pub fn keys() -> Vec<Key> {
        [ArrayKeys::keys(), DriveKeys::keys()].concat()
    }

    /// Reads the text: `raid5:disks=4,chunk=512KiB,layer=drive-managed`.
    pub fn parse(text: &str) -> Result<ArraySpec, Error> {
        let text = TextPiece::whole("array", text);
        let end = text.text.find(':').unwrap_or(text.text.len());
        let kind = text.slice(0, end).trimmed();
        if kind.text.is_empty() {
            let example =
                "the kind of array is missing: write raid5:disks=4,chunk=512KiB,layer=drive-managed or the like";
            return Err(kind.error(example).into());
        }
        let (mut values, mut shared, mut members) =
            (Values::new(ArrayKeys::keys()), WrittenDrive::default(), Vec::new());
        for item in text.slice((end + 1).min(text.text.len()), text.text.len()).items()? {
            let (key, value) = item.key_and_value()?;
            match key.text {
                "member" => members.push(WrittenDrive::parse(value.inside()?)?),
                name if values.keys.iter().any(|known| known.name == name) => set_value(&mut values, key, value)?,
                _ => {
                    // A key of all drives; the keys of the array are named in its error.
                    let keys = values.keys.iter().map(|key| key.name).chain(["member"]).collect::<Vec<_>>();
                    shared.set(key, value, &keys)?;
                }
            }
        }
        let keys = ArrayKeys::read(&values)?;
        let name = Level::name_as_written(kind.text)?;
        let level = Level::named(name)?;
        let shared = shared.inheriting(&DriveSpec::default())?;
        let members = members.iter().map(|own| own.inheriting(&shared)).collect::<Result<Vec<_>, Error>>()?;
        let members = with_count(members, keys.disks, name, shared)?;
        level.check_disks(name, members.len())?;
        Ok(ArraySpec { level, name, chunk_sectors: keys.chunk, members })
    }
}

impl SystemSpec {
    /// Reads the text of an array, or that of a drive: `layer=rmw,drive=tiny,set=(region_sectors=1k)`.
    pub fn parse(text: &str) -> Result<SystemSpec, Error> {
        if Level::named(text.split(':').next().unwrap_or_default()).is_ok() {
            return ArraySpec::parse(text).map(SystemSpec::Array);
        }
        let mut alone = ArraySpec::parse(&format!("{}:disks=1,{text}", Level::Span))?;
        Ok(SystemSpec::Drive(alone.members.remove(0)))
    }

    /// The drive, or the drives of the array, in order.
    pub fn drives(&self) -> &[DriveSpec] {
        match self {
            SystemSpec::Drive(drive) => std::slice::from_ref(drive),
            SystemSpec::Array(array) => &array.members,
        }
    }

    /// The drives, mutable.
    pub fn drives_mut(&mut self) -> &mut [DriveSpec] {
        match self {
            SystemSpec::Drive(drive) => std::slice::from_mut(drive),
            SystemSpec::Array(array) => &mut array.members,
        }
    }
}

impl FromStr for ArraySpec {
    type Err = Error;
    fn from_str(text: &str) -> Result<ArraySpec, Error> {
        ArraySpec::parse(text)
    }
}

impl fmt::Display for ArraySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:disks={}", self.name, self.members.len())?;
        // Under a name of ZFS's, which has no chunks, the chunk is shown only if one was given.
        if self.name == self.level.name() || self.chunk_sectors != CHUNK_SECTORS {
            write!(f, ",chunk={}", CHUNK.write(&self.chunk_sectors).text)?;
        }
        // Members that are all alike are described once, by keys of the array.
        let alike = self.members.windows(2).all(|pair| pair[0] == pair[1]);
        match self.members.first() {
            Some(drive) if alike => match drive.to_string() {
                none if none.is_empty() => Ok(()),
                keys => write!(f, ",{keys}"),
            },
            _ => self.members.iter().try_for_each(|member| write!(f, ",member=({member})")),
        }
    }
}

impl fmt::Display for SystemSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SystemSpec::Drive(drive) => drive.fmt(f),
            SystemSpec::Array(array) => array.fmt(f),
        }
    }
}

impl fmt::Display for DriveSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut keys = Vec::new();
        keys.extend(self.layer.iter().map(|name| format!("layer={}", quoted(name))));
        keys.extend(self.drive.iter().map(|name| format!("drive={}", quoted(name))));
        let bytes = |sectors: &u64| exact_bytes(sectors.saturating_mul(SECTOR_BYTES));
        keys.extend(self.capacity_sectors.iter().map(|sectors| format!("capacity={}", bytes(sectors))));
        if !self.set.is_empty() {
            let pairs = self.set.iter().map(|(key, value)| format!("{}={}", quoted(key), quoted(value)));
            keys.push(format!("set=({})", pairs.collect::<Vec<_>>().join(",")));
        }
        f.write_str(&keys.join(","))
    }
}

/// The kind of `chunk`.
const CHUNK: Sectors = Sectors(1, u64::MAX / SECTOR_BYTES);

keys! {
    /// The values of an array.
    struct ArrayKeys {
        /// Number of disks; by default the number of `member` keys. With a single `member`, all disks are like it.
        disks: Option<u64> = Maybe(Count(1, u64::MAX)), "";
        /// Length of a chunk: so much is stored on one member before the next member follows.
        chunk: u64 = CHUNK, "512Ki";
    }
}

keys! {
    /// The values of a drive in an array.
    struct DriveKeys {
        /// Size of each member, rounded down to whole sectors.
        capacity: Option<u64> = Maybe(Size(SECTOR_BYTES, u64::MAX)), "";
    }
}

fn usage<T>(message: impl Into<String>) -> Result<T, Error> {
    Err(Error::Usage(message.into()))
}

/// As many members as there are `disks`; without that number, as many as are `given`. A single one, or else the `shared` drive, stands for
/// all.
fn with_count(
    mut given: Vec<DriveSpec>,
    disks: Option<u64>,
    name: &str,
    shared: DriveSpec,
) -> Result<Vec<DriveSpec>, Error> {
    let count = given.len();
    let disks = match disks {
        // Saturated: any such number is too large for an array.
        Some(disks) => usize::try_from(disks).unwrap_or(usize::MAX),
        None if count == 0 => return usage(format!("{name} of how many disks? Write disks=N, or its members")),
        None => count,
    };
    if count > 1 && count != disks {
        return usage(format!("disks={disks}, but {count} members are given: leave out disks, or list {disks}"));
    }
    if disks > DRIVES_MAX {
        return Err(Error::Impossible(format!("{name} of more than {DRIVES_MAX} drives: lower disks")));
    }
    let like = given.first().cloned().unwrap_or(shared);
    given.resize(disks, like);
    Ok(given)
}

type Parsed<T> = Result<T, Box<Error>>;

/// A drive, or an array's defaults for its drives, as it was written.
struct WrittenDrive {
    layer: Option<String>,
    drive: Option<String>,
    /// The values of [`DriveKeys`].
    values: Values,
    set: Option<Vec<(String, String)>>,
}

impl Default for WrittenDrive {
    fn default() -> WrittenDrive {
        WrittenDrive { layer: None, drive: None, values: Values::new(DriveKeys::keys()), set: None }
    }
}

impl WrittenDrive {
    /// Reads a member's keys.
    fn parse(text: TextPiece<'_>) -> Parsed<WrittenDrive> {
        if let Some((level, _)) = text.text.split_once(':')
            && Level::named(level.trim()).is_ok()
        {
            let remedy = "members of an array are drives: write raid10 for stripes of mirrors, or run this array alone";
            return Err(text.error(remedy));
        }
        let mut drive = WrittenDrive::default();
        for item in text.items()? {
            let (key, value) = item.key_and_value()?;
            drive.set(key, value, &[])?;
        }
        Ok(drive)
    }

    /// Sets a key. `others` are the keys of the array around it, for the error message.
    fn set(&mut self, key: TextPiece<'_>, value: TextPiece<'_>, others: &[&'static str]) -> Parsed<()> {
        match key.text {
            "layer" => set_name(&mut self.layer, key, value),
            "drive" => set_name(&mut self.drive, key, value),
            "set" if self.set.is_some() => Err(key.error("`set` is given twice: write set=(key=value,key=value)")),
            "set" => {
                let mut pairs = Vec::new();
                for item in value.inside()?.items()? {
                    let (key, value) = item.key_and_value()?;
                    pairs.push((key.value()?, value.value()?));
                }
                self.set = Some(pairs);
                Ok(())
            }
            name if self.values.keys.iter().any(|known| known.name == name) => set_value(&mut self.values, key, value),
            name => {
                let values = self.values.keys.iter().map(|key| key.name);
                let all = others.iter().copied().chain(["layer", "drive", "set"]).chain(values);
                Err(key.error(format!("no key of this name; {}", known(name, all))))
            }
        }
    }

    /// The drive, with the values of `inherited` where it has none. Parameters are not inherited if it names a layer of its own.
    fn inheriting(&self, inherited: &DriveSpec) -> Result<DriveSpec, Error> {
        let capacity = DriveKeys::read(&self.values)?.capacity.map(|bytes| bytes / SECTOR_BYTES);
        let set = match (&self.set, &self.layer) {
            (Some(set), _) => set.clone(),
            (None, Some(_)) => Vec::new(),
            (None, None) => inherited.set.clone(),
        };
        Ok(DriveSpec {
            layer: self.layer.clone().or_else(|| inherited.layer.clone()),
            drive: self.drive.clone().or_else(|| inherited.drive.clone()),
            capacity_sectors: capacity.or(inherited.capacity_sectors),
            set,
        })
    }
}

/// Sets a key that takes a value.
fn set_value(values: &mut Values, key: TextPiece<'_>, value: TextPiece<'_>) -> Parsed<()> {
    values.set_once(key.text, &value.value()?).map_err(|refused| refused.at(key, value))
}

/// Sets a key that takes a name.
fn set_name(name: &mut Option<String>, key: TextPiece<'_>, value: TextPiece<'_>) -> Parsed<()> {
    match name.replace(value.value()?) {
        Some(_) => Err(key.error(format!("`{}` is given twice: keep one", key.text))),
        None => Ok(()),
    }
}

impl<'a> TextPiece<'a> {
    fn slice_from(self, from: usize) -> TextPiece<'a> {
        self.slice(from, self.text.len())
    }

    /// Positions of `separator` outside of parentheses and quotes.
    fn outside(self, separator: u8) -> Parsed<Vec<usize>> {
        let (mut found, mut open, mut quoted) = (Vec::new(), Vec::new(), None);
        for (i, byte) in self.text.bytes().enumerate() {
            match byte {
                b'"' if quoted.is_some() => quoted = None,
                b'"' => quoted = Some(i),
                _ if quoted.is_some() => {}
                b'(' => open.push(i),
                b')' if open.pop().is_none() => {
                    return Err(self.slice_from(i).error("a `)` that nothing opened: remove it, or open it"));
                }
                byte if byte == separator && open.is_empty() => found.push(i),
                _ => {}
            }
        }
        match (quoted, open.last()) {
            (Some(i), _) => Err(self.slice_from(i).error("the quote is not closed: add a `\"`")),
            (None, Some(&i)) => Err(self.slice_from(i).error("the `(` is not closed: add a `)`")),
            (None, None) => Ok(found),
        }
    }

    /// The parts between commas; an empty text has none.
    fn items(self) -> Parsed<Vec<TextPiece<'a>>> {
        let mut from = 0;
        let mut items = Vec::new();
        for to in self.outside(b',')?.into_iter().chain([self.text.len()]) {
            items.push(self.slice(from, to).trimmed());
            from = to + 1;
        }
        Ok(if self.text.trim().is_empty() { Vec::new() } else { items })
    }

    /// `key=value`.
    fn key_and_value(self) -> Parsed<(TextPiece<'a>, TextPiece<'a>)> {
        match self.outside(b'=')?.first() {
            Some(&i) => Ok((self.slice(0, i).trimmed(), self.slice_from(i + 1).trimmed())),
            None if self.text.parse::<u64>().is_ok() => {
                Err(self.error(format!("expected key=value: for {0} disks write disks={0}", self.text)))
            }
            None => Err(self.error("expected key=value")),
        }
    }

    /// The text inside the parentheses around this part.
    fn inside(self) -> Parsed<TextPiece<'a>> {
        match self.text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            Some(_) => Ok(self.slice(1, self.text.len() - 1).trimmed()),
            None => Err(self.error("expected it in parentheses: (…)")),
        }
    }

    /// The value, without its quotes.
    fn value(self) -> Parsed<String> {
        let inner = self.text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        match inner {
            Some(inner) if !inner.replace("\"\"", "").contains('"') => Ok(inner.replace("\"\"", "\"")),
            _ if self.text.is_empty() => Err(self.error("a value is missing: write key=value")),
            _ if self.text.contains('"') => {
                Err(self.error("put the whole value in quotes, and write a quote in it twice"))
            }
            _ => Ok(self.text.to_string()),
        }
    }
}

/// The value, in quotes if `value` needs them to read it back.
fn quoted(value: &str) -> String {
    let odd = |c: char| c.is_whitespace() || "\"(),=:".contains(c);
    if value.is_empty() || value.contains(odd) { format!("\"{}\"", value.replace('"', "\"\"")) } else { value.into() }
}

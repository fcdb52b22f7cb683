//! Files of a description, which an importer reads, and the lines of a drive file, which it writes.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

use super::params::{Block, Fields, ParamKind, ParamValue, Params, bad, parse};
use crate::error::Error;

/// Reads a file of a description.
pub type Read<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;

/// A larger file is no description.
const BYTES_MAX: usize = 64 << 20;
/// Files that a description may consist of.
const SOURCES_MAX: usize = 64;

/// Reads files, and notes which.
pub struct Files<'a> {
    read: Read<'a>,
    used: &'a mut BTreeSet<PathBuf>,
}

impl<'a> Files<'a> {
    pub fn new(read: Read<'a>, used: &'a mut BTreeSet<PathBuf>) -> Self {
        Self { read, used }
    }

    pub fn text(&mut self, path: &Path) -> Result<String, Error> {
        self.used.insert(path.into());
        let bytes = (self.read)(path).map_err(|error| Error::reading(path, error))?;
        if bytes.len() > BYTES_MAX {
            return Err(bad(path, 1, "more than 64 MiB: this is no description of a drive"));
        }
        String::from_utf8(bytes).map_err(|_| bad(path, 1, "not a text file: copy it again"))
    }

    fn params(&mut self, path: &Path) -> Result<Params, Error> {
        let text = self.text(path)?;
        parse(path, &text)
    }

    /// The blocks of a file and of those that it names with `source`, each file once.
    pub fn with_sources(&mut self, path: &Path) -> Result<Vec<Block>, Error> {
        let (mut blocks, mut seen) = (Vec::new(), BTreeSet::new());
        let mut next = vec![path.to_path_buf()];
        while let Some(path) = next.pop().filter(|_| seen.len() < SOURCES_MAX) {
            if seen.insert(path.clone()) {
                let params = self.params(&path)?;
                blocks.extend(params.blocks);
                next.extend(params.sources.iter().rev().map(|name| path.with_file_name(name)));
            }
        }
        Ok(blocks)
    }

    /// The block of a type that a key has, written there or in a file that it names.
    pub fn block(&mut self, fields: &Fields, key: &str, of: &str) -> Result<Block, Error> {
        self.block_of(fields, key, fields.required(key)?, of)
    }

    /// The block of a type that a value stands for, such as one in a list, written there or in a file that it names.
    pub fn block_of(&mut self, fields: &Fields, key: &str, value: &ParamValue, of: &str) -> Result<Block, Error> {
        let block = match &value.kind {
            ParamKind::Block(block) => Some(block.clone()),
            ParamKind::Text(text) => match text.strip_prefix("source ") {
                Some(name) => self.with_sources(&fields.path.with_file_name(name))?.into_iter().next(),
                None => None,
            },
            ParamKind::List(_) => None,
        };
        match block {
            Some(block) if block.of == of => Ok(block),
            Some(block) => {
                Err(bad(&block.path, block.line, format!("{key}: a block {} is not known: give one of {of}", block.of)))
            }
            None => {
                let message = format!("{key}: expected a block, as in {key} = {of} {{ … }} or {key} = source FILE");
                Err(bad(fields.path, value.line, message))
            }
        }
    }
}

/// The lines of a drive file.
#[derive(Default)]
pub struct Toml(String);

impl From<Toml> for String {
    fn from(toml: Toml) -> Self {
        toml.0
    }
}

impl Toml {
    pub fn line(&mut self, line: &str) {
        let _ = writeln!(self.0, "{line}");
    }

    pub fn value(&mut self, key: &str, value: impl std::fmt::Display, source: &str) {
        self.line(&format!("{key} = {{ value = {value}, source = {source:?} }}"));
    }
}

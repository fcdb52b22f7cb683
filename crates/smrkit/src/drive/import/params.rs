//! DiskSim's parameter files: blocks of `key = value` pairs, lists in brackets, comments from `#` on, and `source` lines that name further
//! files. Also writes the lines of a drive file.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::error::Error;

/// Beginnings of the names of block types.
const TYPES: [&str; 4] = ["disksim_", "dm_", "memsmodel_", "ssdmodel_"];
/// The deepest nesting of blocks.
const DEPTH_MAX: u32 = 32;

/// A value, with the line on which it begins.
#[derive(Clone, Debug)]
pub(super) struct ParamValue {
    pub line: u64,
    pub kind: ParamKind,
}

#[derive(Clone, Debug)]
pub(super) enum ParamKind {
    /// Words and numbers.
    Text(String),
    /// `[ … ]`
    List(Vec<ParamValue>),
    /// `type { … }`
    Block(Block),
}

impl ParamValue {
    /// The value as a number, in decimal or, whole, in hexadecimal digits.
    pub fn number(&self) -> Option<f64> {
        let ParamKind::Text(text) = &self.kind else { return None };
        match text.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok().map(f64::from),
            None => text.parse().ok().filter(|number: &f64| number.is_finite()),
        }
    }
}

/// A block of a file: pairs that are looked up by their keys.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub path: Rc<Path>,
    pub line: u64,
    /// Its type, such as `dm_disk`.
    pub type_name: String,
    pub entries: Vec<(String, ParamValue)>,
}

/// A mistake in a file, with the remedy.
pub(super) fn bad(path: &Path, line: u64, message: impl Into<String>) -> Error {
    Error::at_line(path, line, None, message)
}

/// The marks, each of which is a token of its own.
const MARKS: &str = "{}[],=";

fn is_mark(token: &str) -> bool {
    MARKS.contains(token)
}

/// The words and marks of a text, each with its line.
fn tokens(text: &str) -> Vec<(u64, &str)> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut rest = line.split('#').next().unwrap_or_default().trim_start();
        while !rest.is_empty() {
            let word = rest.find(|c: char| c.is_whitespace() || MARKS.contains(c)).unwrap_or(rest.len());
            // Without a word there is a mark, of one byte.
            let (token, after) = rest.split_at(word.max(1));
            found.push((number, token));
            rest = after.trim_start();
        }
    }
    found
}

struct Parser<'a> {
    path: Rc<Path>,
    tokens: std::iter::Peekable<std::vec::IntoIter<(u64, &'a str)>>,
}

/// Reads a file's text; `path` is for messages. Returns its blocks, and the files that it names with `source` outside of them.
fn parse(path: &Path, text: &str) -> Result<(Vec<Block>, Vec<String>), Error> {
    let mut parser = Parser { path: path.into(), tokens: tokens(text).into_iter().peekable() };
    let (mut blocks, mut sources) = (Vec::new(), Vec::new());
    let mut words: Vec<&str> = Vec::new();
    while let Some((line, token)) = parser.tokens.next() {
        match token {
            "{" => {
                blocks.push(parser.block(line, &words, 0)?);
                words.clear();
            }
            // A list outside of blocks is of the simulator's topology, which a drive does not need.
            "[" => {
                let mut depth = 1;
                while depth > 0 {
                    match parser.tokens.next() {
                        None => return Err(parser.never_closed(line, '[')),
                        Some((_, "[")) => depth += 1,
                        Some((_, "]")) => depth -= 1,
                        Some(_) => {}
                    }
                }
            }
            mark if is_mark(mark) => {
                let message = format!("a '{mark}' outside of any block: look for a missing '{{' before it");
                return Err(bad(path, line, message));
            }
            word if words.last() == Some(&"source") => {
                sources.push(word.to_string());
                words.clear();
            }
            word => words.push(word),
        }
    }
    Ok((blocks, sources))
}

impl Parser<'_> {
    fn never_closed(&self, line: u64, mark: char) -> Error {
        let message = format!("the '{mark}' of this line is never closed: the file was cut short, copy it again");
        bad(&self.path, line, message)
    }

    /// A block whose `{` was on `line`. The words before it are its type and, mostly at the top of a file, a name, which may begin like a
    /// type.
    fn block(&mut self, line: u64, words: &[&str], depth: u32) -> Result<Block, Error> {
        if depth > DEPTH_MAX {
            return Err(bad(&self.path, line, "blocks lie too deep in each other: look for a missing '}'"));
        }
        let is_type = |word: &&&str| TYPES.iter().any(|start| word.starts_with(start));
        // The first of the last two that looks like a type. Words before them belong to no block.
        let type_and_name = &words[words.len().saturating_sub(2)..];
        let type_name = type_and_name.iter().find(is_type).or(words.last()).copied().unwrap_or_default().to_string();
        let (mut entries, mut key) = (Vec::new(), Vec::new());
        loop {
            match self.tokens.next() {
                None => return Err(self.never_closed(line, '{')),
                Some((_, "}")) if key.is_empty() => {
                    return Ok(Block { path: self.path.clone(), line, type_name, entries });
                }
                // Commas between pairs may be left out.
                Some((_, ",")) if key.is_empty() => {}
                Some((line, "=")) if !key.is_empty() => {
                    entries.push((std::mem::take(&mut key).join(" "), self.value(line, depth)?));
                }
                Some((at, mark)) if is_mark(mark) => {
                    let message = format!("'{mark}' where a key or '=' should be: mend the line, as in key = value");
                    return Err(bad(&self.path, at, message));
                }
                Some((_, word)) => key.push(word),
            }
        }
    }

    /// A value after the `=` on `line`, or in a list.
    fn value(&mut self, line: u64, depth: u32) -> Result<ParamValue, Error> {
        let mut words: Vec<&str> = Vec::new();
        loop {
            match self.tokens.peek().copied() {
                None => return Err(bad(&self.path, line, "the file ends in the middle of a value: copy it again")),
                Some((line, "{")) => {
                    self.tokens.next();
                    return Ok(ParamValue { line, kind: ParamKind::Block(self.block(line, &words, depth + 1)?) });
                }
                Some((line, "[")) if words.is_empty() => {
                    self.tokens.next();
                    return Ok(ParamValue { line, kind: ParamKind::List(self.list(line, depth + 1)?) });
                }
                // Left to the block or the list, which it separates or closes.
                Some((_, "," | "}" | "]")) if !words.is_empty() => {
                    return Ok(ParamValue { line, kind: ParamKind::Text(words.join(" ")) });
                }
                Some((_, mark)) if is_mark(mark) => {
                    let message = format!("'{mark}' where a value should be: give one, as in key = value");
                    return Err(bad(&self.path, line, message));
                }
                Some((_, word)) => {
                    words.push(word);
                    self.tokens.next();
                }
            }
        }
    }

    /// The values of a list whose `[` was on `line`.
    fn list(&mut self, line: u64, depth: u32) -> Result<Vec<ParamValue>, Error> {
        if depth > DEPTH_MAX {
            return Err(bad(&self.path, line, "lists lie too deep in each other: look for a missing ']'"));
        }
        let mut values = Vec::new();
        loop {
            match self.tokens.peek().copied() {
                None => return Err(self.never_closed(line, '[')),
                Some((_, "]")) => {
                    self.tokens.next();
                    return Ok(values);
                }
                Some((_, ",")) => {
                    self.tokens.next();
                }
                Some((line, _)) => values.push(self.value(line, depth)?),
            }
        }
    }
}

/// A number and where it stands: `file:line`.
#[derive(Clone, Debug)]
pub(super) struct SourcedNumber {
    pub value: f64,
    pub line: u64,
    pub source: String,
}

impl Block {
    /// File and line, for sources.
    pub fn source(&self, line: u64, key: &str) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        format!("{name}:{line}, {key}")
    }

    /// A mistake in its file.
    pub fn bad(&self, line: u64, message: impl Into<String>) -> Error {
        bad(&self.path, line, message)
    }

    pub fn get(&self, key: &str) -> Option<&ParamValue> {
        self.entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub fn required(&self, key: &str) -> Result<&ParamValue, Error> {
        self.get(key).ok_or_else(|| {
            self.bad(self.line, format!("this block has no \"{key}\": add {key} = …, or copy the file again"))
        })
    }

    pub fn number(&self, key: &str) -> Result<SourcedNumber, Error> {
        let found = self.required(key)?;
        let value = found.number().ok_or_else(|| self.bad(found.line, format!("{key}: expected a number")))?;
        Ok(SourcedNumber { value, line: found.line, source: self.source(found.line, key) })
    }

    /// A number that may be left out.
    pub fn optional(&self, key: &str) -> Result<Option<SourcedNumber>, Error> {
        self.get(key).map(|_| self.number(key)).transpose()
    }

    /// A number that is not negative.
    pub fn positive(&self, key: &str) -> Result<SourcedNumber, Error> {
        let found = self.number(key)?;
        if found.value < 0.0 {
            return Err(self.bad(found.line, format!("{key} = {}: give a number from 0 on", found.value)));
        }
        Ok(found)
    }

    /// A whole number from 0 to `most`.
    pub fn count(&self, key: &str, most: u64) -> Result<(u64, SourcedNumber), Error> {
        let found = self.number(key)?;
        match found.value {
            value if value.fract() == 0.0 && (0.0..=most as f64).contains(&value) => Ok((value as u64, found)),
            value => Err(self.bad(found.line, format!("{key} = {value}: give a whole number from 0 to {most}"))),
        }
    }

    pub fn text(&self, key: &str) -> Result<&str, Error> {
        let value = self.required(key)?;
        match &value.kind {
            ParamKind::Text(text) => Ok(text),
            _ => Err(self.bad(value.line, format!("{key}: expected a name"))),
        }
    }

    /// The values of a list; none where the key is left out.
    pub fn list(&self, key: &str) -> Result<&[ParamValue], Error> {
        match self.get(key) {
            None => Ok(&[]),
            Some(ParamValue { kind: ParamKind::List(values), .. }) => Ok(values),
            Some(value) => Err(self.bad(value.line, format!("{key}: expected a list in brackets"))),
        }
    }
}

/// Reads a file of a description.
pub type Read<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;

/// A larger file is no description.
const BYTES_MAX: usize = 64 << 20;
/// Files that a description may consist of.
const SOURCES_MAX: usize = 64;

/// Reads files, and notes which.
pub struct Files<'a> {
    pub read: Read<'a>,
    pub used: &'a mut BTreeSet<PathBuf>,
}

impl Files<'_> {
    pub fn text(&mut self, path: &Path) -> Result<String, Error> {
        self.used.insert(path.into());
        let bytes = (self.read)(path).map_err(|error| Error::reading(path, error))?;
        if bytes.len() > BYTES_MAX {
            return Err(bad(path, 1, "more than 64 MiB: this is no description of a drive"));
        }
        String::from_utf8(bytes).map_err(|_| bad(path, 1, "not a text file: copy it again"))
    }

    /// The blocks of a file and of those that it names with `source`, each file once.
    pub fn with_sources(&mut self, path: &Path) -> Result<Vec<Block>, Error> {
        let (mut blocks, mut seen) = (Vec::new(), BTreeSet::new());
        let mut next = vec![path.to_path_buf()];
        while let Some(path) = next.pop().filter(|_| seen.len() < SOURCES_MAX) {
            if seen.insert(path.clone()) {
                let (found, sources) = parse(&path, &self.text(&path)?)?;
                blocks.extend(found);
                next.extend(sources.iter().rev().map(|name| path.with_file_name(name)));
            }
        }
        Ok(blocks)
    }

    /// The block of type `type_name` that a value (such as one in a list) holds, written there or in a file that it names.
    pub fn read_block(
        &mut self,
        within: &Block,
        key: &str,
        value: &ParamValue,
        type_name: &str,
    ) -> Result<Block, Error> {
        let block = match &value.kind {
            ParamKind::Block(block) => Some(block.clone()),
            ParamKind::Text(text) if text.starts_with("source ") => {
                let name = &text["source ".len()..];
                self.with_sources(&within.path.with_file_name(name))?.into_iter().next()
            }
            ParamKind::Text(_) | ParamKind::List(_) => None,
        };
        let block = block.ok_or_else(|| {
            let message = format!("{key}: expected a block, as in {key} = {type_name} {{ … }} or {key} = source FILE");
            within.bad(value.line, message)
        })?;
        if block.type_name != type_name {
            let message = format!("{key}: a block {} is not known: give one of {type_name}", block.type_name);
            return Err(block.bad(block.line, message));
        }
        Ok(block)
    }
}

/// The lines of a drive file.
#[derive(Default)]
pub struct Toml(pub String);

impl Toml {
    pub fn line(&mut self, line: &str) {
        let _ = writeln!(self.0, "{line}");
    }

    pub fn value(&mut self, key: &str, value: impl std::fmt::Display, source: &str) {
        self.line(&format!("{key} = {{ value = {value}, source = {source:?} }}"));
    }

    pub fn number(&mut self, key: &str, number: &SourcedNumber) {
        self.value(key, number.value, &number.source);
    }
}

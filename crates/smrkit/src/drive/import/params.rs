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
    pub of: String,
    pub entries: Vec<(String, ParamValue)>,
}

/// The blocks of a file, and the files that it names with `source` outside of them.
type Params = (Vec<Block>, Vec<String>);

/// A mistake in a file, with the remedy.
pub(super) fn bad(path: &Path, line: u64, message: impl Into<String>) -> Error {
    Error::at_line(path, line, None, message)
}

#[derive(Clone, Debug, PartialEq)]
enum Token<'a> {
    Word(&'a str),
    Mark(u8),
}

struct Reader<'a> {
    path: Rc<Path>,
    tokens: Vec<(u64, Token<'a>)>,
    at: usize,
}

/// Reads a file's text; `path` is for messages.
fn parse(path: &Path, text: &str) -> Result<Params, Error> {
    let mut reader = Reader { path: path.into(), tokens: tokens(text), at: 0 };
    let (mut blocks, mut sources) = Params::default();
    let mut words: Vec<&str> = Vec::new();
    while let Some((line, token)) = reader.next() {
        match token {
            Token::Word(word) if words.last() == Some(&"source") => {
                sources.push(word.to_string());
                words.clear();
            }
            Token::Word(word) => words.push(word),
            Token::Mark(b'{') => {
                blocks.push(reader.block(line, &words, 0)?);
                words.clear();
            }
            Token::Mark(b'[') => {
                reader.skip_list(line)?;
            }
            Token::Mark(mark) => {
                let mark = char::from(mark);
                return Err(bad(
                    path,
                    line,
                    format!("a '{mark}' outside of any block: look for a missing '{{' before it"),
                ));
            }
        }
    }
    Ok((blocks, sources))
}

fn tokens(text: &str) -> Vec<(u64, Token<'_>)> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        let mut rest = line;
        while let Some(start) = rest.find(|c: char| !c.is_whitespace()) {
            rest = &rest[start..];
            let first = rest.as_bytes()[0];
            let used = match first {
                b'{' | b'}' | b'[' | b']' | b',' | b'=' => {
                    found.push((number, Token::Mark(first)));
                    1
                }
                _ => {
                    let end = rest.find(|c: char| c.is_whitespace() || "{}[],=".contains(c)).unwrap_or(rest.len());
                    found.push((number, Token::Word(&rest[..end])));
                    end
                }
            };
            rest = &rest[used..];
        }
    }
    found
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<(u64, Token<'a>)> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    fn next_mark(&self) -> Option<u8> {
        match self.tokens.get(self.at) {
            Some((_, Token::Mark(mark))) => Some(*mark),
            _ => None,
        }
    }

    fn bad(&self, line: u64, message: impl Into<String>) -> Error {
        bad(&self.path, line, message)
    }

    fn open(&self, line: u64, mark: char) -> Error {
        self.bad(line, format!("the '{mark}' of this line is never closed: the file was cut short, copy it again"))
    }

    /// A block whose `{` was on `line`. The words before it are its type and, mostly at the top of a file, a name, which may begin like a
    /// type.
    fn block(&mut self, line: u64, words: &[&str], depth: u32) -> Result<Block, Error> {
        let is_type = |word: &&&str| TYPES.iter().any(|start| word.starts_with(start));
        let of = words.iter().rev().take(2).rfind(is_type).or(words.last()).copied().unwrap_or_default().to_string();
        Ok(Block { path: self.path.clone(), line, of, entries: self.entries(line, depth)? })
    }

    /// The pairs of a block whose `{` was on `line`.
    fn entries(&mut self, line: u64, depth: u32) -> Result<Vec<(String, ParamValue)>, Error> {
        if depth > DEPTH_MAX {
            return Err(self.bad(line, "blocks lie too deep in each other: look for a missing '}'"));
        }
        let mut entries = Vec::new();
        let mut key = String::new();
        loop {
            match self.next() {
                None => return Err(self.open(line, '{')),
                Some((_, Token::Mark(b'}'))) if key.is_empty() => return Ok(entries),
                Some((_, Token::Mark(b','))) if key.is_empty() => {}
                Some((_, Token::Word(word))) => {
                    key += if key.is_empty() { "" } else { " " };
                    key += word;
                }
                Some((line, Token::Mark(b'='))) if !key.is_empty() => {
                    let value = self.value(line, depth)?;
                    entries.push((std::mem::take(&mut key), value));
                }
                Some((at, Token::Mark(mark))) => {
                    let mark = char::from(mark);
                    return Err(self
                        .bad(at, format!("'{mark}' where a key or '=' should be: mend the line, as in key = value")));
                }
            }
        }
    }

    /// A value after `=`, or in a list.
    fn value(&mut self, line: u64, depth: u32) -> Result<ParamValue, Error> {
        let mut words = String::new();
        loop {
            match self.next_mark() {
                None => match self.next() {
                    None => return Err(self.bad(line, "the file ends in the middle of a value: copy it again")),
                    Some((_, Token::Word(word))) => {
                        words += if words.is_empty() { "" } else { " " };
                        words += word;
                    }
                    Some(_) => unreachable!("it is no mark"),
                },
                Some(b'{') => {
                    let line = self.next().map_or(line, |(line, _)| line);
                    let words: Vec<&str> = words.split(' ').collect();
                    return Ok(ParamValue { line, kind: ParamKind::Block(self.block(line, &words, depth + 1)?) });
                }
                Some(b'[') if words.is_empty() => {
                    let line = self.next().map_or(line, |(line, _)| line);
                    return Ok(ParamValue { line, kind: ParamKind::List(self.list(line, depth + 1)?) });
                }
                Some(b',' | b'}' | b']') if !words.is_empty() => {
                    return Ok(ParamValue { line, kind: ParamKind::Text(words) });
                }
                Some(mark) => {
                    let mark = char::from(mark);
                    return Err(
                        self.bad(line, format!("'{mark}' where a value should be: give one, as in key = value"))
                    );
                }
            }
        }
    }

    fn list(&mut self, line: u64, depth: u32) -> Result<Vec<ParamValue>, Error> {
        if depth > DEPTH_MAX {
            return Err(self.bad(line, "lists lie too deep in each other: look for a missing ']'"));
        }
        let mut values = Vec::new();
        loop {
            match self.next_mark() {
                Some(b']') => {
                    self.at += 1;
                    return Ok(values);
                }
                Some(b',') => self.at += 1,
                _ => match self.tokens.get(self.at) {
                    None => return Err(self.open(line, '[')),
                    Some(&(line, _)) => values.push(self.value(line, depth)?),
                },
            }
        }
    }

    /// Skips a list that a drive does not need.
    fn skip_list(&mut self, line: u64) -> Result<(), Error> {
        let mut depth = 1;
        while depth > 0 {
            match self.next() {
                None => return Err(self.open(line, '[')),
                Some((_, Token::Mark(b'['))) => depth += 1,
                Some((_, Token::Mark(b']'))) => depth -= 1,
                Some(_) => {}
            }
        }
        Ok(())
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

    fn missing(&self, key: &str) -> Error {
        self.bad(self.line, format!("this block has no \"{key}\": add {key} = …, or copy the file again"))
    }

    /// A number that may be left out.
    pub fn optional(&self, key: &str) -> Result<Option<SourcedNumber>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.number() {
            Some(number) => {
                Ok(Some(SourcedNumber { value: number, line: value.line, source: self.source(value.line, key) }))
            }
            None => Err(self.bad(value.line, format!("{key}: expected a number"))),
        }
    }

    pub fn number(&self, key: &str) -> Result<SourcedNumber, Error> {
        self.optional(key)?.ok_or_else(|| self.missing(key))
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
        match self.get(key) {
            Some(ParamValue { kind: ParamKind::Text(text), .. }) => Ok(text),
            Some(value) => Err(self.bad(value.line, format!("{key}: expected a name"))),
            None => Err(self.missing(key)),
        }
    }

    pub fn required(&self, key: &str) -> Result<&ParamValue, Error> {
        self.get(key).ok_or_else(|| self.missing(key))
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

    /// The block of type `of` that is the value of a key, written there or in a file that it names.
    pub fn block(&mut self, block: &Block, key: &str, of: &str) -> Result<Block, Error> {
        self.block_of(block, key, block.required(key)?, of)
    }

    /// The block of type `of` that a value (such as one in a list) holds, written there or in a file that it names.
    pub fn block_of(&mut self, within: &Block, key: &str, value: &ParamValue, of: &str) -> Result<Block, Error> {
        let block = match &value.kind {
            ParamKind::Block(block) => Some(block.clone()),
            ParamKind::Text(text) => match text.strip_prefix("source ") {
                Some(name) => self.with_sources(&within.path.with_file_name(name))?.into_iter().next(),
                None => None,
            },
            ParamKind::List(_) => None,
        };
        match block {
            Some(block) if block.of == of => Ok(block),
            Some(block) => {
                Err(block.bad(block.line, format!("{key}: a block {} is not known: give one of {of}", block.of)))
            }
            None => {
                let message = format!("{key}: expected a block, as in {key} = {of} {{ … }} or {key} = source FILE");
                Err(within.bad(value.line, message))
            }
        }
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
}

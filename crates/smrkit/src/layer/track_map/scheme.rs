//! The notation of He & Du, HotStorage 2014: in which order the tracks of bands are used.
//!
//! A digit is a track. Tracks outside `R(…)` are used band by band in the order written; each track inside `R(…)` is used in all bands
//! before the next. More than nine tracks are written with hyphens: `10-3-R(1-2)-…`. Groups are used in the order written; the paper's own
//! schemes leave that open.

use std::fmt::Display;
use std::ops::Range;
use std::str::FromStr;

use crate::error::Error;

/// The order in which tracks are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheme {
    text: String,
    /// Tracks, counted from 0, in the order of use.
    pub order: Vec<u32>,
    /// Runs of `order` that are used band by band, one run after another.
    pub groups: Vec<Range<usize>>,
}

impl Scheme {
    /// Tracks of a band.
    pub fn tracks(&self) -> usize {
        self.order.len()
    }
}

impl FromStr for Scheme {
    type Err = Error;

    /// A scheme from its notation. Errors show the place.
    fn from_str(text: &str) -> Result<Scheme, Error> {
        let hyphens = text.contains('-');
        Parser { text, at: 0, hyphens, named: Vec::new(), groups: Vec::new() }.parse()
    }
}

impl Display for Scheme {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    hyphens: bool,
    /// The tracks, and where in the text each was named.
    named: Vec<(u32, usize)>,
    groups: Vec<Range<usize>>,
}

impl Parser<'_> {
    /// Parses the whole text. Adjacent tracks outside `R(…)` are a group; inside, each track is a group of its own.
    fn parse(mut self) -> Result<Scheme, Error> {
        let mut in_group = false;
        loop {
            let before = self.named.len();
            if self.peek() == Some('R') {
                self.round_robin()?;
                in_group = false;
            } else {
                self.track()?;
                match (in_group, self.groups.last_mut()) {
                    (true, Some(group)) => group.end += 1,
                    _ => self.groups.push(before..before + 1),
                }
                in_group = true;
            }
            if self.at == self.text.len() {
                break;
            }
            self.hyphen()?;
        }
        self.all_named()?;
        let order = self.named.iter().map(|&(track, _)| track - 1).collect();
        Ok(Scheme { text: self.text.into(), order, groups: self.groups })
    }

    /// Parses `R(…)`.
    fn round_robin(&mut self) -> Result<(), Error> {
        self.at += 1;
        if self.peek() != Some('(') {
            return self.wrong(self.at, "R is followed by the tracks in parentheses, as in R(4123)");
        }
        self.at += 1;
        loop {
            let before = self.named.len();
            self.track()?;
            self.groups.push(before..before + 1);
            match self.peek() {
                Some(')') => break,
                None => return self.wrong(self.at, "the parenthesis is not closed"),
                Some(_) => self.hyphen()?,
            }
        }
        self.at += 1;
        Ok(())
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    /// Parses a hyphen, if there are any.
    fn hyphen(&mut self) -> Result<(), Error> {
        match (self.hyphens, self.peek()) {
            (true, Some('-')) => self.at += 1,
            (true, _) => return self.wrong(self.at, "a hyphen is missing here, as there are others"),
            (false, _) => {}
        }
        Ok(())
    }

    /// Parses a track: a digit or, if there are hyphens, a number.
    fn track(&mut self) -> Result<(), Error> {
        let rest = &self.text[self.at..];
        let most = if self.hyphens { usize::MAX } else { 1 };
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count().min(most);
        let start = self.at;
        self.at += digits;
        let track = match rest[..digits].parse::<u32>() {
            Ok(0) => return self.wrong(start, "tracks count from 1"),
            Ok(track) if rest.starts_with('0') => {
                return self.wrong(start, format!("write {track} without zeros before it"));
            }
            Ok(track) => track,
            Err(_) if digits > 0 => return self.wrong(start, "no band has that many tracks"),
            Err(_) if rest.is_empty() => return self.wrong(start, "a track is missing at the end"),
            Err(_) => return self.wrong(start, "a track or R(…) belongs here"),
        };
        self.named.push((track, start));
        Ok(())
    }

    /// Checks that every track from 1 to the number of tracks is named once.
    fn all_named(&self) -> Result<(), Error> {
        let tracks = self.named.len();
        let mut sorted = self.named.clone();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return self.wrong(pair[1].1, format!("track {} is named twice", pair[1].0));
        }
        match sorted.iter().zip(1u32..).find(|((track, _), expected)| track != expected) {
            None => Ok(()),
            Some((&(_, at), missing)) => {
                self.wrong(at, format!("track {missing} is missing: {tracks} tracks are numbered from 1 to {tracks}"))
            }
        }
    }

    /// An error with a caret below byte `at` of the scheme.
    fn wrong<T>(&self, at: usize, message: impl AsRef<str>) -> Result<T, Error> {
        let before = self.text[..at].chars().count();
        Err(Error::Usage(format!(
            "{} (column {}); examples: 1234, R(4123), 124R(3), 10-3-R(1-2-…)\n  {}\n  {}^",
            message.as_ref(),
            before + 1,
            self.text,
            " ".repeat(before)
        )))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn groups(text: &str) -> Vec<Vec<u32>> {
        let scheme = text.parse::<Scheme>().unwrap();
        let tracks = |group: &Range<usize>| scheme.order[group.clone()].iter().map(|track| track + 1).collect();
        scheme.groups.iter().map(tracks).collect()
    }

    #[test]
    fn the_papers_schemes_are_read_as_it_explains_them() {
        assert_eq!(groups("1234"), [[1, 2, 3, 4]]);
        assert_eq!(groups("R(4123)"), [[4], [1], [2], [3]]);
        assert_eq!(groups("124R(3)"), vec![vec![1, 2, 4], vec![3]]);
        assert_eq!(groups("14R(23)"), vec![vec![1, 4], vec![2], vec![3]]);
    }

    #[test]
    fn other_orders_and_numbers_are_read_too() {
        assert_eq!(groups("1"), [[1]]);
        assert_eq!(groups("R(1)"), [[1]]);
        assert_eq!(groups("R(2)1"), [[2], [1]]);
        assert_eq!(groups("R(2)R(1)"), [[2], [1]]);
        assert_eq!(groups("1R(2)34"), vec![vec![1], vec![2], vec![3, 4]]);
        assert_eq!(groups("10-3-R(1-2)-4-5-6-7-8-9")[0], [10, 3]);
        assert_eq!(groups("R(10-1)-2-3-4-5-6-7-8-9-11")[2], [2, 3, 4, 5, 6, 7, 8, 9, 11]);
    }

    /// Column and message.
    fn error(text: &str) -> (usize, String) {
        let message = text.parse::<Scheme>().unwrap_err().to_string();
        let lines: Vec<&str> = message.lines().collect();
        assert_eq!(lines[1], format!("  {text}"), "{message}");
        (lines[2].find('^').unwrap() - 2, lines[0].to_string())
    }

    #[test]
    fn errors_show_the_place() {
        let places = [
            ("1233", 3, "track 3 is named twice"),
            ("1245", 2, "track 3 is missing"),
            ("12R3", 3, "followed by the tracks in parentheses"),
            ("12R(3", 5, "not closed"),
            ("12R()", 4, "a track or R(…) belongs here"),
            ("12r(3)", 2, "a track or R(…) belongs here"),
            ("1 2", 1, "a track or R(…) belongs here"),
            ("12)", 2, "a track or R(…) belongs here"),
            ("R(1R(2))", 3, "a track or R(…) belongs here"),
            ("102", 1, "count from 1"),
            ("", 0, "missing at the end"),
            ("1-2-", 4, "missing at the end"),
            ("-1", 0, "belongs here"),
            ("1--2", 2, "belongs here"),
            ("2-1R(3)", 3, "a hyphen is missing"),
            ("1-2-R(3)4", 8, "a hyphen is missing"),
            ("1-99999999999", 2, "no band has that many"),
            ("1-02", 2, "without zeros"),
            ("1é", 1, "belongs here"),
            ("4294967295-1", 0, "track 2 is missing"),
        ];
        for (text, column, message) in places {
            let (found, said) = error(text);
            assert!(found == column && said.contains(message), "{text}: {said} at {found}");
        }
    }

    #[test]
    fn a_place_far_to_the_right_is_shown_too() {
        let text = "1-".repeat(40_000) + "x";
        assert_eq!(error(&text).0, 80_000);
    }

    proptest! {
        #[test]
        fn any_text_is_a_scheme_or_an_error(text in "[0-9R()\\-é ]{0,12}") {
            if let Ok(scheme) = text.parse::<Scheme>() {
                let mut order = scheme.order.clone();
                order.sort_unstable();
                prop_assert!(order.iter().copied().eq(0..scheme.tracks() as u32));
                prop_assert_eq!(scheme.groups.iter().map(|group| group.len()).sum::<usize>(), scheme.tracks());
            }
        }
    }
}

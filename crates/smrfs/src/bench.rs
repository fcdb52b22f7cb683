//! The benchmarks of Kadekodi et al. 2015 (section 5) as seeded sequences of requests to a file system. The paper does not give their
//! volumes, which are assumptions.
//!
//! - Filebench's file server (McDougall and Mauro 2005) runs rounds of create and write, append, read whole, delete, stat. The files stay
//!   afterwards. Left out: its many threads; here there is one stream.
//! - Postmark (Katcher 1997) creates files, runs transactions that read or append to one file and create or remove another, and removes the
//!   remaining files. Left out: its text of random letters.

use smrkit::dice::Dice;

use crate::workload::{EventKind, Events, FileKey, WorkloadEvent};

/// The existing files of a benchmark.
struct FileSet {
    folder: u32,
    dice: Dice,
    /// The number and the size of each file.
    files: Vec<(u64, u64)>,
    /// Number of files created so far.
    created: u64,
}

impl FileSet {
    fn new(seed: u64, folder: u32) -> FileSet {
        FileSet { folder, dice: Dice::new(seed, u64::from(folder)), files: Vec::new(), created: 0 }
    }

    fn pick(&mut self) -> usize {
        self.dice.below(self.files.len() as u64) as usize
    }

    fn event(&self, kind: EventKind, number: u64, bytes: u64, counted: bool) -> Option<WorkloadEvent> {
        Some(WorkloadEvent { kind, file: FileKey { folder: self.folder, number }, bytes, counted })
    }

    fn create(&mut self, bytes: u64, counted: bool) -> Option<WorkloadEvent> {
        let number = self.created;
        self.created += 1;
        self.files.push((number, bytes));
        self.event(EventKind::Create, number, bytes, counted)
    }

    fn append(&mut self, at: usize, bytes: u64) -> Option<WorkloadEvent> {
        self.files[at].1 += bytes;
        self.event(EventKind::Append, self.files[at].0, bytes, true)
    }

    fn delete(&mut self, at: usize, counted: bool) -> Option<WorkloadEvent> {
        let (number, _) = self.files.swap_remove(at);
        self.event(EventKind::Delete, number, 0, counted)
    }

    fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.1).sum()
    }
}

/// Amount of work of the file server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileserverOptions {
    /// Files at the beginning, and at the end.
    pub files: u64,
    /// Rounds of five events.
    pub rounds: u64,
    /// The mean size of a file.
    pub mean_bytes: f64,
    /// The largest append.
    pub append_bytes: u64,
    /// The seed.
    pub seed: u64,
}

impl FileserverOptions {
    /// Files of 9 MB in the mean (Kadekodi et al. 2015, section 5). Assumptions: 250 files (two runs leave 4.5 GB), 3,000
    /// rounds, and appends up to 16 KiB.
    pub fn new(seed: u64) -> FileserverOptions {
        FileserverOptions { files: 250, rounds: 3000, mean_bytes: 9e6, append_bytes: 16 << 10, seed }
    }
}

/// The file server.
pub struct Fileserver {
    options: FileserverOptions,
    set: FileSet,
    /// Events of the rounds so far.
    done: u64,
}

impl Fileserver {
    /// The file server in that folder.
    pub fn new(options: FileserverOptions, folder: u32) -> Fileserver {
        Fileserver { options, set: FileSet::new(options.seed, folder), done: 0 }
    }

    /// Creates a file. Its size is gamma-distributed with shape 2 (assumption): the sum of two exponentials of half the mean.
    fn create(&mut self, counted: bool) -> Option<WorkloadEvent> {
        let halves = self.set.dice.exponential() + self.set.dice.exponential();
        self.set.create(((halves * self.options.mean_bytes / 2.0) as u64).max(1), counted)
    }
}

impl Events for Fileserver {
    fn next(&mut self) -> Option<WorkloadEvent> {
        if self.set.created < self.options.files {
            return self.create(false);
        }
        if self.done >= self.options.rounds * EventKind::ALL.len() as u64 {
            return None;
        }
        let kind = EventKind::ALL[(self.done % EventKind::ALL.len() as u64) as usize];
        self.done += 1;
        if kind == EventKind::Create {
            return self.create(true);
        }
        let at = self.set.pick();
        // Without a file, the event is skipped.
        let Some(&(number, size)) = self.set.files.get(at) else { return self.next() };
        match kind {
            EventKind::Append => {
                let bytes = self.set.dice.between(1, self.options.append_bytes.max(1));
                self.set.append(at, bytes)
            }
            EventKind::Delete => self.set.delete(at, true),
            EventKind::Create | EventKind::Read => self.set.event(kind, number, size, true),
            EventKind::Stat => self.set.event(kind, number, 0, true),
        }
    }

    fn kept_bytes(&self) -> u64 {
        self.set.bytes()
    }
}

/// Amount of work of Postmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostmarkOptions {
    /// Files at the beginning.
    pub files: u64,
    /// Transactions.
    pub transactions: u64,
    /// The smallest and the largest file.
    pub size_bytes: (u64, u64),
    /// The seed.
    pub seed: u64,
}

impl PostmarkOptions {
    /// Files of 3 to 7 MB (Kadekodi et al. 2015, section 5). Assumptions: 500 files and 5,000 transactions.
    pub fn new(seed: u64) -> PostmarkOptions {
        PostmarkOptions { files: 500, transactions: 5000, size_bytes: (3_000_000, 7_000_000), seed }
    }
}

/// Postmark.
pub struct Postmark {
    options: PostmarkOptions,
    set: FileSet,
    /// Transactions begun.
    begun: u64,
    /// True if only the create or remove of the current transaction is left.
    has_half_left: bool,
}

impl Postmark {
    /// Postmark in that folder.
    pub fn new(options: PostmarkOptions, folder: u32) -> Postmark {
        Postmark { options, set: FileSet::new(options.seed, folder), begun: 0, has_half_left: false }
    }

    fn create(&mut self, counted: bool) -> Option<WorkloadEvent> {
        let (low, high) = self.options.size_bytes;
        let bytes = self.set.dice.between(low, high);
        self.set.create(bytes, counted)
    }

    fn delete(&mut self, counted: bool) -> Option<WorkloadEvent> {
        let at = self.set.pick();
        self.set.delete(at, counted)
    }

    fn read_or_append(&mut self) -> Option<WorkloadEvent> {
        let at = self.set.pick();
        let (number, size) = self.set.files[at];
        if self.set.dice.below(2) == 0 {
            return self.set.event(EventKind::Read, number, size, true);
        }
        let bytes = self.set.dice.below(self.options.size_bytes.1.saturating_sub(size)).max(1);
        self.set.append(at, bytes)
    }
}

impl Events for Postmark {
    fn next(&mut self) -> Option<WorkloadEvent> {
        if self.set.created < self.options.files {
            return self.create(false);
        }
        // A transaction is two events: one reads or appends, the other creates or removes a file. Without files only the other is left.
        if !self.has_half_left && self.begun < self.options.transactions {
            self.begun += 1;
            self.has_half_left = true;
            if !self.set.files.is_empty() {
                return self.read_or_append();
            }
        }
        if std::mem::take(&mut self.has_half_left) {
            return if self.set.files.is_empty() || self.set.dice.below(2) == 0 {
                self.create(true)
            } else {
                self.delete(true)
            };
        }
        // After the transactions, the remaining files are removed.
        if self.set.files.is_empty() { None } else { self.delete(false) }
    }

    fn kept_bytes(&self) -> u64 {
        self.set.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_have_one_event_of_each_kind_and_the_files_stay() {
        let mut server = Fileserver::new(FileserverOptions::new(2), 3);
        let mut counts = [0; 5];
        while let Some(event) = server.next() {
            counts[event.kind as usize] += u64::from(event.counted);
        }
        assert_eq!(counts, [3000; 5]);
        assert_eq!(server.set.files.len(), 250);
        let kept = server.kept_bytes() as f64 / 250.0;
        assert!((7.5e6..10.5e6).contains(&kept), "a mean of 9 MB: {kept}");
    }

    #[test]
    fn without_files_at_first_rounds_still_end() {
        let options = FileserverOptions { files: 0, rounds: 10, ..FileserverOptions::new(1) };
        let mut server = Fileserver::new(options, 3);
        assert_eq!(std::iter::from_fn(|| server.next()).count(), 40, "no file is left for a stat");
    }

    #[test]
    fn half_of_the_transactions_read_and_nothing_is_left() {
        let mut postmark = Postmark::new(PostmarkOptions::new(2), 1);
        let mut counts = [0; 5];
        let mut counted = 0;
        while let Some(event) = postmark.next() {
            counts[event.kind as usize] += 1;
            counted += u64::from(event.counted);
        }
        let [create, append, read, delete, stat] = counts;
        assert_eq!((create, read + append, stat), (delete, 5000, 0));
        assert_eq!(counted, 10_000);
        assert!((2350..2650).contains(&read) && (2850..3150).contains(&create), "{counts:?}");
        assert!(postmark.set.files.is_empty());
    }

    #[test]
    fn a_postmark_without_files_at_first_makes_some() {
        let options = PostmarkOptions { files: 0, transactions: 50, ..PostmarkOptions::new(1) };
        let mut postmark = Postmark::new(options, 1);
        assert_eq!(postmark.next().map(|event| event.kind), Some(EventKind::Create));
        assert!(std::iter::from_fn(|| postmark.next()).count() > 50);
    }
}

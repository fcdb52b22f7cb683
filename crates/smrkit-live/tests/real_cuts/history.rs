//! History of names: their contents, and the promises that they last.

/// Content of a name: nothing, or these bytes.
pub type Content = Option<Vec<u8>>;

/// The past of one name, by positions in the recording.
#[derive(Default)]
pub struct History {
    /// Its contents, from the position on at which the change began.
    versions: Vec<(usize, Content)>,
    /// At that position this many versions were past: the last of them is durable.
    durable: Vec<(usize, usize)>,
}

impl History {
    /// The name's content now.
    pub fn now(&self) -> Content {
        self.versions.last().and_then(|(_, content)| content.clone())
    }

    /// From `position` on the name may hold `content`.
    pub fn change(&mut self, position: usize, content: Content) {
        self.versions.push((position, content));
    }

    /// At `position` it was promised that what the name holds now will last.
    pub fn promise(&mut self, position: usize) {
        self.durable.push((position, self.versions.len()));
    }

    /// Checks that a cut after `cut` events may leave `content`; if not, returns the promise.
    pub fn allows(&self, cut: usize, content: &Content) -> Result<(), String> {
        let durable = self.durable.iter().take_while(|(position, _)| *position <= cut).map(|(_, past)| *past).max();
        let begun = self.versions.iter().take_while(|(position, _)| *position <= cut).count();
        let first = durable.unwrap_or(0);
        let nothing_yet = first == 0 && content.is_none();
        let window = &self.versions[first.saturating_sub(1)..begun.max(first)];
        if nothing_yet || window.iter().any(|(_, version)| version == content) {
            return Ok(());
        }
        let bytes = |content: &Content| content.as_ref().map(Vec::len);
        let sizes: Vec<_> = window.iter().map(|(_, version)| bytes(version)).collect();
        Err(format!("it holds {:?} bytes, and none of the contents that it may hold: {sizes:?} bytes", bytes(content)))
    }
}

//! Times that requests get: those of a trace's clock, or sums of think or response times.

/// Meaning of `Request::time`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowTimes {
    /// When the request arrived, from the first one on.
    #[default]
    Clock,
    /// The think times after the requests before it, summed: what a closed loop needs.
    Think,
    /// The response times up to its own, summed.
    Response,
}

//! Sentences about what a user can set, which every front words with its own names.

use std::borrow::Cow;
use std::fmt;
use std::ops::Add;

use serde::{Deserialize, Serialize};

/// Something that a user can set.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Field {
    /// The array of drives.
    Array,
    /// True if the trace's times are kept.
    Arrival,
    /// Bytes of a band.
    Band,
    /// The size of the drive.
    Capacity,
    /// True if every read is verified.
    Check,
    /// Time for which data that nobody syncs may stay volatile.
    CommitInterval,
    /// Commands outstanding.
    Depth,
    /// Drive isolation distance.
    Did,
    /// Drive prefix isolation distance.
    Dpid,
    /// The drive.
    Drive,
    /// The folder for figures.
    Figures,
    /// True if addresses are taken modulo the capacity.
    Fold,
    /// True if what is there is overwritten.
    Force,
    /// The format of a trace.
    Format,
    /// Merging of sources.
    Interleave,
    /// The layers.
    Layer,
    /// The file for a log.
    Log,
    /// The metadata directory of a file system.
    Meta,
    /// The model of a file system's disk.
    Model,
    /// The placement policy of a file system.
    Placement,
    /// The physical write at which the power is cut.
    PowerCut,
    /// The state before.
    Prefill,
    /// The order of waiting commands.
    Queue,
    /// The rebuild alongside the requests.
    Rebuild,
    /// A parameter of a layer.
    Set,
    /// Bytes of an image.
    Size,
    /// True if malformed rows are left out.
    SkipBadRows,
    /// A trace in the order of its times.
    Sort,
    /// Placement of the addresses of sources.
    Sources,
    /// Size that a workload takes for the disk's.
    Span,
    /// The pause between a completion and the next request.
    Think,
    /// The factor on the trace's times.
    TimeScale,
    /// A trace file.
    Trace,
    /// True if other users may get at an image or a metadata directory.
    TrustOpenMetadata,
    /// One of a trace's volumes.
    Volume,
    /// Requests served before counting begins.
    Warmup,
    /// A workload.
    Workload,
}

impl Field {
    /// Name of the field in a program, where there are no options.
    pub fn name(self) -> &'static str {
        match self {
            Field::Array => "array",
            Field::Arrival => "arrival",
            Field::Band => "band",
            Field::Capacity => "capacity",
            Field::Check => "check",
            Field::CommitInterval => "commit_interval",
            Field::Depth => "depth",
            Field::Did => "did",
            Field::Dpid => "dpid",
            Field::Drive => "drive",
            Field::Figures => "figures",
            Field::Fold => "fold",
            Field::Force => "force",
            Field::Format => "format",
            Field::Interleave => "interleave",
            Field::Layer => "layer",
            Field::Log => "log",
            Field::Meta => "meta",
            Field::Model => "model",
            Field::Placement => "placement",
            Field::PowerCut => "power_cut",
            Field::Prefill => "prefill",
            Field::Queue => "queue",
            Field::Rebuild => "rebuild",
            Field::Set => "set",
            Field::Size => "size",
            Field::SkipBadRows => "skip_bad_rows",
            Field::Sort => "sort",
            Field::Sources => "sources",
            Field::Span => "span",
            Field::Think => "think",
            Field::TimeScale => "time_scale",
            Field::Trace => "trace",
            Field::TrustOpenMetadata => "trust_open_metadata",
            Field::Volume => "volume",
            Field::Warmup => "warmup",
            Field::Workload => "workload",
        }
    }
}

/// A front's name for a field.
pub type FieldNames = dyn Fn(Field) -> Cow<'static, str>;

/// A sentence with fields in it: `"give a smaller " + Field::Capacity`, where the first summand is a [`Message`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message(Vec<MessagePiece>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum MessagePiece {
    Text(Cow<'static, str>),
    Field(Field),
}

impl Message {
    /// The sentence with `name` in place of each field.
    pub fn worded(&self, name: &FieldNames) -> String {
        let piece = |piece: &MessagePiece| match piece {
            MessagePiece::Text(text) => text.clone(),
            MessagePiece::Field(field) => name(*field),
        };
        self.0.iter().map(piece).collect()
    }

    /// Remedy where a trace is not in the order of its times.
    pub fn put_in_order() -> Message {
        Message::from("use ") + Field::Arrival + " flat-out, or put the rows in order with " + Field::Sort
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.worded(&|field| field.name().into()))
    }
}

impl From<&'static str> for Message {
    fn from(text: &'static str) -> Message {
        Message(vec![MessagePiece::Text(text.into())])
    }
}

impl From<String> for Message {
    fn from(text: String) -> Message {
        Message(vec![MessagePiece::Text(text.into())])
    }
}

impl From<Field> for Message {
    fn from(field: Field) -> Message {
        Message(vec![MessagePiece::Field(field)])
    }
}

impl<T: Into<Message>> Add<T> for Message {
    type Output = Message;

    fn add(mut self, more: T) -> Message {
        self.0.extend(more.into().0);
        self
    }
}

impl<T: Into<Message>> Add<T> for Field {
    type Output = Message;

    fn add(self, more: T) -> Message {
        Message::from(self) + more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_front_words_the_fields_with_its_own_names() {
        let message = Message::from("give a smaller ") + Field::TimeScale + format!(" than {}, or ", 2) + Field::Fold;
        assert_eq!(message.to_string(), "give a smaller time_scale than 2, or fold");
        let option = |field: Field| if field == Field::Fold { "--fold".into() } else { "--time-scale".into() };
        assert_eq!(message.worded(&option), "give a smaller --time-scale than 2, or --fold");
    }
}

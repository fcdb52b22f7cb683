//! Errors of the library in the words of the command line: each field by its option.

use smrkit::error::Error;
use smrkit::message::Field;

/// Option that sets a field.
pub fn option(field: Field) -> &'static str {
    match field {
        Field::Arrival => "--arrival",
        Field::Array => "--array",
        Field::Capacity => "--capacity",
        Field::Check => "--check",
        Field::Depth => "--depth",
        Field::Drive => "--drive",
        Field::Fold => "--fold",
        Field::Format => "--format",
        Field::Interleave => "--interleave",
        Field::Layer => "--layer",
        Field::PowerCut => "--power-cut",
        Field::Prefill => "--prefill",
        Field::Queue => "--queue",
        Field::Rebuild => "--rebuild",
        Field::Set => "--set",
        Field::SkipBadRows => "--skip-bad-rows",
        Field::Sort => "smrkit trace convert --sort",
        Field::Sources => "--sources",
        Field::Span => "--span",
        Field::Think => "--think",
        Field::TimeScale => "--time-scale",
        Field::Trace => "--trace",
        Field::Volume => "--volume",
        Field::Warmup => "--warmup",
        Field::Workload => "--workload",
    }
}

/// An error and its causes.
pub fn chain(error: &anyhow::Error) -> String {
    let cause = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<Error>().map_or_else(|| cause.to_string(), |error| error.worded(&option))
    };
    error.chain().map(cause).collect::<Vec<_>>().join(": ")
}

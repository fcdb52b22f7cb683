//! Options as names and values, from Python or a file, read by the parser of the command line.

use std::any::TypeId;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Args, Command, FromArgMatches};
use smrkit::error::Error;
use smrkit::experiment::system::AskedCapacity;
use smrkit::names;
use smrkit::settings::Warmup;
use smrkit::units::Nanos;
use smrkit_trace::VolumeChoice;

/// An option by its name, with `_` or `-` between its words, and its value; `on` and `off` turn a switch.
pub type Pair = (String, String);

/// Reads options from pairs. `word` is the front end's name for an option, for errors.
pub fn read<T: Args + FromArgMatches>(pairs: &[Pair], word: &dyn Fn(&str) -> String) -> Result<T, Error> {
    let command = T::augment_args(Command::new("smrkit").no_binary_name(true).disable_help_flag(true));
    let mut words = Vec::with_capacity(pairs.len());
    for (name, value) in pairs {
        words.extend(as_word(&command, name, value, word)?);
    }
    let parsed = command.try_get_matches_from(words).and_then(|matches| T::from_arg_matches(&matches));
    parsed.map_err(|error| refused(&error, word))
}

/// An option: its name, the kind of its value, true if it may be repeated, its possible words (empty if it is no choice), and its help
/// text.
pub type Described = (String, &'static str, bool, Vec<String>, String);

/// The options of `T`, in the order of the command's help.
pub fn described<T: Args>() -> Vec<Described> {
    let command = T::augment_args(Command::new("smrkit"));
    let is_list = |arg: &Arg| arg.get_value_delimiter().is_some() || matches!(arg.get_action(), ArgAction::Append);
    let words = |arg: &Arg| match is_switch(arg) {
        true => Vec::new(),
        false => arg.get_possible_values().iter().map(|value| value.get_name().to_string()).collect(),
    };
    let help = |arg: &Arg| arg.get_help().map_or_else(String::new, ToString::to_string);
    command
        .get_arguments()
        .map(|arg| (arg.get_id().to_string(), kind(arg), is_list(arg), words(arg), help(arg)))
        .collect()
}

/// The kind of an option's value: a switch, path, time, number or amount; else a text.
fn kind(arg: &Arg) -> &'static str {
    let value = arg.get_value_parser().type_id();
    let amounts: [TypeId; 5] = [id::<u32>(), id::<u64>(), id::<Warmup>(), id::<VolumeChoice>(), id::<AskedCapacity>()];
    match value {
        _ if is_switch(arg) => "switch",
        _ if value == id::<PathBuf>() => "path",
        _ if value == id::<Nanos>() => "time",
        _ if value == id::<f64>() => "number",
        _ if amounts.iter().any(|amount| value == *amount) => "amount",
        _ => "text",
    }
}

fn id<T: 'static>() -> TypeId {
    TypeId::of::<T>()
}

/// The command line argument that gives `name` this value; `None` for a switch that is off.
fn as_word(command: &Command, name: &str, value: &str, word: &dyn Fn(&str) -> String) -> Result<Option<String>, Error> {
    let id = name.replace('-', "_");
    let Some(arg) = command.get_arguments().find(|arg| arg.get_id() == id.as_str()) else {
        let known: Vec<String> = command.get_arguments().map(|arg| word(arg.get_id().as_str())).collect();
        let known = names::known(&word(&id), known.iter().map(String::as_str));
        return Err(Error::Usage(format!("there is no option {name}: {known}")));
    };
    let long = arg.get_long().unwrap_or(name);
    if !is_switch(arg) {
        return Ok(Some(format!("--{long}={value}")));
    }
    match value {
        "on" => Ok(Some(format!("--{long}"))),
        "off" => Ok(None),
        _ => Err(Error::Usage(format!("{} is on or off, not {value}", word(&id)))),
    }
}

fn is_switch(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

/// The parser's error, with options in the front end's words.
fn refused(error: &clap::Error, word: &dyn Fn(&str) -> String) -> Error {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => Some(texts.join(", ")),
        _ => None,
    };
    let named = |text: Option<String>| text.map(|text| word(id_of(&text)));
    let option = named(context(ContextKind::InvalidArg)).unwrap_or_default();
    Error::Usage(match error.kind() {
        ErrorKind::MissingRequiredArgument => format!("{option} is missing: give it too, or leave out what needs it"),
        ErrorKind::ArgumentConflict => {
            format!("{option} is given twice, or with an option that excludes it: leave one out")
        }
        _ => {
            let value = context(ContextKind::InvalidValue).unwrap_or_default();
            let why = match (std::error::Error::source(error), context(ContextKind::ValidValue)) {
                (Some(source), _) => source.to_string(),
                (None, Some(valid)) => names::known(&value, valid.split(", ")),
                (None, None) => "give another value".into(),
            };
            format!("{option} '{value}': {why}")
        }
    })
}

/// The option's name in a text such as `--time-scale <X>`.
fn id_of(text: &str) -> &str {
    let end = text.find([' ', '=']).unwrap_or(text.len());
    text[..end].trim_start_matches('-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::RunOptions;
    use smrkit::settings::Queue;

    fn asked(pairs: &[(&str, &str)]) -> Result<RunOptions, String> {
        let pairs: Vec<Pair> = pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        read(&pairs, &|name| format!("<{}>", name.replace('-', "_"))).map_err(|error| error.to_string())
    }

    #[test]
    fn pairs_are_read_as_the_command_line_reads_its_words() {
        let run = asked(&[("layer", "rmw,vguard"), ("time-scale", "2"), ("skip_bad_rows", "on"), ("fold", "off")]);
        let run = run.unwrap();
        assert_eq!(run.system.layer, ["rmw", "vguard"]);
        assert_eq!((run.conditions.time_scale, run.conditions.skip_bad_rows, run.conditions.fold), (2.0, true, false));
        let run = asked(&[("depth", "1k"), ("queue", "sptf"), ("set", "a.b=1"), ("set", "a.c=2")]).unwrap();
        let settings = run.conditions.settings(run.depth.unwrap_or(1), false);
        assert_eq!((settings.depth, settings.queue, run.set.len()), (1000, Queue::Sptf, 2));
    }

    #[test]
    fn what_is_refused_is_said_in_the_words_of_the_front() {
        let error = |pairs: &[(&str, &str)]| asked(pairs).err().expect("refused");
        assert_eq!(error(&[("think", "-1s")]).split(':').next(), Some("<think> '-1s'"));
        assert_eq!(error(&[("queue", "lifo")]), "<queue> 'lifo': known: fcfs, elevator, sptf, drive");
        assert!(error(&[("queue", "spft")]).contains("did you mean `sptf`?"));
        assert_eq!(error(&[("rebuild", "disk=0")]).split(':').next(), Some("<array> is missing"));
        assert_eq!(
            error(&[("depth", "1"), ("depth", "2")]),
            "<depth> is given twice, or with an option that excludes it: leave one out"
        );
        assert_eq!(error(&[("fold", "yes")]), "<fold> is on or off, not yes");
        assert!(error(&[("colour", "red")]).starts_with("there is no option colour: known: <drive>, <layer>,"));
        assert!(
            error(&[("layr", "rmw")]).starts_with("there is no option layr: did you mean `<layer>`? Known: <drive>,")
        );
    }

    #[test]
    fn options_are_told_with_their_kinds() {
        let known = described::<RunOptions>();
        let find = |name: &str| known.iter().find(|(known, ..)| known == name);
        let told = |name: &str| find(name).map(|&(_, kind, is_list, ..)| (kind, is_list));
        let names = ["trace", "layer", "think", "depth", "warmup", "time_scale", "fold", "queue"];
        let expected = [
            ("path", true),
            ("text", true),
            ("time", false),
            ("amount", false),
            ("amount", false),
            ("number", false),
            ("switch", false),
            ("text", false),
        ];
        assert_eq!(names.map(told), expected.map(Some));
        let (.., words, help) = find("arrival").unwrap();
        assert!(words.contains(&"flat-out".into()) && !help.is_empty(), "{words:?} {help}");
        assert!(find("fold").unwrap().3.is_empty(), "a switch is no word");
    }
}

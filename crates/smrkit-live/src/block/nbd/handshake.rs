//! The beginning of a connection: the client asks for options, until it asks for the export.

use super::wire::{self, Context, EXPORT_FLAGS, info, option, reply};

/// Properties of the export, as clients are told of them.
#[derive(Clone, Copy, Debug)]
pub struct Export {
    pub bytes: u64,
    pub sector_bytes: u32,
    pub preferred_bytes: u32,
    pub longest_bytes: u32,
    pub is_read_only: bool,
}

impl Export {
    fn flags(&self) -> u16 {
        EXPORT_FLAGS | if self.is_read_only { wire::READ_ONLY } else { 0 }
    }
}

/// Result of the handshake.
#[derive(Clone, Debug, Default)]
pub struct Agreed {
    pub structured: bool,
    /// Contexts that block status tells.
    pub contexts: Vec<Context>,
    no_zeroes: bool,
}

/// Step that follows an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Option,
    Commands,
    Close,
}

/// The server's first words.
pub fn greeting() -> Vec<u8> {
    let mut out = wire::INIT_MAGIC.to_be_bytes().to_vec();
    out.extend_from_slice(&wire::OPTION_MAGIC.to_be_bytes());
    out.extend_from_slice(&(wire::FIXED_NEWSTYLE | wire::NO_ZEROES).to_be_bytes());
    out
}

impl Agreed {
    /// Takes the client's flags; `false` if they ask for what there is not.
    pub fn take_flags(&mut self, flags: u32) -> bool {
        self.no_zeroes = flags & u32::from(wire::NO_ZEROES) != 0;
        flags & !u32::from(wire::FIXED_NEWSTYLE | wire::NO_ZEROES) == 0
    }

    /// Answers an option.
    pub fn answer(&mut self, option: u32, data: &[u8], export: &Export, out: &mut Vec<u8>) -> Next {
        let mut say = |kind: u32, data: &[u8]| wire::option_reply(out, option, kind, data);
        match option {
            option::EXPORT_NAME => return self.export_name(export, out),
            option::ABORT => {
                say(reply::ACK, &[]);
                return Next::Close;
            }
            option::LIST if data.is_empty() => {
                // One export, whose name is empty.
                say(reply::SERVER, &0u32.to_be_bytes());
                say(reply::ACK, &[]);
            }
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                say(reply::ACK, &[]);
            }
            option::INFO | option::GO => match asked_name(data) {
                None => say(reply::INVALID, &[]),
                // Any name is the one export's.
                Some(_) => {
                    say(reply::INFO, &export_info(export));
                    say(reply::INFO, &block_sizes(export));
                    say(reply::ACK, &[]);
                    return if option == option::GO { Next::Commands } else { Next::Option };
                }
            },
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => match asked_contexts(data) {
                None => say(reply::INVALID, &[]),
                Some(_) if option == option::SET_META_CONTEXT && !self.structured => {
                    say(reply::INVALID, b"ask for structured replies first");
                }
                Some((_, contexts)) => {
                    let lists = option == option::LIST_META_CONTEXT;
                    let is_wanted = |context: &Context| {
                        let name = context.name().as_bytes();
                        let is_asked =
                            |&asked: &&[u8]| asked == name || lists && asked.ends_with(b":") && name.starts_with(asked);
                        contexts.iter().any(is_asked) || lists && contexts.is_empty()
                    };
                    let wanted: Vec<Context> = Context::ALL.into_iter().filter(is_wanted).collect();
                    for &context in &wanted {
                        let told = [&(context as u32).to_be_bytes()[..], context.name().as_bytes()].concat();
                        say(reply::META_CONTEXT, &told);
                    }
                    if !lists {
                        self.contexts = wanted;
                    }
                    say(reply::ACK, &[]);
                }
            },
            option::LIST | option::STRUCTURED_REPLY => say(reply::INVALID, b"this option takes no data"),
            _ => say(reply::UNSUPPORTED, &[]),
        }
        Next::Option
    }

    /// The old way to ask for an export.
    fn export_name(&self, export: &Export, out: &mut Vec<u8>) -> Next {
        out.extend_from_slice(&export.bytes.to_be_bytes());
        out.extend_from_slice(&export.flags().to_be_bytes());
        if !self.no_zeroes {
            out.extend_from_slice(&[0; 124]);
        }
        Next::Commands
    }
}

fn export_info(export: &Export) -> Vec<u8> {
    let mut data = info::EXPORT.to_be_bytes().to_vec();
    data.extend_from_slice(&export.bytes.to_be_bytes());
    data.extend_from_slice(&export.flags().to_be_bytes());
    data
}

fn block_sizes(export: &Export) -> Vec<u8> {
    let mut data = info::BLOCK_SIZE.to_be_bytes().to_vec();
    for bytes in [export.sector_bytes, export.preferred_bytes, export.longest_bytes] {
        data.extend_from_slice(&bytes.to_be_bytes());
    }
    data
}

/// The first `length` bytes, where a number before them tells it, and the rest.
fn counted(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

/// The name that INFO or GO asks for; what it wants to know is told anyway.
fn asked_name(data: &[u8]) -> Option<&[u8]> {
    let (name, rest) = counted(data)?;
    let (count, infos) = rest.split_first_chunk::<2>()?;
    (infos.len() == 2 * usize::from(u16::from_be_bytes(*count))).then_some(name)
}

/// The export and the contexts that are asked for.
fn asked_contexts(data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let (name, rest) = counted(data)?;
    let (count, mut rest) = rest.split_first_chunk::<4>()?;
    let mut contexts = Vec::new();
    for _ in 0..u32::from_be_bytes(*count) {
        let (context, after) = counted(rest)?;
        contexts.push(context);
        rest = after;
    }
    rest.is_empty().then_some((name, contexts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_export_is_padded_unless_the_client_wants_no_zeroes() {
        let export = EXPORT;
        let (fixed, no_zeroes) = (u32::from(wire::FIXED_NEWSTYLE), u32::from(wire::NO_ZEROES));
        for (flags, bytes) in [(0, 134), (fixed, 134), (no_zeroes, 10), (fixed | no_zeroes, 10)] {
            let (mut agreed, mut out) = (Agreed::default(), Vec::new());
            assert!(agreed.take_flags(flags));
            assert_eq!(agreed.answer(option::EXPORT_NAME, b"", &export, &mut out), Next::Commands);
            assert_eq!(out.len(), bytes, "{flags}");
        }
        assert!(!Agreed::default().take_flags(1 << 5));
    }

    const EXPORT: Export = Export {
        bytes: 1 << 20,
        sector_bytes: 512,
        preferred_bytes: 4096,
        longest_bytes: 1 << 25,
        is_read_only: false,
    };

    /// A reply to an option.
    fn said(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
        let mut out = 0x0003_e889_0455_65a9u64.to_be_bytes().to_vec();
        [option, kind, data.len() as u32].iter().for_each(|word| out.extend(word.to_be_bytes()));
        [&out, data].concat()
    }

    fn with_length(data: &[u8]) -> Vec<u8> {
        [&(data.len() as u32).to_be_bytes()[..], data].concat()
    }

    /// A request for contexts of the export `name`.
    fn contexts(name: &[u8], asked: &[&[u8]]) -> Vec<u8> {
        let all: Vec<u8> = asked.iter().flat_map(|context| with_length(context)).collect();
        [with_length(name), (asked.len() as u32).to_be_bytes().to_vec(), all].concat()
    }

    #[test]
    fn options_are_answered_word_for_word() {
        use option::*;
        let mut agreed = Agreed::default();
        let mut answer = |option: u32, data: &[u8]| {
            let mut out = Vec::new();
            let next = agreed.answer(option, data, &EXPORT, &mut out);
            (next, out)
        };
        let go_on = |option: u32, replies: &[(u32, &[u8])]| {
            let all = replies.iter().flat_map(|(kind, data)| said(option, *kind, data)).collect();
            (Next::Option, all)
        };
        let no_data: &[u8] = b"this option takes no data";
        assert_eq!(answer(LIST, b""), go_on(LIST, &[(reply::SERVER, &[0; 4]), (reply::ACK, b"")]));
        assert_eq!(answer(LIST, b"x"), go_on(LIST, &[(reply::INVALID, no_data)]));
        assert_eq!(answer(ABORT, b""), (Next::Close, said(ABORT, reply::ACK, b"")));
        assert_eq!(answer(99, b"x"), go_on(99, &[(reply::UNSUPPORTED, b"")]));
        assert_eq!(answer(EXPORT_NAME, b"other").0, Next::Commands);
        let export = [&[0, 0][..], &(1u64 << 20).to_be_bytes(), &[1, 0xfd]].concat();
        let sizes = [&[0, 3][..], &[0, 0, 2, 0], &[0, 0, 16, 0], &[2, 0, 0, 0]].concat();
        let told = [(reply::INFO, &export[..]), (reply::INFO, &sizes), (reply::ACK, b"")];
        let named = |name: &[u8], infos: &[u8]| {
            [with_length(name), ((infos.len() / 2) as u16).to_be_bytes().to_vec(), infos.to_vec()].concat()
        };
        assert_eq!(answer(INFO, &named(b"", b"")), go_on(INFO, &told));
        assert_eq!(answer(GO, &named(b"", &[0, 3])), (Next::Commands, go_on(GO, &told).1));
        assert_eq!(answer(GO, &named(b"a", b"")), (Next::Commands, go_on(GO, &told).1));
        for wrong in
            [&[][..], &[0; 5], &[0, 0, 0, 1, 0], &named(b"", &[0, 3])[..7], &[named(b"", b""), vec![1]].concat()]
        {
            assert_eq!(answer(INFO, wrong), go_on(INFO, &[(reply::INVALID, b"")]), "{wrong:?}");
        }
        let [holes, tracks] = [(1u8, "base:allocation"), (2, "x-smrkit:track")]
            .map(|(number, name)| [&[0, 0, 0, number][..], name.as_bytes()].concat());
        let one = contexts(b"", &[b"base:allocation"]);
        let first: &[u8] = b"ask for structured replies first";
        assert_eq!(answer(SET_META_CONTEXT, &one), go_on(SET_META_CONTEXT, &[(reply::INVALID, first)]));
        let list = |asked: &[&[u8]]| contexts(b"", asked);
        let found = |option, all: &[&[u8]]| {
            let replies = all.iter().map(|data| (reply::META_CONTEXT, *data)).chain([(reply::ACK, &b""[..])]);
            go_on(option, &replies.collect::<Vec<_>>())
        };
        for (asked, all) in [
            (list(&[]), vec![&holes[..], &tracks]),
            (list(&[b"base:"]), vec![&holes]),
            (list(&[b"x-smrkit:", b"none:"]), vec![&tracks]),
            (list(&[b"base"]), vec![]),
            (list(&[b"base:allocation", b"x-smrkit:track"]), vec![&holes, &tracks]),
        ] {
            assert_eq!(answer(LIST_META_CONTEXT, &asked), found(LIST_META_CONTEXT, &all), "{asked:?}");
        }
        assert_eq!(answer(STRUCTURED_REPLY, b"x"), go_on(STRUCTURED_REPLY, &[(reply::INVALID, no_data)]));
        assert_eq!(answer(STRUCTURED_REPLY, b""), go_on(STRUCTURED_REPLY, &[(reply::ACK, b"")]));
        for (asked, all) in [(list(&[]), vec![]), (list(&[b"base:"]), vec![]), (one.clone(), vec![&holes[..]])] {
            assert_eq!(answer(SET_META_CONTEXT, &asked), found(SET_META_CONTEXT, &all), "{asked:?}");
        }
        let other = contexts(b"a", &[]);
        assert_eq!(answer(LIST_META_CONTEXT, &other), found(LIST_META_CONTEXT, &[&holes, &tracks]));
        for wrong in [&one[..one.len() - 1], &[one.clone(), vec![0]].concat(), b"", &one[..6]] {
            assert_eq!(answer(SET_META_CONTEXT, wrong), go_on(SET_META_CONTEXT, &[(reply::INVALID, b"")]));
        }
        assert!(agreed.structured);
        assert_eq!(agreed.contexts, [Context::Allocation]);
        assert_eq!(greeting(), *b"NBDMAGICIHAVEOPT\0\x03");
    }
}

//! Messages name options in braces, as in `leave out {rebuild}, or give an {array}`; each front end puts its own names there.

use std::borrow::Cow;

/// All options that messages name, as the library calls them.
const FIELDS: &str = "\
    any_directory array arrival band capacity check commit_interval depth did dpid drive edit every fold force format \
    from_state interleave keep layer log meta model placement power_cut prefill queue rebuild report \
    save_state set size skip_bad_rows sort sources span think time_scale trace trust_open_metadata use \
    volume warmup within workload";

/// Remedy for a trace that is not in the order of its times.
pub const PUT_IN_ORDER: &str = "use {arrival} flat-out, or put the rows in order with {sort}";

/// The message with a front end's `name` of each field in its place. Other braces are the user's own, and stay.
pub fn worded(message: &str, name: &dyn Fn(&str) -> Cow<'static, str>) -> String {
    let (mut worded, mut rest) = (String::with_capacity(message.len()), message);
    while let Some((before, after)) = rest.split_once('{') {
        worded += before;
        let field = FIELDS.split(' ').find_map(|field| Some((field, after.strip_prefix(field)?.strip_prefix('}')?)));
        match field {
            Some((field, after)) => {
                worded += &name(field);
                rest = after;
            }
            None => {
                worded.push('{');
                rest = after;
            }
        }
    }
    worded + rest
}

/// The message with the library's own names, for programs and logs.
pub fn plain(message: &str) -> String {
    worded(message, &|field| field.to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_front_words_the_fields_with_its_own_names() {
        let message = "give a smaller {time_scale} than 2, or {fold}";
        assert_eq!(plain(message), "give a smaller time_scale than 2, or fold");
        let option = |field: &str| format!("--{}", field.replace('_', "-")).into();
        assert_eq!(worded(message, &option), "give a smaller --time-scale than 2, or --fold");
    }

    #[test]
    fn braces_of_a_file_or_a_path_stay() {
        for text in ["", "{", "}", "a{b}c", "{depth", "{{", "{ value = …, source = \"…\" }", "{Depth}", "é{é}"] {
            assert_eq!(plain(text), text);
        }
        assert_eq!(plain("{{depth}} {x{fold}"), "{depth} {xfold");
    }
}

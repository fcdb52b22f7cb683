//! Studies that take several times as much of the processor as the others: `make test` leaves them out, and `.ci/run` runs them.

mod arrays;
mod caveat;
mod compare;
mod sblocks;

use super::{find, json, known, real_traces, study, text};

known! {
    the_arrays_are_what_they_were: "arrays",
    the_s_blocks_of_cassuto_are_what_they_were: "cassuto-sblocks",
    caveat_scriptor_is_what_it_was: "caveat",
    the_comparison_is_what_it_was: "compare"
}

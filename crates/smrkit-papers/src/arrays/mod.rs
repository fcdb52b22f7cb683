//! Le, Holliday & Amer, "The Peril and Promise of Shingled Disk Arrays". Its traces are not named, and its figure 2 was at
//! hand as text, without the values on its axes.

mod claims;
mod exact;
mod figures;
mod lengths;
mod measured;
mod movement;
pub mod rebuild;
pub mod setup;
mod sets;

use smrkit::error::Error;

use crate::{Item, Reproduction, Scale};

pub const REPRODUCTION: Reproduction = Reproduction {
    name: "arrays",
    paper: "Le, Holliday & Amer: The Peril and Promise of Shingled Disk Arrays",
    summary: "Figure 2's eight configurations under five schemes, on three sets of sources, in movement and in time; and how long a member takes to rebuild.",
    before: "Disks are filled in order before movement is counted; a rebuild begins on an empty array.",
    items,
    open,
};

/// Movement first, then whatever else is asked of arrays: each part gives its items.
fn items(scale: &Scale) -> Result<Vec<Item>, Error> {
    let mut items = movement::items(scale)?;
    items.extend([lengths::item(scale), exact::disks(scale), exact::random_writes(scale), rebuild::item(scale)]);
    Ok(items)
}

/// Questions that the paper leaves open or contradicts.
fn open() -> Result<Vec<String>, Error> {
    Ok(texts![
        "\"Number of track-to-track movements\" is not defined further: tracks crossed, accesses on another track, or bands \
         relocated, for the text speaks of \"relocating disk bands\". All three are counted, and none is compared with another.",
        "\"A log-structured write scheme\" moves bands only when it cleans, yet the text explains the rise by bands relocated when \
         data of another source is updated, as a scheme in place would. Hence several schemes.",
        "That long bursts end at pure is said to be expected. Striping alone already moves all four disks for a run that one disk \
         serves in pure: bursts tend to striped without interleaving.",
        "That dedicated disks do better than pure is explained by unrelated data on one disk. Where sources are as large as disks, \
         none is there in pure either, and both are the same.",
        "The four traces are not named. Four real ones, and four generated sources, stand in their place.",
        "The sizes of disks, tracks, bands and chunks, how full disks are and what they hold before, where the sources' addresses \
         lie, and how the next source is drawn are not told: each is stated where it is used.",
        "How operations count that are longer than a block is open: here a request of a trace is one, whatever its length.",
    ])
}

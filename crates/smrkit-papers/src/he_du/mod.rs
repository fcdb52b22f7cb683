//! He & Du, "Novel Address Mappings for Shingled Write Disks", HotStorage 2014: static track maps. Its figures were at
//! hand as text, without the values on their axes, and none of its traces: others stand in their place.

mod common;
mod equations;
mod figure2;
mod figure3;
mod table1;
mod traces;

use smrkit::error::Error;

use crate::{Item, Reproduction, Scale};

pub const REPRODUCTION: Reproduction = Reproduction {
    name: "he-du",
    paper: "He & Du 2014: static track maps",
    summary: "Space gain, write amplification, figure 2, Table 1 and figure 3.",
    before: "Disks are filled in order before, up to the share of each item; SYN begins on an empty one.",
    items,
    open,
};

fn items(scale: &Scale) -> Result<Vec<Item>, Error> {
    let traces = traces::all(scale)?;
    Ok(vec![equations::item()?, figure2::item(scale)?, table1::item(&traces), figure3::item(scale, &traces)?])
}

/// Questions that the paper leaves open or contradicts.
fn open() -> Result<Vec<String>, Error> {
    Ok(texts![
        "\"R(1234)\" in the discussion of the experiments is R(4123): no such scheme is defined, and it would be 1234's \
         opposite.",
        "\"All SWDs produce an average WAR of 4 when SWD space usage is close to 100%\" is false for SYN: it overwrites \
         nothing, 1234 stays at 1, and the others reach 1.5 over the whole run (3 in its last quarter).",
        "The disk of the experiments is not named. Ours has one surface and one recording zone with the rotation and the \
         law of st5000as0011, is as large as each trace's span at 100 % needs, and has seeks for that size (0.8 to 4 ms): \
         response times are shapes, not numbers.",
        "The regular disk compared with it is not described either. Ours is the same drive written in place, so that a fill of 25 % \
         lies on its first fifth, where seeks are shorter than between bands all over the disk.",
        "How many sectors an extra request moves is not said. Ours moves what the drive's law destroys, and joins tracks \
         that touch.",
        "The WAR of a request over several tracks is not defined. Ours counts the tracks asked for once, those taken along \
         twice, and divides by the former, so that 1 means no amplification.",
        "Equation (2) gives N for any head of more than one track, and holds for full bands alone.",
        "What the random access zone is for (metadata) is not simulated: it takes its room and is never written.",
        "The order between digits and R(…) in other than the paper's schemes is open: we take them as they stand.",
        "Table 1 and the values on the axes of figures 2 and 3 were not in the text at hand.",
    ])
}

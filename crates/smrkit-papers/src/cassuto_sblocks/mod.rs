//! Cassuto et al., "Indirection Systems for Shingled-Recording Disk Drives", MSST 2010, section V: S-blocks. Its figures
//! were at hand as text, without the values on their axes.

mod ahead;
mod course;
mod figure12;
mod figure9;
mod literal;
mod policies;
mod sections;
mod sizes;
mod skewed;

use smrkit::drive::{Constant, Drive, DriveClock};
use smrkit::error::Error;

use crate::{Item, Reproduction, Scale};
use figure12::FASTER_US;

pub const REPRODUCTION: Reproduction = Reproduction {
    name: "cassuto-sblocks",
    paper: "Cassuto et al. 2010, section V: S-blocks",
    summary: "Figures 12 to 14, rules and policies of destaging, figure 9's test, sections, sizes of S-blocks, and skewed writes.",
    before: "Disks are empty before.",
    items,
    open,
};

/// Questions that the paper leaves open or contradicts.
fn open() -> Result<Vec<String>, Error> {
    Ok(texts![
        "How many S-blocks are destaged before a defrag (question 1 of V.C) is left open. Algorithm V.2 to the letter, only \
         when nothing is invalid, gives no plateau with any number of sections; the default destages one S-block a blocked \
         write while less than 1 % of the cache buffer is invalid.",
        "Whether runs of valid entries are copied at once is not said; singly, the rate falls to a few writes a second.",
        "The number of sections and the drive behind figures 12 to 14 are not named. Here 1 section, 1.016 ms a command and \
         3 µs a sector: figure 12's 80 IOPS need at most 6.6 µs, figure 13's 50 ms 2.5 to 5 µs, Table I 7.46.",
        "Headers are not mentioned. Here an entry has one sector of header and so has an S-block; they are no part of the \
         paper's percentages, but they take time: 4 KB cost 9 sectors.",
        "Figures 13 and 14 do not name the length of their runs, and the longest command grows with it until the spare \
         S-blocks are used up.",
        "\"A deeper temporary drop\" and \"a quicker convergence\" come without numbers.",
        "Of figure 9 the text of V.D only says that S-blocks degrade sequential reads as well.",
    ])
}

fn items(scale: &Scale) -> Result<Vec<Item>, Error> {
    let random = Drive::load("cassuto-random")?;
    let mut faster = random.clone();
    let DriveClock::Constant(clock) = &random.clock else {
        return Err(Error::Impossible("cassuto-random has no constant clock: give it command_ms and sector_us".into()));
    };
    faster.clock = DriveClock::Constant(Constant::new(clock.command_ms(), FASTER_US)?);
    Ok(vec![
        figure12::item(scale, &random, &faster),
        policies::item(scale, &random),
        literal::item(scale, &random),
        ahead::item(scale, &random),
        figure9::item(scale, &random),
        sections::item(scale, &random),
        sizes::item(scale, &random),
        skewed::item(scale, &random),
    ])
}

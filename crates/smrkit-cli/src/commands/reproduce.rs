//! `smrkit reproduce`
use crate::exit::Done;
use clap::Args;
#[derive(Args)]
pub struct Reproduce {}
impl Reproduce {
    pub fn execute(self) -> anyhow::Result<Done> {
        Ok(Done::All)
    }
}

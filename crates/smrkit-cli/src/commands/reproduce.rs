//! `smrkit reproduce`
use clap::Args;
use crate::exit::Done;
#[derive(Args)]
pub struct Reproduce {}
impl Reproduce { pub fn execute(self) -> anyhow::Result<Done> { Ok(Done::All) } }

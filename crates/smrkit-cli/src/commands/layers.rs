//! `smrkit layers`: the table of layers.

use clap::{Args, Subcommand};
use smrkit::layer::{self, LayerSpec};
use smrkit_report::catalogue;

use crate::output::{print, print_json};

#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  smrkit layers
  smrkit layers show set-assoc"
)]
pub struct Layers {
    #[command(subcommand)]
    what: Option<LayersCommand>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum LayersCommand {
    /// All layers, a line each (the default).
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// One layer: its parameters, defaults, ranges and paper.
    Show {
        /// The layer's name.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

impl Layers {
    pub fn execute(self) -> anyhow::Result<()> {
        match self.what.unwrap_or(LayersCommand::List { json: self.json }) {
            LayersCommand::List { json: true } => {
                print_json(&layer::named().into_iter().map(catalogue::layer).collect::<Vec<_>>())
            }
            LayersCommand::List { json: false } => print(list()),
            LayersCommand::Show { name, json: true } => print_json(&catalogue::layer(layer::find(&name)?)),
            LayersCommand::Show { name, json: false } => print(show(layer::find(&name)?)),
        }
    }
}

fn list() -> String {
    let layers = layer::named();
    let width = layers.iter().map(|spec| spec.name.len()).max().unwrap_or(0);
    let line = |spec: &LayerSpec| format!("{:<width$}  {}\n{:width$}  {}\n", spec.name, spec.summary, "", spec.paper);
    let lines: String = layers.into_iter().map(line).collect();
    lines + "\nsmrkit layers show NAME gives a layer's parameters.\n"
}

fn show(spec: &LayerSpec) -> String {
    let forms: Vec<&str> = spec.copes_with.iter().map(|form| form.name()).collect();
    let forms = if forms.is_empty() { "none".to_string() } else { forms.join(", ") };
    let mut text = format!("{}\n  {}\n", spec.name, spec.summary);
    text += &format!("  paper:       {}\n  copes with:  {forms}\n", spec.paper);
    let keys = (spec.keys)();
    if keys.is_empty() {
        return text + "  parameters:  none\n";
    }
    text += "  parameters (set with --set LAYER.KEY=VALUE, several values make several runs):\n";
    for parameter in keys {
        let key = format!("{}.{}", spec.name, parameter.name);
        text += &format!("    {key} = {}\n      {}\n", parameter.default, parameter.help);
        text += &format!("      takes {}\n", parameter.domain());
    }
    text
}

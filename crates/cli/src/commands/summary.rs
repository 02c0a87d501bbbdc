//! `oomph summary`: the layers of a model with shapes and sizes.

use clap::Args;
use oomph_arguments::{NamedConfigArguments, count};
use oomph_config::{MicroBatch, sections::train::MOST_SAMPLES};
use oomph_core::SampleSpec;
use oomph_model::{Summary, SummaryRow};
use oomph_trainer::Registry;

use crate::{
    error::CliError,
    exit::Exit,
    numbers::{grouped, scaled},
    output,
    table::{
        Column::{Left, Right},
        Table,
    },
};

#[derive(Args, Debug)]
#[command(after_help = "\
The model runs on a device that only records shapes, so no batch is too large.

Examples:
  oomph summary
  oomph summary --config synthetic-resnet50 --batch 100000")]
pub(crate) struct SummaryArguments {
    #[command(flatten)]
    config: NamedConfigArguments,
    /// Samples in one forward pass [default: the micro-batch of the config]
    // With a billion samples every product of the table fits into 64 bits.
    #[arg(long, value_name = "N", value_parser = count(1..=MOST_SAMPLES))]
    batch: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &SummaryArguments, registry: &Registry) -> Result<Exit, CliError> {
    let config = arguments.config.named().load(&[])?;
    let parts = registry.read(&config)?;
    let source = parts.source_to_plan(&config)?;
    let batch = match (arguments.batch, config.memory.micro_batch) {
        (Some(batch), _) => batch as usize,
        (None, Some(MicroBatch::Samples(samples))) => samples,
        (None, Some(MicroBatch::Auto) | None) => config.train.batch,
    };
    let summary = parts.summary(&config, source.spec(), batch)?;
    output::show(arguments.json, &summary, || report(&summary, source.spec()))
}

fn report(summary: &Summary, spec: &SampleSpec) -> String {
    format!(
        "{} · {} → {} · batch {}\n\n{}\n{}{} of parameters and running statistics, {} of outputs in one forward pass\n",
        summary.model,
        spec.input,
        spec.target,
        grouped(summary.batch),
        table(summary),
        frozen(summary),
        summary.parameter_bytes,
        summary.output_bytes,
    )
}

/// The number of frozen and trained parameters, if any are frozen.
fn frozen(summary: &Summary) -> String {
    let Summary { parameters, frozen_parameters: frozen, .. } = *summary;
    if frozen == 0 {
        return String::new();
    }
    let [all, frozen, trained] = [parameters, frozen, parameters - frozen].map(grouped);
    format!("{frozen} of {all} parameters are frozen, {trained} are trained\n")
}

fn table(summary: &Summary) -> Table<7> {
    let mut table = Table::new([
        Left("layer"),
        Left("kind"),
        Left("input"),
        Left("output"),
        Right("parameters"),
        Right("mult-adds"),
        Right("output bytes"),
    ]);
    let mut above = Vec::new();
    for row in &summary.rows {
        let cells = cells(row, indented(&mut above, &row.name));
        if row.depth == 0 { table.strong(cells) } else { table.row(cells) }
    }
    table.rule();
    let (parameters, multiply_adds) = (grouped(summary.parameters), scaled(summary.multiply_adds));
    let [none, output_bytes] = [String::new(), summary.output_bytes.to_string()];
    table.strong(["total".into(), none.clone(), none.clone(), none, parameters, multiply_adds, output_bytes]);
    table
}

/// The name of a row without its parent's name, indented. `above` holds the possible parents.
fn indented<'a>(above: &mut Vec<&'a str>, name: &'a str) -> String {
    let within = |parent: &str| name.strip_prefix(parent)?.strip_prefix('.');
    while above.last().is_some_and(|parent| within(parent).is_none()) {
        above.pop();
    }
    let own = above.last().and_then(|parent| within(parent)).unwrap_or(name);
    let text = format!("{}{own}", "  ".repeat(above.len()));
    above.push(name);
    text
}

fn cells(row: &SummaryRow, name: String) -> [String; 7] {
    let counted = |count: u64, text: String| if count == 0 { "–".into() } else { text };
    [
        name,
        if row.is_frozen && row.depth == 0 { format!("{} (frozen)", row.kind) } else { row.kind.clone() },
        shape(&row.input),
        shape(&row.output),
        counted(row.parameters as u64, grouped(row.parameters)),
        counted(row.multiply_adds, scaled(row.multiply_adds)),
        row.output_bytes.to_string(),
    ]
}

/// `64×16×8×8`, the batch first.
pub(crate) fn shape(dims: &[usize]) -> String {
    dims.iter().map(usize::to_string).collect::<Vec<_>>().join("×")
}

use std::fmt::{Display, Write as _};

use oomph_config::Value;
use oomph_core::{grouped, printable};
use oomph_data::detect::Detected;

use crate::{FittingBatch, Proposal};

/// Comments begin in this column, or after longer lines.
const COLUMN: usize = 24;

/// The keys of `[data]` that read the detected data, one a line.
pub(crate) fn data_keys(detected: &Detected) -> String {
    let mut text = line("source", format!("{:?}", detected.source), "");
    for setting in &detected.settings {
        text += &line(setting.key, &setting.value, &setting.because);
    }
    text
}

/// The config file of a proposal, called `name`, with a comment for each choice.
pub fn config_text(proposal: &Proposal, name: &str, fitting: &FittingBatch) -> String {
    let sections = [
        head(proposal, name),
        format!("[model]\n{}", model(proposal)),
        format!("[data]\n{}{}", data_keys(&proposal.detected), images(proposal)),
        format!("[train]\n{}", train(proposal, fitting)),
        format!("[optimizer]\n{}", optimizer(proposal, fitting.batch)),
        format!(
            "[schedule]\n{}",
            line("name", "\"one-cycle\"", "rises to `optimizer.lr`, then falls to nearly 0")
        ),
    ];
    let device =
        proposal.gpu.as_ref().map(|_| format!("[device]\n{}", line("devices", "\"cuda:0\"", "or \"cpu\"")));
    sections.into_iter().chain(device).collect::<Vec<_>>().join("\n")
}

/// `key = value        # comment`
fn line(key: &str, value: impl Display, comment: &str) -> String {
    let setting = format!("{key} = {value}");
    match comment {
        "" => format!("{setting}\n"),
        comment => format!("{setting:COLUMN$}# {comment}\n"),
    }
}

fn head(proposal: &Proposal, name: &str) -> String {
    let facts = &proposal.facts;
    let [train, test] = [facts.train_samples, facts.test_samples].map(|count| grouped(count as u64));
    let held_out = facts.held_out.as_ref().map(|origin| format!(": {origin}")).unwrap_or_default();
    // Names from outside: an end of line in them would end the comment.
    let [name, held_out] = [name, held_out.as_str()].map(printable);
    format!(
        "# Trains {} on {}: {train} samples, and {test} held out{held_out}.\n\
         # Written by `oomph init`. `oomph config {name}` shows all keys and their defaults.\n\
         #\n\
         #     oomph data {name}\n\
         #     oomph plan {name}\n\
         #     oomph find-lr {name}\n\
         #     oomph train {name}\n",
        printable(&proposal.model),
        printable(&proposal.detected.what)
    )
}

fn model(proposal: &Proposal) -> String {
    let mut text = line("name", Value::from(proposal.model.as_str()), "");
    match proposal.model.as_str() {
        name if name.starts_with("resnet") => {
            let stem = if proposal.side() > 64 {
                ["\"standard\"", "\"small\" for images up to 64 × 64"]
            } else {
                ["\"small\"", "\"standard\" for images above 64 × 64"]
            };
            text += &line("stem", stem[0], stem[1]);
            text += &match proposal.gpu.is_some() {
                true => line("width", 64, "channels of the first blocks; less is faster"),
                false => line("width", 16, "channels of the first blocks; 64 is the usual network"),
            };
        }
        "lstm" => {
            text += &line("hidden", 96, "size of the hidden state");
            text += &line("layers", 2, "");
            text += &line("dropout", 0.1, "between the layers");
        }
        "lstm-lm" => {
            text += &line("hidden", 256, "size of the hidden state");
            text += &line("layers", 1, "");
        }
        _ => {}
    }
    text
}

/// The keys of `[data]` for images.
fn images(proposal: &Proposal) -> String {
    let mut text = String::new();
    if !proposal.has_images() {
        return text;
    }
    if let Some(size) = proposal.size {
        text += &line("size", size, "images are resized to squares of so many pixels");
    }
    if proposal.is_grey {
        text += &line("channels", 1, "the images are grey");
    }
    // Rows of an image for an LSTM can be augmented as images can.
    text +=
        &line("crop_padding", (proposal.side() / 8).max(1), "pads by so many pixels, then crops at random");
    text += &match proposal.detected.source {
        "idx" => line("flip", false, "true mirrors half of the images; not for digits or letters"),
        _ => line("flip", true, "mirrors half of the images; false where left and right matter"),
    };
    text
}

fn train(proposal: &Proposal, fitting: &FittingBatch) -> String {
    let FittingBatch { batch, planned_peak_bytes, limit_bytes, largest_batch } = fitting;
    let place = if proposal.gpu.is_some() { "the GPU" } else { "this machine" };
    let memory = planned_peak_bytes.zip(*limit_bytes).zip(*largest_batch).map(|((peak, limit), largest)| {
        format!(
            "planned peak {peak} of {limit} on {place}; the largest that fits: {}",
            grouped(largest as u64)
        )
    });
    let mut text = line("epochs", proposal.epochs(*batch), "");
    text += &line("batch", batch, &memory.unwrap_or_default());
    text += &line("seed", 0, "");
    if let Some(unbalanced) = &proposal.facts.unbalanced {
        let _ = writeln!(text, "# class_weights = \"balanced\"   # {}", printable(unbalanced)); // Writing to a string cannot fail.
    }
    text
}

fn optimizer(proposal: &Proposal, batch: usize) -> String {
    const FIND: &str = "`oomph find-lr` suggests one";
    if proposal.has_images() {
        // A rate in proportion to the batch, as Goyal et al. 2017 (arXiv:1706.02677), from 0.1 at 64.
        let rate = 0.1 * batch as f64 / 64.0;
        return [
            line("name", "\"sgd\"", ""),
            line("lr", format!("{rate:?}"), FIND),
            line("momentum", 0.9, ""),
            line("nesterov", true, ""),
            line("weight_decay", "5e-4", ""),
        ]
        .concat();
    }
    [
        line("name", "\"adamw\"", ""),
        line("lr", "4e-3", FIND),
        line("weight_decay", 0.01, ""),
        line("clip_global_norm", "1.0", "bounds the step where gradients explode"),
    ]
    .concat()
}

//! `cargo xtask TOOL`: measures, checks and documents oomph. Without a tool it lists them.
//!
//! Tools that start the `oomph` program build it first. `--save` writes a measured table to `docs/tables/`; `cargo xtask
//! docs` then shows it in the documents.

mod attack;
mod book;
mod docs;
mod figures;
mod find_batch_truth;
mod fit_accuracy;
mod gpu;
mod lever_cost;
mod loading;
mod meter_cost;
mod parallel_cost;
mod pipeline_bubble;
mod plan_accuracy;
mod program;
mod roofline;
mod scaling;
mod stock_burn;
mod time_accuracy;
mod vulkan;
mod weights_logits;

use std::{env, error::Error, process::ExitCode};

use oomph_tree::measured;

oomph_memory::install_meter!();

/// How a tool ends.
pub(crate) type Outcome = Result<ExitCode, Box<dyn Error>>;

struct Tool {
    name: &'static str,
    arguments: &'static str,
    /// What it does, and how long that takes.
    summary: &'static str,
    run: fn(&[String]) -> Outcome,
}

/// All tools, in the order in which they are listed.
const TOOLS: [Tool; 21] = [
    Tool {
        name: "docs",
        arguments: "[--check]",
        summary: "writes measured tables and figures into the documents (1 s)",
        run: docs::run,
    },
    Tool {
        name: "book",
        arguments: "",
        summary: "renders README.md and docs/ as a book with search, by mdBook (10 s)",
        run: book::run,
    },
    Tool {
        name: "figures",
        arguments: "[FOLDER]",
        summary: "prints sizes of crates, cycles of files, duplicates (20 s)",
        run: figures::run,
    },
    Tool {
        name: "plan-accuracy",
        arguments: "[--save] [drift] [WORD …]",
        summary: "compares planned memory with measured memory (8 min)",
        run: plan_accuracy::run,
    },
    Tool {
        name: "find-batch-truth",
        arguments: "[--save] [--only WORD] [--steps N] [--most-seconds S]",
        summary: "compares what `find-batch` finds with the largest batch that trains (1 h with `--most-seconds 240`)",
        run: find_batch_truth::run,
    },
    Tool {
        name: "lever-cost",
        arguments: "[--save]",
        summary: "compares the expected time of smaller micro-batches with the clock (1 min)",
        run: lever_cost::run,
    },
    Tool {
        name: "fit-accuracy",
        arguments: "[--save]",
        summary: "compares the choice of `memory.fit` with an exhaustive search by measurement (30 min)",
        run: fit_accuracy::run,
    },
    Tool {
        name: "time-accuracy",
        arguments: "[--save] [WORD …]",
        summary: "compares planned step times with the clock (10 min)",
        run: time_accuracy::run,
    },
    Tool {
        name: "parallel-cost",
        arguments: "strategies|buckets [--save] [RUNS]",
        summary: "measures parallel strategies, or sizes of all-reduce buckets (10 min)",
        run: parallel_cost::run,
    },
    Tool {
        name: "pipeline-bubble",
        arguments: "[--save] [RUNS [MILLISECONDS]]",
        summary: "compares the idle share of pipelines with the formula (3 min)",
        run: pipeline_bubble::run,
    },
    Tool {
        name: "stock-burn",
        arguments: "[--save] [ROUNDS]",
        summary: "compares the step time of our layers with Burn's (1 min)",
        run: stock_burn::run,
    },
    Tool {
        name: "roofline",
        arguments: "[--save] [--bf16] [--times] [NETWORK …]",
        summary: "compares the kernels of a training step with the limits of the machine (1 min)",
        run: roofline::run,
    },
    Tool {
        name: "scaling",
        arguments: "[--save] [NETWORK …]",
        summary: "simulates a training step on more cores than the machine has (5 min)",
        run: scaling::run,
    },
    Tool {
        name: "loading",
        arguments: "FOLDER SIZE",
        summary: "loads the images of a folder by one thread, and tells the images a second, for tools/speed/loading.py",
        run: loading::run,
    },
    Tool {
        name: "meter-cost",
        arguments: "[--save] [ROUNDS]",
        summary: "measures processor time of the meter and of recording (2 min)",
        run: meter_cost::run,
    },
    Tool {
        name: "attack",
        arguments: "[NAME …] [--long] [--cases N] [--seed N] [--only WORD] [--save]",
        summary: "kills, starves and misleads oomph, and checks what it leaves (12 min; `--long` 75 min)",
        run: attack::run,
    },
    Tool {
        name: "fuzz-parsers",
        arguments: "[INPUTS] [--only PARSER] [--seed N]",
        summary: "feeds damaged bytes to every parser (5 min for 50000000)",
        run: |arguments| program::run("oomph-tools", "fuzz_parsers", arguments),
    },
    Tool {
        name: "gpu",
        arguments: "[--cards LIST] [--memory SIZE] [--mode compute|sectors|count] [--faults LIST] [--report FILE] [--log FILE] [--kernels FOLDER] \
            [--toolkit 12|13] [--oomph PATH] COMMAND …|check [WORD …]|kernels|pages|find-batch-truth [--save] [--only WORDS] [--jobs N]\
            |steps [--kernels|--sectors] [--save] [TRAINING …]",
        summary: "runs a command of oomph on simulated GPUs (the first build takes 20 min); `kernels` compiles the kernels of all configs, \
            `pages` compares plans with the memory that the driver gives, `steps` counts launches and bytes of a step",
        run: gpu::run,
    },
    Tool {
        name: "vulkan",
        arguments: "[--oomph PATH] COMMAND …|check [WORD …]|pages [--save]",
        summary: "runs a command of oomph on Vulkan, by Mesa's lavapipe (the first build takes 10 min); `check` compares losses with the \
            processor's (3 min), `pages` plans with the memory pools (5 min)",
        run: vulkan::run,
    },
    Tool {
        name: "weights-logits",
        arguments: "MODEL WEIGHTS INPUT OUTPUT [--lean false]",
        summary: "writes the logits of a file of weights, for tools/weights_parity.py (1 s)",
        run: weights_logits::run,
    },
    Tool {
        name: "--help",
        arguments: "",
        summary: "lists the tools (0 s)",
        run: |_| {
            list();
            Ok(ExitCode::SUCCESS)
        },
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    // What people type who do not know the tools' names.
    let is_help = |name: &str| ["help", "-h"].contains(&name);
    let Some((name, rest)) = arguments.split_first() else {
        list();
        return ExitCode::FAILURE;
    };
    let Some(tool) = TOOLS.iter().find(|tool| tool.name == name || is_help(name) && tool.name == "--help")
    else {
        eprintln!("error: no tool is called `{name}`\n\nhint: `cargo xtask` lists the tools");
        return ExitCode::FAILURE;
    };
    // A command that a tool runs may have a `--help` of its own.
    if let [only] = rest
        && ["--help", "-h"].contains(&&**only)
    {
        tool.describe();
        return ExitCode::SUCCESS;
    }
    (tool.run)(rest).unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

impl Tool {
    fn describe(&self) {
        let Self { name, arguments, summary, .. } = self;
        println!("cargo xtask {name} {arguments}\n    {summary}");
    }
}

fn list() {
    TOOLS.iter().for_each(Tool::describe);
}

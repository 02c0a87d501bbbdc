//! `oomph devices`: the devices that oomph can train on.

use clap::Args;
use oomph_trainer::device::{DeviceInfo, list_devices};
use serde::Serialize;

use crate::{
    error::CliError,
    exit::Exit,
    notices::Notices,
    output,
    table::{
        Column::{Left, Right},
        Table,
    },
};

#[derive(Args, Debug)]
pub(crate) struct DevicesArguments {
    /// Print one JSON object; without a GPU, `no_gpu` gives the reason
    #[arg(long)]
    pub(crate) json: bool,
}

/// The devices as JSON.
#[derive(Serialize)]
struct Devices {
    devices: Vec<DeviceInfo>,
    no_gpu: Option<String>,
}

pub(crate) fn run(arguments: &DevicesArguments) -> Result<Exit, CliError> {
    let (devices, no_gpu) = list_devices();
    if arguments.json {
        let no_gpu = no_gpu.map(|reason| reason.to_string());
        output::print_json(&Devices { devices, no_gpu })?;
        return Ok(Exit::Success);
    }
    let mut table = Table::new([Left("device"), Right("memory"), Left("description")]);
    for DeviceInfo { name, memory_bytes, description } in devices {
        table.row([name, memory_bytes.to_string(), description]);
    }
    output::print(&table.to_string())?;
    if let Some(reason) = no_gpu {
        Notices::default().no_gpu(&reason, reason.hint());
    }
    Ok(Exit::Success)
}

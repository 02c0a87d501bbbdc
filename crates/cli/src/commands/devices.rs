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
    output::print(&table(&devices))?;
    if let Some(reason) = no_gpu {
        let notices = Notices::default();
        notices.note(format!("no GPU: {reason}"));
        if let Some(hint) = reason.hint() {
            notices.line(format!("      {hint}"));
        }
    }
    Ok(Exit::Success)
}

fn table(devices: &[DeviceInfo]) -> String {
    let mut table = Table::new([Left("device"), Right("memory"), Left("description")]);
    for device in devices {
        table.row([device.name.clone(), device.memory_bytes.to_string(), device.description.clone()]);
    }
    table.to_string()
}

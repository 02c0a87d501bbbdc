//! What each of several devices holds is what was planned for it, and no cut would hold less.

use oomph::{
    Config, Done, PlanOptions, Quiet, Registry, Session, Stop, TrainOptions, memory::restart_peak, plan_cut,
    train,
};
use oomph_core::on_device;

use crate::alone;

const RESNET: &str = "
    model = { name = 'resnet18', stem = 'small', width = 16 }
    data = { source = 'digits', workers = 0, last_batch = 'drop' }
    train = { batch = 64, steps = 3, eval_every = 'never' }
    optimizer = { name = 'sgd', lr = 0.01, momentum = 0.9 }
    ";

const LSTM: &str = "
    model = { name = 'lstm', hidden = 128, layers = 4 }
    data = { source = 'digits', layout = 'rows', workers = 0, last_batch = 'drop' }
    train = { batch = 256, steps = 3, eval_every = 'never' }
    optimizer = { name = 'adamw', lr = 0.01 }
    ";

fn session(recipe: &str, more: &str) -> (tempfile::TempDir, Session) {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let text = format!("{recipe}\nrun.directory = '{}'\n{more}", run.display());
    let session =
        Session::open(Config::from_toml("net", &text).expect(&text), &Registry::builtin()).expect(&text);
    (folder, session)
}

fn trained(session: &Session, devices: usize) -> Done {
    (0..devices).for_each(|device| on_device(device, restart_peak));
    train(session, &TrainOptions::default(), &mut Quiet, &Stop::new()).unwrap()
}

#[test]
fn each_part_of_a_model_holds_what_is_planned_for_it() {
    let _alone = alone();
    let mut wrong = Vec::new();
    for (recipe, more) in [
        (RESNET, "device.strategy = 'pipeline'\nmemory.micro_batch = 8\n"),
        (RESNET, "device.strategy = 'pipeline'\ndevice.schedule = 'gpipe'\nmemory.micro_batch = 8\n"),
        (RESNET, "device.strategy = 'pipeline'\nmemory.micro_batch = 8\nmemory.recompute = 'stages'\n"),
        (RESNET, "device.strategy = 'model'\nmemory.micro_batch = 32\n"),
        (LSTM, "device.strategy = 'pipeline'\nmemory.micro_batch = 32\n"),
        (LSTM, "device.strategy = 'model'\n"),
    ] {
        for devices in 2..=4 {
            let more = format!("{more}device.devices = '{}'\n", vec!["cpu"; devices].join(","));
            let (_folder, session) = session(recipe, &more);
            let planned = plan_cut(&session, PlanOptions::default()).unwrap().expect("it is cut");
            let done = trained(&session, devices);
            for (index, (part, device)) in planned.parts.iter().zip(&done.devices).enumerate() {
                let planned = part.timeline.peak().categories.total().get() as f64;
                let measured = device.peak_in_use_bytes.expect("it is the CPU").get() as f64;
                if (planned / measured - 1.0).abs() > 0.05 {
                    let [first, last] = &part.names;
                    wrong.push(format!(
                        "{devices} devices, {index} ({first} … {last}): planned {planned}, measured {measured}\n{more}"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "more than 5 % off:\n{}", wrong.join("\n"));
}

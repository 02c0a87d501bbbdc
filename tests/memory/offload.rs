//! Bytes that `memory.offload` moves: they leave the device's account, come to the host's, and are planned.

use oomph::{
    Config, Event, Observer, PlanOptions, Quiet, Registry, Stop, TrainOptions, memory::read, plan, train,
};
use oomph_trainer::{measure::measure, open};

/// The most bytes of the host's account when a training reports.
#[derive(Default)]
struct Host(u64);

impl Observer for Host {
    fn event(&mut self, _event: &Event) {
        self.0 = self.0.max(read().host_bytes.get());
    }
}

/// Peaks of a training, measured and planned.
struct Peaks {
    in_use: u64,
    planned: u64,
    host: u64,
    offloaded: u64,
}

fn trained(memory: &str) -> Peaks {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let text = format!(
        "model = {{ name = 'resnet18', stem = 'small', width = 32 }}
         data = {{ source = 'synthetic', height = 16, width = 16, workers = 0, train_samples = 64, test_samples = 8 }}
         train = {{ batch = 8, steps = 6 }}
         run = {{ log_every = 1, directory = '{}' }}
         optimizer = {{ name = 'adamw' }}
         memory = {{ leak_check = false, record = 0, {memory} }}",
        folder.path().join("run").display()
    );
    let session =
        open(Config::from_toml("offload", &text).expect("a config"), &Registry::builtin()).expect(memory);
    let timeline = plan(&session, PlanOptions::default()).expect("a plan");
    let measured = measure(&session, 6, &mut Quiet).expect("it trains");
    let mut host = Host::default();
    train(&session, &TrainOptions::default(), &mut host, &Stop::new()).expect("it trains");
    Peaks {
        in_use: measured.peak_in_use_bytes.expect("the meter is installed").get(),
        planned: timeline.peak().categories.total().get(),
        host: host.0,
        offloaded: timeline.offloaded.total().get(),
    }
}

#[test]
fn bytes_leave_the_device_and_come_to_the_host_as_planned() {
    let _alone = crate::alone();
    for recompute in ["none", "stages"] {
        let recompute = format!("recompute = '{recompute}'");
        let here = trained(&recompute);
        assert_eq!(here.offloaded, 0);
        for offload in ["optimizer", "activations", "optimizer,activations"] {
            if recompute.contains("none") && offload.contains("activations") {
                continue;
            }
            let away = trained(&format!("{recompute}, offload = '{offload}'"));
            let error = away.planned as f64 / away.in_use as f64 - 1.0;
            assert!(error.abs() < 0.01, "{offload}: planned {}, measured {}", away.planned, away.in_use);
            assert!(away.in_use < here.in_use, "{offload}: {} instead of {}", away.in_use, here.in_use);
            if offload == "optimizer" {
                let moved = away.host.abs_diff(here.host) as f64;
                let planned = away.offloaded as f64;
                assert!(
                    (moved / planned - 1.0).abs() < 0.02,
                    "{offload}: {moved} came, {planned} were planned"
                );
            }
            assert!(away.offloaded > 0, "{offload}");
        }
    }
}

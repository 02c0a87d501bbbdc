use std::path::PathBuf;

use clap::Args;
use oomph_arguments::{
    ConfigArguments, DeviceArguments, NamedConfigArguments, Seeds, StrategyArguments, TrainingArguments,
};
use oomph_config::Config;
use oomph_runs::{
    Adapted, RunDirectory,
    state::{Checkpoint, StateError},
};
use oomph_trainer::{Resume, Session, TrainOptions, adapt};

use crate::{error::CliError, output};

#[derive(Args, Debug)]
#[command(after_help = "\
Ctrl-C finishes the step, saves a checkpoint and exits with 130 (SIGTERM: 143); a second one exits
at once. SIGUSR1 saves a checkpoint, and SIGUSR2 writes a page of the memory timeline into the run
directory; the training continues after both. Training does not start if its plan exceeds the memory
limit. If memory runs out, the exit code is 75, and a report shows which settings would fit.

Examples:
  oomph train
  oomph train lstm --epochs 5 --lr 0.002
  oomph train --config resnet-folder --set data.path=photos --devices cuda:0
  oomph train --resume runs/resnet
  oomph train resnet --seeds 0..5
  oomph train --memory-limit 8GiB --set memory.on_oom=adapt")]
pub(crate) struct TrainArguments {
    #[command(flatten)]
    pub(super) config: NamedConfigArguments,
    #[command(flatten)]
    pub(super) training: TrainingArguments,
    #[command(flatten)]
    pub(super) device: DeviceArguments,
    #[command(flatten)]
    pub(super) strategy: StrategyArguments,
    /// Train once for each seed, one after the other, in processes of their own: `0,1,2`, `0..5` (0 to 4)
    /// or `0..=4`. The run directories end in `-seed0` and so on; mean and standard deviation are shown
    /// at the end
    #[arg(long, value_name = "SEEDS", conflicts_with_all = ["seed", "no_plan_check"])]
    pub(super) seeds: Option<Seeds>,
    /// Continue a run from its newest checkpoint, or from the start without one. RUN is a run
    /// directory, RUN/best, RUN/400 (a step) or a checkpoint, used with its own config unless --config
    /// is given, or a config, for its newest run; without RUN it is the newest run of the config
    #[arg(long, value_name = "RUN", num_args = 0..=1)]
    pub(super) resume: Option<Option<PathBuf>>,
    /// Train even if the plan exceeds the memory limit
    #[arg(long)]
    pub(super) no_plan_check: bool,
    /// Print only warnings and errors
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Print events as JSON lines; the last one is `done` or `error`
    #[arg(long)]
    pub(crate) json: bool,
}

impl TrainArguments {
    pub(super) fn load(&self) -> Result<Config, CliError> {
        let [devices, limit] = self.device.flags();
        let mut flags = vec![devices, self.strategy.flag(), limit];
        flags.extend(self.training.flags());
        Ok(match self.config_and_resume()? {
            (config, Resume::From(path)) if config.config.is_none() => match Checkpoint::find(&path) {
                // Without a checkpoint the run starts anew with its own config.
                Err(StateError::NotACheckpoint { .. }) if RunDirectory::is_run(&path) => {
                    config.load_for_run(&path, &flags)?
                }
                found => config.load_for(&found?.checkpoint, &flags)?,
            },
            (config, _) => config.load(&flags)?,
        })
    }

    /// The named config, and which run to continue. After `--resume` a config stands for its newest run.
    fn config_and_resume(&self) -> Result<(ConfigArguments, Resume), CliError> {
        let config = self.config.named();
        Ok(match &self.resume {
            None => (config, Resume::No),
            Some(None) => (config, Resume::Latest),
            Some(Some(path)) => {
                let run = config.run_of(path)?.unwrap_or_else(|| path.clone());
                (config, Resume::From(run))
            }
        })
    }

    /// Adapts a session that does not fit, if `memory.on_oom` allows it.
    pub(super) fn adapted(&self, session: Session) -> Result<(Session, Option<Adapted>), CliError> {
        if self.no_plan_check {
            return Ok((session, None));
        }
        Ok(adapt(&session)?.map_or((session, None), |(session, adapted)| (session, Some(adapted))))
    }

    pub(super) fn options(
        &self,
        session: &Session,
        adapted: Option<Adapted>,
    ) -> Result<TrainOptions, CliError> {
        let (_, resume) = self.config_and_resume()?;
        let report = Some(output::report_directory(session.config.name()));
        let skip_plan_check = self.no_plan_check;
        Ok(TrainOptions { resume, skip_plan_check, adapted, report, pause_at: None })
    }
}

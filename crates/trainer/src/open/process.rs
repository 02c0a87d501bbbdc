use std::{fmt::Write as _, sync::Arc};

use oomph_calibration::reference;
use oomph_config::{Config, ConfigError, Ddp, DeviceName, Entry, OnOom, Origin, Sharing, sections::fit::Fit};
use oomph_core::Bytes;
use oomph_data::{DataDigest, SourceRecord};
use oomph_memory::Cores;
use oomph_parallel::group::{Group, GroupError, Refusal, agree};
use oomph_plan::time::DeviceSpeeds;

use oomph_engine::{ranks::Replicas, session::Session};
use oomph_runs::host_name;

use super::{Registry, SessionError, open, weights::sha256_of_weights};

/// This process among several that train together, each with a replica of the model on a device of its own.
#[derive(Clone, Debug)]
pub struct RankProcess {
    group: Arc<dyn Group>,
    local_rank: usize,
    local_size: usize,
    /// The most ranks that a machine has.
    most_on_a_machine: usize,
    /// How many threads compute here, where nobody says.
    threads: usize,
}

/// A line that rank 0 does not have, and one that it has instead.
type Different = (Option<String>, Option<String>);

/// Data is opened in turns, since what is downloaded or counted by one is found by the next: rank 0, then the first of
/// each other machine, then all.
const TURNS: usize = 3;

impl RankProcess {
    /// Meets the others, to share the cores of each machine. `local_rank` is the number of this rank among the
    /// `local_size` of its machine, from 0.
    ///
    /// # Errors
    /// Where another rank does not come.
    pub fn new(group: Arc<dyn Group>, local_rank: usize, local_size: usize) -> Result<Self, GroupError> {
        let (host, cores) = (host_name(), Cores::allowed());
        let met = group.all_gather(format!("{host}\n{local_size}\n{cores}").into_bytes())?;
        let met: Vec<_> = met.iter().map(|bytes| String::from_utf8_lossy(bytes)).collect();
        // Ranks run the same program, so each says three lines.
        let lines = met.iter().filter_map(|text| {
            let mut lines = text.split('\n');
            Some((lines.next()?, lines.next()?.parse::<usize>().ok()?, lines.next()?.parse::<Cores>().ok()?))
        });
        let neighbours: Vec<_> =
            lines.clone().filter(|(of, ..)| *of == host).map(|(.., cores)| cores).collect();
        Ok(Self {
            most_on_a_machine: lines.map(|(_, size, _)| size).max().unwrap_or(local_size),
            threads: cores.threads(&neighbours),
            group,
            local_rank,
            local_size,
        })
    }

    fn turn(&self) -> usize {
        match (self.group.rank(), self.local_rank) {
            (0, _) => 0,
            (_, 0) => 1,
            _ => TURNS - 1,
        }
    }

    /// The configuration with what is this process's of it.
    fn own(&self, mut config: Config) -> Result<Config, ConfigError> {
        let world_size = self.group.world_size();
        let ddp = match &config.device.sharing {
            Sharing::Ddp(ddp) => ddp.clone(),
            Sharing::Alone => Ddp::default(),
            Sharing::Dp { .. } | Sharing::Model { .. } | Sharing::Pipeline { .. } => {
                return Err(config.invalid(
                    "device.strategy",
                    "`auto` or `ddp`, as each of several processes trains a replica of the model",
                ));
            }
        };
        if config.memory.on_oom == OnOom::Adapt {
            return Err(config.invalid(
                "memory.on_oom",
                "`stop`, as several processes cannot go on as fresh ones; whoever starts them can, with `--resume`",
            ));
        }
        if config.memory.fit == Fit::Auto {
            return Err(config.invalid(
                "memory.fit",
                "`off`, as several processes would choose each for itself; `oomph plan --fit` shows what to set",
            ));
        }
        if world_size > config.train.batch {
            let expected = format!("at least {world_size} samples, one for each rank");
            return Err(config.invalid("train.batch", expected));
        }
        config.device.sharing = Sharing::Ddp(ddp);
        config.device.devices = vec![self.device(&config)?];
        config.device.threads.get_or_insert(self.threads);
        Ok(config)
    }

    /// The CPU alone is shared by all ranks of a machine; of a list each takes its own.
    fn device(&self, config: &Config) -> Result<DeviceName, ConfigError> {
        let (devices, ranks) = (&config.device.devices, self.most_on_a_machine);
        match devices.get(self.local_rank) {
            _ if *devices == [DeviceName::Cpu] => Ok(DeviceName::Cpu),
            Some(device) if devices.len() == ranks => Ok(*device),
            _ => {
                let expected = match ranks {
                    1 => "one device, because each machine runs a single rank".to_owned(),
                    _ => format!(
                        "{ranks} devices, one for each rank of a machine, such as `cuda:0,cuda:1`; or `cpu`, which \
                         they share"
                    ),
                };
                Err(config.invalid("device.devices", expected))
            }
        }
    }

    /// Refuses another configuration than rank 0 has, as of another file on another machine.
    fn compare(&self, config: &Config) -> Result<Result<(), SessionError>, GroupError> {
        // Defaults may follow from the machine.
        let is_given = |entry: &Entry| entry.origin != Origin::Default;
        let mut own = String::new();
        for Entry { key, value, .. } in config.resolved().into_iter().filter(is_given) {
            if let Some(value) = value {
                let _ = writeln!(own, "{key} = {value}"); // Writing to a string cannot fail.
            }
        }
        let different = self.different(own)?;
        Ok(different.map_or(Ok(()), |(here, there)| Err(SessionError::OtherConfig { here, there })))
    }

    /// Refuses other data or other weights than rank 0 has.
    fn compare_files(&self, session: &Session) -> Result<Result<(), SessionError>, GroupError> {
        // A rank that cannot read its weights still answers, so that no rank waits.
        let weights = session.weights.as_deref().map(sha256_of_weights).transpose();
        let record = SourceRecord::of(session.source.as_ref());
        let mut own = String::new();
        if let Some(DataDigest { train_samples, held_out_samples, sha256 }) = record.digest {
            let sha256 = sha256.unwrap_or_else(|| "unknown".to_owned());
            // Writing to a string cannot fail.
            let _ = writeln!(own, "data of {train_samples} and {held_out_samples} samples, SHA-256 {sha256}");
        }
        if let Ok(Some(sha256)) = &weights {
            let _ = writeln!(own, "weights with SHA-256 {sha256}");
        }
        let different = self.different(own)?;
        Ok(match (weights, different) {
            (Err(error), _) => Err(error.into()),
            (Ok(_), Some((here, there))) => Err(SessionError::OtherFiles { here, there }),
            (Ok(_), None) => Ok(()),
        })
    }

    /// The first line that rank 0 does not have, and the first that it has instead; `None` if all are the same.
    fn different(&self, own: String) -> Result<Option<Different>, GroupError> {
        let first = self.group.broadcast(0, own.clone().into_bytes())?;
        let first = String::from_utf8_lossy(&first);
        let missing = |from: &str, of: &str| {
            from.lines().find(|line| !of.lines().any(|other| other == *line)).map(str::to_owned)
        };
        let different = (missing(&own, &first), missing(&first, &own));
        Ok(Some(different).filter(|different| *different != (None, None)))
    }

    /// Makes the session one of the group: all plan for the same limit, the lowest of all ranks, so that all choose the
    /// same.
    fn join(&self, mut session: Session) -> Result<Session, GroupError> {
        let is_cpu = session.config.device.devices == [DeviceName::Cpu];
        let is_shared = is_cpu && session.config.memory.limit.is_none();
        let own = session.limit_bytes.map(Bytes::get);
        let own = own.map(|bytes| if is_shared { bytes / self.local_size as u64 } else { bytes });
        // Where nobody knows a limit there is none.
        let told = self.group.all_gather(own.unwrap_or(u64::MAX).to_le_bytes().to_vec())?;
        let limits = told.iter().filter_map(|bytes| bytes.as_slice().try_into().ok()).map(u64::from_le_bytes);
        session.limit_bytes = limits.min().filter(|bytes| *bytes != u64::MAX).map(Bytes::new);
        if is_cpu {
            oomph_memory::set_limit(session.limit_bytes);
        }
        // Calibrations of different machines would choose different splits.
        session.speeds = DeviceSpeeds::typical(reference().speeds());
        session.replicas = Replicas::new(self.group.clone(), None);
        Ok(session)
    }
}

/// Opens `config` in every one of several processes, each with its own part of it: its device, a share of the
/// machine's cores and memory, a share of each batch. Then [`train`](crate::train) is for rank 0, and
/// [`follow`](crate::follow) for all others.
///
/// `device.devices` are those of each machine, of which a rank takes the one with its local rank; `cpu` alone is
/// shared. `device.threads` and `memory.limit` are of each process.
///
/// # Errors
/// Where a rank cannot open it: then none goes on, and one of those for whom it is the same tells.
pub fn open_together(
    config: Config,
    registry: &Registry,
    process: &RankProcess,
) -> Result<Session, Refusal<SessionError>> {
    let group = &*process.group;
    agree(group, process.compare(&config)?)?;
    let config = agree(group, process.own(config).map_err(SessionError::from))?;
    let wait = || agree(group, Ok::<(), SessionError>(()));
    (0..process.turn()).try_for_each(|_| wait())?;
    let session = agree(group, open(config, registry))?;
    (process.turn() + 1..TURNS).try_for_each(|_| wait())?;
    agree(group, process.compare_files(&session)?)?;
    Ok(process.join(session)?)
}

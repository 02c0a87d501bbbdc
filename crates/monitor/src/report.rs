use oomph_core::{Bytes, printable};
use oomph_memory::processes::HostMemory;

use crate::sample::{CardSample, MemorySample, ProcessSample, Sample, Training};
use oomph_terminal::{
    numbers::{duration, percent},
    table::{
        Column::{Left, Right},
        Table, pairs,
    },
};

/// The maximum number of characters of a command.
const COMMAND: usize = 60;
/// The text of an unknown value.
const UNKNOWN: &str = "–";

/// A sample as text: cards, their processes, the host, trainings.
pub fn report(sample: &Sample) -> String {
    let mut parts = Vec::new();
    match (sample.cards.as_slice(), &sample.no_gpu) {
        ([], None) => parts.push("no GPU: the NVIDIA driver lists none\n".into()),
        // A note has given the reason.
        ([], Some(_)) => {}
        (some, _) => parts.push(cards(some)),
    }
    if sample.cards.iter().any(|card| !card.processes.is_empty()) {
        parts.push(processes(&sample.cards));
    }
    parts.push(host(&sample.host));
    parts.push(match sample.trainings.as_slice() {
        [] => "no training runs\n".into(),
        some => trainings(some),
    });
    parts.join("\n")
}

fn cards(cards: &[CardSample]) -> String {
    let mut table = Table::new([
        Right("card"),
        Left("device"),
        Right("used"),
        Right("of"),
        Right(""),
        Right("busy"),
        Right("°C"),
        Right("watts"),
        Left("model"),
    ]);
    for card in cards {
        let [used, of, share] = memory(&card.memory);
        table.row([
            card.index.to_string(),
            known(card.device.clone()),
            used,
            of,
            share,
            known(card.gpu_utilization_percent.map(|share| format!("{share} %"))),
            known(card.temperature_celsius),
            watts(card.power_watts, card.power_limit_watts),
            card.name.clone(),
        ]);
        for part in &card.mig_instances {
            let [used, of, share] = memory(&part.memory);
            let none = String::new;
            let device = known(part.device.clone());
            table.row([none(), device, used, of, share, none(), none(), none(), part.name.clone()]);
        }
    }
    table.to_string()
}

fn memory(memory: &MemorySample) -> [String; 3] {
    let (used, total) = (memory.memory_used_bytes, memory.memory_total_bytes);
    let share = used.zip(total).filter(|(_, total)| total.get() > 0);
    let share = share.map(|(used, total)| percent(used.get() as f64 / total.get() as f64));
    [known(used), known(total), known(share)]
}

fn watts(draws: Option<f64>, may: Option<f64>) -> String {
    let [draws, may] = [draws, may].map(|watts| known(watts.map(|watts| format!("{watts:.0}"))));
    format!("{draws}/{may}")
}

fn processes(cards: &[CardSample]) -> String {
    let mut table = Table::new([
        Right("card"),
        Right("pid"),
        Left("user"),
        Right("memory"),
        Right("busy"),
        Right("age"),
        Left(""),
        Left("command"),
    ]);
    for (card, process) in cards.iter().flat_map(|card| card.processes.iter().map(move |it| (card, it))) {
        let cells = [
            card.index.to_string(),
            process.pid.to_string(),
            known(process.user.clone()),
            known(process.memory_bytes),
            known(process.gpu_utilization_percent.map(|share| format!("{share} %"))),
            known(process.age_seconds.map(duration)),
            flag(process),
            known(process.command.as_deref().map(shortened)),
        ];
        if process.stale { table.strong(cells) } else { table.row(cells) }
    }
    table.to_string()
}

/// Remarks on a process.
fn flag(process: &ProcessSample) -> String {
    match (&process.end_with, &process.user) {
        (Some(command), _) => format!("stale: `{command}`"),
        (None, None) => "outside this container".into(),
        (None, Some(_)) if process.parent_is_gone => "parent has exited".into(),
        (None, Some(_)) if process.kind.is_none() => "found by its open files".into(),
        (None, Some(_)) => String::new(),
    }
}

fn host(host: &HostMemory) -> String {
    let used = Bytes::new(host.total_bytes.get().saturating_sub(host.available_bytes.get()));
    let of = |used: Bytes, total: Bytes| format!("{used} of {total} used");
    let group = host.cgroup_limit_bytes.map(|limit| match host.cgroup_used_bytes {
        Some(used) => of(used, limit),
        None => format!("at most {limit}"),
    });
    pairs([("host memory", Some(of(used, host.total_bytes))), ("cgroup", group)])
}

fn trainings(trainings: &[Training]) -> String {
    let mut table = Table::new([
        Right("pid"),
        Left("user"),
        Right("memory"),
        Right("peak"),
        Right("CPU"),
        Right("age"),
        Left("command"),
    ]);
    for training in trainings {
        table.row([
            training.pid.to_string(),
            training.user.clone(),
            training.resident_bytes.to_string(),
            training.peak_resident_bytes.to_string(),
            known(training.processor_percent.map(|percent| format!("{percent:.0} %"))),
            duration(training.age_seconds),
            shortened(&training.command),
        ]);
    }
    table.to_string()
}

fn known(value: Option<impl ToString>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |value| value.to_string())
}

/// The command without the folder of its program, shortened.
fn shortened(command: &str) -> String {
    let command = printable(command);
    let (program, arguments) = command.split_once(' ').unwrap_or((&command, ""));
    let program = program.rsplit('/').next().unwrap_or(program);
    let text = format!("{program} {arguments}");
    let text = text.trim_end();
    match text.char_indices().nth(COMMAND) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use oomph_memory::gpu::{CardMemory, ProcessKind};

    use super::*;
    use crate::sample::InstanceSample;

    fn process(pid: u32, user: Option<&str>, kind: Option<ProcessKind>) -> ProcessSample {
        ProcessSample {
            pid,
            user: user.map(str::to_owned),
            command: user.map(|_| "/usr/bin/python3 train.py --lr 0.1".into()),
            memory_bytes: kind.map(|_| Bytes::mib(9 * 1024)),
            gpu_utilization_percent: kind.map(|_| 0),
            kind,
            age_seconds: user.map(|_| 3723.0),
            parent_is_gone: false,
            stale: false,
            end_with: None,
        }
    }

    fn card(index: u32, processes: Vec<ProcessSample>) -> CardSample {
        let memory = CardMemory {
            total_bytes: Bytes::mib(81_920),
            used_bytes: Bytes::mib(40_960),
            free_bytes: Bytes::mib(40_960),
            reserved_bytes: Bytes::mib(0),
        };
        CardSample {
            index,
            device: Some(format!("cuda:{index}")),
            uuid: "GPU-1".into(),
            name: "NVIDIA A100-SXM4-80GB".into(),
            pci_bus_id: None,
            memory: Some(memory).into(),
            gpu_utilization_percent: Some(87),
            memory_utilization_percent: Some(40),
            temperature_celsius: Some(41),
            power_watts: Some(301.7),
            power_limit_watts: Some(400.0),
            mig_instances: Vec::new(),
            processes,
        }
    }

    fn sample(cards: Vec<CardSample>) -> Sample {
        let host = HostMemory {
            total_bytes: Bytes::mib(24_000),
            available_bytes: Bytes::mib(20_000),
            cgroup_limit_bytes: Some(Bytes::mib(8192)),
            cgroup_used_bytes: Some(Bytes::mib(1024)),
        };
        Sample { unix_seconds: 0.0, cards, no_gpu: None, host, trainings: Vec::new() }
    }

    #[test]
    fn cards_and_their_processes_are_tables() {
        let stale = ProcessSample {
            stale: true,
            parent_is_gone: true,
            end_with: Some("kill 12".into()),
            ..process(12, Some("ada"), Some(ProcessKind::Compute))
        };
        let mut hidden =
            card(1, vec![process(7, None, Some(ProcessKind::Compute)), process(8, Some("bob"), None)]);
        hidden.device = None;
        hidden.gpu_utilization_percent = None;
        hidden.mig_instances.push(InstanceSample {
            device: Some("cuda:1".into()),
            uuid: "MIG-1".into(),
            name: "NVIDIA A100-SXM4-80GB MIG 1g.10gb".into(),
            memory: None.into(),
        });
        let text = report(&sample(vec![card(0, vec![stale]), hidden]));
        insta::assert_snapshot!(console::strip_ansi_codes(&text), @r"
        card  device      used        of          busy  °C    watts  model
           0  cuda:0  40.0 GiB  80.0 GiB  50.0 %  87 %  41  302/400  NVIDIA A100-SXM4-80GB
           1  –       40.0 GiB  80.0 GiB  50.0 %     –  41  302/400  NVIDIA A100-SXM4-80GB
              cuda:1         –         –       –                     NVIDIA A100-SXM4-80GB MIG 1g.10gb

        card  pid  user    memory  busy      age                           command
           0   12  ada   9.00 GiB   0 %  1:02:03  stale: `kill 12`         python3 train.py --lr 0.1
           1    7  –     9.00 GiB   0 %        –  outside this container   –
           1    8  bob          –     –  1:02:03  found by its open files  python3 train.py --lr 0.1

        host memory  3.91 GiB of 23.4 GiB used
        cgroup       1.00 GiB of 8.00 GiB used

        no training runs
        ");
    }

    #[test]
    fn without_cards_the_host_is_shown() {
        let mut sample = sample(Vec::new());
        sample.no_gpu = Some("no driver".into());
        sample.trainings.push(Training {
            pid: 42,
            user: "ada".into(),
            command: "target/release/oomph train --config lstm".into(),
            resident_bytes: Bytes::mib(300),
            peak_resident_bytes: Bytes::mib(400),
            processor_percent: Some(187.4),
            age_seconds: 65.0,
        });
        insta::assert_snapshot!(console::strip_ansi_codes(&report(&sample)), @r"
        host memory  3.91 GiB of 23.4 GiB used
        cgroup       1.00 GiB of 8.00 GiB used

        pid  user   memory     peak    CPU   age  command
         42  ada   300 MiB  400 MiB  187 %  1:05  oomph train --config lstm
        ");
    }

    #[test]
    fn long_commands_are_shortened_and_control_characters_replaced() {
        assert_eq!(shortened("/usr/bin/python3"), "python3");
        assert_eq!(shortened("a\u{1b}[31m b"), "a\\u{1b}[31m b");
        let text = shortened(&format!("x {}", "é".repeat(100)));
        assert_eq!(text.chars().count(), COMMAND + 1);
        assert!(text.ends_with('…'));
    }
}

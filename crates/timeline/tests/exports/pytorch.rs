//! The snapshot, read by Python and PyTorch.

use std::{fs, path::PathBuf, process::Command};

use oomph_test_support::{Missing, output, python, python_with_torch, skip, tool};
use oomph_timeline::{Origin, Timeline, export};

use crate::{file, hostile, training::Training, written};

fn snapshot(name: &str, timeline: &Timeline) -> PathBuf {
    let path = file(name);
    fs::write(&path, written(|out| export::snapshot(&[timeline], out))).unwrap();
    path
}

/// What the script has to find.
fn expectations(timeline: &Timeline) -> [String; 4] {
    let peak = timeline.peak().categories.total().get();
    let end = timeline.levels().last().map_or(0, |split| split.total().get());
    [peak.to_string(), end.to_string(), timeline.blocks.len().to_string(), timeline.times.len().to_string()]
}

#[test]
fn python_reads_the_snapshot_and_its_sums_are_right() {
    let Some(python) = python() else {
        return skip(Missing::Python);
    };
    for (name, timeline) in [
        ("planned.pickle", Training::small(Origin::Planned).timeline()),
        ("measured.pickle", Training::small(Origin::Measured).timeline()),
        ("hostile.pickle", hostile()),
        ("large.pickle", Training::large(Origin::Measured).timeline()),
        ("large_plan.pickle", Training::large(Origin::Planned).timeline()),
    ] {
        let path = snapshot(name, &timeline);
        let check = tool("snapshot_check.py");
        output(Command::new(&python).arg(check).arg(path).args(expectations(&timeline)));
    }
}

#[test]
fn each_of_several_devices_has_its_trace_and_its_segments() {
    let Some(python) = python() else {
        return skip(Missing::Python);
    };
    let timelines = [
        Training::small(Origin::Measured).timeline(),
        hostile(),
        Training { steps: 1, ..Training::small(Origin::Measured) }.timeline(),
    ];
    let path = file("devices.pickle");
    let all: Vec<&Timeline> = timelines.iter().collect();
    fs::write(&path, written(|out| export::snapshot(&all, out))).unwrap();
    let read = "import pickle, sys; it = pickle.load(open(sys.argv[1], 'rb')); \
        print([sum(e['action'] == 'alloc' for e in t) for t in it['device_traces']], \
        sorted({s['device'] for s in it['segments']}))";
    let found = output(Command::new(&python).args(["-c", read]).arg(path));
    let allocations: Vec<_> = timelines.iter().map(|timeline| timeline.blocks.len()).collect();
    assert_eq!(found.trim(), format!("{allocations:?} [0, 1, 2]"));
}

#[test]
fn pytorch_opens_the_snapshot() {
    let Some(python) = python_with_torch() else {
        return skip(Missing::PyTorch);
    };
    let find = "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])";
    let torch = output(Command::new(&python).args(["-c", find]));
    let viewer = PathBuf::from(torch.trim()).join("cuda/_memory_viz.py");
    for origin in [Origin::Planned, Origin::Measured] {
        let timeline = Training::small(origin).timeline();
        let path = snapshot(&format!("torch_{origin:?}.pickle"), &timeline);
        let run = |arguments: &[&str]| {
            output(Command::new(&python).arg(&viewer).args(arguments).current_dir(file("")))
        };
        let path = path.to_str().unwrap();
        for plot in ["trace_plot", "segment_plot"] {
            let page = file(&format!("torch_{plot}.html"));
            run(&[plot, path, "-o", page.to_str().unwrap()]);
            assert!(fs::read_to_string(page).unwrap().contains("snapshot.pickle"));
        }
        let stats = run(&["stats", path]);
        assert!(stats.contains("total_allocated"), "{stats}");
        let trace = run(&["trace", path]);
        let frees = timeline.blocks.iter().filter(|block| block.died.is_some()).count();
        assert_eq!(trace.lines().filter(|line| line.starts_with("del ")).count(), frees, "{trace}");
    }
}

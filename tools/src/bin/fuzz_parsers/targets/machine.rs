//! Texts of the kernel: `/proc` and control groups.

use std::{fs, path::Path};

use oomph_core::Bytes;
use oomph_doctor::health;
use oomph_memory::{Cores, ProcessLimit, cgroup, default_limit_from, meminfo_field, processes::Procfs};

use super::{KIB, Target, lossy};

/// The kernel's longest path. Its other texts are shorter than a few of them, as is what is read here.
const LONGEST_PATH: usize = 4 * KIB;

pub(super) fn targets() -> Vec<Target> {
    let kernel = |name, parse, seeds: &[&str]| Target {
        words: &[b" ", b"\n", b":", b",", b"-", b"0", b"18446744073709551616", b"kB", b"max", b"/", b")"],
        pairs: &[(b"/a", b""), (b"0-9,", b"")],
        largest: LONGEST_PATH,
        bound: |bytes| 64 * bytes.len() + 4 * KIB,
        ..Target::text(name, parse, seeds)
    };
    vec![
        Target {
            // A folder and each folder around it, in both versions.
            bound: |bytes| 4 * bytes.len() * (bytes.len() / 2 + 64) + 64 * KIB,
            ..kernel("control groups", control_groups, &CGROUPS).rare(10)
        },
        kernel(
            "/proc/meminfo",
            meminfo,
            &["MemTotal:   24689588 kB\nMemAvailable:  1024 kB\nVmSize: 4 kB\n"],
        ),
        kernel("/proc/self/limits", limits, &["Max address space    10000 unlimited bytes\n"]),
        Target {
            largest: 128 * KIB,
            // A range of a few digits holds up to 8,192 cores, and the list doubles as it grows.
            bound: |bytes| 8 * bytes.len() + 256 * KIB,
            ..kernel("cores", |bytes| lossy(bytes).parse::<Cores>().is_ok(), &["0-3,8", "0,2,4-5"])
        },
        Target {
            bound: |bytes| 4 * bytes.len() * (bytes.len() / 2 + 64) + 256 * KIB,
            ..kernel("/proc", processes, &[PROC]).rare(1)
        },
    ]
}

/// A temporary folder, in memory where the machine has such a place.
pub(super) fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let mut builder = tempfile::Builder::new();
    builder.prefix("oomph-fuzz-");
    let folder = if memory.is_dir() { builder.tempdir_in(memory) } else { builder.tempdir() };
    folder.expect("a temporary folder")
}

/// The first line is `/proc/self/cgroup`, the others are what every other file says.
fn control_groups(bytes: &[u8]) -> bool {
    let text = lossy(bytes);
    let (own, rest) = text.split_once("\n\n").unwrap_or((&text, "1000\n"));
    let read = |path: &Path| {
        let is_own = path.ends_with("self/cgroup");
        Some(if is_own { own.to_owned() } else { rest.chars().take(100).collect() })
    };
    let _ = default_limit_from(read, Bytes::new(0));
    !cgroup::levels(read).is_empty() && !cgroup::folders(read, "cpu").is_empty()
}

fn meminfo(bytes: &[u8]) -> bool {
    let text = lossy(bytes);
    ["MemTotal:", "VmSize:"].iter().all(|key| meminfo_field(&text, key).is_some())
}

fn limits(bytes: &[u8]) -> bool {
    ProcessLimit::read(&lossy(bytes), "Max address space").soft.is_some()
}

thread_local! {
    static ROOT: tempfile::TempDir = folder();
}

/// The files of a process and of the machine, each after a line with its name, in a folder that is read as `/`.
fn processes(bytes: &[u8]) -> bool {
    const FILES: [&str; 9] = [
        "proc/7/stat",
        "proc/7/status",
        "proc/7/cmdline",
        "proc/7/cgroup",
        "proc/uptime",
        "proc/self/cgroup",
        "proc/self/limits",
        "proc/cpuinfo",
        "etc/passwd",
    ];
    ROOT.with(|root| {
        let parts = bytes.split(|byte| *byte == 0x1e).chain(std::iter::repeat(&b""[..]));
        for (file, part) in FILES.iter().zip(parts) {
            let path = root.path().join(file);
            let written =
                path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, part));
            written.expect("a file in a temporary folder");
        }
        let procfs = Procfs::at(root.path());
        let process = procfs.process(7);
        let _ = (procfs.pids(), procfs.trainings(None), procfs.host_memory(), procfs.ignores(1));
        let _ = (health::processor(&procfs, 2), health::limits(&procfs, 2, true));
        process.is_some_and(|process| !procfs.parent_is_gone(&process))
    })
}

const CGROUPS: [&str; 3] = [
    "0::/jobs/run\n\n1000\n",
    "5:cpu,cpuacct:/a\n4:hugetlb,memory:/docker/1\n0::/\n\ninactive_file 400\n",
    "4:memory:/\n\n9223372036854771712\n",
];
const PROC: &str = "7 (a) S (b) S 3 7 5 0 -1 0 0 0 0 0 150 50 0 0 20 0 1 0 1200 0 0\x1eUid:\t1000\t1000\nVmRSS: 5 kB\nVmHWM: 9 kB\n\x1eoomph\0train\0--config\0x\x1e0::/x.service\n\x1e1000.00 2000.00\n\x1e0::/jobs/1\n\x1eMax open files  1024  524288  files\n\x1eprocessor: 0\nmodel name: x\nflags: avx2\n\x1eroot:x:0:0::/root:/bin/sh\nada:x:1000:1000::/h:/bin/sh\n";

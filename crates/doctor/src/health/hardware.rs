use std::{
    fs::{self, File},
    io,
    path::Path,
};

use crate::check::Check;
use oomph_memory::processes::Procfs;

/// NVIDIA's GPUs as the system sees them, with or without a driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hardware {
    /// The numbers of the device files, `/dev/nvidia0`.
    pub nodes: Vec<u32>,
    /// The number on the PCI bus. In a container it includes cards that the container was not given.
    pub on_bus: usize,
    /// Whether this is WSL 2, where the GPU is behind `/dev/dxg`.
    pub wsl: bool,
}

/// NVIDIA's PCI vendor id.
const NVIDIA: &str = "0x10de";

impl Hardware {
    /// Looks at `/dev` and at the PCI bus.
    pub fn find(procfs: &Procfs) -> Self {
        let names = |folder: &str| -> Vec<String> {
            let entries = fs::read_dir(procfs.path(folder)).into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
        };
        let mut nodes: Vec<u32> =
            names("dev").iter().filter_map(|name| name.strip_prefix("nvidia")?.parse().ok()).collect();
        nodes.sort_unstable();
        let is_gpu = |card: &String| {
            let of = |file| procfs.read(format!("sys/bus/pci/devices/{card}/{file}")).unwrap_or_default();
            // Display controllers only (0x03…): a graphics card also has an audio device of NVIDIA's.
            of("vendor").trim() == NVIDIA && of("class").starts_with("0x03")
        };
        let on_bus = names("sys/bus/pci/devices").iter().filter(|card| is_gpu(card)).count();
        Self { nodes, on_bus, wsl: procfs.path("dev/dxg").exists() }
    }

    /// Whether there seems to be a GPU.
    pub fn is_there(&self) -> bool {
        self.count() > 0
    }

    /// The number of GPUs that this process may have.
    pub fn count(&self) -> usize {
        match self.nodes.len() {
            0 if self.on_bus > 0 => self.on_bus,
            0 => usize::from(self.wsl),
            nodes => nodes,
        }
    }
}

const NAME: &str = "device files";

/// Checks that the driver's device files exist and can be read and written. It opens each, because a container may forbid
/// access that the file permissions allow.
pub fn device_files(procfs: &Procfs, hardware: &Hardware) -> Check {
    if hardware.wsl {
        return judged(&["/dev/dxg".to_owned()], |file| open(procfs, file));
    }
    let cards = hardware.nodes.iter().map(|node| format!("/dev/nvidia{node}"));
    let mut files = vec!["/dev/nvidiactl".to_owned(), "/dev/nvidia-uvm".to_owned()];
    files.extend(cards);
    if hardware.nodes.is_empty() {
        files.push("/dev/nvidia0".to_owned());
    }
    judged(&files, |file| open(procfs, file))
}

fn open(procfs: &Procfs, file: &str) -> io::Result<()> {
    let path = procfs.path(Path::new(file).strip_prefix("/").unwrap_or(file.as_ref()));
    File::options().read(true).write(true).open(path).map(drop)
}

fn judged(files: &[String], open: impl Fn(&str) -> io::Result<()>) -> Check {
    let (mut missing, mut refused) = (Vec::new(), Vec::new());
    for file in files {
        match open(file) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(format!("`{file}`")),
            Err(error) => refused.push(format!("`{file}` ({error})")),
        }
    }
    if !refused.is_empty() {
        let hint = "add the user to the files' group (`video` or `render`); restart a container that lost its access, \
                    as after `systemctl daemon-reload`";
        return Check::problem(NAME, format!("this user cannot read and write {}", refused.join(", ")), hint);
    }
    if missing.is_empty() {
        let files: Vec<_> = files.iter().map(|file| format!("`{file}`")).collect();
        return Check::ok(NAME, format!("{} can be read and written", files.join(", ")));
    }
    let hint = if missing == ["`/dev/nvidia-uvm`"] {
        "`modprobe nvidia_uvm` or `nvidia-modprobe -u -c=0` (as root) creates it; CUDA cannot start without it"
    } else {
        "`nvidia-modprobe -c 0 -u` or `nvidia-smi` (as root) creates them; a container needs `--gpus all`"
    };
    let verb = if missing.len() == 1 { "is" } else { "are" };
    Check::problem(NAME, format!("{} {verb} missing", missing.join(", ")), hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        check::CheckState,
        health::tree::{Tree, state_and_finding},
    };

    fn check(tree: &Tree) -> Check {
        device_files(&tree.procfs(), &Hardware::find(&tree.procfs()))
    }

    #[test]
    fn files_that_are_all_there_are_well() {
        let tree = Tree::of(&[("dev/nvidiactl", ""), ("dev/nvidia-uvm", ""), ("dev/nvidia3", "")]);
        assert_eq!(
            state_and_finding(&check(&tree)),
            (CheckState::Ok, "`/dev/nvidiactl`, `/dev/nvidia-uvm`, `/dev/nvidia3` can be read and written")
        );
        assert_eq!(check(&Tree::of(&[("dev/dxg", "")])).state, CheckState::Ok);
    }

    #[test]
    fn what_is_missing_is_named() {
        let tree = Tree::of(&[("dev/nvidiactl", ""), ("dev/nvidia0", "")]);
        assert_eq!(state_and_finding(&check(&tree)), (CheckState::Problem, "`/dev/nvidia-uvm` is missing"));
        assert!(check(&tree).hint.unwrap().contains("nvidia_uvm"));
        assert_eq!(
            state_and_finding(&check(&Tree::of(&[]))),
            (CheckState::Problem, "`/dev/nvidiactl`, `/dev/nvidia-uvm`, `/dev/nvidia0` are missing")
        );
    }

    #[test]
    fn what_may_not_be_opened_is_named() {
        // Root may open everything, so the answer is made up.
        let refused = |_: &str| Err(io::ErrorKind::PermissionDenied.into());
        assert_eq!(
            state_and_finding(&judged(&["/dev/nvidia0".to_owned()], refused)),
            (CheckState::Problem, "this user cannot read and write `/dev/nvidia0` (permission denied)")
        );
    }

    #[test]
    fn gpus_are_found_by_their_files_and_on_the_bus() {
        let tree = Tree::of(&[
            ("dev/nvidiactl", ""),
            ("dev/nvidia-uvm", ""),
            ("dev/nvidia1", ""),
            ("dev/nvidia0", ""),
        ]);
        let found = Hardware::find(&tree.procfs());
        assert_eq!((found.nodes.as_slice(), found.on_bus, found.count()), (&[0, 1][..], 0, 2));
        let card = |slot: &str, vendor: &str, class: &str| {
            tree.write(&format!("sys/bus/pci/devices/{slot}/vendor"), vendor);
            tree.write(&format!("sys/bus/pci/devices/{slot}/class"), class);
        };
        card("0000:01:00.0", "0x10de\n", "0x030200\n");
        card("0000:01:00.1", "0x10de\n", "0x040300\n");
        card("0000:02:00.0", "0x8086\n", "0x030000\n");
        assert_eq!(Hardware::find(&tree.procfs()).on_bus, 1);
    }

    #[test]
    fn a_machine_without_has_none() {
        let none = Hardware::find(&Tree::of(&[("dev/null", "")]).procfs());
        assert!(!none.is_there());
        assert_eq!(none, Hardware::default());
        assert!(Hardware::find(&Tree::of(&[("dev/dxg", "")]).procfs()).is_there());
    }
}

use std::fs;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::tree::Tree;

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

use std::{fs::File, io, path::Path};

use super::hardware::Hardware;
use crate::check::Check;
use oomph_memory::processes::Procfs;

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
}

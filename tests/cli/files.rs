//! Files that the user names: written over another file only with `--force`, and never over anything else.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, symlink},
    process::Command,
};

use crate::support::Folder;

/// The commands that write a file, without its name.
const WRITERS: [&[&str]; 6] = [
    &["plan", "--config", "tiny.toml", "--batch", "4", "--html"],
    &["plan", "--config", "tiny.toml", "--batch", "4", "--svg"],
    &["compare", "--config", "tiny.toml", "--batches", "4", "--plan-only", "--html"],
    &["profile", "--config", "tiny.toml", "--steps", "1", "--warmup", "0", "--html"],
    &["profile", "--config", "tiny.toml", "--steps", "1", "--warmup", "0", "--svg"],
    &["export", "run", "--to"],
];

/// Makes a node by `mknod`; only root may make devices.
fn make_node(folder: &Folder, node: &[&str]) -> bool {
    Command::new("mknod").args(node).current_dir(folder.path()).status().is_ok_and(|status| status.success())
}

#[test]
fn a_named_file_replaces_a_file_on_request_and_nothing_else_ever() {
    let folder = Folder::new();
    folder.train(&["--quiet"]).success();
    folder.write("target", "theirs");
    folder.write("exists", "theirs");
    symlink("target", folder.at("link")).unwrap();
    symlink("nowhere", folder.at("dangling")).unwrap();
    assert!(make_node(&folder, &["pipe", "p"]), "mknod makes a pipe");
    let mut others = vec![("link", "a link"), ("dangling", "a link"), ("pipe", "a pipe")];
    if make_node(&folder, &["device", "c", "1", "3"]) {
        others.push(("device", "a device"));
    }
    for writer in WRITERS {
        let write = |more: &[&str]| folder.oomph(&[writer, more].concat());
        for (name, what) in &others {
            for more in [&[*name][..], &[*name, "--force"]] {
                let answer = write(more);
                assert_eq!(answer.code, Some(1), "{answer}");
                let expected = format!("`{name}` is {what}; a file was expected, or a new name");
                assert!(answer.stderr.contains(&expected), "{answer}");
            }
        }
        let refused = write(&["exists"]);
        assert_eq!(
            (refused.code, refused.stderr.as_str()),
            (
                Some(1),
                "error: `exists` already exists\n\nhint: `--force` overwrites it; or choose another path\n"
            ),
            "{writer:?}"
        );
        assert_eq!(folder.read("exists"), b"theirs", "{writer:?}");
        write(&["exists", "--force"]).success();
        assert_ne!(folder.read("exists"), b"theirs", "{writer:?}");
        folder.write("exists", "theirs");
        let in_checkpoint = write(&["run/checkpoints/latest/model.safetensors", "--force"]);
        assert!(in_checkpoint.stderr.contains("is a file of a checkpoint"), "{in_checkpoint}");
    }
    assert_eq!(folder.read("target"), b"theirs");
    assert!(folder.at("link").is_symlink() && folder.at("dangling").is_symlink());
    for (name, what) in others {
        let kind = fs::symlink_metadata(folder.at(name)).unwrap().file_type();
        assert!(kind.is_symlink() || kind.is_fifo() || kind.is_char_device(), "{name} was {what}");
    }
    let leftovers = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let leftovers: Vec<_> = leftovers.filter(|name| name.to_string_lossy().ends_with(".part")).collect();
    assert_eq!(leftovers, [""; 0]);
}

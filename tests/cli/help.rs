use crate::support::{Folder, snapshot};

#[test]
fn every_command_explains_itself() {
    let folder = Folder::new();
    for command in [
        "train",
        "evaluate",
        "export",
        "predict",
        "runs",
        "plan",
        "summary",
        "config",
        "data",
        "init",
        "tokenizer",
        "devices",
        "doctor",
        "verify-gpu",
        "completions",
    ] {
        let answer = folder.oomph(&[command, "--help"]).success();
        snapshot(&format!("help_{command}"), &answer.stdout);
        assert_eq!(answer.stderr, "");
    }
}

#[test]
fn without_a_command_the_commands_are_shown() {
    let folder = Folder::new();
    let help = folder.oomph(&["--help"]).success();
    snapshot("help", &help.stdout);
    let nothing = folder.oomph(&[]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (Some(2), ""));
    assert_eq!(nothing.stderr, help.stdout);
}

#[test]
fn the_version_is_that_of_the_package() {
    let answer = Folder::new().oomph(&["--version"]).success();
    assert_eq!(answer.stdout, format!("oomph {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_are_written_for_every_shell() {
    let folder = Folder::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let answer = folder.oomph(&["completions", shell]).success();
        assert!(answer.stdout.contains("memory-limit"), "{shell}");
    }
}

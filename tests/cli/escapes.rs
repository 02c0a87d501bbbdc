//! Texts from outside: whatever names and vocabularies hold, a terminal gets no control characters of theirs.

use std::fs;

use crate::support::{Answer, Folder};

/// Clears the screen, sets the title, hides what follows; then a newline, a C1 control and an override of direction.
const HOSTILE: &str = "x\u{1b}[2J\u{1b}]0;t\u{7}\u{1b}[8m\ny\u{9b}1m\u{202e}z";

/// Whether a terminal would obey the character.
fn is_obeyed(character: char) -> bool {
    let is_layout = matches!(character, '\n' | '\t');
    character.is_control() && !is_layout
        || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[track_caller]
fn check(what: &str, answer: &Answer) {
    for (name, text) in [("stdout", &answer.stdout), ("stderr", &answer.stderr)] {
        assert!(
            !text.contains(is_obeyed),
            "{what}: {name} has {:?}",
            text.replace(|c: char| !is_obeyed(c), "")
        );
        // Neither can a name pretend to be a line of its own.
        assert!(!text.contains("\ny"), "{what}: {name}: {text}");
    }
}

#[test]
fn names_from_outside_reach_a_terminal_escaped() {
    let folder = Folder::new();
    let hostile = folder.at(HOSTILE);
    fs::create_dir(&hostile).expect("a folder");
    fs::copy(folder.at("tiny.toml"), hostile.join("tiny.toml")).expect("a copy");
    let config = format!("{HOSTILE}/tiny.toml");
    let run = format!("{HOSTILE}/run");
    let quoted: String = run.chars().map(|c| format!("\\U{:08x}", u32::from(c))).collect();
    let directory = format!("run.directory=\"{quoted}\"");
    let page = format!("{HOSTILE}/plan.html");
    let weights = format!("{HOSTILE}/w.safetensors");
    let commands: [(&str, &[&str]); 15] = [
        ("train", &["train", "--config", &config, "--set", &directory, "--set", "run.save_every=2 steps"]),
        ("train again", &["train", "--config", &config, "--set", &directory]),
        ("resume", &["train", "--resume", &run, "--set", "train.steps=8", "--json"]),
        ("out of memory", &["train", "--config", &config, "--memory-limit", "1KiB", "--set", &directory]),
        ("evaluate", &["evaluate", "--checkpoint", &run]),
        ("runs", &["runs", HOSTILE]),
        ("runs as JSON", &["runs", HOSTILE, "--json"]),
        ("config", &["config", "--config", &config, "--set", &directory]),
        ("plan", &["plan", "--config", &config, "--batch", "2", "--html", &page]),
        ("plan again", &["plan", "--config", &config, "--batch", "2", "--html", &page]),
        ("export", &["export", &run, "--to", &weights]),
        ("weights", &["evaluate", "--config", &config, "--weights", &weights]),
        ("an unknown key", &["train", "--config", &config, "--set", &format!("model.{HOSTILE}=1")]),
        ("an unknown flag", &["train", &format!("--{}", HOSTILE.replace('\n', ""))]),
        ("a missing file", &["predict", HOSTILE, "--run", &run]),
    ];
    for (what, arguments) in commands {
        check(what, &folder.oomph(arguments));
    }
    assert!(folder.at(&page).is_file() && folder.at(&weights).is_file());
}

#[test]
fn a_generated_text_is_escaped() {
    let folder = Folder::new();
    folder.write("text.txt", "a\u{1b}[2J\u{202e}b\u{9b}".repeat(200));
    let config = "[model]\nname = 'lstm-lm'\nhidden = 8\n[data]\nsource = 'text'\npath = 'text.txt'\nsteps = 8\n\
                  workers = 0\n[train]\nsteps = 2\nbatch = 4\n[run]\ndirectory = 'run'\n";
    folder.write("lm.toml", config);
    folder.oomph(&["train", "--config", "lm.toml", "--quiet"]).success();
    for more in [&[][..], &["--json"]] {
        let prompt = ["predict", "--run", "run", "--prompt", "a\u{1b}[2J", "--length", "200"];
        let answer = folder.oomph(&[&prompt, more].concat()).success();
        check("predict", &answer);
        assert!(answer.stdout.contains("\\u"), "{answer}");
    }
}

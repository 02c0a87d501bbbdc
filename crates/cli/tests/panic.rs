//! A panic in a user's own code, in a binary that is nothing but `run`: this one, started again.

use std::process::{Command, ExitCode};

use oomph_trainer::Registry;

const CHILD: &str = "OOMPH_TEST_CHILD";

fn main() -> ExitCode {
    if std::env::var_os(CHILD).is_some() {
        return oomph_cli::run(Registry::builtin().with_model("broken", |_| panic!("the model broke")));
    }
    a_panic_is_told_as_a_bug();
    println!("test a_panic_is_told_as_a_bug ... ok");
    ExitCode::SUCCESS
}

fn a_panic_is_told_as_a_bug() {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command
        .args(["config", "--set", "model.name=broken", "--json"])
        .env(CHILD, "1")
        .env_remove("RUST_BACKTRACE");
    let output = command.output().expect("this binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with("error: internal error: the model broke (at "), "{stderr}");
    assert!(stderr.contains("hint: this is a bug in oomph, or in a model"), "{stderr}");
    assert!(!stderr.contains("stack backtrace") && stderr.lines().count() == 3, "{stderr}");
    assert!(stdout.starts_with(r#"{"event":"error","message":"internal error: the model broke"#), "{stdout}");

    let output = command.env("RUST_BACKTRACE", "1").output().expect("this binary starts");
    assert!(text(output.stderr).contains("oomph_cli::run"));
}

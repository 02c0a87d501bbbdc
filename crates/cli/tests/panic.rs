//! A panic in a user's own code, in a binary that is nothing but `run`: this one, started again.

use std::process::{Command, ExitCode};

use oomph_trainer::Registry;

const CHILD: &str = "OOMPH_TEST_CHILD";

fn main() -> ExitCode {
    if std::env::var_os(CHILD).is_some() {
        let registry = Registry::builtin().with_model("broken", |_| panic!("the model broke"));
        return oomph_cli::run(registry.with_model("too large", |_| fail_as_burn_does()));
    }
    a_panic_is_told_as_a_bug();
    println!("test a_panic_is_told_as_a_bug ... ok");
    a_failure_of_the_device_is_explained();
    println!("test a_failure_of_the_device_is_explained ... ok");
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

/// As Burn does where a GPU has no memory left: the thread of the device panics and goes on; the one that reads a
/// tensor panics at what was never made.
fn fail_as_burn_does() -> ! {
    let device = std::thread::spawn(|| {
        panic!(
            "failed to reserve 64 bytes of device memory: out of device memory allocating 64 bytes\n   0: main\n"
        )
    });
    let _ = device.join();
    panic!(
        "bytes: host access failed: Read(\"couldn't find resource for that handle: Memory location was never \
         initialized\\n   0: main\")"
    )
}

fn a_failure_of_the_device_is_explained() {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command
        .args(["config", "--set", "model.name=too large", "--json"])
        .env(CHILD, "1")
        .env_remove("RUST_BACKTRACE");
    let output = command.output().expect("this binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let lines: Vec<&str> = stderr.lines().collect();
    let begins = [
        "error: unexpected failure: bytes: host access failed: Read(",
        "  caused by: unexpected failure: failed to reserve 64 bytes of device memory: out of device memory allocating 64 \
         bytes (at ",
        "  likely: the GPU has no memory left: ",
        "",
        "hint: lower `memory.micro_batch`, ",
    ];
    assert_eq!(lines.len(), begins.len(), "{stderr}");
    assert!(lines.iter().zip(begins).all(|(line, begin)| line.starts_with(begin)), "{stderr}");
    assert!(stdout.contains(r#""likely":"the GPU has no memory left: "#), "{stdout}");
}

//! Panics in a user's own code. The test starts its own binary again, whose `main` then calls only `run`.

use std::process::{Command, ExitCode};

use oomph_trainer::Registry;

const CHILD: &str = "OOMPH_TEST_CHILD";

fn main() -> ExitCode {
    if std::env::var_os(CHILD).is_some() {
        let registry = Registry::builtin().with_model("broken", |_| panic!("the model broke"));
        return oomph_cli::run(registry.with_model("too large", |_| fail_as_burn_does()));
    }
    a_panic_is_reported_as_a_bug();
    println!("test a_panic_is_reported_as_a_bug ... ok");
    a_failure_of_the_device_is_explained();
    println!("test a_failure_of_the_device_is_explained ... ok");
    ExitCode::SUCCESS
}

/// `config --json` with a model that panics.
fn command(model: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command.args(["config", "--set", &format!("model.name={model}"), "--json"]);
    command.env(CHILD, "1").env_remove("RUST_BACKTRACE");
    command
}

/// The stdout and stderr of a command that fails with the exit code.
fn failed(command: &mut Command, code: i32) -> [String; 2] {
    let output = command.output().expect("this binary starts");
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("UTF-8"));
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    [stdout, stderr]
}

fn a_panic_is_reported_as_a_bug() {
    let mut command = command("broken");
    let [stdout, stderr] = failed(&mut command, 1);
    assert!(stderr.starts_with("error: internal error: the model broke (at "), "{stderr}");
    assert!(stderr.contains("hint: this is a bug in oomph, or in your own model"), "{stderr}");
    assert!(!stderr.contains("stack backtrace") && stderr.lines().count() == 3, "{stderr}");
    assert!(stdout.starts_with(r#"{"event":"error","message":"internal error: the model broke"#), "{stdout}");

    let [_, stderr] = failed(command.env("RUST_BACKTRACE", "1"), 1);
    assert!(stderr.contains("oomph_cli::run"));
}

/// Fails as Burn does if a GPU is out of memory: the device thread panics and survives; then the thread that reads a
/// tensor panics, since the tensor was never allocated.
fn fail_as_burn_does() -> ! {
    let device = std::thread::Builder::new().name("DSD-0-0".to_owned()).spawn(|| {
        panic!(
            "failed to reserve 64 bytes of device memory: out of device memory allocating 64 bytes\n   0: main\n"
        )
    });
    let _ = device.expect("a thread starts").join();
    panic!(
        "bytes: host access failed: Read(\"couldn't find resource for that handle: Memory location was never \
         initialized\\n   0: main\")"
    )
}

fn a_failure_of_the_device_is_explained() {
    let [stdout, stderr] = failed(&mut command("too large"), 75);
    let lines: Vec<&str> = stderr.lines().collect();
    let begins =
        ["error: out of memory in idle: `cuda:0` has no 64 B free", "", "hint: lower `memory.micro_batch`, "];
    assert_eq!(lines.len(), begins.len(), "{stderr}");
    assert!(lines.iter().zip(begins).all(|(line, begin)| line.starts_with(begin)), "{stderr}");
    assert!(stdout.contains(r#""message":"out of memory in idle: `cuda:0` has no 64 B free""#), "{stdout}");
}

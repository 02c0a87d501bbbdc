use std::{fs, path::Path};

use super::*;

/// What a shell's words do in a folder, with the calls that were shown.
fn shell(
    words: &str,
    calls: &[&str],
    folder: &Path,
    mut on_call: impl FnMut(Moment, &Call) -> Action,
) -> (Traced, Vec<(Moment, Call)>) {
    let mut shown = Vec::new();
    let program = Program::new("sh".as_ref(), folder).arguments(["-c", words]);
    let options = Options { calls, records_data: true, limit: Duration::from_secs(2) };
    let traced = run(program, options, &mut |moment, call| {
        shown.push((moment, call.clone()));
        on_call(moment, call)
    });
    (traced.expect("the shell is traced"), shown)
}

#[test]
fn shows_calls_of_child_processes() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| Some(folder.path().join(name));
    let words = "/bin/echo hello > a; mv a b; ln -s b c";
    let calls = ["write", "rename", "renameat", "renameat2", "symlink", "symlinkat"];
    let (traced, shown) = shell(words, &calls, folder.path(), |_, _| Action::Watch);
    assert!(traced.answer.is_success());
    let write = &shown[0].1;
    assert_eq!((write.name, &write.path, write.data.as_deref()), ("write", &at("a"), Some(&b"hello\n"[..])));
    assert_eq!(shown[1].0, Moment::After(6));
    assert!(shown.iter().any(|(_, call)| call.path == at("a") && call.second_path == at("b")));
    assert!(shown.iter().any(|(_, call)| call.path == at("c") && call.second_path == Some("b".into())));
}

#[test]
fn refuses_shortens_and_kills() {
    let folder = tempfile::tempdir().unwrap();
    let fail_output = |_, call: &Call| {
        if call.arguments[0] == 1 { Action::Fail(libc::ENOSPC) } else { Action::Continue }
    };
    let (traced, _) = shell("/bin/echo hello", &["write"], folder.path(), fail_output);
    assert_eq!(traced.answer.code(), Some(1));
    assert!(traced.answer.errors().contains("No space left"));

    let mut writes = 0;
    let (traced, shown) = shell("/bin/echo hello", &["write"], folder.path(), |moment, _| {
        writes += usize::from(moment == Moment::Before);
        if writes == 1 { Action::Short(2) } else { Action::Continue }
    });
    assert_eq!((traced.answer.stdout.as_slice(), shown[1].0), (&b"hello\n"[..], Moment::After(2)));

    let (traced, _) = shell("/bin/echo hello > a; sleep 100", &["write"], folder.path(), |_, _| Action::Kill);
    assert!(traced.is_killed && traced.answer.code().is_none());
    assert_eq!(fs::read(folder.path().join("a")).unwrap(), b"");
}

#[test]
fn kills_at_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let (traced, _) = shell("exec sleep 100", &["write"], folder.path(), |_, _| Action::Continue);
    assert!(traced.answer.status.is_none() && !traced.is_killed);
}

#[test]
fn works_here_and_knows_its_calls() {
    assert_eq!(missing(), None);
    let options = Options { calls: &["nocall"], records_data: false, limit: Duration::from_secs(2) };
    let refused = run(Program::new("true".as_ref(), "/".as_ref()), options, &mut |_, _| Action::Continue);
    assert!(refused.unwrap_err().to_string().contains("nocall"));
}

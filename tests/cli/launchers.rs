//! An MPI launcher starts commands that support only one process.

use crate::support::Folder;

/// With the feature `mpi`, `tests/mpi` tests it with mpirun.
#[test]
#[cfg(not(feature = "mpi"))]
fn several_processes_do_not_each_train_alone() {
    let folder = Folder::new();
    let mut all = String::new();
    for arguments in [&["train", "--config", "tiny.toml"][..], &["plan", "--config", "tiny.toml"]] {
        let output = folder.command(arguments).env("OMPI_COMM_WORLD_SIZE", "4").output().unwrap();
        let answer = crate::support::Answer::new(&output, &folder);
        all += &format!("$ mpirun -n 4 oomph {}\n{answer}\n", arguments.join(" "));
    }
    assert!(!folder.at("run").exists());
    crate::support::snapshot("launchers", &all);
}

#[test]
fn one_process_of_a_launcher_trains_as_one() {
    let folder = Folder::new();
    let mut command = folder.command(&["train", "--config", "tiny.toml", "--quiet"]);
    assert!(command.env("OMPI_COMM_WORLD_SIZE", "1").status().unwrap().success());
    assert!(folder.at("run").exists());
}

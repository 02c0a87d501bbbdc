use std::ffi::OsString;

/// The variables in which launchers give the number of processes: Open MPI's mpirun; MPICH's, Intel's and others' by
/// PMI; MVAPICH; Flux; Slurm. A shell inside a Slurm step has Slurm's variable too, with the value 1.
const SIZES: [&str; 5] =
    ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "FLUX_JOB_SIZE", "SLURM_STEP_NUM_TASKS"];

/// The number of processes that mpirun, srun or another launcher of MPI programs started, this one included. `None`
/// without a launcher.
///
/// It works in builds without the feature `mpi` too. Such a build can refuse to train the same model in every process.
pub fn launched_world_size() -> Option<usize> {
    world_size(|name| std::env::var_os(name))
}

fn world_size(variable: impl Fn(&str) -> Option<OsString>) -> Option<usize> {
    SIZES.iter().find_map(|name| {
        let size = variable(name)?.to_str()?.parse().ok()?;
        (size > usize::from(name.starts_with("SLURM"))).then_some(size)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world_size_of(name: &str, value: &str) -> Option<usize> {
        world_size(|asked| (asked == name).then(|| value.into()))
    }

    #[test]
    fn launchers_are_known_by_their_variables() {
        assert_eq!(world_size_of("OMPI_COMM_WORLD_SIZE", "4"), Some(4));
        assert_eq!(world_size_of("OMPI_COMM_WORLD_SIZE", "1"), Some(1));
        assert_eq!(world_size_of("PMI_SIZE", "2"), Some(2));
        assert_eq!(world_size_of("SLURM_STEP_NUM_TASKS", "8"), Some(8));
    }

    #[test]
    fn a_shell_is_not_a_launcher() {
        assert_eq!(world_size_of("HOME", "4"), None);
        assert_eq!(world_size_of("SLURM_STEP_NUM_TASKS", "1"), None);
        assert_eq!(world_size_of("SLURM_NTASKS", "4"), None);
        assert_eq!(world_size_of("PMI_SIZE", "many"), None);
    }
}

use std::ffi::OsString;

/// What launchers tell their processes of how many there are: Open MPI's mpirun; MPICH's, Intel's and others' by PMI;
/// MVAPICH; Flux. A shell inside a Slurm step has Slurm's too, with 1.
const SIZES: [&str; 5] =
    ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "FLUX_JOB_SIZE", "SLURM_STEP_NUM_TASKS"];

/// How many processes mpirun, srun or another launcher of MPI programs started, this one among them. `None` where this
/// process was started by hand.
///
/// Any build can tell, so that one without the feature `mpi` does not train as many times alone as it was started.
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

    fn told(name: &str, value: &str) -> Option<usize> {
        world_size(|asked| (asked == name).then(|| value.into()))
    }

    #[test]
    fn launchers_are_known_by_what_they_tell_their_processes() {
        assert_eq!(told("OMPI_COMM_WORLD_SIZE", "4"), Some(4));
        assert_eq!(told("OMPI_COMM_WORLD_SIZE", "1"), Some(1));
        assert_eq!(told("PMI_SIZE", "2"), Some(2));
        assert_eq!(told("SLURM_STEP_NUM_TASKS", "8"), Some(8));
    }

    #[test]
    fn a_shell_is_not_a_launcher() {
        assert_eq!(told("HOME", "4"), None);
        assert_eq!(told("SLURM_STEP_NUM_TASKS", "1"), None);
        assert_eq!(told("SLURM_NTASKS", "4"), None);
        assert_eq!(told("PMI_SIZE", "many"), None);
    }
}

//! Groups of processes under mpirun. This program starts itself as each rank.

use std::{
    env, fmt,
    io::Write,
    process::{Command, exit, id},
    thread::sleep,
    time::{Duration, Instant},
};

use oomph_parallel::group::{Group, GroupError, MpiGroup, launched_world_size, mpi_group};
use oomph_test_support::{Missing, skip};

/// What a rank is to do.
const PART: &str = "OOMPH_TEST_PART";
/// The longest time until a failed job ends.
const LIMIT: Duration = Duration::from_secs(10);
/// The time that ranks wait for each other: enough for a busy machine to start all of them.
const TIMEOUT: Duration = Duration::from_secs(2);

struct Job {
    code: Option<i32>,
    text: String,
    took: Duration,
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "code {:?} after {:?}:\n{}", self.code, self.took, self.text)
    }
}

/// Runs `part` in `ranks` processes. `None` without mpirun.
fn job(ranks: usize, part: &str) -> Option<Job> {
    let this = env::current_exe().unwrap();
    let begin = Instant::now();
    let output = Command::new("timeout")
        .args(["--kill-after=5", "60", "mpirun", "-n", &ranks.to_string()])
        .arg(this)
        .args(["--exact", "a_rank_plays_its_part", "--nocapture"])
        .env(PART, part)
        // Options of Open MPI 4 and 5 that allow root, and more ranks than cores.
        .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
        .envs([("OMPI_MCA_rmaps_base_oversubscribe", "1")])
        .envs([("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")])
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if output.status.code() == Some(127) {
        skip(Missing::Mpirun);
        return None;
    }
    Some(Job { code: output.status.code(), text: text.concat(), took: begin.elapsed() })
}

/// Runs a part in which a rank fails, and checks the messages of the other ranks.
fn all_others_say(ranks: usize, part: &str, says: &str) {
    let Some(job) = job(ranks, part) else { return };
    assert_ne!(job.code, Some(0), "{job}");
    assert!(job.took < LIMIT, "{job}");
    assert_eq!(job.text.matches(says).count(), ranks - 1, "no `{says}` from each in\n{job}");
}

#[test]
fn collectives_give_the_bits_of_the_sum_in_the_order_of_ranks() {
    for ranks in [1, 2, 3, 4] {
        let Some(job) = job(ranks, "collectives") else { return };
        assert_eq!(job.code, Some(0), "{job}");
        assert_eq!(job.text.matches("all collectives are right").count(), ranks, "{job}");
    }
}

#[test]
fn a_killed_rank_ends_the_job_and_is_named() {
    for ranks in [2, 4] {
        let Some(job) = job(ranks, "kill") else { return };
        assert_ne!(job.code, Some(0), "{job}");
        assert!(job.took < LIMIT, "{job}");
        assert!(job.text.contains("rank 1 with PID"), "{job}");
        assert!(job.text.contains("signal 9"), "{job}");
    }
}

#[test]
fn a_rank_that_hangs_is_named_by_all_others() {
    for ranks in [2, 4] {
        all_others_say(
            ranks,
            "hang",
            "did not join an all-reduce of 5 values, collective 2, within 2s; later: rank 1",
        );
    }
}

#[test]
fn a_rank_that_aborts_is_named_with_its_reason() {
    all_others_say(2, "abort", "aborted: out of memory; later: rank 1 on `");
    all_others_say(4, "abort", "aborted: out of memory; later: rank 1 on `");
}

#[test]
fn a_rank_that_panics_takes_the_others_with_it() {
    all_others_say(3, "panic", "aborted: it panicked; later: rank 1 on `");
}

#[test]
fn a_rank_that_leaves_is_missed() {
    all_others_say(3, "leave", "left before a barrier, collective 2 of the others; later: rank 1 on `");
}

#[test]
fn different_requests_are_told_apart() {
    let says =
        "different operations as collective 2: ranks 0, 2: an all-reduce of 5 values; rank 1: a barrier";
    let Some(job) = job(3, "mismatch") else { return };
    assert!(job.took < LIMIT && job.code != Some(0), "{job}");
    assert_eq!(job.text.matches(says).count(), 6, "{job}");
}

#[test]
fn a_job_can_be_ended_with_a_code() {
    let Some(job) = job(3, "terminate") else { return };
    assert_eq!(job.code, Some(42), "{job}");
    assert!(job.took < LIMIT, "{job}");
}

#[test]
fn ranks_that_are_done_wait_for_one_that_is_busy() {
    let Some(job) = job(3, "late end") else { return };
    assert_eq!(job.code, Some(0), "{job}");
    assert!(job.took > TIMEOUT, "{job}");
}

#[test]
fn mpi_is_initialized_once() {
    let Some(job) = job(2, "twice") else { return };
    assert_eq!(job.code, Some(0), "{job}");
}

/// Not a test: the program of the ranks that other tests start.
#[test]
fn a_rank_plays_its_part() {
    let Ok(part) = env::var(PART) else { return };
    let timeout = (part != "kill").then_some(TIMEOUT);
    let group = mpi_group(timeout).unwrap();
    group.barrier().unwrap();
    let is_other = group.rank() != 1;
    match part.as_str() {
        "collectives" => check_collectives(&group),
        "kill" if is_other => fail(&group, group.all_reduce(vec![1.0; 5]).map(drop)),
        "kill" => {
            Command::new("kill").args(["-9", &id().to_string()]).status().unwrap();
        }
        "hang" | "terminate" if !is_other => sleep(6 * LIMIT),
        "terminate" => {
            _ = group.barrier();
            group.terminate(42);
        }
        "abort" if !is_other => group.abort("out of memory"),
        "panic" if !is_other => panic!("for the test"),
        "hang" | "abort" | "panic" => fail(&group, group.all_reduce(vec![1.0; 5]).map(drop)),
        "leave" if !is_other => {
            drop(group);
            // Long enough for the others to write their messages before mpirun ends the job.
            sleep(Duration::from_secs(1));
            exit(1);
        }
        "leave" => fail(&group, group.barrier()),
        "mismatch" if is_other => fail(&group, group.all_reduce(vec![1.0; 5]).map(drop)),
        "mismatch" => fail(&group, group.barrier()),
        "late end" if is_other => {}
        "late end" => sleep(TIMEOUT + TIMEOUT / 2),
        "twice" => assert!(matches!(mpi_group(None), Err(GroupError::MpiInitialized))),
        part => panic!("there is no part `{part}`"),
    }
}

/// Writes the error, checks that it persists, and exits with failure. mpirun ends the job at the first exit, so the
/// other ranks get time to write first.
fn fail(group: &MpiGroup, result: Result<(), GroupError>) {
    let (now, later) = (result.unwrap_err(), group.barrier().unwrap_err());
    // One write keeps the lines of ranks apart.
    _ = std::io::stderr().write_all(format!("{now}; later: {later}\n").as_bytes());
    sleep(Duration::from_millis(1500));
    exit(1);
}

/// Values whose sum depends on the order of summation.
fn values(rank: usize, length: usize) -> Vec<f32> {
    (0..length).map(|place| ((place * 7919 + rank * 104_729) as f32).sin() * 1e3).collect()
}

fn sums(world_size: usize, length: usize) -> Vec<f32> {
    let add = |sums: Vec<f32>, rank| sums.iter().zip(values(rank, length)).map(|(a, b)| a + b).collect();
    (1..world_size).fold(values(0, length), add)
}

fn check_collectives(group: &MpiGroup) {
    let (rank, world_size) = (group.rank(), group.world_size());
    assert_eq!(launched_world_size(), Some(world_size));
    assert_eq!((group.local_rank(), group.local_size()), (rank, world_size));
    assert!(!group.host(rank).unwrap().is_empty());

    let is_right = |reduced: &[f32]| {
        let expected = sums(world_size, reduced.len());
        reduced.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits())
    };
    // The last size takes more than one round.
    for length in [0, 1, 2, 3, 1000, 65_537, (4 << 20) + 77] {
        let reduced = group.all_reduce(values(rank, length)).unwrap();
        assert_eq!(reduced.len(), length);
        assert!(is_right(&reduced), "sums of {length} values on rank {rank}");
    }

    let mut pending: Vec<_> = (1..6).map(|n| group.start_all_reduce(values(rank, n * 10_000))).collect();
    group.barrier().unwrap();
    pending.reverse();
    for (pending, n) in pending.into_iter().zip((1..6).rev()) {
        let reduced = pending.wait().unwrap();
        assert_eq!(reduced.values.len(), n * 10_000);
        assert!(is_right(&reduced.values) && reduced.moving <= reduced.took);
    }

    let bytes = vec![rank as u8; rank * 100_000];
    let gathered = group.all_gather(bytes.clone()).unwrap();
    assert!(gathered.iter().enumerate().all(|(from, got)| *got == vec![from as u8; from * 100_000]));
    assert_eq!(group.broadcast(world_size - 1, bytes).unwrap(), gathered[world_size - 1]);
    let expected = (1..world_size).fold(0.1, |sum, _| sum + 0.1);
    assert_eq!(group.all_reduce_f64(&[0.1, rank as f64]).unwrap()[0], expected);

    let pending = group.start_all_reduce(vec![1.0; 1000]);
    sleep(Duration::from_millis(300));
    let reduced = pending.wait().unwrap();
    assert!(reduced.blocked < Duration::from_millis(100), "{:?}", reduced.blocked);
    _ = std::io::stderr().write_all(b"all collectives are right\n");
}

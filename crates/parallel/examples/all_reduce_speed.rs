//! Measures all-reduce: `all_reduce_speed [MB] [RANKS]` among threads of this process, and under mpirun (with the
//! feature `mpi`) among processes.
//!
//! It prints the bytes of one rank's values over the time of an all-reduce, the median and the best of 15, and the time
//! of a barrier.

use std::{env, error::Error, thread, time::Instant};

use oomph_parallel::group::{Group, launched_world_size, threads};

const ROUNDS: usize = 15;

fn measure(group: &dyn Group, megabytes: usize) -> Result<Option<String>, Box<dyn Error + Send + Sync>> {
    let mut values = vec![1.0; megabytes * 250_000];
    let mut seconds = Vec::new();
    for _ in 0..ROUNDS {
        values.fill(1.0);
        group.barrier()?;
        let begin = Instant::now();
        values = group.all_reduce(values)?;
        group.barrier()?;
        seconds.push(begin.elapsed().as_secs_f64());
    }
    let begin = Instant::now();
    for _ in 0..100 {
        group.barrier()?;
    }
    let barrier_us = begin.elapsed().as_secs_f64() * 1e4;
    seconds.sort_by(f64::total_cmp);
    let median = seconds[ROUNDS / 2];
    let speed = megabytes as f64 / 1e3 / median;
    Ok((group.rank() == 0).then(|| {
        let ranks = group.world_size();
        let (ms, best) = (median * 1e3, seconds[0] * 1e3);
        format!("{ranks} ranks, {megabytes} MB: {ms:.1} ms (best {best:.1}), {speed:.2} GB/s; barrier {barrier_us:.0} µs")
    }))
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let argument = |place, default| env::args().nth(place).map_or(Ok(default), |text| text.parse::<usize>());
    let (megabytes, ranks) = (argument(1, 100)?, argument(2, 2)?);
    if launched_world_size().is_some() {
        #[cfg(feature = "mpi")]
        if let Some(line) = measure(&oomph_parallel::group::mpi_group(None)?, megabytes)? {
            println!("processes: {line}");
        }
        return Ok(());
    }
    let handles: Vec<_> = threads(ranks, None)?
        .into_iter()
        .map(|group| thread::spawn(move || measure(&group, megabytes)))
        .collect();
    for handle in handles {
        let line = handle.join().map_err(|_| "a rank panicked")??;
        line.into_iter().for_each(|line| println!("threads: {line}"));
    }
    Ok(())
}

//! How long communicators take to connect, on two GPUs:
//! `cargo bench -p benches --bench gpu_connect`.
//!
//! Ranks connect in their first operation of a kind, or when their communicator is made
//! (`NCCL_RUNTIME_CONNECT=0`). Each figure is rank 0's wall time of one call and the host's wait
//! for it, on communicators that are made one after the other in one process.

use std::time::{Duration, Instant};

use typed_nccl::{Cuda, Error, Result, Sum, tag};

tag!(pub Half);

/// How many communicators are made one after the other.
const ROUNDS: usize = 4;

fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, Duration)> {
    let started = Instant::now();
    Ok((work()?, started.elapsed()))
}

fn milliseconds(times: &[Duration]) -> String {
    let each: Vec<_> =
        times.iter().map(|time| format!("{:8.1}", time.as_secs_f64() * 1e3)).collect();
    each.join(" ")
}

fn main() -> Result<()> {
    let all = match Cuda::spmd(2, |place| -> Result<Vec<[Duration; 6]>> {
        let (mut place, mut rounds) = (Some(place), Vec::new());
        let Some(first) = place.take() else { return Ok(rounds) };
        let (mut comm, init) = timed(|| first.init())?;
        for round in 0..ROUNDS {
            let (child, split) = timed(|| comm.split::<Half>(0, 0))?;
            let mut small = child.device().zeros::<f32>(256)?;
            let mut large = child.device().zeros::<f32>(16 << 20)?;
            let sync = || child.stream().sync();
            let all_reduce =
                |x: &mut _| timed(|| child.all_reduce_in_place(x, Sum).and_then(|()| sync()));
            let ((), first_small) = all_reduce(&mut small)?;
            let ((), second_small) = all_reduce(&mut small)?;
            let ((), first_large) = all_reduce(&mut large)?;
            let ((), second_large) = all_reduce(&mut large)?;
            child.finish()?;
            let made = if round == 0 { init } else { Duration::ZERO };
            rounds.push([made, split, first_small, second_small, first_large, second_large]);
        }
        comm.finish()?;
        Ok(rounds)
    }) {
        Ok(all) => all,
        Err(error @ (Error::NoDriver(_) | Error::NoSuchDevice(_) | Error::NoNccl(_))) => {
            println!("skipped: {error}");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    println!(
        "milliseconds: init, split, all_reduce of 1 KiB first and again, of 64 MiB first and again"
    );
    for round in &all[0] {
        println!("{}", milliseconds(round));
    }
    Ok(())
}

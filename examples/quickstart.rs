//! The main example: ranks exchange halos, reduce gradients in two precisions, pass data around a
//! ring and run a plan; every number is checked. `cargo run --release --example quickstart` runs it
//! as 4 ranks on this machine, `TYPED_NCCL=host:8` as 8, `TYPED_NCCL=cuda:2` on two GPUs, and a
//! launcher as one rank per process.

use std::time::{Duration, Instant};

use typed_nccl::{
    Avg, Communicator, Device, Error, Primitive, Result, Signals, Sum, bf16, launch, plan,
};

/// The time that it took, or why it is skipped.
type Outcome = std::result::Result<Duration, String>;
type Row = (&'static str, Outcome);
const LEN: usize = 1 << 20;
const EDGE: usize = 1 << 14;

plan! {
    /// Sends half of `a` to the right and half to the left: one launch on each rank, checked for
    /// any number of ranks at compile time.
    both_ways<T: Element>(n: Ranks, len: usize) where len % 2 == 0 {
        in a: [T; len];
        out b: [T; len];
        send a.chunk(2, 0) to (rank + 1) % n into b.chunk(2, 0);
        send a.chunk(2, 1) to (rank - 1) % n into b.chunk(2, 1);
    }
}

fn main() -> Result<()> {
    launch!(job)
}

const HALO: &str = "halo exchange: put_signal, wait_signals";

/// Writes this rank's edges into the neighbours' windows, then waits for theirs.
fn halo<D: Device>(comm: &mut Communicator<D>) -> Result<Row> {
    let (left, right) = (comm.ring(-1), comm.ring(1));
    let rank = comm.rank().index();
    let mut edges = comm.window::<f32>(2 * EDGE)?;
    let halo = comm.window::<f32>(2 * EDGE)?;
    edges.copy_from(&[vec![rank as f32; EDGE], vec![-(rank as f32); EDGE]].concat())?;
    let row = timed(comm, HALO, |comm| {
        comm.put_signal(edges.slice(0..EDGE), left, halo.at(EDGE))?;
        comm.put_signal(edges.slice(EDGE..2 * EDGE), right, halo.at(0))?;
        comm.wait_signals(Signals::new().expect(left).expect(right))
    })?;
    let ranks = [-(left.index() as f32), right.index() as f32];
    if row.1.is_ok() {
        check(&halo.to_vec()?, |i| ranks[i / EDGE]);
    }
    Ok(row)
}

/// Runs on every rank, on whatever device the communicator has.
fn job<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    let (rank, size) = (comm.rank().index(), comm.size());
    let (left, right) = (comm.ring(-1), comm.ring(1));

    let halos = match halo(&mut comm) {
        // GPUs that do not reach each other's memory have no windows; all ranks get this error.
        Err(error @ Error::Unsupported(_)) => (HALO, Err(error.to_string())),
        exchanged => exchanged?,
    };

    // Gradients that differ by rank and position, with a known mean.
    let gradient: Vec<f32> = (0..LEN).map(|i| (rank + i % 97) as f32).collect();
    let mut grads = comm.device().from_slice(&gradient)?;
    let mean = timed(&mut comm, "gradients: all_reduce of 4 MiB f32, Avg", |comm| {
        comm.all_reduce_in_place(&mut grads, Avg)
    })?;
    check(&grads.to_vec()?, |i| (i % 97) as f32 + (size - 1) as f32 / 2.0);

    // The same in half the bytes. Small integers are exact in bf16.
    let gradient: Vec<bf16> = (0..LEN).map(|i| bf16::from_f32((rank + i % 13) as f32)).collect();
    let (small, mut sum) = (comm.device().from_slice(&gradient)?, comm.device().zeros(LEN)?);
    let sums = timed(&mut comm, "gradients: all_reduce of 2 MiB bf16, Sum", |comm| {
        comm.all_reduce(&small, &mut sum, Sum)
    })?;
    let ranks = size * (size - 1) / 2;
    check(&sum.to_vec()?, |i| bf16::from_f32((ranks + size * (i % 13)) as f32));

    // A ring: every rank sends to the right and receives from the left.
    let mine = comm.device().from_slice(&vec![rank as i32; LEN])?;
    let mut theirs = comm.device().zeros::<i32>(LEN)?;
    let ring = timed(&mut comm, "ring: group of send and recv of 4 MiB i32", |comm| {
        comm.group(|g| g.send(&mine, right).and_then(|()| g.recv(&mut theirs, left)))
    })?;
    check(&theirs.to_vec()?, |_| left.index() as i32);

    // The same in both directions at once, declared above.
    let mut plan = both_ways::bind::<i32, _>(&mut comm, both_ways::Params { len: LEN })?;
    let both = timed(&mut comm, "plan: both ways around a ring, 4 MiB i32", |comm| {
        plan.run(comm, both_ways::Buffers { a: &mine, b: &mut theirs })
    })?;
    let ranks = [left.index() as i32, right.index() as i32];
    check(&theirs.to_vec()?, |i| ranks[i / (LEN / 2)]);
    report(&comm, [halos, mean, sums, ring, both])?;
    comm.finish()
}

/// Rank 0 prints the time of the slowest rank.
fn report<D: Device, const N: usize>(comm: &Communicator<D>, rows: [Row; N]) -> Result<()> {
    let ranks =
        comm.gather_values(&rows.each_ref().map(|(_, outcome)| outcome.clone()).to_vec())?;
    if comm.rank().index() != 0 {
        return Ok(());
    }
    println!("{:<44} {:>12}", format!("{} ranks, {}", comm.size(), D::KIND), "slowest rank");
    for (i, (what, own)) in rows.iter().enumerate() {
        match own {
            Ok(_) => {
                let slowest = ranks.iter().filter_map(|rows| rows[i].as_ref().ok()).max();
                println!("{what:<44} {:>12.1?}", slowest.unwrap_or(&Duration::ZERO));
            }
            Err(why) => println!("{what:<44} not here: {why}"),
        }
    }
    println!("\nall verified");
    Ok(())
}

/// The time that it takes, or why this NCCL does not support it.
fn timed<D: Device>(
    comm: &mut Communicator<D>,
    what: &'static str,
    run: impl FnOnce(&mut Communicator<D>) -> Result<()>,
) -> Result<Row> {
    comm.barrier()?;
    let start = Instant::now();
    match run(comm) {
        Err(Error::Unsupported(why)) => return Ok((what, Err(why.to_string()))),
        outcome => outcome?,
    }
    comm.sync(comm.stream())?;
    Ok((what, Ok(start.elapsed())))
}

fn check<T: Primitive>(found: &[T], expected: impl Fn(usize) -> T) {
    (0..).zip(found).for_each(|(i, &x)| assert_eq!(x, expected(i), "element {i}"));
}

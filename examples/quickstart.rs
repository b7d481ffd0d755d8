//! The main job on the host backend: 8 ranks reduce gradients in two precisions and gather their
//! parameters, and every number is checked.
//!
//! ```text
//! cargo run --release --example quickstart
//! ```

use std::time::{Duration, Instant};

use typed_nccl::{Avg, Communicator, Device, Element, Host, Result, Sum, bf16};

const RANKS: usize = 8;
const LEN: usize = 1 << 20;

fn main() -> Result<()> {
    println!("{RANKS} ranks on this machine, no GPU; {LEN} elements each\n");
    let per_rank = Host::spmd(RANKS, |place| job(place.init()?))?;
    println!("{:<24} {:>7} {:>9} {:>12}", "operation", "type", "bytes", "slowest rank");
    for (i, row) in per_rank[0].iter().enumerate() {
        let slowest = per_rank.iter().map(|rows| rows[i].took).max().unwrap_or_default();
        println!("{:<24} {:>7} {:>9} {slowest:>12.1?}", row.what, row.dtype, row.bytes);
    }
    println!("\nall verified");
    Ok(())
}

struct Row {
    what: &'static str,
    dtype: String,
    bytes: usize,
    took: Duration,
}

/// Runs on every rank; the device, host or GPU, is the communicator's.
fn job<D: Device>(comm: Communicator<D>) -> Result<Vec<Row>> {
    let rank = comm.rank().index();
    let device = comm.device();

    // Gradients that differ by rank and position; their mean is known.
    let gradient: Vec<f32> = (0..LEN).map(|i| (rank + i % 97) as f32).collect();
    let mut grads = device.from_slice(&gradient)?;
    comm.barrier()?;
    let start = Instant::now();
    comm.all_reduce_in_place(&mut grads, Avg)?;
    comm.sync(comm.stream())?;
    let mean = row::<f32>("all_reduce Avg", LEN, start);
    check(&grads.to_vec()?, |i| (i % 97) as f32 + 3.5);

    // The same in half the bytes. Small integers are exact in bf16.
    let gradient: Vec<bf16> = (0..LEN).map(|i| bf16::from_f32((rank + i % 13) as f32)).collect();
    let (small, mut sum) = (device.from_slice(&gradient)?, device.zeros(LEN)?);
    comm.barrier()?;
    let start = Instant::now();
    comm.all_reduce(&small, &mut sum, Sum)?;
    comm.sync(comm.stream())?;
    let sums = row::<bf16>("all_reduce Sum", LEN, start);
    check(&sum.to_vec()?, |i| bf16::from_f32((28 + 8 * (i % 13)) as f32));

    // Each rank owns one block of the parameters; all of them end with all blocks.
    let mine = device.from_slice(&vec![rank as i32; LEN / RANKS])?;
    let mut params = device.zeros(LEN)?;
    comm.barrier()?;
    let start = Instant::now();
    comm.all_gather(&mine, &mut params)?;
    comm.sync(comm.stream())?;
    let gather = row::<i32>("all_gather", LEN, start);
    check(&params.to_vec()?, |i| (i / (LEN / RANKS)) as i32);

    comm.finish()?;
    Ok(vec![mean, sums, gather])
}

fn row<T: Element>(what: &'static str, len: usize, start: Instant) -> Row {
    Row { what, dtype: T::DTYPE.to_string(), bytes: len * size_of::<T>(), took: start.elapsed() }
}

fn check<T: Element>(found: &[T], expected: impl Fn(usize) -> T) {
    for (i, &x) in found.iter().enumerate() {
        assert_eq!(x, expected(i), "element {i}");
    }
}

//! What registration gains for sends and receives, on two GPUs:
//! `cargo bench -p benches --bench gpu_registered`.
//!
//! Each rank sends to the other and receives from it in one group. One run compares, size by size
//! and in turns:
//! * `none`: plain memory on both ranks, on a communicator with `Transfers::Any`;
//! * `one`: the same communicator, where rank 0's memory is in windows and rank 1's is plain;
//! * `both`: buffers that both ranks registered, on a child with `Transfers::Registered`;
//! * `windows`: windows on both ranks, on that child.
//!
//! Figures are rank 0's: microseconds a group, the median of the rounds, and how many times as long
//! as with `both` the others take.

use std::time::Instant;

use typed_nccl::{
    CommConfig, Communicator, Cuda, Error, Result, Slice, SliceMut, Transfers, World, tag,
};

tag!(pub Registered);

/// From 64 KiB to 256 MiB, in elements.
const LENGTHS: [usize; 7] = [16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];
const LONGEST: usize = LENGTHS[LENGTHS.len() - 1];

const CASES: [&str; 4] = ["none", "one", "both", "windows"];

/// How often each case has its turn; the first one connects ranks and maps memory, and does not
/// count.
const ROUNDS: usize = 10;

/// How many groups a turn has: so many elements move, within these bounds.
const VOLUME: usize = 128 << 20;
const LEAST: usize = 4;
const MOST: usize = 200;

/// Microseconds a group: this rank sends all of `from` to the other one, and receives into `to`.
fn timed<W: World>(
    comm: &mut Communicator<W>,
    from: Slice<'_, f32, W::Device>,
    to: &mut SliceMut<'_, f32, W::Device>,
) -> Result<f64> {
    let (peer, len) = (comm.ring(1), from.len());
    let groups = (VOLUME / len).clamp(LEAST, MOST);
    comm.barrier()?;
    let started = Instant::now();
    for _ in 0..groups {
        comm.group(|g| {
            g.send(from, peer)?;
            g.recv(to.slice_mut(0..len), peer)
        })?;
    }
    comm.sync(comm.stream())?;
    Ok(started.elapsed().as_secs_f64() * 1e6 / groups as f64)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// For each length, the median of each case.
fn measured() -> Result<Vec<Vec<[f64; 4]>>> {
    Cuda::spmd(2, |place| {
        let mut any = place.init()?;
        let config = CommConfig::builder().transfers(Transfers::Registered).build();
        let mut registered = any.split_with::<Registered>(0, 0, config)?;
        let device = any.device().clone();
        let (plain, mut plain_to) = (device.zeros(LONGEST)?, device.zeros(LONGEST)?);
        let (kept, mut kept_to) = (device.nccl_zeros(LONGEST)?, device.nccl_zeros(LONGEST)?);
        let _kept = [registered.register_buffer(&kept)?, registered.register_buffer(&kept_to)?];
        let (near, mut near_to) = (any.window(LONGEST)?, any.window(LONGEST)?);
        let (far, mut far_to) = (registered.window(LONGEST)?, registered.window(LONGEST)?);
        let is_first = any.rank().index() == 0;
        let mut all = Vec::new();
        for len in LENGTHS {
            let part = 0..len;
            let mut times = [const { Vec::new() }; 4];
            for round in 0..ROUNDS {
                let mut note = |case: usize, time| {
                    if round > 0 {
                        times[case].push(time);
                    }
                };
                let mut to = plain_to.slice_mut(part.clone());
                note(0, timed(&mut any, plain.slice(part.clone()), &mut to)?);
                let one = match is_first {
                    true => {
                        let mut to = near_to.slice_mut(part.clone());
                        timed(&mut any, near.local().slice(part.clone()), &mut to)?
                    }
                    false => timed(&mut any, plain.slice(part.clone()), &mut to)?,
                };
                note(1, one);
                let mut to = kept_to.slice_mut(part.clone());
                note(2, timed(&mut registered, kept.slice(part.clone()), &mut to)?);
                let mut to = far_to.slice_mut(part.clone());
                note(3, timed(&mut registered, far.local().slice(part.clone()), &mut to)?);
            }
            all.push(times.map(median));
        }
        registered.finish()?;
        any.finish()?;
        Ok(all)
    })
}

fn main() -> Result<()> {
    let all = match measured() {
        Ok(all) => all,
        Err(error @ (Error::NoDriver(_) | Error::NoSuchDevice(_) | Error::NoNccl(_))) => {
            println!("skipped: {error}");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    println!(
        "KiB, then us for each case, then its ratio to `both`, then GB/s of `none` and `both`"
    );
    println!("{:>8} {}", "", CASES.map(|case| format!("{case:>9}")).concat());
    for (len, times) in LENGTHS.iter().zip(&all[0]) {
        let bytes = len * size_of::<f32>();
        let microseconds = times.map(|time| format!("{time:9.1}")).concat();
        let ratios = times.map(|time| format!(" {:5.2}", time / times[2])).concat();
        let speed = |time: f64| bytes as f64 / time / 1e3;
        println!(
            "{:8} {microseconds} {ratios}  {:6.1} {:6.1}",
            bytes >> 10,
            speed(times[0]),
            speed(times[2])
        );
    }
    Ok(())
}

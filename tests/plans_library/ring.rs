//! Around a ring: each rank gets its predecessor's data.

use typed_nccl::plans::ring_exchange;
use typed_nccl::{Primitive, bf16};

use super::ranks::{RUNS, buffers, ranks, timings};

fn shifted<T: Primitive>(n: usize, value: fn(usize) -> T) {
    ranks!(n, |comm| {
        const LEN: usize = 5;
        let own = |rank: usize, run: usize| -> Vec<T> {
            (0..LEN).map(|at| value((7 * rank + 3 * run + at) % 100)).collect()
        };
        let rank = comm.rank().index();
        let mut ring = ring_exchange::bind::<T, _>(&mut comm, ring_exchange::Params { len: LEN })?;
        for timing in timings(&comm) {
            ring.set_timing(timing);
            let sent = buffers(comm.device(), (0..RUNS).map(|run| own(rank, run)))?;
            let mut got = buffers(comm.device(), (0..RUNS).map(|_| own(rank, 99)))?;
            for (a, b) in sent.iter().zip(&mut got) {
                ring.run(&comm, ring_exchange::Buffers { a, b })?;
            }
            for (run, b) in got.iter().enumerate() {
                assert_eq!(b.to_vec()?, own((rank + n - 1) % n, run), "{timing:?}, run {run}");
            }
        }
    });
}

#[test]
fn a_ring() {
    for n in 1..=8 {
        shifted::<i32>(n, |at| at as i32);
        shifted::<bf16>(n, |at| bf16::from_f32(at as f32));
    }
}

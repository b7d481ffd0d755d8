//! Local work of plans, with the library's kernels.

use typed_nccl::plans::{
    bruck_all_to_all, doubling_all_reduce, halving_all_reduce, one_shot_all_reduce,
    ring_all_reduce, tree_all_reduce, two_shot_all_reduce,
};
use typed_nccl::{Cuda, Result, plan};

use crate::common::{connect, ranks};

#[path = "../assigned/body.rs"]
mod body;

pub(crate) fn every_type() -> Result<()> {
    Cuda::spmd(1, |place| {
        let mut comm = connect(place, 60)?;
        body::every_type(&mut comm)?;
        comm.finish()
    })
    .map(drop)
}

plan! {
    /// Around a ring, as one graph.
    #[allow(deprecated, reason = "its streams take turns")]
    #[capture]
    captured(n: Ranks, len: usize) where len % n == 0 {
        inout x: [i32; len];
        local got: [i32; len / n];
        stream net, compute;
        for i in 0..n - 1 {
            send x.chunk(n, (rank - i) % n) to (rank + 1) % n into got on net;
            x.chunk(n, (rank - i - 1) % n) += got on compute;
        }
        for i in 0..n - 1 {
            let part = x.chunk(n, (rank - i + 1) % n);
            send part to (rank + 1) % n into part on net;
        }
        computes all_reduce(x, sum);
    }
}

/// More elements than a grid has threads, and runs that launch a graph.
pub(crate) fn in_a_graph() -> Result<()> {
    let n = ranks()?;
    Cuda::spmd(n, |place| {
        let mut comm = connect(place, 60)?;
        for len in [n, 1024 * n, 1_200_000 * n] {
            if len > 100_000 && std::env::var_os("FAKE_CUDA_DEVICES").is_some() {
                break;
            }
            let mut bound = captured::bind(&mut comm, captured::Params { len })?;
            let rank = comm.rank().index() as i32;
            let own: Vec<i32> = (0..len as i32).map(|at| at % 1000 + rank).collect();
            let mut x = comm.device().from_slice(&own)?;
            let mut expected: Vec<i64> = own.iter().map(|x| i64::from(x - rank)).collect();
            let mut offsets = (0..n as i64).sum::<i64>();
            for _ in 0..3 {
                bound.run(&comm, captured::Buffers { x: &mut x })?;
                // Every rank has the sum then, and adds them next.
                expected.iter_mut().for_each(|x| *x = *x * n as i64 + offsets);
                offsets = 0;
                let wrapped: Vec<i32> = expected.iter().map(|x| *x as i32).collect();
                assert!(x.to_vec()? == wrapped, "{len} elements");
            }
        }
        comm.finish()
    })
    .map(drop)
}

/// The library's plans of messages and local work, several runs in a row without anything in
/// between.
pub(crate) fn plans_of_the_library() -> Result<()> {
    let n = ranks()?;
    Cuda::spmd(n, |place| {
        let mut comm = connect(place, 60)?;
        let (rank, len) = (comm.rank().index() as u32, 10 * n);
        let own = |rank: u32| (0..len as u32).map(|at| 100 * rank + at).collect::<Vec<_>>();
        macro_rules! sums {
            ($($plan:ident)+) => {$(
                let mut reduce = $plan::bind::<u32, _>(&mut comm, $plan::Params { len })?;
                let mut x = comm.device().from_slice(&own(rank))?;
                for _ in 0..3 {
                    reduce.run(&comm, $plan::Buffers { x: &mut x })?;
                }
                let sum = |at: usize| (0..n as u32).map(|rank| own(rank)[at]).sum::<u32>();
                let thrice = |at| sum(at) * (n * n) as u32;
                assert_eq!(x.to_vec()?, (0..len).map(thrice).collect::<Vec<_>>(), stringify!($plan));
            )+};
        }
        sums!(ring_all_reduce tree_all_reduce one_shot_all_reduce two_shot_all_reduce);
        if n.is_power_of_two() {
            sums!(doubling_all_reduce halving_all_reduce);
        }
        let mut exchange = bruck_all_to_all::bind(&mut comm, bruck_all_to_all::Params { len })?;
        let (a, mut b) = (comm.device().from_slice(&own(rank))?, comm.device().zeros(len)?);
        exchange.run(&comm, bruck_all_to_all::Buffers { a: &a, b: &mut b })?;
        let part = |at: usize| own((at / 10) as u32)[10 * rank as usize + at % 10];
        assert_eq!(b.to_vec()?, (0..len).map(part).collect::<Vec<_>>());
        comm.finish()
    })
    .map(drop)
}

//! Requests of many threads reach NCCL in the same order on all ranks.

use std::collections::HashMap;
use std::thread;

use nccl_sys::Function::ncclAllReduce;
use typed_nccl::{Cuda, Ordered, Result, Seat, Sum};

use crate::common::calls;
use crate::scenario::{NEWEST, on};

const THREADS: usize = 6;

/// Each of a rank's threads reduces memory of a different length.
fn rank(seat: Seat) -> Result<()> {
    let device = Cuda::any(seat.rank().index() as u32)?;
    let ordered = Ordered::new(seat.init(device.clone())?)?;
    thread::scope(|scope| {
        let (device, ordered) = (&device, &ordered);
        let reduce = move |len: usize| {
            let mut x = device.zeros::<f32>(len)?;
            ordered.submit(len, |comm| comm.all_reduce_in_place(&mut x, Sum))?;
            x.to_vec().map(drop)
        };
        let spawn = |len| scope.spawn(move || reduce(len));
        // A different thread is the first one on each rank.
        let first = ordered.rank().index() * 2;
        let threads: Vec<_> = (0..THREADS).map(|at| spawn(1 + (first + at) % THREADS)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    ordered.finish()
}

#[test]
fn requests_are_in_one_order() {
    on(NEWEST, || {
        thread::scope(|scope| {
            let threads: Vec<_> =
                Seat::local(3).into_iter().map(|seat| scope.spawn(|| rank(seat))).collect();
            let mut threads = threads.into_iter();
            threads.try_for_each(|thread| thread.join().expect("no panic"))
        })?;
        let mut orders: HashMap<usize, Vec<i128>> = HashMap::new();
        for call in calls(ncclAllReduce) {
            orders.entry(call.pointer("comm")).or_default().push(call.int("count"));
        }
        let orders: Vec<_> = orders.into_values().collect();
        assert_eq!((orders.len(), orders[0].len()), (3, THREADS), "{orders:?}");
        assert!(orders.iter().all(|order| *order == orders[0]), "{orders:?}");
        Ok(())
    });
}

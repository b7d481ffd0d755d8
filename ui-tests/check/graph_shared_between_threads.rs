//! One thread launches a graph: all ranks launch theirs in one order.

use std::thread::scope;

use typed_nccl::{Host, Result, Seat, Sum};

fn on_another_thread(work: impl FnOnce() -> usize + Send) -> usize {
    scope(|threads| threads.spawn(work).join()).expect("no panic")
}

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut x = comm.device().zeros::<f32>(8)?;
    let graph = comm.capture(|g| g.all_reduce_in_place(&mut x, Sum))?;
    assert_eq!(on_another_thread(|| graph.len()), 1);
    comm.finish()
}

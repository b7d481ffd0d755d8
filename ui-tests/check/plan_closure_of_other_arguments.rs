//! A closure takes fewer arguments than its step has.

use typed_nccl::{Communicator, Device, Result, plan};

plan! {
    pub ring<T: Element>(n: Ranks, len: usize) {
        in a: [T; len];
        out b: [T; len];
        send a to (rank + 1) % n into b;
        run show(read b);
    }
}

fn run<D: Device>(comm: &mut Communicator<D>) -> Result<()> {
    let mut ring = ring::bind::<f32, _>(comm, ring::Params { len: 3 })?;
    let (a, mut b) = (comm.device().zeros(3)?, comm.device().zeros(3)?);
    let mut steps = ring.steps().show(|_| Ok(()));
    ring.run(comm, ring::Buffers { a: &a, b: &mut b }, &mut steps)
}

fn main() {}

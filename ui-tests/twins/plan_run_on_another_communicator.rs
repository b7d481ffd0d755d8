//! A plan is run with the communicator that it is bound to.

use typed_nccl::{Communicator, Host, Result, plan};

plan! {
    pub ring<T: Element>(n: Ranks, len: usize) {
        in a: [T; len];
        out b: [T; len];
        send a to (rank + 1) % n into b;
    }
}

fn run(comm: &mut Communicator<Host>) -> Result<()> {
    let mut ring = ring::bind::<f32, _>(comm, ring::Params { len: 3 })?;
    let (a, mut b) = (comm.device().zeros::<f32>(3)?, comm.device().zeros::<f32>(3)?);
    ring.run(comm, ring::Buffers { a: &a, b: &mut b })
}

fn main() {}

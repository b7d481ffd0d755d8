//! A plan that is bound to one communicator is run with another.

use typed_nccl::{Communicator, Host, Result, plan, tag};

tag!(pub Pipeline);

plan! {
    pub ring<T: Element>(n: Ranks, len: usize) {
        in a: [T; len];
        out b: [T; len];
        send a to (rank + 1) % n into b;
    }
}

fn run(comm: &mut Communicator<Host>, other: &Communicator<Pipeline>) -> Result<()> {
    let mut ring = ring::bind::<f32, _>(comm, ring::Params { len: 3 })?;
    let (a, mut b) = (comm.device().zeros::<f32>(3)?, comm.device().zeros::<f32>(3)?);
    ring.run(other, ring::Buffers { a: &a, b: &mut b })
}

fn main() {}

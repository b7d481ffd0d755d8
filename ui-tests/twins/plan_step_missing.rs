//! One of the plan's steps is not computed.

use typed_nccl::{Communicator, Device, Result, Slice, Stream, plan};

plan! {
    pub ring<T: Element>(n: Ranks, len: usize) {
        in a: [T; len];
        out b: [T; len];
        send a to (rank + 1) % n into b;
        run show(read b);
        run keep(read b);
    }
}

struct Show;

impl<D: Device> ring::Steps<f32, D> for Show {
    fn show(&mut self, _: Slice<'_, f32, D>, _: &Stream<D>) -> Result<()> {
        Ok(())
    }

    fn keep(&mut self, _: Slice<'_, f32, D>, _: &Stream<D>) -> Result<()> {
        Ok(())
    }
}

fn run<D: Device>(comm: &mut Communicator<D>) -> Result<()> {
    let mut ring = ring::bind::<f32, _>(comm, ring::Params { len: 3 })?;
    let (a, mut b) = (comm.device().zeros(3)?, comm.device().zeros(3)?);
    ring.run(comm, ring::Buffers { a: &a, b: &mut b }, &mut Show)
}

fn main() {}

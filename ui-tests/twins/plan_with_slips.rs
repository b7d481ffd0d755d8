//! Whatever of a statement is not understood, its names, its memory and its steps are known: nothing else is
//! told, here or where the plan is used.

use typed_nccl::{Communicator, Device, Result, Slice, SliceMut, Stream, plan};

plan! {
    pub ring<T: Element>(n: Ranks in 2.., len: usize, k: usize) where k >= 1 {
        in a: [T; len];
        out b[i in 0..k]: [T; len];
        stream net, cmp;
        let left = (rank - 1) % n;
        let right = (rank + 1) % n;
        group {
            send a to left on net;
            recv b[0] from right on net;
        }
        for i in 1..k {
            run scale(i, read a, write b[i]) on cmp after net;
        }
        run show(read b[0]) on cmp after net;
    }
}

struct Work;

impl<D: Device> ring::Steps<f32, D> for Work {
    fn scale(
        &mut self,
        _: usize,
        a: Slice<'_, f32, D>,
        mut b: SliceMut<'_, f32, D>,
        _: &Stream<D>,
    ) -> Result<()> {
        b.copy_from(&a.to_vec()?)
    }

    fn show(&mut self, _: Slice<'_, f32, D>, _: &Stream<D>) -> Result<()> {
        Ok(())
    }
}

fn run<D: Device>(comm: &mut Communicator<D>) -> Result<()> {
    let mut ring = ring::bind::<f32, _>(comm, ring::Params { len: 3, k: 2 })?;
    let a = comm.device().zeros(3)?;
    let mut b = [comm.device().zeros(3)?, comm.device().zeros(3)?];
    ring.run(comm, ring::Buffers { a: &a, b: &mut b }, &mut Work)
}

fn main() {}

//! A plan for one run is gone after it: nothing was checked of a second one.

use typed_nccl::{Host, Result, plan, spmd};

plan! {
    #[once]
    pub start<T: Element>(n: Ranks, len: usize) {
        in a: [T; len];
        out b: [T; len];
        send a to (rank + 1) % n into b;
    }
}

fn main() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let (a, mut b) = (comm.device().zeros::<f32>(2)?, comm.device().zeros::<f32>(2)?);
        let start = start::bind(&mut comm, start::Params { len: 2 })?;
        start.run(&comm, start::Buffers { a: &a, b: &mut b })?;
        start.run(&comm, start::Buffers { a: &a, b: &mut b })?;
        comm.finish()
    })
}

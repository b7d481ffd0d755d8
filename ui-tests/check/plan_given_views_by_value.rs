//! A plan borrows its buffers and views.

use typed_nccl::{Host, Result, Seat, plan};

plan! {
    copy(n: Ranks, len: usize) {
        in x: [f32; len];
        out y: [f32; len];
        send x to rank into y;
    }
}

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let (x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(8)?);
    let mut copy = copy::bind(&mut comm, copy::Params { len: 4 })?;
    copy.run(&comm, copy::Buffers { x: x.slice(..4), y: y.slice_mut(..4) })?;
    comm.finish()
}

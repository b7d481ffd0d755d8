//! The root of a gather gives its buffer.

use typed_nccl::{Host, Result, Root, Seat};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let (x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(8)?);
    let blocks = comm.blocks(8)?;
    comm.gather_v(&x, Root::here_or_at(Some(&mut y), 0), &blocks)?;
    comm.finish()
}

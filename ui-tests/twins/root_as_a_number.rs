//! A root gives its buffer, and another rank its number.

use typed_nccl::{Host, Result, Root, Seat};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let (x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(8)?);
    comm.broadcast(Root::here_or_at(Some(&x), 0), &mut y)?;
    comm.finish()
}

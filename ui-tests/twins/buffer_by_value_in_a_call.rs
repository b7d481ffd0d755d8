//! A call borrows its buffers.

use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let (x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(8)?);
    comm.all_reduce(&x, &mut y, Sum)?;
    comm.finish()
}

//! A call borrows what it writes, views too.

use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let (x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(8)?);
    comm.all_reduce(x.slice(0..4), y.slice_mut(0..4), Sum)?;
    comm.finish()
}

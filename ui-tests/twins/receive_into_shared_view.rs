//! What receives is a buffer or an exclusive view of one.

use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let x = comm.device().zeros::<f32>(4)?;
    let mut y = comm.device().zeros::<f32>(8)?;
    comm.all_reduce(&x, &mut y.slice_mut(0..4), Sum)?;
    comm.finish()
}

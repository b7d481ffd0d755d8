//! What receives is taken by exclusive reference.

use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let x = comm.device().zeros::<f32>(8)?;
    let y = comm.device().zeros::<f32>(8)?;
    comm.all_reduce(&x, &y, Sum)?;
    comm.finish()
}

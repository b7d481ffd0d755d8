//! Both sides of an operation hold one data type.

use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let x = comm.device().zeros::<f32>(8)?;
    let mut y = comm.device().zeros::<f64>(8)?;
    comm.all_reduce(&x, &mut y, Sum)?;
    comm.finish()
}

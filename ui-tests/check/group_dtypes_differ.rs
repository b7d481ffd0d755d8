//! Both sides of an operation hold one data type, in a group as well.

use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let x = comm.device().zeros::<f32>(8)?;
    let mut y = comm.device().zeros::<f64>(8)?;
    comm.group(|g| g.all_reduce(&x, &mut y, Sum))?;
    comm.finish()
}

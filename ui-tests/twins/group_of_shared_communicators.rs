//! A group has its communicators to itself.

use typed_nccl::{Host, Result, Seat, Sum, group, tag};

tag!(Rows);

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut rows = comm.split::<Rows>(0, 0)?;
    let mut x = comm.device().zeros::<f32>(8)?;
    group((&mut comm, &mut rows), |(comm, _)| comm.all_reduce_in_place(&mut x, Sum))?;
    rows.finish()?;
    comm.finish()
}

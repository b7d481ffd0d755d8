//! A communicator that is in a group is used through it until it is issued.

use typed_nccl::{Host, Result, Seat, Sum, group, tag};

tag!(Rows);

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut rows = comm.split::<Rows>(0, 0)?;
    let mut x = comm.device().zeros::<f32>(8)?;
    group((&mut comm, &mut rows), |(_, rows)| {
        let _ = rows.rank();
        comm.all_reduce_in_place(&mut x, Sum)
    })?;
    rows.finish()?;
    comm.finish()
}

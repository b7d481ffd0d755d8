//! Two views of one buffer, one of them written, are disjoint.

use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut x = comm.device().zeros::<f32>(8)?;
    let (from, mut to) = (x.slice(0..4), x.slice_mut(4..8));
    comm.all_reduce(&from, &mut to, Sum)?;
    comm.finish()
}

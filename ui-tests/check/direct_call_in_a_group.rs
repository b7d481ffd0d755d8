//! A group records its own operations; the communicator's others wait until it is issued.

use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut x = comm.device().zeros::<f32>(8)?;
    comm.group(|_| comm.all_reduce_in_place(&mut x, Sum))?;
    comm.finish()
}

//! What a group records lives until the group is issued.

use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let host = comm.device().clone();
    comm.group(|g| g.all_reduce_in_place(&mut host.zeros::<f32>(8)?, Sum))?;
    comm.finish()
}

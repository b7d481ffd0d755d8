//! A group's operands are device memory.

use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut x = vec![1.0_f32; 8];
    comm.group(|g| g.all_reduce_in_place(&mut x, Sum))?;
    comm.finish()
}

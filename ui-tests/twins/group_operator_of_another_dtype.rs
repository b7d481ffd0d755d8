//! An operator reduces the data type that it was made for, in a group as well.

use typed_nccl::{Host, Result, Seat};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let scale = comm.pre_mul_sum(2_i32)?;
    let mut x = comm.device().zeros::<i32>(8)?;
    comm.group(|g| g.all_reduce_in_place(&mut x, &scale))?;
    comm.finish()
}

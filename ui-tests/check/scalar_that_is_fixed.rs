//! A scalar that was given as a value is NCCL's; one in memory can be set.

use typed_nccl::{Host, Result, Seat};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let scale = comm.pre_mul_sum(0.5_f32)?;
    comm.set_scalar(&scale, 0.25)?;
    comm.finish()
}

//! What a device adopted is an operand of its communicators.

use typed_nccl::{At, Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let (here, _there) = (Host::<At<0>>::open()?, Host::<At<1>>::open()?);
    let comm = Seat::local(1).remove(0).init(here.clone())?;
    let mut x = here.adopt(vec![1.0_f32; 8])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    comm.finish()
}

//! A buffer ends when its owner is given back.

use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut buffer = comm.device().adopt(vec![1.0_f32; 8])?;
    comm.all_reduce_in_place(&mut buffer, Sum)?;
    let gradients = buffer.into_inner()?;
    assert_eq!(gradients, [1.0; 8]);
    comm.finish()
}

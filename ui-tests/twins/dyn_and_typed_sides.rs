//! Both sides of an operation know their data type when it compiles, or neither does.

use typed_nccl::{DType, DynBuffer, Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let x = comm.device().zeros::<f32>(8)?.into_dyn();
    let mut y = DynBuffer::zeros(comm.device(), DType::F32, 8)?;
    comm.all_reduce(&x, &mut y, Sum)?;
    comm.finish()
}

//! A buffer whose data type is a value is written while it has its type.

use typed_nccl::{DType, DynBuffer, Host, Result, Seat};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut x = DynBuffer::zeros(comm.device(), DType::F32, 8)?.try_into_typed::<f32>()?;
    x.copy_from(&[1.0_f32; 8])?;
    comm.finish()
}

//! A buffer whose data type is a value is given its type before it is read.

use typed_nccl::{DType, DynBuffer, Host, Result, Seat};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let x = DynBuffer::zeros(comm.device(), DType::F32, 8)?;
    let values: Vec<f32> = x.try_into_typed::<f32>()?.to_vec()?;
    assert_eq!(values, [0.0; 8]);
    comm.finish()
}

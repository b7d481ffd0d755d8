//! A tensor's buffer is given its type before it is read.

use typed_nccl::interop::Tensor;
use typed_nccl::{DType, DynBuffer, Host, Result, Seat};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let memory = DynBuffer::nccl_zeros(comm.device(), DType::F32, 8)?;
    let x = Tensor::export(memory, &[2, 4], None)?.on(comm.device())?;
    let values: Vec<f32> = x.typed::<f32>()?.to_vec()?;
    assert_eq!(values, [0.0; 8]);
    comm.finish()
}

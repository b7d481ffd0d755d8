//! A tensor in memory of NCCL's backs a window.

use typed_nccl::interop::Tensor;
use typed_nccl::{DType, DynBuffer, Host, Result, Seat};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let memory = DynBuffer::nccl_zeros(comm.device(), DType::F32, 8)?;
    let x = Tensor::export(memory, &[2, 4], None)?;
    let memory = x.nccl_on(comm.device())?.typed::<f32>()?;
    let window = comm.register_window(memory)?;
    comm.close(window)?;
    comm.finish()
}

//! A tensor is lent by reference.

use typed_nccl::interop::Tensor;
use typed_nccl::{DType, DynBuffer, Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let memory = DynBuffer::nccl_zeros(comm.device(), DType::F32, 8)?;
    let x = Tensor::export(memory, &[2, 4], None)?;
    comm.device().lend(x, |x| comm.all_reduce_in_place(x, Sum))?;
    comm.finish()
}

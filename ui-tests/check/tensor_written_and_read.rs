//! A tensor that is lent to be written is lent once.

use typed_nccl::interop::Tensor;
use typed_nccl::{DType, DynBuffer, Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let memory = DynBuffer::nccl_zeros(comm.device(), DType::F32, 8)?;
    let mut x = Tensor::export(memory, &[2, 4], None)?;
    comm.device().lend((&x, &mut x), |(x, y)| comm.all_reduce(x, y, Sum))?;
    comm.finish()
}

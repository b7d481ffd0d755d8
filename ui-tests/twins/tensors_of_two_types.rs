//! Two tensors of one operation hold one data type.

use typed_nccl::interop::Tensor;
use typed_nccl::{DType, DynBuffer, Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let tensor = || -> Result<_> {
        let memory = DynBuffer::nccl_zeros(comm.device(), DType::F32, 8)?;
        Ok(Tensor::export(memory, &[2, 4], None)?)
    };
    let (x, mut y) = (tensor()?, tensor()?);
    comm.device().lend((&x, &mut y), |(x, y)| {
        comm.all_reduce(&x.typed::<f32>()?, &mut y.typed::<f32>()?, Sum)
    })?;
    comm.finish()
}

//! What a closure learns of a lent tensor may leave it.

use typed_nccl::interop::Tensor;
use typed_nccl::{DType, DynBuffer, Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let memory = DynBuffer::nccl_zeros(comm.device(), DType::F32, 8)?;
    let mut x = Tensor::export(memory, &[2, 4], None)?;
    let mut kept = None;
    comm.device().lend(&mut x, |x| {
        comm.all_reduce_in_place(x, Sum)?;
        kept = Some(x.dtype());
        Ok(())
    })?;
    assert_eq!(kept, Some(DType::F32));
    comm.finish()
}

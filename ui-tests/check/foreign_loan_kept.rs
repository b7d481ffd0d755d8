//! A loan ends with its closure.

use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut x = vec![1.0_f32; 8];
    let mut kept = None;
    comm.device().lend(&mut x, |x| {
        kept = Some(x.reborrow());
        comm.all_reduce_in_place(x, Sum)
    })?;
    drop(kept);
    comm.finish()
}

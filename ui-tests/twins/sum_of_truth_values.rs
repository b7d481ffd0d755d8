//! Truth values are reduced by `And` and `Or`.

use typed_nccl::{Bool, Host, Or, Result, Seat};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut x = comm.device().zeros::<Bool>(4)?;
    comm.all_reduce_in_place(&mut x, Or)?;
    comm.finish()
}

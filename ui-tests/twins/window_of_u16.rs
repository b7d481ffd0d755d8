//! NCCL has no data type for `u16`.

use typed_nccl::{Host, Result, Seat};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    comm.window::<u32>(8).map(drop)
}

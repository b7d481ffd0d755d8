//! A buffer does not say which rank is the root.

use typed_nccl::{Host, Result, Root, Seat};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let (x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(8)?);
    comm.scatter(Root::here_or_at(Some(&x), 0), &mut y)?;
    comm.finish()
}

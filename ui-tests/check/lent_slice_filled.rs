//! What is lent shared is read, by copies and fills too.

use typed_nccl::{Host, Result, Seat};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut x = vec![1.0_f32; 8];
    comm.device().lend(&x, |x| comm.stream().fill(x, 2.0))?;
    x.clear();
    comm.finish()
}

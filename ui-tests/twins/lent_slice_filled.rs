//! What is lent to be written is filled.

use typed_nccl::{Host, Result, Seat};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut x = vec![1.0_f32; 8];
    comm.device().lend(&mut x, |x| comm.stream().fill(x, 2.0))?;
    assert_eq!(x, [2.0; 8]);
    comm.finish()
}

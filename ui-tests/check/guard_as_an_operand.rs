//! A guard is dereferenced: what it guards is the operand.

use std::sync::Mutex;

use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let (x, y) = (comm.device().zeros::<f32>(8)?, Mutex::new(comm.device().zeros::<f32>(8)?));
    let mut y = y.lock().expect("nobody panicked");
    comm.all_reduce(&x, &mut y, Sum)?;
    comm.finish()
}

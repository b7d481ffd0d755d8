//! A group is issued as one: what belongs to it is recorded in it.

use typed_nccl::{Group, Host, Result, Seat};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let _window = comm.window::<f32>(1)?;
    let exchange = |g: &mut Group<'_, Host>| g.signal(0);
    comm.group(|g| exchange(g))?;
    comm.wait_signal(0)?;
    comm.finish()
}
